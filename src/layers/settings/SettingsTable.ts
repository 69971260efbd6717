/**
 * Every setting: its parser, default and meaning. Reading, `music-backend config` and `check`, .env.example and the table
 * of docs/api.md follow from this table; after a change of it, `npm run settings` writes the two documents.
 *
 * Effect's `Config` is not used: it yields either all values or the problems, and `config` and `check` need both. It also
 * carries no meaning, and a `Config.mapOrFail` over several variables hides its own problem while one of them is bad.
 */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { clientVersionPattern, testingSecretPattern } from "../../schema/Patterns.ts"
import type { TableName } from "../../schema/Telemetry.ts"
import {
  address,
  choice,
  list,
  logLevel,
  matching,
  onOff,
  otlpEndpoint,
  outboundProxy,
  type Parse,
  postgresUrl,
  proxy,
  repository,
  retentionDays,
  risingSeconds,
  secret,
  serviceUrl,
  webhookRetentionDays,
  webOrigin,
  whole,
  withoutProxy
} from "./Parsers.ts"

interface Description {
  /** One phrase, as `music-backend config` shows it. */
  readonly meaning: string
  /** Further sentences of the documents. Backticks mark literals. */
  readonly note?: string
  /** Shown as set or unset, never by its value. */
  readonly secret?: true
}

export interface Setting<A> extends Description {
  readonly parse: Parse<A>
  /** The value of an absent one. For a required one, a placeholder of the right form, which nothing may use. */
  readonly absent: A
  /** The text that an absent one counts as; none when it is then off. */
  readonly default?: string
  readonly required?: true
}

type Extras = Omit<Description, "meaning">

const required = <A>(parse: Parse<A>, placeholder: A, meaning: string, extras?: Extras): Setting<A> => ({
  parse,
  absent: placeholder,
  required: true,
  meaning,
  ...extras
})

const optional = <A>(parse: Parse<A>, meaning: string, extras?: Extras): Setting<Option.Option<A>> => ({
  parse: (raw) => Either.map(parse(raw), Option.some),
  absent: Option.none(),
  meaning,
  ...extras
})

const withDefault = <A>(parse: Parse<A>, text: string, meaning: string, extras?: Extras): Setting<A> => ({
  parse,
  // A default that its own parser refuses is a mistake in this table: it ends the process when the table is loaded.
  absent: Either.getOrThrowWith(parse(text), (problem) => new Error(`the default ${text} ${problem}`)),
  default: text,
  meaning,
  ...extras
})

/** No host answers to it (RFC 2606). */
const nowhere = "https://unset.invalid"
const urlNote = "`https`, or `http` on loopback."
const webhookSecret = secret(/^[\x21-\x7e]{32,512}$/, "must be 32 to 512 visible ASCII characters")
const keyVersion = whole(1, 999_999_999)
const tingType = matching(
  /^(?=.{1,255}$)[a-z][a-z0-9_-]{0,79}\.[a-z][a-z0-9_-]*\.[a-z][a-z0-9_-]*$/,
  "must list types such as music.trigger.fired"
)

const tableKey = (table: TableName) =>
  optional(
    secret(
      new RegExp(`^table-${table}-[0-9a-f]{32}$`),
      `must be the key of the table ${table} (table-${table}-<32 hex>)`
    ),
    `key of the table ${table}, which is off without it`,
    { secret: true }
  )

const requiredSettings = {
  MUSIC_IAM_URL: required(serviceUrl, nowhere, "identity service (IAM)", { note: urlNote }),
  MUSIC_TING_URL: required(serviceUrl, nowhere, "notification service (Ting)", { note: urlNote }),
  MUSIC_IAM_APP_SECRET: required(
    secret(testingSecretPattern, "must be ask_ and 43 characters of A-Z, a-z, 0-9, _ and -"),
    Redacted.make(`ask_${"0".repeat(43)}`),
    "this application's secret at IAM",
    { note: "It has the form `ask_` and 43 characters, and stays on this server.", secret: true }
  ),
  MUSIC_IAM_WEBHOOK_SECRET: required(
    webhookSecret,
    Redacted.make("0".repeat(32)),
    "secret that signs IAM's webhooks",
    { note: "It has 32 to 512 visible ASCII characters.", secret: true }
  )
}

