/** Log lines of the process as a whole: its start with the effective limits, and its stop. */
import { resolve } from "node:path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Runtime from "effect/Runtime"
import type * as Scope from "effect/Scope"
import { build, version } from "../../schema/Release.ts"
import { Drain } from "../../services/Drain.ts"
import { Settings, type SettingsValues } from "../../services/Settings.ts"
import { processEnvironment, unknownVariables } from "../settings/Settings.ts"
import { type EndingSignal, listenForSignals } from "./ProcessSignals.ts"

/** Of a Postgres address only host and port: the rest may hold a credential. */
const databaseOf = ({ databasePath, databaseUrl }: SettingsValues): string =>
  Option.match(databaseUrl, {
    onNone: () => `SQLite database ${resolve(databasePath)}`,
    onSome: (url) =>
      Either.match(
        Either.try(() => new URL(Redacted.value(url)).host),
        { onLeft: () => "Postgres", onRight: (host) => `Postgres at ${host}` }
      )
  })

const onOff = (on: boolean): string => (on ? "on" : "off")

const startOf = (settings: SettingsValues) => ({
  version,
  build,
  node: process.version,
  pid: process.pid,
  database: databaseOf(settings),
  ...(Option.isSome(settings.databaseUrl) ? { database_connections: settings.databaseConnections } : {}),
  request_deadline_seconds: settings.requestDeadlineSeconds,
  shutdown_grace_seconds: settings.shutdownGraceSeconds,
  iam_calls_per_minute: settings.iam.callsPerMinute,
  rate_limit: onOff(settings.rateLimit),
  trusted_proxies: settings.trustedProxies,
  telemetry: onOff(settings.telemetry.enabled),
  telemetry_spool_megabytes: settings.telemetry.spoolBytes / 1e6,
  telemetry_spool_hours: settings.telemetry.spoolHours,
  reports_megabytes: settings.reportsBytes / 1e6,
  tables: Option.match(settings.tables, { onNone: () => [], onSome: ({ keys }) => [...keys.keys()] }),
  tracker: Option.match(settings.tracker, {
    onNone: () => "off",
    onSome: ({ owner, repository }) => `${owner}/${repository}`
  })
})

/**
 * Logs `Starting` now, `Stopping` at the first signal, and `Stopped` with the scope, as the last line. When the process ends
 * before its scope is closed, `Stopped` is a warning.
 */
export const reportLifecycle: Effect.Effect<void, never, Settings | Drain | Scope.Scope> = Effect.gen(
  function* () {
    const settings = yield* Settings
    const { countRequests } = yield* Drain
    const runSync = Runtime.runSync(yield* Effect.runtime<never>())
    yield* Effect.logInfo("Starting", startOf(settings))
    for (const name of unknownVariables(yield* processEnvironment))
      yield* Effect.logWarning(`${name} is not a setting`, { advice: "correct its name, or remove it" })

    let stoppingAt: number | undefined
    const reportStopping = (signal: EndingSignal): void => {
      // The clock of the process, which tests do not move.
      stoppingAt = performance.now()
      runSync(Effect.logInfo("Stopping", { signal, grace_seconds: settings.shutdownGraceSeconds }))
    }
    const reportStopped = (complete: boolean): void => {
      if (stoppingAt === undefined) return
      const level = complete ? LogLevel.Info : LogLevel.Warning
      const requests = countRequests()
      const facts = {
        complete,
        duration_ms: Math.round(performance.now() - stoppingAt),
        requests_finished: requests.finished,
        requests_cut: requests.cut
      }
      stoppingAt = undefined
      runSync(Effect.logWithLevel(level, "Stopped", facts))
    }
    const atExit = () => reportStopped(false)
    yield* Effect.acquireRelease(
      Effect.sync(() => {
        // Before the listener that writes the last lines.
        process.prependListener("exit", atExit)
        return listenForSignals({ first: reportStopping })
      }),
      (stopListening) =>
        Effect.sync(() => {
          stopListening()
          process.off("exit", atExit)
          reportStopped(true)
        })
    )
  }
)
