/** Waits in real time for what another process, a socket or a timer does. A slow machine delays a test, and does not fail it. */
import { Effect } from "effect"
import { vi } from "vitest"

/**
 * Milliseconds after which a wait fails: far more than a machine with a quarter of a core needs, and less than the timeout of
 * a test. Also the timeout of calls that are to succeed.
 */
export const patience = 120_000

/** Repeats a check until it throws nothing. Fails with its last error. */
export const waitFor = <A>(check: () => A | Promise<A>): Promise<A> =>
  vi.waitFor(check, { timeout: patience, interval: 10 })

/** Repeats an effect, whatever the clock of the test says, until its value satisfies the condition. Returns that value; fails with `what`. */
export const awaited = <A, E, R>(
  what: string,
  effect: Effect.Effect<A, E, R>,
  holds: (value: A) => boolean
): Effect.Effect<A, E, R> =>
  Effect.gen(function* () {
    for (const end = performance.now() + patience; performance.now() < end; ) {
      const value = yield* effect
      if (holds(value)) return value
      yield* Effect.promise(() => new Promise((wake) => setTimeout(wake, 5)))
    }
    return yield* Effect.dieMessage(`not in time: ${what}`)
  })

/** Waits until the condition holds. */
export const eventually = (what: string, holds: () => boolean): Effect.Effect<boolean> =>
  awaited(what, Effect.sync(holds), Boolean)

/** The same; its text is the message of a failure. */
export const until = (holds: () => boolean): Effect.Effect<boolean> => eventually(holds.toString(), holds)

/**
 * Turns of the event loop in which everything that sockets of this process hold for each other arrives. For what must not happen,
 * and for what cannot be observed. Counted in turns: after a pause of the process, a longer timer may end in the first of them.
 */
export const settle: Effect.Effect<void> = Effect.promise(async () => {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((wake) => setTimeout(wake, 1))
})
