import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { DeliveryHealth } from "../../services/DeliveryHealth.ts"
import { Settings } from "../../services/Settings.ts"
import type { Store, StoreUnavailable } from "../../services/Store.ts"
import { Tables } from "../../services/Tables.ts"
import { Tracker } from "../../services/Tracker.ts"
import { type DeliveryLimits, production } from "./DeliveryLimits.ts"
import { makeReportDelivery } from "./ReportDelivery.ts"
import { makeRetention } from "./Retention.ts"
import { makeTelemetryShipping } from "./TelemetryShipping.ts"
import { supervised } from "./Backoff.ts"

/** A database that does not answer is told by a check of its own. */
const checkTimeout = Duration.seconds(1)

const check = (configured: boolean, troubled: Effect.Effect<boolean, StoreUnavailable>) =>
  configured
    ? troubled.pipe(
        Effect.timeout(checkTimeout),
        Effect.orElseSucceed(() => false),
        Effect.map((trouble) => (trouble ? ("degraded" as const) : ("ok" as const)))
      )
    : Effect.succeed("off" as const)

/** The background workers with other bounds than the default ones. */
export const deliveryWith = (
  bounds: Partial<DeliveryLimits>
): Layer.Layer<DeliveryHealth, never, Store | Tracker | Tables | Settings> =>
  Layer.scoped(
    DeliveryHealth,
    Effect.gen(function* () {
      const settings = yield* Settings
      const tracker = yield* Tracker
      const tables = yield* Tables
      const given = { ...production, ...bounds }
      // Filing reports stops before it, in a time of its own; both must fit.
      const telemetryStop = Math.min(given.telemetryStop, settings.shutdownGraceSeconds * 250)
      const all = { ...given, telemetryStop }
      const reconcileSeconds = Option.match(settings.tracker, {
        onNone: () => [],
        onSome: (target) => target.reconcileSeconds
      })
      const reports = yield* makeReportDelivery(reconcileSeconds, all)
      const shipping = yield* makeTelemetryShipping(settings.telemetry.spoolHours, all)
      const ships = settings.telemetry.enabled && tables.open.size > 0

      yield* Effect.forkScoped(supervised("Telemetry expiry")(shipping.expire))
      yield* Effect.forkScoped(supervised("Retention")(yield* makeRetention(settings.retention)))
      if (ships) yield* Effect.forkScoped(supervised("Telemetry shipping")(shipping.ship))
      if (tracker.enabled) yield* Effect.forkScoped(supervised("Report delivery")(reports.run))

      return {
        checks: Effect.all({
          tracker: check(tracker.enabled, reports.stopped),
          tables: check(ships, shipping.anyClosed)
        })
      }
    })
  )

/**
 * Runs the background workers for as long as the layer lives: what breaks one is logged and it starts again; closing
 * the layer stops them and hands their leases back. A tracker or tables that are not configured have no worker.
 */
export const DeliveryLive = deliveryWith({})
