/** Settings from environment variables. One bad or missing variable never hides the others. */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import { clientTables, type TableName } from "../../schema/Telemetry.ts"
import { Settings, type SettingsValues } from "../../services/Settings.ts"
import { type Environment, EnvironmentReader, type SettingProblem } from "./EnvironmentReader.ts"
import { tableKeyNames } from "./SettingsTable.ts"

export type { Environment, SettingProblem }

export class SettingsInvalid extends Data.TaggedError("SettingsInvalid")<{
  readonly problems: ReadonlyArray<SettingProblem>
}> {}

/** A key without the table service is a mistake: it is found at start-up rather than by missing data. */
const readTables = (reader: EnvironmentReader): SettingsValues["tables"] => {
  const url = reader.get("MUSIC_TABLES_URL")
  const keys = new Map(
    clientTables.flatMap((table) =>
      Option.toArray(reader.get(tableKeyNames[table])).map((key): [TableName, Redacted.Redacted] => [
        table,
        key
      ])
    )
  )
  if (Option.isNone(url) && clientTables.some((table) => reader.isSet(tableKeyNames[table])))
    reader.report("MUSIC_TABLES_URL", "is required when a table key is set")
  return Option.map(url, (base) => ({ url: base, keys }))
}

const readTracker = (reader: EnvironmentReader): Pick<SettingsValues, "repository" | "tracker"> => {
  const token = reader.get("MUSIC_GITHUB_TOKEN")
  const target = reader.get("MUSIC_GITHUB_REPOSITORY")
  const url = reader.get("MUSIC_GITHUB_URL")
  const reconcileSeconds = reader.get("MUSIC_TRACKER_RECONCILE_SECONDS")
  if (reader.isSet("MUSIC_GITHUB_TOKEN") && Option.isNone(target))
    reader.report("MUSIC_GITHUB_REPOSITORY", "is required when MUSIC_GITHUB_TOKEN is set")
  return {
    repository: Option.map(target, ({ owner, repository: name }) => ({ owner, name, url })),
    tracker: Option.zipWith(token, target, (given, place) => ({
      token: given,
      ...place,
      url,
      reconcileSeconds
    }))
  }
}

/** The current secret and, while rotating, the previous one. */
const readWebhookSecrets = (reader: EnvironmentReader): SettingsValues["iam"]["webhookSecrets"] => {
  const version = reader.get("MUSIC_IAM_WEBHOOK_KEY_VERSION")
  const secrets = new Map([[version, reader.get("MUSIC_IAM_WEBHOOK_SECRET")]])
  const previousSecret = reader.get("MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET")
  const previousVersion = reader.get("MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION")
  if (Option.isSome(previousSecret) && Option.isSome(previousVersion)) {
    if (previousVersion.value === version && reader.isGood("MUSIC_IAM_WEBHOOK_KEY_VERSION"))
      reader.report(
        "MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION",
        "must differ from MUSIC_IAM_WEBHOOK_KEY_VERSION"
      )
    return secrets.set(previousVersion.value, previousSecret.value)
  }
  if (reader.isSet("MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET"))
    reader.report(
      "MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION",
      "is required with MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET"
    )
  if (reader.isSet("MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION"))
    reader.report(
      "MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET",
      "is required with MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION"
    )
  return secrets
}

/** Seconds by which the shutdown grace must exceed the deadline of a request. */
const graceAfterDeadline = 2

const readTiming = (
  reader: EnvironmentReader
): Pick<SettingsValues, "requestDeadlineSeconds" | "shutdownGraceSeconds"> => {
  const deadline = reader.get("MUSIC_REQUEST_DEADLINE_SECONDS")
  const grace = reader.get("MUSIC_SHUTDOWN_GRACE_SECONDS")
  const least = deadline + graceAfterDeadline
  if (
    reader.isSet("MUSIC_SHUTDOWN_GRACE_SECONDS") &&
    grace < least &&
    reader.isGood("MUSIC_REQUEST_DEADLINE_SECONDS")
  )
    reader.report(
      "MUSIC_SHUTDOWN_GRACE_SECONDS",
      `must be at least MUSIC_REQUEST_DEADLINE_SECONDS + ${graceAfterDeadline}`
    )
  return { requestDeadlineSeconds: deadline, shutdownGraceSeconds: Math.max(grace, least) }
}

const readOutboundProxy = (reader: EnvironmentReader): SettingsValues["outboundProxy"] => ({
  http: reader.get(reader.isSet("http_proxy") ? "http_proxy" : "HTTP_PROXY"),
  https: reader.get(reader.isSet("https_proxy") ? "https_proxy" : "HTTPS_PROXY"),
  except: Option.getOrElse(reader.get(reader.isSet("no_proxy") ? "no_proxy" : "NO_PROXY"), () => [])
})

