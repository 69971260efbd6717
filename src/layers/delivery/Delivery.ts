/** The background workers: they file reports, ship telemetry and remove old rows. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { DeliveryHealth } from "../../services/DeliveryHealth.ts"
import { Settings } from "../../services/Settings.ts"
import type { Store, StoreUnavailable } from "../../services/Store.ts"
import { Tables } from "../../services/Tables.ts"
import { Tracker } from "../../services/Tracker.ts"
import { type DeliveryLimits, production } from "./DeliveryLimits.ts"
import { makeReportDelivery } from "./ReportDelivery.ts"
import { makeRetentionSweep, makeTelemetryExpiry } from "./Sweeps.ts"
import { makeTelemetryShipping } from "./TelemetryShipping.ts"

/** Below the time that readiness takes for the database (`services/Readiness.ts`). */
const checkTimeout = Duration.millis(400)

/** A database that does not answer counts as `ok` here: it has a check of its own. */
const check = (configured: boolean, degraded: Effect.Effect<boolean, StoreUnavailable>) =>
  configured
    ? degraded.pipe(
        Effect.timeout(checkTimeout),
        Effect.orElseSucceed(() => false),
        Effect.map((isDegraded) => (isDegraded ? ("degraded" as const) : ("ok" as const)))
      )
    : Effect.succeed("off" as const)

/** The background workers with some limits changed. */
export const deliveryWith = (
  changes: Partial<DeliveryLimits>
): Layer.Layer<DeliveryHealth, never, Store | Tracker | Tables | Settings> =>
  Layer.scoped(
    DeliveryHealth,
    Effect.gen(function* () {
      const settings = yield* Settings
      const tracker = yield* Tracker
      const tables = yield* Tables
      const given = { ...production, ...changes }
      // Report filing stops first and needs time too; both must fit into the grace period.
      const telemetryStopGrace = Math.min(given.telemetryStopGrace, settings.shutdownGraceSeconds * 250)
      const limits = { ...given, telemetryStopGrace }
      const reports = yield* makeReportDelivery(limits)
      const shipping = yield* makeTelemetryShipping(limits)
      const ships = settings.telemetry.enabled && tables.open.size > 0

      yield* Effect.forkScoped(yield* makeTelemetryExpiry)
      yield* Effect.forkScoped(yield* makeRetentionSweep)
      if (ships) yield* Effect.forkScoped(shipping.run)
      if (tracker.enabled) yield* Effect.forkScoped(reports.run)

      return {
        checks: Effect.all(
          {
            tracker: check(tracker.enabled, reports.isStopped),
            tables: check(ships, shipping.anyClosed)
          },
          { concurrency: "unbounded" }
        )
      }
    })
  )

/**
 * Runs the background workers while the layer lives. Each starts anew after a defect. Closing the layer stops the workers and releases
 * their leases. A tracker or table service that is not configured has no worker.
 */
export const DeliveryLive = deliveryWith({})