const identity = {
  MUSIC_IAM_APP_ID: withDefault(
    matching(/^[a-z][a-z0-9_-]{0,79}$/, "must be an application id (a-z first, then a-z, 0-9, _ and -)"),
    "music",
    "application id at IAM"
  ),
  MUSIC_ORG_ID: withDefault(
    matching(/^[a-z0-9_-]{3,50}$/, "must be the handle of an organisation (3 to 50 of a-z, 0-9, _ and -)"),
    "music",
    "organisation that owns the application"
  ),
  MUSIC_IAM_WEBHOOK_KEY_VERSION: withDefault(keyVersion, "1", "key version of the webhook secret", {
    note: "IAM sends it with each webhook."
  }),
  MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET: optional(
    webhookSecret,
    "previous webhook secret, accepted while rotating",
    { note: "It needs its key version.", secret: true }
  ),
  MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION: optional(keyVersion, "key version of the previous webhook secret"),
  MUSIC_IAM_TIMEOUT_SECONDS: withDefault(whole(1, 120), "8", "seconds for one call to IAM"),
  MUSIC_IAM_CALLS_PER_MINUTE: withDefault(
    whole(10, 10_000),
    "110",
    "calls a minute to each path of IAM, in each plane, that this instance makes at most",
    { note: "From 10 to 10,000. IAM allows 120 to all instances together: give each of three 36." }
  ),
  MUSIC_INTROSPECTION_CACHE_SECONDS: withDefault(
    whole(0, 30),
    "0",
    "seconds for which a successful introspection of a token is reused",
    { note: "At most 30, for more clients than the budget serves. 0 shows a revocation at once." }
  )
}

const notifications = {
  MUSIC_TING_TYPES: withDefault(
    list(tingType),
    "music.trigger.fired,music.trigger.expired",
    "notification types registered for this application, comma-separated"
  ),
  MUSIC_TING_TIMEOUT_SECONDS: withDefault(whole(1, 120), "15", "seconds for one call to Ting")
}

const serving = {
  MUSIC_BIND: withDefault(address, "127.0.0.1:8787", "listen address, host:port", {
    note: "`[::1]:8787` for IPv6."
  }),
  MUSIC_WEB_ORIGINS: optional(list(webOrigin), "origins of the web client, comma-separated", {
    note: "They get CORS headers and may send telemetry."
  }),
  MUSIC_MIN_CLI: withDefault(
    matching(clientVersionPattern, "must be a version such as 0.1.0"),
    "0.1.0",
    "oldest client version that GET /api/v1/version calls supported",
    { note: "A client that sends a lower `X-Music-Client-Version` gets it in `X-Music-Min-Cli`." }
  ),
  MUSIC_RATE_LIMIT: withDefault(onOff, "on", "request limits, on or off", {
    note: "Turn them off behind a gateway that limits already."
  }),
  MUSIC_TRUSTED_PROXIES: optional(
    list(proxy),
    "addresses or CIDRs of proxies whose X-Forwarded-For is believed, comma-separated"
  ),
  MUSIC_REQUEST_DEADLINE_SECONDS: withDefault(
    whole(1, 300),
    "25",
    "seconds for one request, retries included"
  ),
  MUSIC_SHUTDOWN_GRACE_SECONDS: withDefault(
    whole(1, 600),
    "30",
    "seconds for requests in flight at shutdown, at least the deadline + 2",
    { note: "Requests get all but the last 1.5 s." }
  )
}

const storage = {
  MUSIC_DATABASE_PATH: withDefault<string>(Either.right, "data/music.sqlite", "SQLite file", {
    note: "Its folder is made when missing."
  }),
  MUSIC_DATABASE_URL: optional(postgresUrl, "Postgres instead of the file", {
    note: "`postgres://user:password@host:port/database`, version 14 or newer. Several instances need it.",
    secret: true
  }),
  MUSIC_DATABASE_CONNECTIONS: withDefault(whole(1, 200), "10", "connections of one instance to Postgres", {
    note: "One more is open while it migrates."
  })
}

const telemetry = {
  MUSIC_TELEMETRY: withDefault(onOff, "on", "recording of telemetry, on or off"),
  MUSIC_TABLES_URL: optional(serviceUrl, "table service, required when a table key is set"),
  MUSIC_CLIDAEMON_TABLE_KEY: tableKey("musicclidaemon"),
  MUSIC_FRONTEND_ANALYTICS_TABLE_KEY: tableKey("musicfrontendanalytics"),
  MUSIC_FRONTEND_EVENTS_TABLE_KEY: tableKey("musicfrontendevents"),
  MUSIC_TELEMETRY_SPOOL_MEGABYTES: withDefault(
    whole(1, 1_000_000),
    "500",
    "bound of the telemetry spool in megabytes"
  ),
  MUSIC_TELEMETRY_SPOOL_HOURS: withDefault(
    whole(1, 8_760),
    "24",
    "hours after which undelivered telemetry expires"
  )
}

const tracker = {
  MUSIC_GITHUB_TOKEN: optional(
    secret(/^[\x21-\x7e]{1,1000}$/, "must be visible ASCII without spaces"),
    "token with which reports are filed as issues",
    { note: 'It needs the right "Issues: read and write".', secret: true }
  ),
  MUSIC_GITHUB_REPOSITORY: optional(
    repository,
    "repository of the issues, owner/repo; required with a token"
  ),
  MUSIC_GITHUB_URL: withDefault(serviceUrl, "https://api.github.com", "API of the issue tracker"),
  MUSIC_TRACKER_RECONCILE_SECONDS: withDefault(
    risingSeconds,
    "5,15,40",
    "seconds after a send with unknown outcome at which the tracker is searched for the issue"
  )
}

