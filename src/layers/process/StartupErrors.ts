import * as Effect from "effect/Effect"
import { SettingsInvalid } from "../settings/Settings.ts"
import { writeToStandardError } from "./StandardOutput.ts"

/** `EX_CONFIG` and `EX_UNAVAILABLE` of sysexits: they distinguish a bad setting from a bad database or port. */
const exitCodes = { settings: 78, other: 69 } as const

const describe = (error: unknown): string =>
  typeof error === "object" && error !== null && "reason" in error && typeof error.reason === "string"
    ? error.reason
    : error instanceof Error
      ? error.message
      : String(error)

const linesOf = (error: unknown): ReadonlyArray<string> =>
  error instanceof SettingsInvalid
    ? error.problems.map(({ name, problem }) => `music-backend: ${name}: ${problem}`)
    : [`music-backend: ${describe(error)}`]

/** Writes why the program did not start to standard error, a line for each problem and no stack, and sets the exit code. */
export const reportStartupError = <A, E, R>(program: Effect.Effect<A, E, R>): Effect.Effect<void, never, R> =>
  Effect.matchEffect(program, {
    onSuccess: () => Effect.void,
    onFailure: (error) =>
      Effect.sync(() => {
        writeToStandardError(`${linesOf(error).join("\n")}\n`)
        process.exitCode = error instanceof SettingsInvalid ? exitCodes.settings : exitCodes.other
      })
  })
