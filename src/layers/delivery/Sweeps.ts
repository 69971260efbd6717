/** Sweeps remove stored data by its age: what the retention settings say, waiting telemetry, and ids of delivered telemetry. */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Ref from "effect/Ref"
import { monotonicMillis } from "../../services/MonotonicTime.ts"
import { Settings } from "../../services/Settings.ts"
import { Store, type StoreUnavailable } from "../../services/Store.ts"
import { repeatRounds } from "./Worker.ts"

const hour = Duration.toMillis(Duration.hours(1))
const day = 24 * hour

/** Finished ones. The delivery of a report that was not filed stays until the report is gone. */
const deliveriesDays = 30
/** Inactive registrations. */
const recipientsDays = 90
/** IAM sends an event again for 45 days (identity-service.md 11.6): one that is forgotten sooner would count twice. */
const webhooksDays = 46
/** Longer than the 10 minutes for which IAM replays a login (identity-service.md). */
const loginOutcomesDays = 1
/** Refused telemetry records are listed for operators. */
const refusalsDays = 30
const retentionInterval = Duration.hours(1)
/** Before the first removal; a random part of `startSpread` more, so that instances that start together do not clean together. */
const startDelay = Duration.minutes(10)
const startSpread = Duration.toMillis(Duration.minutes(5))
/** Between two small batches, so that requests come first. */
const batchPause = Duration.millis(100)

const expiryInterval = Duration.minutes(10)
/** Undelivered telemetry is kept so long. */
const spoolMemory = 24 * hour
/** Milliseconds for which a delivered id is remembered (api.md, telemetry). */
const deliveredMemory = 24 * hour
/** Delivered ids that are remembered at most, about 120 MB. Checked with every expiry, not with every delivery. */
const deliveredAtMost = 1_000_000

const clockOffset = Effect.zipWith(
  Clock.currentTimeMillis,
  monotonicMillis,
  (wall, monotonic) => wall - monotonic
)

/**
 * A clock that is stepped ahead makes every row old at once. So a round of a sweep removes nothing when the wall clock was stepped by more
 * than a day since the round before; a clock that stays there is believed by the next one.
 */
const makeUnlessStepped: Effect.Effect<<E>(round: Effect.Effect<void, E>) => Effect.Effect<void, E>> =
  Effect.gen(function* () {
    const last = yield* Ref.make(yield* clockOffset)
    return (round) =>
      Effect.gen(function* () {
        const offset = yield* clockOffset
        const before = yield* Ref.getAndSet(last, offset)
        if (Math.abs(offset - before) <= day) return yield* round
        yield* Effect.logWarning(
          "The clock was stepped by more than a day: nothing is removed by its age for now"
        )
      })
  })

/** Removes once an hour what is older than its setting in days; 0 days keeps it forever. */
export const makeRetentionSweep: Effect.Effect<Effect.Effect<never>, never, Settings | Store> = Effect.gen(
  function* () {
    const { retention: days } = yield* Settings
    const { retention } = yield* Store
    const unlessStepped = yield* makeUnlessStepped
    type Remove = (before: number) => Effect.Effect<number, StoreUnavailable>
    const cleanBefore = (before: number, what: string, remove: Remove) =>
      Effect.repeat(Effect.zipLeft(remove(before), Effect.sleep(batchPause)), {
        while: (removed) => removed > 0
      }).pipe(
        Effect.sandbox,
        // Other kinds of data go on, and this one is retried an hour later.
        Effect.catchAll((cause) =>
          Cause.isInterruptedOnly(cause)
            ? Effect.failCause(cause)
            : Effect.logWarning(`Cleaning the ${what} failed`, Cause.pretty(cause))
        ),
        Effect.orDie
      )
    const clean = (now: number, what: string, keptDays: number, remove: Remove) =>
      keptDays === 0 ? Effect.void : cleanBefore(now - keptDays * day, what, remove)
    const cleanAll = Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      yield* clean(now, "deliveries", deliveriesDays, retention.deliveries)
      yield* clean(now, "webhook inbox", webhooksDays, retention.webhooks)
      yield* clean(now, "reports", days.reportsDays, retention.reports)
      yield* clean(now, "anonymous reports", days.anonymousReportsDays, retention.anonymousReports)
      yield* clean(now, "recipients", recipientsDays, retention.recipients)
      yield* clean(now, "login outcomes", loginOutcomesDays, retention.loginOutcomes)
      yield* cleanBefore(now, "session digests", retention.sessionDigests)
      yield* clean(now, "refusals", refusalsDays, retention.refusals)
    })
    const delay = Effect.flatMap(Random.nextIntBetween(0, startSpread), (spread) =>
      Effect.sleep(Duration.sum(startDelay, spread))
    )
    return Effect.zipRight(
      delay,
      repeatRounds("Retention")(Effect.zipRight(unlessStepped(cleanAll), Effect.sleep(retentionInterval)))
    )
  }
)

/** Removes telemetry records that waited too long, and ids of delivered records that need not be remembered any more. */
export const makeTelemetryExpiry: Effect.Effect<Effect.Effect<never>, never, Store> = Effect.gen(
  function* () {
    const { spool } = yield* Store
    const unlessStepped = yield* makeUnlessStepped
    const expire = Effect.flatMap(Clock.currentTimeMillis, (now) =>
      spool.expire({
        acceptedBefore: now - spoolMemory,
        deliveredBefore: now - deliveredMemory,
        deliveredAtMost
      })
    )
    return repeatRounds("Telemetry expiry")(
      Effect.zipRight(Effect.sleep(expiryInterval), unlessStepped(expire))
    )
  }
)
