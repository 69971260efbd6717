import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { Failure } from "../../schema/Failure.ts"
import type { CheckState, ReadinessAnswer } from "../../schema/System.ts"
import { Drain } from "../Drain.ts"
import { shareFor } from "../combinators/Share.ts"
import { Store } from "../Store.ts"

/** State of the background deliveries: `degraded` requires an operator, `off` is not configured. */
export class DeliveryHealth extends Context.Tag("music/DeliveryHealth")<
  DeliveryHealth,
  { readonly checks: Effect.Effect<Record<"tracker" | "tables", "ok" | "degraded" | "off">> }
>() {}

/** Milliseconds for which all probes share one check of the dependencies. */
const checkMillis = 1_000
/** Milliseconds after which the database is slow. Probes of balancers wait for a second, and must not give up before. */
const slowMillis = 500

/** Whether the service can serve: the database answers, and the process does not shut down. */
export class Readiness extends Effect.Service<Readiness>()("music/Readiness", {
  scoped: Effect.gen(function* () {
    const store = yield* Store
    const drain = yield* Drain
    const delivery = yield* DeliveryHealth

    /**
     * A slow database is `degraded`: it is the database of all instances, which would otherwise leave the balancer together. It
     * has failed once a check did.
     */
    const database: Effect.Effect<CheckState> = store.check.pipe(
      // The check goes on after the answer of this probe: it shows whether the database answers at all. Disconnected, it
      // delays neither that answer nor the end of the process.
      Effect.uninterruptible,
      Effect.disconnect,
      Effect.timeoutTo({
        duration: slowMillis,
        onSuccess: (): CheckState => "ok",
        onTimeout: (): CheckState => (store.isFailing() ? "failed" : "degraded")
      }),
      Effect.orElseSucceed((): CheckState => "failed")
    )

    const dependencies = yield* shareFor(
      checkMillis,
      Effect.all({ database, deliveries: delivery.checks }, { concurrency: "unbounded" }).pipe(
        Effect.disconnect
      )
    )

    /** A stopped tracker or table is `degraded` and never makes the service unready. A shutdown shows at once. */
    const check: Effect.Effect<ReadinessAnswer, Failure<"not_ready">> = Effect.gen(function* () {
      const { database: state, deliveries } = yield* dependencies
      const draining = drain.isDraining()
      const checks = {
        database: state,
        serving: draining ? ("failed" as const) : ("ok" as const),
        ...deliveries
      }
      if (draining || state === "failed") return yield* new Failure("not_ready", { details: { checks } })
      return { status: "ready", checks }
    })

    return { check } as const
  })
}) {}
