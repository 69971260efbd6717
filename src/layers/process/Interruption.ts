/** Signals to a program that does one thing and ends: what was cut short must not look as if it had been done. */
import { defaultTeardown, type Teardown } from "@effect/platform/Runtime"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { type EndingSignal, hearSignals, signalExits } from "./ProcessSignals.ts"

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
  let first: EndingSignal | undefined
  let expected = false
  const stopHearing = hearSignals({
    first: (signal) => {
      first = signal
    },
    again: (signal) => process.exit(signalExits[expected ? "SIGTERM" : signal])
  })
  return {
    expected: Effect.sync(() => {
      expected = true
    }),
    by: Effect.sync(() => (first === undefined || expected ? Option.none() : Option.some(first))),
    teardown: (exit, end) =>
      defaultTeardown(exit, (code) => {
        if (first === undefined) {
          // What is left to be written may take a while, and a signal ends that as it ends any process.
          stopHearing()
          return end(code)
        }
        const cut = Exit.isInterrupted(exit) && !expected
        end(cut ? signalExits[first] : Number(process.exitCode ?? code))
      })
  }
}
