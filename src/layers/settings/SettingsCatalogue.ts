/** Every setting by name: what an operator is told of it. How each is read stands in Settings.ts. */

export interface SettingEntry {
  readonly name: string
  /** What an absent one counts as; none when it then is off, or required. */
  readonly fallback?: string
  readonly required?: true
  /** Shown as set or unset, never by its value. */
  readonly secret?: true
  readonly meaning: string
  /** Shown only where it is set. */
  readonly rare?: true
  /** A value of the right form for when the given one is not: with it the others can still be read. */
  readonly standIn?: string
}

/** No host answers to it (RFC 2606). */
const nowhere = "https://unset.invalid"

/** For both signals, and then for one of them. */
const otlp = (name: string, entry: Omit<SettingEntry, "name">): ReadonlyArray<SettingEntry> => {
  const { fallback: _, ...own } = entry
  return [
    { ...entry, name: `OTEL_EXPORTER_OTLP_${name}` },
    ...["TRACES", "METRICS"].map((signal): SettingEntry => {
      const meaning = `the same for ${signal.toLowerCase()} alone`
      return { ...own, name: `OTEL_EXPORTER_OTLP_${signal}_${name}`, rare: true, meaning }
    })
  ]
}

/** OpenTelemetry's own; none counts without an endpoint (docs/observability.md). */
const openTelemetry: ReadonlyArray<SettingEntry> = [
  ...otlp("ENDPOINT", { meaning: "collector of traces and metrics" }),
  ...otlp("PROTOCOL", { fallback: "http/json", rare: true, meaning: "or http/protobuf" }),
  ...otlp("HEADERS", { secret: true, rare: true, meaning: "name=value,… for the collector" }),
  ...otlp("TIMEOUT", { fallback: "10000", rare: true, meaning: "milliseconds for one export" }),
  ...otlp("COMPRESSION", { fallback: "none", rare: true, meaning: "or gzip" }),
  { name: "OTEL_SDK_DISABLED", fallback: "false", rare: true, meaning: "true turns all of it off" },
  { name: "OTEL_SERVICE_NAME", fallback: "music-backend", rare: true, meaning: "who sends" },
  { name: "OTEL_RESOURCE_ATTRIBUTES", rare: true, meaning: "name=value,… of who sends" },
  { name: "OTEL_TRACES_EXPORTER", fallback: "otlp", rare: true, meaning: "none: no traces" },
  { name: "OTEL_METRICS_EXPORTER", fallback: "otlp", rare: true, meaning: "none: no metrics" },
  {
    name: "OTEL_TRACES_SAMPLER",
    fallback: "parentbased_always_on",
    rare: true,
    meaning: "which traces are kept"
  },
  { name: "OTEL_TRACES_SAMPLER_ARG", rare: true, meaning: "share of the traces kept, 0 to 1" },
  {
    name: "OTEL_METRIC_EXPORT_INTERVAL",
    fallback: "60000",
    rare: true,
    meaning: "milliseconds between two exports"
  }
]

