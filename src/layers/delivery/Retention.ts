import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import type { SettingsValues } from "../../services/Settings.ts"
import { Store, type StoreUnavailable } from "../../services/Store.ts"

const day = Duration.toMillis(Duration.days(1))
const interval = Duration.hours(1)
/** So that instances that start together do not clean together; milliseconds. */
const latestStart = Duration.toMillis(Duration.minutes(5))
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
  Effect.map(Store, ({ retention }) => {
    const clean = (
      what: string,
      days: number,
      remove: (before: number) => Effect.Effect<number, StoreUnavailable>
    ) =>
      days === 0
        ? Effect.void
        : Effect.flatMap(Clock.currentTimeMillis, (now) =>
            Effect.repeat(Effect.zipLeft(remove(now - days * day), Effect.sleep(breath)), {
              while: (removed) => removed > 0
            })
          ).pipe(
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
      yield* clean("deliveries", settings.deliveriesDays, retention.deliveries)
      yield* clean("webhook inbox", settings.webhooksDays, retention.webhooks)
      yield* clean("reports", settings.reportsDays, retention.reports)
      yield* clean("recipients", settings.recipientsDays, retention.recipients)
      yield* clean("login outcomes", loginOutcomesDays, retention.loginOutcomes)
      yield* clean("refusals", refusalsDays, retention.refusals)
      yield* Effect.sleep(interval)
    })
    return Effect.flatMap(Random.nextIntBetween(0, latestStart), Effect.sleep).pipe(
      Effect.zipRight(Effect.forever(cleanAll))
    )
  })
