/**
 * Settings from environment variables. One bad or missing variable never hides the others: every problem is listed,
 * one line each, and no line holds a value. Names, defaults and meanings stand in docs/api.md, "Settings".
 */
import * as Config from "effect/Config"
import * as ConfigError from "effect/ConfigError"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import { testingSecretPattern } from "../../schema/Identity.ts"
import { backendTable, type TableName } from "../../schema/Telemetry.ts"
import { Settings, type SettingsValues } from "../../services/Settings.ts"
import { openTelemetrySettings } from "./OpenTelemetrySettings.ts"
import {
  address,
  choice,
  fallback,
  field,
  list,
  matching,
  type Parse,
  problem,
  proxy,
  repository,
  rising,
  secret,
  serviceUrl,
  webOrigin,
  whole
} from "./Parsers.ts"

/** One line a problem, each naming its variable. */
export class SettingsInvalid extends Data.TaggedError("SettingsInvalid")<{
  readonly problems: ReadonlyArray<string>
}> {}

const tables: ReadonlyArray<{ readonly variable: string; readonly table: TableName }> = [
  { variable: "MUSIC_BACKEND_TABLE_KEY", table: backendTable },
  { variable: "MUSIC_CLIDAEMON_TABLE_KEY", table: "musicclidaemon" },
  { variable: "MUSIC_FRONTEND_ANALYTICS_TABLE_KEY", table: "musicfrontendanalytics" },
  { variable: "MUSIC_FRONTEND_EVENTS_TABLE_KEY", table: "musicfrontendevents" }
]

const tableKey = ({ variable, table }: (typeof tables)[number]) =>
  Config.option(
    field(
      variable,
      secret(
        new RegExp(`^table-${table}-[0-9a-f]{32}$`),
        `must be the key of the table ${table} (table-${table}-<32 hex>)`
      )
    )
  )

const tablesUrl = Config.option(field("MUSIC_TABLES_URL", serviceUrl))

/** A key that has nowhere to go is a mistake, found at start-up rather than by missing data. */
const tableSettings = Config.all({ url: tablesUrl, keys: Config.all(tables.map(tableKey)) }).pipe(
  Config.mapOrFail(({ url, keys }) => {
    const given = new Map<TableName, Redacted.Redacted>()
    tables.forEach(({ table }, index) => {
      const key = keys[index]
      if (key !== undefined && Option.isSome(key)) given.set(table, key.value)
    })
    return Option.isNone(url) && given.size > 0
      ? problem("MUSIC_TABLES_URL", "is required when a table key is set")
      : Either.right(Option.map(url, (base) => ({ url: base, keys: given })))
  })
)

const trackerSettings = Config.all({
  token: Config.option(
    field("MUSIC_GITHUB_TOKEN", secret(/^[\x21-\x7e]{1,1000}$/, "must be visible ASCII without spaces"))
  ),
  target: Config.option(field("MUSIC_GITHUB_REPOSITORY", repository)),
  url: fallback("MUSIC_GITHUB_URL", serviceUrl, "https://api.github.com"),
  reconcileSeconds: fallback("MUSIC_TRACKER_RECONCILE_SECONDS", rising, [5, 15, 40])
}).pipe(
  Config.mapOrFail(({ token, target, url, reconcileSeconds }) => {
    if (Option.isSome(token) && Option.isNone(target)) {
      return problem("MUSIC_GITHUB_REPOSITORY", "is required when MUSIC_GITHUB_TOKEN is set")
    }
    return Either.right({
      repository: Option.map(target, ({ owner, repository: name }) => ({ owner, name, url })),
      tracker: Option.zipWith(token, target, (given, place) => ({
        token: given,
        ...place,
        url,
        reconcileSeconds
      }))
    })
  })
)

const webhookSecret = secret(/^[\x21-\x7e]{32,512}$/, "must be 32 to 512 visible ASCII characters")
const keyVersion = whole(1, 999_999_999)

const webhookSecrets = Config.all({
  current: field("MUSIC_IAM_WEBHOOK_SECRET", webhookSecret),
  version: fallback("MUSIC_IAM_WEBHOOK_KEY_VERSION", keyVersion, 1),
  previous: Config.option(field("MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET", webhookSecret)),
  previousVersion: Config.option(field("MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION", keyVersion))
}).pipe(
  Config.mapOrFail(({ current, version, previous, previousVersion }) => {
    const secrets = new Map([[version, current]])
    if (Option.isNone(previous) && Option.isNone(previousVersion)) return Either.right(secrets)
    if (Option.isNone(previous)) {
      return problem(
        "MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET",
        "is required with MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION"
      )
    }
    if (Option.isNone(previousVersion)) {
      return problem(
        "MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION",
        "is required with MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET"
      )
    }
    return secrets.has(previousVersion.value)
      ? problem("MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION", "must differ from MUSIC_IAM_WEBHOOK_KEY_VERSION")
      : Either.right(secrets.set(previousVersion.value, previous.value))
  })
)

