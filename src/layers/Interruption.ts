/** Signals to a program that does one thing and ends: what was cut short must not look as if it had been done. */
import { defaultTeardown, type Teardown } from "@effect/platform/Runtime"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"

/** As a shell reports a process that a signal ended: 128 and its number. */
const exitCodes = { SIGINT: 130, SIGTERM: 143 } as const
type EndingSignal = keyof typeof exitCodes
const signals = ["SIGINT", "SIGTERM"] as const satisfies ReadonlyArray<EndingSignal>

/** Milliseconds within which a repeated signal is taken for the same one: npm passes its own on a second time. */
const sameSignal = 1_000

export interface Interruption {
  /** From now on the program runs until a signal ends it: that is its end, with 0, and no interruption. */
  readonly expected: Effect.Effect<void>
  /** The signal that cut it short. */
  readonly by: Effect.Effect<Option.Option<EndingSignal>>
  /** For the runtime, which interrupts the main fiber at the first signal. */
  readonly teardown: Teardown
}

/**
 * Hears SIGINT and SIGTERM from now on, so that a repetition does not kill what is being put in order; one at least 1 s
 * after the first ends the process now.
 */
export const hearInterruption = (): Interruption => {
  let first: { readonly signal: EndingSignal; readonly at: number } | undefined
  let expected = false
  const listeners = signals.map((signal) => ({
    signal,
    listener: () => {
      // The process clock, not ours: signals belong to the process.
      const at = performance.now()
      if (first === undefined) first = { signal, at }
      else if (at - first.at >= sameSignal) process.exit(expected ? exitCodes.SIGTERM : exitCodes[signal])
    }
  }))
  for (const { listener, signal } of listeners) process.on(signal, listener)
  return {
    expected: Effect.sync(() => {
      expected = true
    }),
    by: Effect.sync(() => (first === undefined || expected ? Option.none() : Option.some(first.signal))),
    teardown: (exit, end) =>
      defaultTeardown(exit, (code) => {
        if (first === undefined) {
          // What is left to be written may take a while, and a signal ends that as it ends any process.
          for (const { listener, signal } of listeners) process.off(signal, listener)
          return end(code)
        }
        const cut = Exit.isInterrupted(exit) && !expected
        end(cut ? exitCodes[first.signal] : Number(process.exitCode ?? code))
      })
  }
}