const reports = {
  MUSIC_REPORTS_MEGABYTES: withDefault(
    whole(1, 1_000_000),
    "1000",
    "bound of all stored reports in megabytes",
    { note: "From 80 % of it on only signed-in reporters who have none stored may store one." }
  ),
  MUSIC_REPORTS_ANONYMOUS: withDefault(
    onOff,
    "on",
    "reports of callers whom IAM does not vouch for, on or off",
    { note: "Off refuses new ones; those that are stored stay." }
  )
}

const retention = {
  MUSIC_RETENTION_REPORTS_DAYS: withDefault(
    retentionDays,
    "0",
    "days for which reports are kept after their delivery, 0 for ever"
  ),
  MUSIC_RETENTION_REPORTS_ANONYMOUS_DAYS: withDefault(
    retentionDays,
    "0",
    "the same for reports that IAM does not vouch for"
  ),
  MUSIC_RETENTION_WEBHOOKS_DAYS: withDefault(
    webhookRetentionDays,
    "46",
    "days for which the webhook inbox is kept, at least 46, or 0 for ever",
    { note: "IAM may send an event again for 45 days." }
  ),
  MUSIC_RETENTION_DELIVERIES_DAYS: withDefault(
    retentionDays,
    "30",
    "days for which finished deliveries are kept, 0 for ever",
    { note: "The delivery of a report that was not filed stays until the report is gone." }
  ),
  MUSIC_RETENTION_RECIPIENTS_DAYS: withDefault(
    retentionDays,
    "90",
    "days for which inactive registrations are kept, 0 for ever"
  )
}

const observability = {
  MUSIC_ADMIN_BIND: optional(address, "address of Prometheus' /metrics, host:port; off without it", {
    note: "Not authenticated: keep it on loopback or a private network."
  }),
  OTEL_EXPORTER_OTLP_ENDPOINT: optional(otlpEndpoint, "collector of traces; none are made without it", {
    note: "OpenTelemetry's other standard variables count too: docs/observability.md."
  })
}

const logs = {
  MUSIC_LOG_LEVEL: withDefault(logLevel, "info", "log level: trace, debug, info, warn, error or none"),
  MUSIC_LOG_FORMAT: withDefault(
    choice("json", "pretty"),
    "json",
    "log format: json, or pretty (the default on a terminal)"
  ),
  MUSIC_LOG_CLIENT_ADDRESS: withDefault(onOff, "off", "the client's address in the log, on or off", {
    note: "The address that the limits count; of IPv6 its /64 network."
  })
}

const httpsProxy = optional(outboundProxy, "proxy for https calls to other systems", { secret: true })
const httpProxy = optional(outboundProxy, "proxy for http calls to other systems", { secret: true })
const noProxy = optional(list(withoutProxy), "hosts that are called without a proxy, comma-separated")

/** Standard variables of many programs; where both forms are set, the one in lower case counts. */
const proxies = {
  https_proxy: httpsProxy,
  HTTPS_PROXY: httpsProxy,
  http_proxy: httpProxy,
  HTTP_PROXY: httpProxy,
  no_proxy: noProxy,
  NO_PROXY: noProxy
}

const table = {
  ...requiredSettings,
  ...identity,
  ...notifications,
  ...serving,
  ...storage,
  ...telemetry,
  ...tracker,
  ...reports,
  ...retention,
  ...observability,
  ...logs,
  ...proxies
}

export type SettingName = keyof typeof table
export type SettingValue<N extends SettingName> = (typeof table)[N] extends Setting<infer A> ? A : never

export const settings: { readonly [N in SettingName]: Setting<SettingValue<N>> } = table

/** The setting that opens each table. */
export const tableKeyNames = {
  musicclidaemon: "MUSIC_CLIDAEMON_TABLE_KEY",
  musicfrontendanalytics: "MUSIC_FRONTEND_ANALYTICS_TABLE_KEY",
  musicfrontendevents: "MUSIC_FRONTEND_EVENTS_TABLE_KEY"
} as const satisfies Readonly<Record<TableName, SettingName>>

export interface SettingEntry extends Description, Pick<Setting<unknown>, "default" | "required"> {
  readonly name: string
  /** Shown by `config` only where it is set, and left out of the documents. */
  readonly rare: boolean
}

/** The table in groups, in the order of .env.example. */
export const settingGroups: ReadonlyArray<{
  readonly title: string
  readonly entries: ReadonlyArray<SettingEntry>
}> = Object.entries<Readonly<Record<string, Setting<unknown>>>>({
  required: requiredSettings,
  identity,
  notifications,
  serving,
  storage,
  telemetry,
  "issue tracker": tracker,
  reports,
  retention,
  observability,
  logs,
  proxies
}).map(([title, group]) => ({
  title,
  entries: Object.entries(group).map(([name, setting]) => ({
    name,
    rare: group === proxies,
    ...setting
  }))
}))

export const settingEntries: ReadonlyArray<SettingEntry> = settingGroups.flatMap(({ entries }) => entries)
