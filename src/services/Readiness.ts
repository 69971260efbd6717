import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { NotReady } from "../schema/Failure.ts"
import type { CheckState, Readiness as Report } from "../schema/Health.ts"
import { DeliveryHealth } from "./DeliveryHealth.ts"
import { Drain } from "./Drain.ts"
import { shareFor } from "./InFlight.ts"
import { Store } from "./Store.ts"

/** Milliseconds for which all probes share one check of the dependencies. */
const checkMillis = 1_000

/** Whether the service can serve: the database answers, and the process does not shut down. */
export class Readiness extends Effect.Service<Readiness>()("music/Readiness", {
  scoped: Effect.gen(function* () {
    const store = yield* Store
    const drain = yield* Drain
    const delivery = yield* DeliveryHealth

    const dependencies = yield* shareFor(
      checkMillis,
      Effect.gen(function* () {
        const database = yield* store.check.pipe(
          // Disconnected: a check that cannot be interrupted delays neither the answer nor the end of the process.
          Effect.disconnect,
          Effect.timeoutFail({ duration: 2_000, onTimeout: () => "timeout" as const }),
          Effect.either
        )
        return { healthy: Either.isRight(database), deliveries: yield* delivery.checks }
      }).pipe(Effect.disconnect)
    )

    /** A stopped tracker or table is `degraded` and never makes the service unready. A shutdown shows at once. */
    const check: Effect.Effect<Report, NotReady> = Effect.gen(function* () {
      const { deliveries, healthy } = yield* dependencies
      const draining = drain.isDraining()
      const state = (ok: boolean): CheckState => (ok ? "ok" : "failed")
      const checks = { database: state(healthy), serving: state(!draining), ...deliveries }
      if (draining || !healthy) return yield* new NotReady({ details: { checks } })
      return { status: "ready", checks }
    })

    return { check } as const
  })
}) {}
