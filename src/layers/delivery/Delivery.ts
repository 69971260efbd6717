import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { DeliveryHealth } from "../../services/DeliveryHealth.ts"
import { Settings } from "../../services/Settings.ts"
import type { Store } from "../../services/Store.ts"
import { Tables } from "../../services/Tables.ts"
import { Tracker } from "../../services/Tracker.ts"
import { makeReportDelivery } from "./ReportDelivery.ts"
import { makeRetention } from "./Retention.ts"
import { makeTelemetryShipping } from "./TelemetryShipping.ts"
import { supervised } from "./Worker.ts"

/**
 * Runs the background workers for as long as the layer lives: what breaks one is logged and it starts again; closing
 * the layer stops them and hands their leases back. A tracker or tables that are not configured have no worker.
 */
export const DeliveryLive: Layer.Layer<DeliveryHealth, never, Store | Tracker | Tables | Settings> =
  Layer.scoped(
    DeliveryHealth,
    Effect.gen(function* () {
      const settings = yield* Settings
      const tracker = yield* Tracker
      const tables = yield* Tables
      const shipping = yield* makeTelemetryShipping(settings.telemetry.spoolHours)
      const ships = settings.telemetry.enabled && tables.open.size > 0

      yield* Effect.forkScoped(supervised("Telemetry expiry")(shipping.expire))
      yield* Effect.forkScoped(supervised("Retention")(yield* makeRetention(settings.retention)))
      if (ships) yield* Effect.forkScoped(supervised("Telemetry shipping")(shipping.ship))
      if (tracker.enabled) {
        const reconcileSeconds = Option.match(settings.tracker, {
          onNone: () => [],
          onSome: (target) => target.reconcileSeconds
        })
        yield* Effect.forkScoped(supervised("Report delivery")(yield* makeReportDelivery(reconcileSeconds)))
      }

      const trackerCheck = Effect.map(tracker.trouble, (trouble) =>
        !tracker.enabled ? ("off" as const) : Option.isSome(trouble) ? ("degraded" as const) : ("ok" as const)
      )
      const tablesCheck = Effect.map(shipping.unauthorized, (locked) =>
        !ships ? ("off" as const) : locked.size > 0 ? ("degraded" as const) : ("ok" as const)
      )
      return { checks: Effect.all({ tracker: trackerCheck, tables: tablesCheck }) }
    })
  )
