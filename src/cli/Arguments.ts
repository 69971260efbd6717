/**
 * Checks arguments before the library parses them. The library has options of its own (`--wizard`, `--log-level`), prints help for
 * some unknown arguments, and calls an option without its value unknown.
 */
import { parseArgs } from "node:util"
import * as Descriptor from "@effect/cli/CommandDescriptor"
import type { Usage } from "@effect/cli/Usage"
import * as Either from "effect/Either"
import * as HashMap from "effect/HashMap"
import * as Option from "effect/Option"
import { type CommandFailed, usage } from "./CommandFailed.ts"
import { toSingleLine } from "./Text.ts"

export const program = "music-backend"

/** The commands of a group; a command that is no group has itself only. */
type Subcommands = HashMap.HashMap<string, Descriptor.Command<unknown>>

export type CommandTree = ReadonlyMap<string, Subcommands>

export interface Invocation {
  /** `incomplete`: a group without one of its commands. */
  readonly wanted: "run" | "help" | "version" | "incomplete"
  /** For the library: the command's names, and for `run` its options and arguments. */
  readonly args: ReadonlyArray<string>
}

const seeHelp = (path: ReadonlyArray<string>): string => `see ${[program, ...path, "--help"].join(" ")}`

const refuse = (line: string, path: ReadonlyArray<string>) =>
  Either.left(usage(toSingleLine(line), seeHelp(path)))

/** Names of the options with their dashes, and whether each takes a value. */
const optionsOf = (of: Usage): ReadonlyArray<readonly [name: string, takesValue: boolean]> => {
  switch (of._tag) {
    case "Named":
      return of.names
        .filter((name) => name.startsWith("--"))
        .map((name) => [name.slice(2), Option.isSome(of.acceptedValues)] as const)
    case "Optional":
    case "Repeated":
      return optionsOf(of.usage)
    case "Alternation":
    case "Concat":
      return [...optionsOf(of.left), ...optionsOf(of.right)]
    case "Empty":
    case "Mixed":
      return []
  }
}

const isHelp = (text: string | undefined): boolean => text === "--help" || text === "-h"

/** The options of one command: all known, each at most once, with a value or without as it is declared. */
const readOptions = (
  command: Descriptor.Command<unknown>,
  path: ReadonlyArray<string>,
  rest: ReadonlyArray<string>
): Either.Either<Invocation, CommandFailed> => {
  const known = new Map([...optionsOf(Descriptor.getUsage(command)), ["help", false] as const])
  const { tokens } = parseArgs({
    args: [...rest],
    options: Object.fromEntries(
      [...known].map(([name, takesValue]) => [
        name,
        { type: takesValue ? "string" : "boolean", ...(name === "help" ? { short: "h" } : {}) }
      ])
    ),
    strict: false,
    allowPositionals: true,
    tokens: true
  })
  const seen = new Set<string>()
  for (const token of tokens) {
    if (token.kind !== "option") continue
    const takesValue = known.get(token.name)
    if (takesValue === undefined) return refuse(`unknown option: ${token.rawName}`, path)
    if (seen.has(token.name)) return refuse(`${token.rawName} is given twice`, path)
    seen.add(token.name)
    const isMissing =
      token.value === undefined || token.value === "" || (!token.inlineValue && token.value.startsWith("-"))
    if (takesValue && isMissing) return refuse(`${token.rawName} needs a value`, path)
    if (!takesValue && token.value !== undefined) return refuse(`${token.rawName} takes no value`, path)
  }
  return Either.right(
    seen.has("help") ? { wanted: "help", args: path } : { wanted: "run", args: [...path, ...rest] }
  )
}

/** What is decided before the name of a command, at the top or in a group. */
const readBeforeName = (
  args: ReadonlyArray<string>,
  path: ReadonlyArray<string>
): Option.Option<Either.Either<Invocation, CommandFailed>> => {
  const [text, ...rest] = args
  if (text === undefined) return Option.some(Either.right({ wanted: "incomplete", args: path }))
  if (!text.startsWith("-")) return Option.none()
  const isAlone = rest.length === 0
  if (isAlone && isHelp(text)) return Option.some(Either.right({ wanted: "help", args: path }))
  const isVersion = text === "--version" && path.length === 0
  if (isAlone && isVersion) return Option.some(Either.right({ wanted: "version", args: path }))
  const rule = isVersion ? "--version is alone" : "--help does too"
  return Option.some(refuse(`${text} comes before the command: options follow it, and ${rule}`, path))
}

const readInGroup = (
  commands: Subcommands,
  args: ReadonlyArray<string>,
  path: ReadonlyArray<string>
): Either.Either<Invocation, CommandFailed> =>
  Option.getOrElse(readBeforeName(args, path), () => {
    const [name = "", ...rest] = args
    const found = HashMap.get(commands, name)
    const here = [...path, name]
    return Option.isSome(found)
      ? readOptions(found.value, here, rest)
      : refuse(`unknown command: ${here.join(" ")}`, path)
  })

/** Finds the command that the arguments name, and checks its options. */
export const readArguments = (
  tree: CommandTree,
  args: ReadonlyArray<string>
): Either.Either<Invocation, CommandFailed> =>
  Option.getOrElse(readBeforeName(args, []), () => {
    const [name = "", ...rest] = args
    if (name === "help" && !isHelp(rest[0])) return readArguments(tree, [...rest, "--help"])
    const commands = tree.get(name)
    if (commands === undefined) return refuse(`unknown command: ${name}`, [])
    return HashMap.has(commands, name) ? readInGroup(commands, args, []) : readInGroup(commands, rest, [name])
  })
