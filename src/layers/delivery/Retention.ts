import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { SettingsValues } from "../../services/Settings.ts"
import { Store, type StoreUnavailable } from "../../services/Store.ts"

const day = Duration.toMillis(Duration.days(1))
const interval = Duration.hours(1)
/** Between two small batches, so that requests come first. */
const breath = Duration.millis(100)

/** Cleans once an hour what the settings keep for so many days; 0 days keeps for ever. */
export const makeRetention = (
  settings: SettingsValues["retention"]
): Effect.Effect<Effect.Effect<never, StoreUnavailable>, never, Store> =>
  Effect.map(Store, ({ retention }) => {
    const clean = (days: number, remove: (before: number) => Effect.Effect<number, StoreUnavailable>) =>
      days === 0
        ? Effect.void
        : Effect.flatMap(Clock.currentTimeMillis, (now) =>
            Effect.repeat(Effect.zipLeft(remove(now - days * day), Effect.sleep(breath)), {
              while: (removed) => removed > 0
            })
          )
    return Effect.gen(function* () {
      yield* clean(settings.deliveriesDays, retention.deliveries)
      yield* clean(settings.webhooksDays, retention.webhooks)
      yield* clean(settings.reportsDays, retention.reports)
      yield* Effect.sleep(interval)
    }).pipe(Effect.forever)
  })