const megabyte = 1_000_000

export interface SettingsRead {
  /** A setting that a problem names has its default here, or a placeholder, which nothing may use. */
  readonly settings: SettingsValues
  /** All of them, in the order of the table. */
  readonly problems: ReadonlyArray<SettingProblem>
}

/** An empty variable counts as absent. Reads the files that hold secrets. `terminal` chooses the default of the log format. */
export const readSettings = (environment: Environment, terminal = false): SettingsRead => {
  const reader = new EnvironmentReader(environment)
  const settings: SettingsValues = {
    bind: reader.get("MUSIC_BIND"),
    databasePath: reader.get("MUSIC_DATABASE_PATH"),
    databaseUrl: reader.get("MUSIC_DATABASE_URL"),
    databaseConnections: reader.get("MUSIC_DATABASE_CONNECTIONS"),
    iam: {
      url: reader.get("MUSIC_IAM_URL"),
      applicationId: reader.get("MUSIC_IAM_APP_ID"),
      applicationSecret: reader.get("MUSIC_IAM_APP_SECRET"),
      timeoutSeconds: reader.get("MUSIC_IAM_TIMEOUT_SECONDS"),
      webhookSecrets: readWebhookSecrets(reader),
      introspectionCacheSeconds: reader.get("MUSIC_INTROSPECTION_CACHE_SECONDS"),
      callsPerMinute: reader.get("MUSIC_IAM_CALLS_PER_MINUTE")
    },
    organisation: reader.get("MUSIC_ORG_ID"),
    ting: {
      url: reader.get("MUSIC_TING_URL"),
      timeoutSeconds: reader.get("MUSIC_TING_TIMEOUT_SECONDS"),
      types: reader.get("MUSIC_TING_TYPES")
    },
    tables: readTables(reader),
    telemetry: {
      enabled: reader.get("MUSIC_TELEMETRY"),
      spoolBytes: reader.get("MUSIC_TELEMETRY_SPOOL_MEGABYTES") * megabyte,
      spoolHours: reader.get("MUSIC_TELEMETRY_SPOOL_HOURS")
    },
    ...readTracker(reader),
    reportsBytes: reader.get("MUSIC_REPORTS_MEGABYTES") * megabyte,
    anonymousReports: reader.get("MUSIC_REPORTS_ANONYMOUS"),
    webOrigins: Option.getOrElse(reader.get("MUSIC_WEB_ORIGINS"), () => []),
    minCli: reader.get("MUSIC_MIN_CLI"),
    rateLimit: reader.get("MUSIC_RATE_LIMIT"),
    trustedProxies: Option.getOrElse(reader.get("MUSIC_TRUSTED_PROXIES"), () => []),
    ...readTiming(reader),
    outboundProxy: readOutboundProxy(reader),
    adminBind: reader.get("MUSIC_ADMIN_BIND"),
    retention: {
      reportsDays: reader.get("MUSIC_RETENTION_REPORTS_DAYS"),
      anonymousReportsDays: reader.get("MUSIC_RETENTION_REPORTS_ANONYMOUS_DAYS"),
      webhooksDays: reader.get("MUSIC_RETENTION_WEBHOOKS_DAYS"),
      deliveriesDays: reader.get("MUSIC_RETENTION_DELIVERIES_DAYS"),
      recipientsDays: reader.get("MUSIC_RETENTION_RECIPIENTS_DAYS")
    },
    logLevel: reader.get("MUSIC_LOG_LEVEL"),
    logClientAddress: reader.get("MUSIC_LOG_CLIENT_ADDRESS"),
    logFormat: terminal && !reader.isSet("MUSIC_LOG_FORMAT") ? "pretty" : reader.get("MUSIC_LOG_FORMAT")
  }
  // Its form alone is checked here: the SDK of OpenTelemetry reads it.
  reader.get("OTEL_EXPORTER_OTLP_ENDPOINT")
  return { settings, problems: reader.problems }
}

/** The environment of this process, for commands that show settings or read some of them. */
export const processEnvironment: Effect.Effect<Environment> = Effect.sync(() => process.env)

/** Settings of this process; it fails with all problems at once. */
export const SettingsFromEnvironment: Layer.Layer<Settings, SettingsInvalid> = Layer.effect(
  Settings,
  Effect.suspend(() => {
    const { problems, settings } = readSettings(process.env, process.stdout.isTTY)
    return problems.length === 0 ? Effect.succeed(settings) : Effect.fail(new SettingsInvalid({ problems }))
  })
)
