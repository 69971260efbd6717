/** Removes stored data whose retention time is over. */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import { makeAgreedTime } from "../../services/ClockAgreement.ts"
import type { SettingsValues } from "../../services/Settings.ts"
import { Store, type StoreUnavailable } from "../../services/Store.ts"

const day = Duration.toMillis(Duration.days(1))
const interval = Duration.hours(1)
/** Until the next reading of a clock that did not agree with the reading before; also the least time before the first removal. */
const clockPause = Duration.minutes(10)
/** Milliseconds: a random part of it delays the first removal, so that instances that start together do not clean together. */
const startSpread = Duration.toMillis(Duration.minutes(5))
/** Between two small batches, so that requests come first. */
const batchPause = Duration.millis(100)

/** Longer than the 10 minutes for which IAM replays a login (identity-service.md). */
const loginOutcomesDays = 1
/** Refused telemetry records are listed for operators. */
const refusalsDays = 30

/** Removes once an hour what is older than its setting in days; 0 days keeps it forever. */
export const makeRetentionSweep = (
  settings: SettingsValues["retention"]
): Effect.Effect<Effect.Effect<never>, never, Store> =>
  Effect.gen(function* () {
    const { retention } = yield* Store
    const agreedTime = yield* makeAgreedTime
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
    const clean = (now: number, what: string, days: number, remove: Remove) =>
      days === 0 ? Effect.void : cleanBefore(now - days * day, what, remove)
    const cleanAll = Effect.gen(function* () {
      const agreed = yield* agreedTime
      if (Option.isNone(agreed)) return yield* Effect.sleep(clockPause)
      const now = agreed.value
      yield* clean(now, "deliveries", settings.deliveriesDays, retention.deliveries)
      yield* clean(now, "webhook inbox", settings.webhooksDays, retention.webhooks)
      yield* clean(now, "reports", settings.reportsDays, retention.reports)
      yield* clean(now, "anonymous reports", settings.anonymousReportsDays, retention.anonymousReports)
      yield* clean(now, "recipients", settings.recipientsDays, retention.recipients)
      yield* clean(now, "login outcomes", loginOutcomesDays, retention.loginOutcomes)
      yield* cleanBefore(now, "session digests", retention.sessionDigests)
      yield* clean(now, "refusals", refusalsDays, retention.refusals)
      yield* Effect.sleep(interval)
    })
    return Effect.sleep(clockPause).pipe(
      Effect.zipRight(Effect.flatMap(Random.nextIntBetween(0, startSpread), Effect.sleep)),
      Effect.zipRight(Effect.forever(cleanAll))
    )
  })
