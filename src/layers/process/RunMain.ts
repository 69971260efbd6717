/** How a program of this package runs and ends: signals, and exit codes. */
import { writeSync } from "node:fs"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { defaultTeardown } from "@effect/platform/Runtime"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Predicate from "effect/Predicate"
import * as Struct from "effect/Struct"
import { StoreUnavailable } from "../../services/Store.ts"
import { SettingsInvalid } from "../settings/Settings.ts"

/** Of sysexits: a bad setting, a bad database or port, and a defect of the program. */
const exitCodes = { settings: 78, unavailable: 69, defect: 70 } as const
/** Exit codes of a process that a signal ended, as shells report them: 128 and the number of the signal. */
const signalExits = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const
type EndingSignal = keyof typeof signalExits
const endingSignals = Struct.keys(signalExits)

const say = (lines: ReadonlyArray<string>): void => {
  // A standard error that cannot be written changes nothing.
  Either.try(() => writeSync(2, lines.map((line) => `music-backend: ${line}\n`).join("")))
}

/** The first signal that comes from now on. Node does not end the process at a signal any more. */
export const firstSignal = (): Promise<EndingSignal> =>
  new Promise((resolve) => {
    for (const signal of endingSignals) process.on(signal, resolve)
  })

let isExpected = false

/** Declares that the program now runs until a signal, which is its regular end, with exit code 0. */
export const expectSignal: Effect.Effect<void> = Effect.sync(() => {
  isExpected = true
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
        if (ending === undefined || isExpected || !Exit.isInterrupted(exit))
          return end(Number(process.exitCode ?? code))
        say([`interrupted by ${ending}`])
        end(signalExits[ending])
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

/** Says why the program did not start, and sets the exit code: a line for each problem, and a stack only for a defect. */
export const reportStartupError = <A, E, R>(
  program: Effect.Effect<A, E, R>
): Effect.Effect<void, never, R> => {
  const report = (code: number, lines: ReadonlyArray<string>) =>
    Effect.sync(() => {
      process.exitCode = code
      say(lines)
    })
  return program.pipe(
    Effect.asVoid,
    Effect.catchAll((error) =>
      report(error instanceof SettingsInvalid ? exitCodes.settings : exitCodes.unavailable, linesOf(error))
    ),
    Effect.catchAllDefect((defect) =>
      report(exitCodes.defect, [`internal error: ${Cause.pretty(Cause.die(defect))}`])
    )
  )
}
