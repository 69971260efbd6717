/**
 * Every setting: its variable, parser, default and meaning. The type of the settings, `music-backend config` and `check`, .env.example
 * and the table of docs/settings.md follow from this table; after a change of it, `npm run settings` writes the two documents.
 *
 * Effect's `Config` is not used: it yields either all values or the problems, and `config` and `check` need both. It also carries no
 * meaning, and a `Config.mapOrFail` over several variables hides its own problem while one of them is bad.
 */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { clientVersionPattern, testingSecretPattern } from "../../schema/Patterns.ts"
import type { TableName } from "../../schema/Telemetry.ts"
import {
  address,
  list,
  logLevel,
  matching,
  megabytes,
  onOff,
  type Parse,
  postgresUrl,
  proxy,
  redacted,
  repository,
  retentionDays,
  serviceUrl,
  webOrigin,
  whole
} from "./Parsers.ts"

/** As the documents and `music-backend config` show it. */
interface Description {
  /** A phrase, and perhaps further sentences, the last one without its full stop. Backticks mark literals. */
  readonly meaning: string
  /** Shown as set or unset, never by its value; it may be in a file. */
  readonly secret?: true
}

export interface SettingEntry extends Description {
  /** The variable. */
  readonly name: string
  /** The text that an absent one counts as; none when it is then off. */
  readonly default?: string
  readonly required?: true
}

export interface Setting<A> extends SettingEntry {
  readonly parse: Parse<A>
  /** The value of an absent one. For a required one, a placeholder of the right form, which nothing may use. */
  readonly absent: A
}

const required = <A>(name: string, parse: Parse<A>, absent: A, more: Description): Setting<A> => ({
  ...{ name, parse, absent, required: true },
  ...more
})

const optional = <A>(name: string, parse: Parse<A>, more: Description): Setting<Option.Option<A>> => ({
  ...{ name, parse: (raw) => Either.map(parse(raw), Option.some), absent: Option.none() },
  ...more
})

const withDefault = <A>(name: string, parse: Parse<A>, text: string, more: Description): Setting<A> => ({
  ...{ name, parse, ...(text === "" ? {} : { default: text }) },
  // A default that its own parser refuses is a mistake in this table: it ends the process when the table is loaded.
  absent: Either.getOrThrowWith(parse(text), (problem) => new Error(`the default ${text} ${problem}`)),
  ...more
})

/** No host answers to it (RFC 2606). */
const nowhere = "https://unset.invalid"
const unset = (length: number, prefix = "") => Redacted.make(`${prefix}${"0".repeat(length)}`)

const applicationSecret = redacted(
  testingSecretPattern,
  "must be ask_ and 43 characters of A-Z, a-z, 0-9, _ and -"
)
const webhookSecret = redacted(/^[\x21-\x7e]{32,512}$/, "must be 32 to 512 visible ASCII characters")
const keyVersion = whole(1, 999_999_999)
const applicationId = matching(
  /^[a-z][a-z0-9_-]{0,79}$/,
  "must be an application id (a-z first, then a-z, 0-9, _ and -)"
)
const organisation = matching(
  /^[a-z0-9_-]{3,50}$/,
  "must be the handle of an organisation (3 to 50 of a-z, 0-9, _ and -)"
)
const tingType = matching(
  /^(?=.{1,255}$)[a-z][a-z0-9_-]{0,79}\.[a-z][a-z0-9_-]*\.[a-z][a-z0-9_-]*$/,
  "must list types such as music.trigger.fired"
)
// An address holds a password, which the name of a file does not hide.
const databaseFile = matching(
  /^(?!.*:\/\/)/s,
  "must name a file; an address of Postgres is for MUSIC_DATABASE_URL"
)
const version = matching(clientVersionPattern, "must be a version such as 0.1.0")
const token = redacted(/^[\x21-\x7e]{1,1000}$/, "must be visible ASCII without spaces")

const tableKey = (name: string, table: TableName) => {
  const key = redacted(
    new RegExp(`^table-${table}-[0-9a-f]{32}$`),
    `must be the key of the table ${table} (table-${table}-<32 hex>)`
  )
  return optional(name, key, {
    meaning: `key of the table ${table}, which is off without it`,
    secret: true
  })
}

