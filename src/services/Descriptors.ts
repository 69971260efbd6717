import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { CheckState, Health, IamDescriptor, Readiness, Version } from "../schema/Descriptors.ts"
import { NotReady } from "../schema/Failure.ts"
import { requestedScopes } from "../schema/Identity.ts"
import { version } from "../schema/Release.ts"
import { DeliveryHealth } from "./DeliveryHealth.ts"
import { Drain } from "./Drain.ts"
import { shareFor } from "./InFlight.ts"
import { environmentIdOf, type Plane } from "./Plane.ts"
import { Settings } from "./Settings.ts"
import { Store } from "./Store.ts"

/** Milliseconds for which all probes share one check of the dependencies. */
const checkMillis = 1_000

/** What the service publishes about itself: health, readiness, version, and the parameters of a login. */
export class Descriptors extends Effect.Service<Descriptors>()("music/Descriptors", {
  scoped: Effect.gen(function* () {
    const settings = yield* Settings
    const store = yield* Store
    const drain = yield* Drain
    const delivery = yield* DeliveryHealth

    /** Liveness: uses no dependency. */
    const health: Effect.Effect<Health> = Effect.succeed({ status: "ok", service: "music-backend", version })

    const about: Effect.Effect<Version> = Effect.succeed({
      version,
      api_versions: ["v1"],
      min_cli: settings.minCli
    })

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
    const readiness: Effect.Effect<Readiness, NotReady> = Effect.gen(function* () {
      const { deliveries, healthy } = yield* dependencies
      const draining = yield* drain.draining
      const state = (ok: boolean): CheckState => (ok ? "ok" : "failed")
      const checks = { database: state(healthy), serving: state(!draining), ...deliveries }
      if (draining || !healthy) return yield* new NotReady({ details: { checks } })
      return { status: "ready", checks }
    })

    const iam = (plane: Plane): Effect.Effect<IamDescriptor> =>
      Effect.succeed({
        app_id: settings.iam.applicationId,
        org_id: settings.organisation,
        api_version: "v1",
        iam_url: settings.iam.url,
        ting_url: settings.ting.url,
        testing_environment_id: environmentIdOf(plane),
        ting_types: settings.ting.types,
        scopes: requestedScopes,
        version
      })

    return { health, version: about, readiness, iam } as const
  })
}) {}