const timing = Config.all({
  deadline: fallback("MUSIC_REQUEST_DEADLINE_SECONDS", whole(1, 300), 25),
  grace: Config.option(field("MUSIC_SHUTDOWN_GRACE_SECONDS", whole(1, 600)))
}).pipe(
  Config.mapOrFail(({ deadline, grace }) => {
    const seconds = Option.getOrElse(grace, () => Math.max(30, deadline + 2))
    return seconds >= deadline + 2
      ? Either.right({ deadline, grace: seconds })
      : problem("MUSIC_SHUTDOWN_GRACE_SECONDS", "must be at least MUSIC_REQUEST_DEADLINE_SECONDS + 2")
  })
)

const switched = (name: string) =>
  Config.map(fallback(name, choice("on", "off"), "on"), (value) => value === "on")

const logLevels = {
  trace: LogLevel.Trace,
  debug: LogLevel.Debug,
  info: LogLevel.Info,
  warn: LogLevel.Warning,
  error: LogLevel.Error,
  none: LogLevel.None
}
const logLevel = Config.map(
  fallback("MUSIC_LOG_LEVEL", choice("trace", "debug", "info", "warn", "error", "none"), "info"),
  (name) => logLevels[name]
)

const handle = matching(
  /^[a-z0-9_-]{3,50}$/,
  "must be the handle of an organisation (3 to 50 of a-z, 0-9, _ and -)"
)
const tingType = matching(
  /^(?=.{1,255}$)[a-z][a-z0-9_-]{0,79}\.[a-z][a-z0-9_-]*\.[a-z][a-z0-9_-]*$/,
  "must list types such as music.trigger.fired"
)
const longestDays = 36_500
const years = whole(0, longestDays)

/** IAM keeps what it could not deliver for 45 days (identity-service.md 11.6): an event forgotten sooner counts twice. */
const shortestWebhookDays = 46
const webhookDays: Parse<number> = (raw) =>
  Either.mapLeft(
    Either.orElse(whole(0, 0)(raw), () => whole(shortestWebhookDays, longestDays)(raw)),
    () =>
      `must be 0 (for ever) or a whole number from ${shortestWebhookDays} to ${longestDays}: ` +
      "IAM may send an event again for 45 days, and one that is forgotten would count twice"
  )