export const settingsCatalogue: ReadonlyArray<SettingEntry> = [
  { name: "MUSIC_IAM_URL", required: true, standIn: nowhere, meaning: "identity service (IAM)" },
  { name: "MUSIC_TING_URL", required: true, standIn: nowhere, meaning: "notification service (Ting)" },
  {
    name: "MUSIC_IAM_APP_SECRET",
    required: true,
    secret: true,
    standIn: `ask_${"0".repeat(43)}`,
    meaning: "this application's secret at IAM"
  },
  {
    name: "MUSIC_IAM_WEBHOOK_SECRET",
    required: true,
    secret: true,
    standIn: "0".repeat(32),
    meaning: "signs IAM's webhooks"
  },

  { name: "MUSIC_IAM_APP_ID", fallback: "music", meaning: "application id at IAM" },
  { name: "MUSIC_ORG_ID", fallback: "music", meaning: "organisation that owns the application" },
  { name: "MUSIC_IAM_WEBHOOK_KEY_VERSION", fallback: "1", meaning: "key version of the webhook secret" },
  {
    name: "MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET",
    secret: true,
    standIn: "0".repeat(32),
    meaning: "webhook secret before, while rotating"
  },
  {
    name: "MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION",
    standIn: "999999999",
    meaning: "key version of the webhook secret before"
  },
  { name: "MUSIC_IAM_TIMEOUT_SECONDS", fallback: "8", meaning: "seconds for one call to IAM" },
  {
    name: "MUSIC_IAM_CALLS_PER_MINUTE",
    fallback: "110",
    meaning: "calls a minute to each path of IAM, in each plane, that this instance makes at most"
  },
  {
    name: "MUSIC_INTROSPECTION_CACHE_SECONDS",
    fallback: "0",
    meaning: "seconds for which a look at a token is reused"
  },

  {
    name: "MUSIC_TING_TYPES",
    fallback: "music.trigger.fired,music.trigger.expired",
    meaning: "types registered for this application"
  },
  { name: "MUSIC_TING_TIMEOUT_SECONDS", fallback: "15", meaning: "seconds for one call to Ting" },

  { name: "MUSIC_BIND", fallback: "127.0.0.1:8787", meaning: "listen address" },
  { name: "MUSIC_WEB_ORIGINS", meaning: "origins of the web client" },
  { name: "MUSIC_MIN_CLI", fallback: "0.1.0", meaning: "oldest supported client version" },
  { name: "MUSIC_RATE_LIMIT", fallback: "on", meaning: "off behind a gateway that limits" },
  { name: "MUSIC_TRUSTED_PROXIES", meaning: "proxies whose X-Forwarded-For is believed" },
  { name: "MUSIC_REQUEST_DEADLINE_SECONDS", fallback: "25", meaning: "seconds for one request" },
  {
    name: "MUSIC_SHUTDOWN_GRACE_SECONDS",
    fallback: "30",
    meaning: "seconds for requests in flight at shutdown"
  },
  { name: "MUSIC_ADMIN_BIND", meaning: "address of the metrics" },

  { name: "MUSIC_DATABASE_PATH", fallback: "data/music.sqlite", meaning: "SQLite file" },
  { name: "MUSIC_DATABASE_URL", secret: true, meaning: "Postgres instead of the file" },

  { name: "MUSIC_TELEMETRY", fallback: "on", meaning: "off: nothing is recorded" },
  { name: "MUSIC_TABLES_URL", standIn: nowhere, meaning: "table service" },
  { name: "MUSIC_BACKEND_TABLE_KEY", secret: true, meaning: "key of the table musicbackend" },
  { name: "MUSIC_CLIDAEMON_TABLE_KEY", secret: true, meaning: "key of the table musicclidaemon" },
  {
    name: "MUSIC_FRONTEND_ANALYTICS_TABLE_KEY",
    secret: true,
    meaning: "key of the table musicfrontendanalytics"
  },
  {
    name: "MUSIC_FRONTEND_EVENTS_TABLE_KEY",
    secret: true,
    meaning: "key of the table musicfrontendevents"
  },
  {
    name: "MUSIC_TELEMETRY_SPOOL_MEGABYTES",
    fallback: "500",
    meaning: "bound of the telemetry spool in megabytes"
  },
  {
    name: "MUSIC_TELEMETRY_SPOOL_HOURS",
    fallback: "24",
    meaning: "hours after which undelivered telemetry expires"
  },

  { name: "MUSIC_GITHUB_TOKEN", secret: true, meaning: "with it reports are filed as issues" },
  { name: "MUSIC_GITHUB_REPOSITORY", standIn: "unset/unset", meaning: "owner/repository of the issues" },
  { name: "MUSIC_GITHUB_URL", fallback: "https://api.github.com", meaning: "API of the issue tracker" },
  {
    name: "MUSIC_TRACKER_RECONCILE_SECONDS",
    fallback: "5,15,40",
    meaning: "looks after a send with unknown outcome"
  },

  {
    name: "MUSIC_REPORTS_MEGABYTES",
    fallback: "1000",
    meaning: "bound of all stored reports in megabytes"
  },
  { name: "MUSIC_RETENTION_REPORTS_DAYS", fallback: "0", meaning: "days; 0 keeps for ever" },
  {
    name: "MUSIC_RETENTION_WEBHOOKS_DAYS",
    fallback: "46",
    meaning: "days, at least 46 as IAM may repeat an event for 45; 0 keeps for ever"
  },
  { name: "MUSIC_RETENTION_DELIVERIES_DAYS", fallback: "30", meaning: "days; 0 keeps for ever" },
  { name: "MUSIC_RETENTION_RECIPIENTS_DAYS", fallback: "90", meaning: "days; 0 keeps for ever" },

  { name: "MUSIC_LOG_LEVEL", fallback: "info", meaning: "trace, debug, info, warn, error or none" },
  { name: "MUSIC_LOG_FORMAT", fallback: "json", meaning: "json, or pretty (the default on a terminal)" },

  ...openTelemetry
]
