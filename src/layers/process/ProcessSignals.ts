/** SIGINT, SIGTERM and SIGHUP: the server drains, and a command is interrupted. */
import { defaultTeardown, makeRunMain, type Teardown } from "@effect/platform/Runtime"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { Settings } from "../../services/Settings.ts"
import { writeToStandardError } from "./StandardOutput.ts"

/** Exit codes of a process that a signal ended, as shells report them: 128 and the number of the signal. */
export const signalExits = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const
export type EndingSignal = keyof typeof signalExits
/** SIGHUP: the terminal was closed. */
const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const satisfies ReadonlyArray<EndingSignal>

/** Milliseconds within which a second signal counts as the same one: npm forwards the signal that the terminal sent too. */
const sameSignalMillis = 1_000

/**
 * Runs a program to its end and interrupts it at the first signal. The library's `runMain` does not listen for SIGHUP, at which Node
 * would end the process at once.
 */
export const runMain = makeRunMain(({ fiber, teardown }) => {
  // Nothing else may keep the process alive while the program waits.
  const keepAlive = setInterval(() => undefined, 2 ** 31 - 1)
  let signalled = false
  const stopListening = (): void => {
    for (const signal of signals) process.off(signal, interrupt)
  }
  const interrupt = (): void => {
    signalled = true
    stopListening()
    fiber.unsafeInterruptAsFork(fiber.id())
  }
  fiber.addObserver((exit) => {
    if (!signalled) stopListening()
    clearInterval(keepAlive)
    teardown(exit, (code) => {
      if (signalled || code !== 0) process.exit(code)
    })
  })
  for (const signal of signals) process.on(signal, interrupt)
})

/**
 * Calls `first` at the first signal and `again` at every one at least 1 s later. While it listens Node does not end the
 * process at a signal. Returns a function that stops listening.
 */
export const listenForSignals = (on: {
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

/** The first signal drains: the runtime interrupts the main fiber. A second one ends the process at once. */
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
      writeToStandardError(
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
