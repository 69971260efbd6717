import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { Descriptors } from "../../services/Descriptors.ts"
import { Settings } from "../../services/Settings.ts"
import type { Store } from "../../services/Store.ts"
import { type AdminListenFailed, adminServer } from "./AdminServer.ts"
import { makeCollectors } from "./Collectors.ts"

/** Base address of the operators' server; none when it is off. */
export class Admin extends Context.Tag("music/observability/Admin")<Admin, Option.Option<string>>() {}

/**
 * Gives metrics to who reads them: Prometheus at `MUSIC_ADMIN_BIND`, a collector over OTLP, or nobody, and then nothing of
 * it is loaded. Built before the server of the API and so closed after it: what drains can still be watched.
 */
export const MetricsExport: Layer.Layer<Admin, AdminListenFailed, Settings | Store | Descriptors> =
  Layer.scoped(
    Admin,
    Effect.gen(function* () {
      const { adminBind, openTelemetry } = yield* Settings
      if (Option.isNone(adminBind) && Option.isNone(openTelemetry.metrics)) return Option.none()
      const { makeMeter } = yield* Effect.promise(() => import("./Meter.ts"))
      const { scrape } = yield* makeMeter(openTelemetry, yield* makeCollectors)
      return yield* Effect.transposeMapOption(adminBind, (address) => adminServer(address, scrape))
    })
  )
