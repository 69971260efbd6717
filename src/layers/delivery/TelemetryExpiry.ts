/** Removes telemetry records that waited too long, and ids of delivered records that need not be remembered any more. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { makeAgreedTime } from "../../services/ClockAgreement.ts"
import { Store } from "../../services/Store.ts"
import { repeatThroughOutages } from "./Outages.ts"

const interval = Duration.minutes(10)
const hour = 3_600_000
/** Milliseconds for which a delivered id is remembered (api.md, telemetry). */
const deliveredMemory = 24 * hour
/** Delivered ids that are remembered at most, about 120 MB. Checked with every expiry, not with every delivery. */
const deliveredAtMost = 1_000_000

export const makeTelemetryExpiry = (spoolHours: number): Effect.Effect<Effect.Effect<never>, never, Store> =>
  Effect.gen(function* () {
    const { spool } = yield* Store
    const agreedTime = yield* makeAgreedTime
    return repeatThroughOutages("Telemetry expiry")(
      Effect.gen(function* () {
        // Without an agreed time nothing is old, but the bound of the ids still applies.
        const agreed = Option.getOrElse(yield* agreedTime, () => 0)
        yield* spool.expire({
          acceptedBefore: agreed - spoolHours * hour,
          deliveredBefore: agreed - deliveredMemory,
          deliveredAtMost
        })
        yield* Effect.sleep(interval)
      })
    )
  })
