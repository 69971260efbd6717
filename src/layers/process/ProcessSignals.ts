/** SIGINT and SIGTERM: the server drains, and a command is interrupted. */
import { defaultTeardown, type Teardown } from "@effect/platform/Runtime"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { Settings } from "../../services/Settings.ts"

/** Exit codes of a process that a signal ended, as shells report them: 128 and the number of the signal. */
export const signalExits = { SIGINT: 130, SIGTERM: 143 } as const
export type EndingSignal = keyof typeof signalExits
const signals = ["SIGINT", "SIGTERM"] as const satisfies ReadonlyArray<EndingSignal>

/** Milliseconds within which a second signal counts as the same one: npm forwards the signal that the terminal sent too. */
const sameSignalMillis = 1_000

/**
 * Calls `first` at the first signal and `again` at every one at least 1 s later. While it listens Node does not end the
 * process at a signal. Returns a function that stops listening.
 */
const listenForSignals = (on: {
  readonly first?: (signal: EndingSignal) => void
  readonly again?: (signal: EndingSignal) => void
}): (() => void) => {
  let firstAt: number | undefined
  const listeners = signals.map((signal) => ({
    signal,
    listener: () => {
      // The clock of the process, which tests do not move.
      const now = performance.now()
      if (firstAt === undefined) {
        firstAt = now
        on.first?.(signal)
      } else if (now - firstAt >= sameSignalMillis) on.again?.(signal)
    }
  }))
  for (const { listener, signal } of listeners) process.on(signal, listener)
  return () => {
    for (const { listener, signal } of listeners) process.off(signal, listener)
  }
}

/** The first SIGTERM or SIGINT drains: the runtime interrupts the main fiber. A second one ends the process at once. */
export const exitOnSecondSignal: Effect.Effect<void> = Effect.sync(() => {
  listenForSignals({ again: () => process.exit(signalExits.SIGTERM) })
})

/**
 * Ends the process when the grace period after a signal is over: a database that is gone must not keep it alive. Nothing
 * acknowledged is lost. Leased work is taken up again when its lease expires, as after a crash.
 */
export const exitAfterGracePeriod: Effect.Effect<void, never, Settings> = Effect.map(
  Settings,
  ({ shutdownGraceSeconds }) => {
    const exit = () => {
      process.stderr.write(
        `music-backend: not everything was finished within MUSIC_SHUTDOWN_GRACE_SECONDS (${shutdownGraceSeconds}); held deliveries return when their lease ends\n`
      )
      process.exit(0)
    }
    listenForSignals({ first: () => void setTimeout(exit, shutdownGraceSeconds * 1_000).unref() })
  }
)

/** The signal handling of a program that does one thing and ends: an interrupted run must not count as complete. */
export interface Interruption {
  /** Declares that the program now runs until a signal: the signal is its regular end, with exit code 0. */
  readonly expectSignal: Effect.Effect<void>
  /** The signal that interrupted the program; none for an expected one. */
  readonly signal: Effect.Effect<Option.Option<EndingSignal>>
  /** For the runtime, which interrupts the main fiber at the first signal. */
  readonly teardown: Teardown
}

/** Starts to listen. A second signal at least 1 s after the first ends the process at once; an earlier one does nothing. */
export const handleInterruption = (): Interruption => {
  let first: EndingSignal | undefined
  let expected = false
  const stopListening = listenForSignals({
    first: (signal) => {
      first = signal
    },
    again: (signal) => process.exit(signalExits[expected ? "SIGTERM" : signal])
  })
  return {
    expectSignal: Effect.sync(() => {
      expected = true
    }),
    signal: Effect.sync(() => (first === undefined || expected ? Option.none() : Option.some(first))),
    teardown: (exit, end) =>
      defaultTeardown(exit, (code) => {
        if (first === undefined) {
          // Writing the remaining output may take a while; from here on a signal ends the process as usual.
          stopListening()
          return end(code)
        }
        const interrupted = Exit.isInterrupted(exit) && !expected
        end(interrupted ? signalExits[first] : Number(process.exitCode ?? code))
      })
  }
}
