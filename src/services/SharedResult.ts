import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { monotonicMillis } from "./MonotonicTime.ts"

/**
 * Runs `look` at most once in `millis`, and for all who ask meanwhile. It goes on when the one who began it leaves. Not
 * `Effect.cachedWithTTL`, which goes by the wall clock.
 */
export const sharedFor = <A>(millis: number, look: Effect.Effect<A>): Effect.Effect<A> => {
  let last: { readonly fiber: Fiber.Fiber<A>; readonly startedAt: number } | undefined
  return Effect.gen(function* () {
    const now = yield* monotonicMillis
    const running = last !== undefined && Option.isNone(yield* Fiber.poll(last.fiber))
    if (last === undefined || (!running && now - last.startedAt >= millis))
      last = { fiber: yield* Effect.forkDaemon(look), startedAt: now }
    // Not `Fiber.join`, which would hand the context of the caller that began it to the others.
    return yield* Effect.flatten(Fiber.await(last.fiber))
  })
}