/** In the order of .env.example. */
export const settingsTable = {
  iam: {
    url: required("MUSIC_IAM_URL", serviceUrl, nowhere, { meaning: "identity service (IAM)" }),
    applicationSecret: required("MUSIC_IAM_APP_SECRET", applicationSecret, unset(43, "ask_"), {
      meaning: "this application's secret at IAM",
      secret: true
    }),
    webhookSecret: required("MUSIC_IAM_WEBHOOK_SECRET", webhookSecret, unset(32), {
      meaning: "secret that signs IAM's webhooks",
      secret: true
    }),
    webhookKeyVersion: withDefault("MUSIC_IAM_WEBHOOK_KEY_VERSION", keyVersion, "1", {
      meaning: "key version of the webhook secret. IAM sends it with each webhook"
    }),
    previousWebhookSecret: optional("MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET", webhookSecret, {
      meaning: "previous webhook secret, accepted while rotating",
      secret: true
    }),
    previousWebhookKeyVersion: optional("MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION", keyVersion, {
      meaning: "key version of the previous webhook secret"
    }),
    applicationId: withDefault("MUSIC_IAM_APP_ID", applicationId, "music", {
      meaning: "application id at IAM"
    }),
    callsPerMinute: withDefault("MUSIC_IAM_CALLS_PER_MINUTE", whole(10, 10_000), "110", {
      meaning:
        "calls a minute to each path of IAM, in each plane, that this instance makes at most. From 10 to 10,000. IAM allows 120 to all instances together: give each of three 36"
    }),
    introspectionCacheSeconds: withDefault("MUSIC_INTROSPECTION_CACHE_SECONDS", whole(0, 30), "0", {
      meaning:
        "seconds for which a successful introspection of a token is reused. At most 30, for more clients than the budget serves. 0 shows a revocation at once"
    })
  },
  organisation: withDefault("MUSIC_ORG_ID", organisation, "music", {
    meaning: "organisation that owns the application"
  }),
  ting: {
    url: required("MUSIC_TING_URL", serviceUrl, nowhere, { meaning: "notification service (Ting)" }),
    types: withDefault("MUSIC_TING_TYPES", list(tingType), "music.trigger.fired,music.trigger.expired", {
      meaning: "notification types registered for this application, comma-separated"
    })
  },
  bind: withDefault("MUSIC_BIND", address, "127.0.0.1:8787", {
    meaning: "listen address, host:port. `[::1]:8787` for IPv6"
  }),
  webOrigins: withDefault("MUSIC_WEB_ORIGINS", list(webOrigin), "", {
    meaning: "origins of the web client, comma-separated. They get CORS headers and may send telemetry"
  }),
  minCli: withDefault("MUSIC_MIN_CLI", version, "0.1.0", {
    meaning:
      "oldest client version that GET /api/v1/version calls supported. A client that sends a lower `X-Music-Client-Version` gets it in `X-Music-Min-Cli`"
  }),
  rateLimit: withDefault("MUSIC_RATE_LIMIT", onOff, "on", {
    meaning: "request limits, on or off. Turn them off behind a gateway that limits already"
  }),
  trustedProxies: withDefault("MUSIC_TRUSTED_PROXIES", list(proxy), "", {
    meaning: "addresses or CIDRs of proxies whose X-Forwarded-For is believed, comma-separated"
  }),
  requestDeadlineSeconds: withDefault("MUSIC_REQUEST_DEADLINE_SECONDS", whole(1, 300), "25", {
    meaning: "seconds for one request, retries included"
  }),
  shutdownGraceSeconds: withDefault("MUSIC_SHUTDOWN_GRACE_SECONDS", whole(1, 600), "30", {
    meaning:
      "seconds for requests in flight at shutdown, at least the deadline + 2. Requests get all but the last 1.5 s"
  }),
  databasePath: withDefault("MUSIC_DATABASE_PATH", databaseFile, "data/music.sqlite", {
    meaning: "SQLite file. Its folder is made when missing"
  }),
  databaseUrl: optional("MUSIC_DATABASE_URL", postgresUrl, {
    meaning:
      "Postgres instead of the file. `postgres://user:password@host:port/database`, version 14 or newer. Several instances need it",
    secret: true
  }),
  databaseConnections: withDefault("MUSIC_DATABASE_CONNECTIONS", whole(1, 200), "10", {
    meaning: "connections of one instance to Postgres. One more is open while it migrates"
  }),
  telemetry: {
    enabled: withDefault("MUSIC_TELEMETRY", onOff, "on", {
      meaning: "recording of telemetry, on or off"
    }),
    spoolBytes: withDefault("MUSIC_TELEMETRY_SPOOL_MEGABYTES", megabytes, "500", {
      meaning: "bound of the telemetry spool in megabytes"
    })
  },
  tablesUrl: optional("MUSIC_TABLES_URL", serviceUrl, {
    meaning: "table service, required when a table key is set"
  }),
  tableKeys: {
    musicclidaemon: tableKey("MUSIC_CLIDAEMON_TABLE_KEY", "musicclidaemon"),
    musicfrontendanalytics: tableKey("MUSIC_FRONTEND_ANALYTICS_TABLE_KEY", "musicfrontendanalytics"),
    musicfrontendevents: tableKey("MUSIC_FRONTEND_EVENTS_TABLE_KEY", "musicfrontendevents")
  },
  trackerToken: optional("MUSIC_GITHUB_TOKEN", token, {
    meaning: 'token with which reports are filed as issues. It needs the right "Issues: read and write"',
    secret: true
  }),
  trackerRepository: optional("MUSIC_GITHUB_REPOSITORY", repository, {
    meaning: "repository of the issues, owner/repo; required with a token"
  }),
  trackerUrl: withDefault("MUSIC_GITHUB_URL", serviceUrl, "https://api.github.com", {
    meaning: "API of the issue tracker"
  }),
  reportsBytes: withDefault("MUSIC_REPORTS_MEGABYTES", megabytes, "1000", {
    meaning:
      "bound of all stored reports in megabytes. From 80 % of it on only signed-in reporters who have none stored may store one"
  }),
  anonymousReports: withDefault("MUSIC_REPORTS_ANONYMOUS", onOff, "on", {
    meaning:
      "reports of callers whom IAM does not vouch for, on or off. Off refuses new ones; those that are stored stay"
  }),
  retention: {
    reportsDays: withDefault("MUSIC_RETENTION_REPORTS_DAYS", retentionDays, "0", {
      meaning: "days for which reports are kept after their delivery, 0 for ever"
    }),
    anonymousReportsDays: withDefault("MUSIC_RETENTION_REPORTS_ANONYMOUS_DAYS", retentionDays, "0", {
      meaning: "the same for reports that IAM does not vouch for"
    })
  },
  adminBind: optional("MUSIC_ADMIN_BIND", address, {
    meaning:
      "address of Prometheus' /metrics, host:port; off without it. Not authenticated: keep it on loopback or a private network"
  }),
  logLevel: withDefault("MUSIC_LOG_LEVEL", logLevel, "info", {
    meaning: "log level: trace, debug, info, warn, error or none"
  }),
  logClientAddress: withDefault("MUSIC_LOG_CLIENT_ADDRESS", onOff, "off", {
    meaning:
      "the client's address in the log, on or off. The address that the limits count; of IPv6 its /64 network"
  })
}

type Decoded<T> = { readonly [K in keyof T]: T[K] extends Setting<infer A> ? A : Decoded<T[K]> }

/** The value of each setting, in the shape of the table. */
export type SettingValues = Decoded<typeof settingsTable>

/** The variable that opens a table. */
export const tableKeyName = (table: TableName): string => settingsTable.tableKeys[table].name

export const isSetting = (node: object): node is Setting<unknown> => "parse" in node

const entriesOf = (node: object): ReadonlyArray<SettingEntry> =>
  Object.values<object>({ ...node }).flatMap((one) => (isSetting(one) ? [one] : entriesOf(one)))

export const settingEntries: ReadonlyArray<SettingEntry> = entriesOf(settingsTable)
