/** `--env-file`: settings from a file, for every command and in any place before `--`. */
import { readFileSync } from "node:fs"
import { parseEnv } from "node:util"
import * as Either from "effect/Either"
import { errorCode } from "../services/ErrorCode.ts"
import { CommandFailed, exits, usage } from "./CommandFailed.ts"

const option = "--env-file"

export interface WithoutEnvironmentFile {
  readonly args: ReadonlyArray<string>
  /** Variables of the file; empty without one. */
  readonly variables: Readonly<Record<string, string>>
}

const read = (file: string): Either.Either<Readonly<Record<string, string>>, CommandFailed> =>
  Either.try({
    try: () => {
      const variables: Record<string, string> = {}
      for (const [name, value] of Object.entries(parseEnv(readFileSync(file, "utf8"))))
        if (value !== undefined) variables[name] = value
      return variables
    },
    catch: (error) =>
      new CommandFailed({
        exit: exits.settings,
        lines: [`the file of ${option} cannot be read: ${file} (${errorCode(error)})`],
        fix: "correct its path, which is relative to the folder that the command runs in, or let this user read it"
      })
  })

/** Position of the option before `--`; -1 without it. */
const positionIn = (args: ReadonlyArray<string>, from = 0): number => {
  const end = args.includes("--") ? args.indexOf("--") : args.length
  return args.findIndex(
    (text, index) => index >= from && index < end && (text === option || text.startsWith(`${option}=`))
  )
}

/** The arguments without `--env-file <file>`. */
export const withoutEnvironmentFile = (args: ReadonlyArray<string>): ReadonlyArray<string> => {
  const at = positionIn(args)
  return at === -1 ? args : [...args.slice(0, at), ...args.slice(args[at] === option ? at + 2 : at + 1)]
}

/** Removes `--env-file <file>` from the arguments, and reads the file. */
export const takeEnvironmentFile = (
  args: ReadonlyArray<string>
): Either.Either<WithoutEnvironmentFile, CommandFailed> => {
  const at = positionIn(args)
  if (at === -1) return Either.right({ args, variables: {} })
  const [given = "", next = ""] = args.slice(at)
  const file = given === option ? (next.startsWith("-") ? "" : next) : given.slice(option.length + 1)
  if (file === "") return Either.left(usage(`${option} needs a file`, `write ${option} <file>`))
  if (positionIn(args, at + 1) !== -1) return Either.left(usage(`${option} is given twice`, "use one file"))
  return Either.map(read(file), (variables) => ({ args: withoutEnvironmentFile(args), variables }))
}
