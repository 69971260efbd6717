/** Sweeps remove stored data by its age: what the retention settings say, waiting telemetry, and ids of delivered telemetry. */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Struct from "effect/Struct"
import { monotonicMillis } from "../../services/MonotonicTime.ts"
import { Settings, type SettingsValues } from "../../services/Settings.ts"
import { Store, type StoreService, type StoreUnavailable } from "../../services/Store.ts"
import { repeatRounds } from "./Worker.ts"

const day = Duration.toMillis("1 day")

/** Days for which rows are kept; 0 is for ever. */
const daysOf = ({ anonymousReportsDays, reportsDays }: SettingsValues["retention"]) => ({
  /** Finished ones. The delivery of a report that was not filed stays until the report is gone. */
  deliveries: 30,
  /** IAM sends an event again for 45 days (identity-service.md 11.6): one that is forgotten sooner would count twice. */
  webhooks: 46,
  reports: reportsDays,
  anonymousReports: anonymousReportsDays,
  /** Inactive registrations. */
  recipients: 90,
  /** Longer than the 10 minutes for which IAM replays a login (identity-service.md). */
  loginOutcomes: 1,
  /** Refused telemetry records are listed for operators. */
  refusals: 30
})
/** Between two small batches, so that requests come first. */
const batchPause = Duration.millis(100)
/** Delivered ids that are remembered at most, about 120 MB. Checked with every expiry, not with every delivery. */
const deliveredAtMost = 1_000_000

const clockOffset = Effect.zipWith(
  Clock.currentTimeMillis,
  monotonicMillis,
  (wall, monotonic) => wall - monotonic
)

/**
 * Repeats a round, first after `delay`. A clock that is stepped ahead makes every row old at once: so a round removes nothing when the wall
 * clock was stepped by more than a day since the round before. A clock that stays there is believed by the next one.
 */
const sweep = (
  name: string,
  delay: Duration.DurationInput,
  interval: Duration.DurationInput,
  round: (now: number) => Effect.Effect<void, StoreUnavailable, Store>
): Effect.Effect<never, never, Store> =>
  Effect.gen(function* () {
    let last = yield* clockOffset
    const guarded = Effect.gen(function* () {
      const offset = yield* clockOffset
      const isStepped = Math.abs(offset - last) > day
      last = offset
      if (!isStepped) return yield* round(yield* Clock.currentTimeMillis)
      yield* Effect.logWarning(
        "The clock was stepped by more than a day: nothing is removed by its age for now"
      )
    })
    yield* Effect.sleep(delay)
    return yield* repeatRounds(name)(Effect.zipLeft(guarded, Effect.sleep(interval)))
  })

/** Removes all that is older, a few hundred rows at a time. */
const clean = (what: keyof StoreService["retention"], before: number): Effect.Effect<void, never, Store> =>
  Effect.flatMap(Store, ({ retention }) =>
    Effect.repeat(Effect.zipLeft(retention[what](before), Effect.sleep(batchPause)), {
      until: (removed) => removed === 0
    })
  ).pipe(
    // Other kinds of data go on, and the next round tries this one again.
    Effect.catchAllCause((cause) => Effect.logWarning(`Cleaning of ${what} failed`, Cause.pretty(cause)))
  )

/** Removes what is older than its days; 0 days keeps it for ever. */
export const retentionSweep: Effect.Effect<never, never, Settings | Store> = Effect.gen(function* () {
  const settings = yield* Settings
  // Instances that start together do not clean together.
  const delay = yield* Random.nextRange(10, 15)
  return yield* sweep("Retention", Duration.minutes(delay), "1 hour", (now) =>
    Effect.gen(function* () {
      for (const [what, kept] of Struct.entries(daysOf(settings.retention)))
        if (kept > 0) yield* clean(what, now - kept * day)
      yield* clean("sessionDigests", now)
    })
  )
})

/** Removes telemetry records that waited for a day, and ids of delivered records that need not be remembered any more. */
export const telemetryExpiry: Effect.Effect<never, never, Store> = Effect.flatMap(Store, ({ spool }) =>
  sweep("Telemetry expiry", "10 minutes", "10 minutes", (now) =>
    Effect.gen(function* () {
      yield* clean("telemetry", now - day)
      const newest = Option.getOrElse(yield* spool.newestDeliveredSince(deliveredAtMost), () => 0)
      yield* clean("deliveredIds", Math.max(now - day, newest))
    })
  )
)
