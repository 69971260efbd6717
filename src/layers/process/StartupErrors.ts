import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import { StoreUnavailable } from "../../services/Store.ts"
import { SettingsInvalid } from "../settings/Settings.ts"
import { writeToStandardError } from "./StandardOutput.ts"

/** Of sysexits: a bad setting, a bad database or port, and a defect of the program. */
const exitCodes = { settings: 78, unavailable: 69, defect: 70 } as const

const describe = (error: unknown): string => {
  if (error instanceof StoreUnavailable)
    return `${error.summary}. ${error.fix.charAt(0).toUpperCase()}${error.fix.slice(1)}.`
  if (typeof error === "object" && error !== null && "reason" in error && typeof error.reason === "string")
    return error.reason
  return error instanceof Error ? error.message : String(error)
}

const linesOf = (error: unknown): ReadonlyArray<string> =>
  error instanceof SettingsInvalid
    ? error.problems.map(({ name, problem }) => `${name}: ${problem}`)
    : [describe(error)]

const report = (lines: ReadonlyArray<string>, code: number): Effect.Effect<void> =>
  Effect.sync(() => {
    writeToStandardError(`${lines.map((line) => `music-backend: ${line}`).join("\n")}\n`)
    process.exitCode = code
  })

/**
 * Writes why the program did not start to standard error, and sets the exit code: a line for each problem, and a stack only for a
 * defect.
 */
export const reportStartupError = <A, E, R>(program: Effect.Effect<A, E, R>): Effect.Effect<void, never, R> =>
  program.pipe(
    Effect.asVoid,
    Effect.catchAll((error) =>
      report(linesOf(error), error instanceof SettingsInvalid ? exitCodes.settings : exitCodes.unavailable)
    ),
    Effect.catchAllDefect((defect) =>
      report([`internal error: ${Cause.pretty(Cause.die(defect))}`], exitCodes.defect)
    )
  )
