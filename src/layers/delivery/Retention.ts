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
/** After a look at the clock that did not agree with the one before; also the least time before the first cleaning. */
const nextLook = Duration.minutes(10)
/** So that instances that start together do not clean together; milliseconds. */
const spread = Duration.toMillis(Duration.minutes(5))
/** Between two small batches, so that requests come first. */
const breath = Duration.millis(100)

/** IAM replays a login for 10 minutes (identity-service.md); nobody asks for an older outcome. */
const loginOutcomesDays = 1
/** The list of refused telemetry records is for people to read. */
const refusalsDays = 30

/** Cleans once an hour what is kept for so many days; 0 days keeps for ever. */
export const makeRetention = (
  settings: SettingsValues["retention"]
): Effect.Effect<Effect.Effect<never>, never, Store> =>
  Effect.gen(function* () {
    const { retention } = yield* Store
    const agreedTime = yield* makeAgreedTime
    const clean = (
      now: number,
      what: string,
      days: number,
      remove: (before: number) => Effect.Effect<number, StoreUnavailable>
    ) =>
      days === 0
        ? Effect.void
        : Effect.repeat(Effect.zipLeft(remove(now - days * day), Effect.sleep(breath)), {
            while: (removed) => removed > 0
          }).pipe(
            Effect.sandbox,
            // The others have nothing to do with it, and an hour later it is tried again.
            Effect.catchAll((cause) =>
              Cause.isInterruptedOnly(cause)
                ? Effect.failCause(cause)
                : Effect.logWarning(`Cleaning the ${what} failed`, Cause.pretty(cause))
            ),
            Effect.orDie
          )
    const cleanAll = Effect.gen(function* () {
      const agreed = yield* agreedTime
      if (Option.isNone(agreed)) return yield* Effect.sleep(nextLook)
      const now = agreed.value
      yield* clean(now, "deliveries", settings.deliveriesDays, retention.deliveries)
      yield* clean(now, "webhook inbox", settings.webhooksDays, retention.webhooks)
      yield* clean(now, "reports", settings.reportsDays, retention.reports)
      yield* clean(now, "recipients", settings.recipientsDays, retention.recipients)
      yield* clean(now, "login outcomes", loginOutcomesDays, retention.loginOutcomes)
      yield* clean(now, "refusals", refusalsDays, retention.refusals)
      yield* Effect.sleep(interval)
    })
    return Effect.sleep(nextLook).pipe(
      Effect.zipRight(Effect.flatMap(Random.nextIntBetween(0, spread), Effect.sleep)),
      Effect.zipRight(Effect.forever(cleanAll))
    )
  })
