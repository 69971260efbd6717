/** Log lines of the process as a whole: its start with the effective limits, its stop, and what ends it otherwise. */
import { setFlagsFromString } from "node:v8"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Runtime from "effect/Runtime"
import { build, version } from "../../schema/Release.ts"
import { Drain } from "../../services/Drain.ts"
import { Settings, type SettingsValues } from "../../services/Settings.ts"
import { processEnvironment, unknownVariables } from "../settings/Settings.ts"
import { firstSignal } from "./RunMain.ts"

const startOf = (settings: SettingsValues) => ({
  version,
  build,
  node: process.version,
  pid: process.pid,
  database_connections: Option.isSome(settings.databaseUrl) ? settings.databaseConnections : undefined,
  request_deadline_seconds: settings.requestDeadlineSeconds,
  shutdown_grace_seconds: settings.shutdownGraceSeconds,
  iam_calls_per_minute: settings.iam.callsPerMinute,
  rate_limit: settings.rateLimit ? "on" : "off",
  trusted_proxies: settings.trustedProxies,
  telemetry: settings.telemetry.enabled ? "on" : "off",
  telemetry_spool_megabytes: settings.telemetry.spoolBytes / 1e6,
  telemetry_spool_hours: settings.telemetry.spoolHours,
  reports_megabytes: settings.reportsBytes / 1e6,
  tables: Option.toArray(settings.tables).flatMap(({ keys }) => [...keys.keys()]),
  tracker: Option.match(settings.tracker, {
    onNone: () => "off",
    onSome: ({ owner, repository }) => `${owner}/${repository}`
  })
})

/**
 * Logs `Starting` now, `Stopping` at the first signal, and `Stopped` with the scope, as the last line. An uncaught exception is logged with
 * its stack; Node still prints it on standard error and ends the process with 1.
 */
export const reportLifecycle = Effect.gen(function* () {
  const settings = yield* Settings
  const { countRequests } = yield* Drain
  const runSync = Runtime.runSync(yield* Effect.runtime<never>())
  // The heap grows to 1.6 times what the last full collection left, instead of up to four times (docs/performance.md).
  setFlagsFromString("--heap-growing-percent=60")
  process.on("uncaughtExceptionMonitor", (error, origin) => {
    runSync(Effect.logFatal("Uncaught exception", { origin }, Cause.die(error)))
  })
  yield* Effect.logInfo("Starting", startOf(settings))
  for (const name of unknownVariables(yield* processEnvironment))
    yield* Effect.logWarning(`${name} is not a setting`, { advice: "correct its name, or remove it" })

  let stoppingAt: number | undefined
  void firstSignal().then((signal) => {
    // The clock of the process, which tests do not move.
    stoppingAt = performance.now()
    runSync(Effect.logInfo("Stopping", { signal, grace_seconds: settings.shutdownGraceSeconds }))
  })
  yield* Effect.addFinalizer(() => {
    const { cut, finished } = countRequests()
    const duration_ms = Math.round(performance.now() - (stoppingAt ?? 0))
    const facts = { duration_ms, requests_finished: finished, requests_cut: cut }
    return stoppingAt === undefined ? Effect.void : Effect.logInfo("Stopped", facts)
  })
})