const settings = (terminal: boolean) =>
  Config.all({
    bind: fallback("MUSIC_BIND", address, { host: "127.0.0.1", port: 8787 }),
    databasePath: fallback("MUSIC_DATABASE_PATH", Either.right, "data/music.sqlite"),
    databaseUrl: Config.option(
      field(
        "MUSIC_DATABASE_URL",
        secret(
          /^postgres(?:ql)?:\/\/[\x21-\x7e]{1,4000}$/,
          "must be an address such as postgres://user:password@host/database"
        )
      )
    ),
    iamUrl: field("MUSIC_IAM_URL", serviceUrl),
    applicationId: fallback(
      "MUSIC_IAM_APP_ID",
      matching(/^[a-z][a-z0-9_-]{0,79}$/, "must be an application id (a-z first, then a-z, 0-9, _ and -)"),
      "music"
    ),
    applicationSecret: field(
      "MUSIC_IAM_APP_SECRET",
      secret(testingSecretPattern, "must be ask_ and 43 characters of A-Z, a-z, 0-9, _ and -")
    ),
    iamTimeout: fallback("MUSIC_IAM_TIMEOUT_SECONDS", whole(1, 120), 8),
    webhookSecrets,
    iamCallsPerMinute: fallback("MUSIC_IAM_CALLS_PER_MINUTE", whole(10, 10_000), 110),
    introspectionCacheSeconds: fallback("MUSIC_INTROSPECTION_CACHE_SECONDS", whole(0, 30), 0),
    organisation: fallback("MUSIC_ORG_ID", handle, "music"),
    tingUrl: field("MUSIC_TING_URL", serviceUrl),
    tingTimeout: fallback("MUSIC_TING_TIMEOUT_SECONDS", whole(1, 120), 15),
    tingTypes: fallback("MUSIC_TING_TYPES", list(tingType), ["music.trigger.fired", "music.trigger.expired"]),
    tables: tableSettings,
    telemetry: switched("MUSIC_TELEMETRY"),
    spoolMegabytes: fallback("MUSIC_TELEMETRY_SPOOL_MEGABYTES", whole(1, 1_000_000), 500),
    spoolHours: fallback("MUSIC_TELEMETRY_SPOOL_HOURS", whole(1, 8_760), 24),
    tracker: trackerSettings,
    reportsMegabytes: fallback("MUSIC_REPORTS_MEGABYTES", whole(1, 1_000_000), 1_000),
    webOrigins: fallback("MUSIC_WEB_ORIGINS", list(webOrigin), []),
    minCli: fallback(
      "MUSIC_MIN_CLI",
      matching(/^\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]+)?$/, "must be a version such as 0.1.0"),
      "0.1.0"
    ),
    rateLimit: switched("MUSIC_RATE_LIMIT"),
    trustedProxies: fallback("MUSIC_TRUSTED_PROXIES", list(proxy), []),
    timing,
    adminBind: Config.option(field("MUSIC_ADMIN_BIND", address)),
    openTelemetry: openTelemetrySettings,
    reportsDays: fallback("MUSIC_RETENTION_REPORTS_DAYS", years, 0),
    webhooksDays: fallback("MUSIC_RETENTION_WEBHOOKS_DAYS", webhookDays, 46),
    deliveriesDays: fallback("MUSIC_RETENTION_DELIVERIES_DAYS", years, 30),
    recipientsDays: fallback("MUSIC_RETENTION_RECIPIENTS_DAYS", years, 90),
    logLevel,
    logFormat: fallback("MUSIC_LOG_FORMAT", choice("json", "pretty"), terminal ? "pretty" : "json")
  }).pipe(
    Config.map(
      (read): SettingsValues => ({
        bind: read.bind,
        databasePath: read.databasePath,
        databaseUrl: read.databaseUrl,
        iam: {
          url: read.iamUrl,
          applicationId: read.applicationId,
          applicationSecret: read.applicationSecret,
          timeoutSeconds: read.iamTimeout,
          webhookSecrets: read.webhookSecrets,
          introspectionCacheSeconds: read.introspectionCacheSeconds,
          callsPerMinute: read.iamCallsPerMinute
        },
        organisation: read.organisation,
        ting: { url: read.tingUrl, timeoutSeconds: read.tingTimeout, types: read.tingTypes },
        tables: read.tables,
        telemetry: {
          enabled: read.telemetry,
          spoolBytes: read.spoolMegabytes * 1_000_000,
          spoolHours: read.spoolHours
        },
        ...read.tracker,
        reportsBytes: read.reportsMegabytes * 1_000_000,
        webOrigins: read.webOrigins,
        minCli: read.minCli,
        rateLimit: read.rateLimit,
        trustedProxies: read.trustedProxies,
        requestDeadlineSeconds: read.timing.deadline,
        shutdownGraceSeconds: read.timing.grace,
        adminBind: read.adminBind,
        openTelemetry: read.openTelemetry,
        retention: {
          reportsDays: read.reportsDays,
          webhooksDays: read.webhooksDays,
          deliveriesDays: read.deliveriesDays,
          recipientsDays: read.recipientsDays
        },
        logLevel: read.logLevel,
        logFormat: read.logFormat
      })
    )
  )

const lines = (error: ConfigError.ConfigError): ReadonlyArray<string> =>
  ConfigError.reduceWithContext<void, ReadonlyArray<string>>(error, undefined, {
    andCase: (_, left, right) => [...left, ...right],
    orCase: (_, left, right) => [...left, ...right],
    invalidDataCase: (_, path, message) => [`${path.join(".")}: ${message}`],
    missingDataCase: (_, path) => [`${path.join(".")}: is required`],
    sourceUnavailableCase: (_, path, message) => [`${path.join(".")}: ${message}`],
    unsupportedCase: (_, path, message) => [`${path.join(".")}: ${message}`]
  })

export type Environment = Readonly<Record<string, string | undefined>>

/** Decodes settings; an empty variable is an absent one. `terminal` chooses the default log format. */
export const readSettings = (
  environment: Environment,
  terminal = false
): Effect.Effect<SettingsValues, SettingsInvalid> => {
  const given = Object.entries(environment).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && entry[1] !== ""
  )
  return ConfigProvider.fromMap(new Map(given))
    .load(settings(terminal))
    .pipe(Effect.mapError((error) => new SettingsInvalid({ problems: [...new Set(lines(error))] })))
}

/** The environment of this process, for whoever shows settings or reads some of them. */
export const processEnvironment: Effect.Effect<Environment> = Effect.sync(() => process.env)

/** Settings of this process. */
export const SettingsFromEnvironment: Layer.Layer<Settings, SettingsInvalid> = Layer.effect(
  Settings,
  Effect.suspend(() => readSettings(process.env, process.stdout.isTTY))
)
