/** How a program of this package runs and ends: signals, and exit codes. */
import { writeSync } from "node:fs"
import { constants } from "node:os"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { defaultTeardown } from "@effect/platform/Runtime"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Predicate from "effect/Predicate"
import { StoreUnavailable } from "../../services/Store.ts"
import { SettingsInvalid } from "../settings/Settings.ts"

const endingSignals = ["SIGHUP", "SIGINT", "SIGTERM"] as const
type EndingSignal = (typeof endingSignals)[number]

const endWith = (code: number, lines: ReadonlyArray<string>): void => {
  process.exitCode = code
  // A standard error that cannot be written changes nothing.
  Either.try(() => writeSync(2, lines.map((line) => `music-backend: ${line}\n`).join("")))
}

/** The first signal that comes from now on. Node does not end the process at a signal any more. */
export const firstSignal = (): Promise<EndingSignal> =>
  new Promise((resolve) => {
    for (const signal of endingSignals) process.on(signal, resolve)
  })

/** Declares that the program now runs until a signal, which is its regular end, with exit code 0. */
export const expectSignal: Effect.Effect<void> = Effect.sync(() => {
  process.exitCode = 0
})

/**
 * Runs a program, which the first SIGINT, SIGTERM or SIGHUP (the terminal was closed) interrupts: a server drains. Later signals do
 * nothing, because npm sends the first one twice; systemd and containers kill what does not end.
 */
export const runMain = <A, E>(program: Effect.Effect<A, E>): void => {
  let ending: EndingSignal | undefined
  void firstSignal().then((signal) => {
    ending = signal
    // The library does not listen for SIGHUP.
    if (signal === "SIGHUP") process.emit("SIGTERM", "SIGTERM")
  })
  NodeRuntime.runMain(program, {
    disableErrorReporting: true,
    disablePrettyLogger: true,
    teardown: (exit, end) =>
      defaultTeardown(exit, (code) => {
        // A signal ends what the last lines wait for.
        for (const signal of endingSignals) process.removeAllListeners(signal)
        if (ending !== undefined && process.exitCode === undefined && Exit.isInterrupted(exit))
          // As shells report it.
          endWith(128 + constants.signals[ending], [`interrupted by ${ending}`])
        // What fails while a server stops counts, although its signal is expected.
        end(Math.max(Number(process.exitCode ?? 0), code))
      })
  })
}

const linesOf = (error: unknown): ReadonlyArray<string> => {
  if (error instanceof SettingsInvalid)
    return error.problems.map(({ name, problem }) => `${name}: ${problem}`)
  if (error instanceof StoreUnavailable)
    return [`${error.summary}. ${error.fix.charAt(0).toUpperCase()}${error.fix.slice(1)}.`]
  return [String(Predicate.hasProperty(error, "reason") ? error.reason : error)]
}

/**
 * Says why the program did not start, a line for each problem, and sets the exit code (sysexits): 78 for settings, 69 for a database or a
 * port, 70 for a defect, which comes with its stack.
 */
export const reportStartupError = <A, E, R>(program: Effect.Effect<A, E, R>): Effect.Effect<void, never, R> =>
  program.pipe(
    Effect.asVoid,
    Effect.catchAll((error) =>
      Effect.sync(() => endWith(error instanceof SettingsInvalid ? 78 : 69, linesOf(error)))
    ),
    Effect.catchAllDefect((defect) =>
      Effect.sync(() => endWith(70, [`internal error: ${Cause.pretty(Cause.die(defect))}`]))
    )
  )
