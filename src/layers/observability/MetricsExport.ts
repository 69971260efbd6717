import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { Readiness } from "../../services/Readiness.ts"
import { createAlertedSeries } from "../../services/Metrics.ts"
import { Settings } from "../../services/Settings.ts"
import type { Store } from "../../services/Store.ts"
import { type AdminListenFailed, adminServer } from "./AdminServer.ts"
import { makeCollectors } from "./Collectors.ts"
import { metricFamilies } from "./MetricFamilies.ts"
import { prometheusText } from "./PrometheusText.ts"

/** Base address of the admin server; none when it is off. */
export class Admin extends Context.Tag("music/observability/Admin")<Admin, Option.Option<string>>() {}

/**
 * Publishes metrics to Prometheus at `MUSIC_ADMIN_BIND`. Built before the server of the API and so closed after it: a drain can be watched.
 */
export const MetricsExport: Layer.Layer<Admin, AdminListenFailed, Settings | Store | Readiness> =
  Layer.scoped(
    Admin,
    Effect.gen(function* () {
      const { adminBind } = yield* Settings
      if (Option.isNone(adminBind)) return Option.none()
      createAlertedSeries()
      const collect = Effect.map(yield* makeCollectors, metricFamilies)
      return Option.some(yield* adminServer(adminBind.value, Effect.map(collect, prometheusText)))
    })
  )
