/** What the background workers share: pauses, waiting, and staying alive. */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Ref from "effect/Ref"
import { monotonicMillis } from "../../services/MonotonicTime.ts"
import type { StoreUnavailable } from "../../services/Store.ts"

/** Milliseconds before the next attempt after so many failures in a row: doubling from `first` up to `most`, jittered by a fifth. */
export const backoff = (failures: number, first: number, most: number): Effect.Effect<number> =>
  Effect.map(Random.nextRange(0.8, 1.2), (factor) =>
    Math.round(Math.min(most, first * 2 ** Math.min(30, Math.max(0, failures - 1))) * factor)
  )

/** Milliseconds between looks at a destination that is paused. */
export const pausedLook = 30_000

/** Until there may be work: the sign or the time (milliseconds), whichever comes first. */
export const untilWoken = (wakeup: Effect.Effect<void>, millis: number): Effect.Effect<void> =>
  Effect.raceFirst(wakeup, Effect.sleep(millis))

const calm = Duration.toMillis(Duration.minutes(1))

/** Milliseconds between two tries of a database that is away, at most: what waits is taken up soon after its return. */
const longestOutagePause = 5_000

/** Repeats `round` for ever. A database that is away is told once, and asked again later each time (1 to 5 s). */
export const patiently =
  (what: string) =>
  <R>(round: Effect.Effect<unknown, StoreUnavailable, R>): Effect.Effect<never, never, R> =>
    Effect.flatMap(Ref.make(0), (outages) =>
      round.pipe(
        Effect.zipRight(Ref.getAndSet(outages, 0)),
        Effect.flatMap((before) =>
          before === 0 ? Effect.void : Effect.logInfo(`${what}: the database answers again`)
        ),
        Effect.catchAll(({ reason }) =>
          Effect.gen(function* () {
            const count = yield* Ref.updateAndGet(outages, (before) => before + 1)
            const log = count === 1 ? Effect.logWarning : Effect.logDebug
            yield* log(`${what}: waiting for the database`, { reason })
            yield* Effect.sleep(yield* backoff(count, 1_000, longestOutagePause))
          })
        ),
        Effect.forever
      )
    )

/** Keeps work going that never ends by itself: what breaks it is logged, and it starts again, later each time (1 to 30 s). */
export const supervised =
  (name: string) =>
  <E, R>(work: Effect.Effect<never, E, R>): Effect.Effect<never, never, R> =>
    Effect.flatMap(Ref.make(0), (crashes) =>
      Effect.gen(function* () {
        const startedAt = yield* monotonicMillis
        const cause = yield* Effect.flip(Effect.sandbox(work))
        yield* Effect.logError(`${name} stopped and starts again`, Cause.pretty(cause))
        const lasted = (yield* monotonicMillis) - startedAt
        const count = yield* Ref.updateAndGet(crashes, (before) => (lasted > calm ? 1 : before + 1))
        yield* Effect.sleep(yield* backoff(count, 1_000, 30_000))
      }).pipe(Effect.forever)
    )
