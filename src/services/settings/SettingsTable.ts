/**
 * Every setting: its variable, form, default and meaning. The type of the settings, `music-backend config` and `check`, .env.example
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
import * as Form from "./Form.ts"

export interface SettingEntry {
  /** The variable. */
  readonly name: string
  /** A phrase, and perhaps further sentences, the last one without its full stop. Backticks mark literals. */
  readonly meaning: string
  /** Shown as set or unset, never by its value; it may be in a file. */
  readonly secret: boolean
  /** The text that an absent one counts as; none when it is then off. */
  readonly default?: string
  readonly required?: true
}

export interface Setting<A> extends SettingEntry {
  readonly parse: Form.Form<A>
  /** The value of an absent one. For a required one, a placeholder of the right form, which nothing may use. */
  readonly absent: A
}

type Meaning = Pick<SettingEntry, "meaning">

const setting = <A>(
  name: string,
  parse: Form.Form<A>,
  absent: A,
  more: Omit<SettingEntry, "name" | "secret">
): Setting<A> => ({ name, parse, absent, secret: parse.secret === true, ...more })

const required = <A>(name: string, form: Form.Form<A>, absent: A, more: Meaning) =>
  setting(name, form, absent, { ...more, required: true })

const optional = <A>(name: string, form: Form.Form<A>, more: Meaning) =>
  setting(name, Form.optional(form), Option.none(), more)

const withDefault = <A>(name: string, form: Form.Form<A>, text: string, more: Meaning) => {
  // A default that its own form refuses is a mistake in this table: it ends the process when the table is loaded.
  const absent = Either.getOrThrowWith(form(text), (problem) => new Error(`the default ${text} ${problem}`))
  return setting(name, form, absent, text === "" ? more : { ...more, default: text })
}

/** No host answers to it (RFC 2606). */
const nowhere = "https://unset.invalid"
const unset = (length: number, prefix = "") => Redacted.make(`${prefix}${"0".repeat(length)}`)

const applicationSecret = Form.redacted(
  testingSecretPattern,
  "must be ask_ and 43 characters of A-Z, a-z, 0-9, _ and -"
)
const webhookSecret = Form.redacted(/^[\x21-\x7e]{32,512}$/, "must be 32 to 512 visible ASCII characters")
const keyVersion = Form.whole(1, 999_999_999)
const applicationId = Form.matching(
  /^[a-z][a-z0-9_-]{0,79}$/,
  "must be an application id (a-z first, then a-z, 0-9, _ and -)"
)
const organisation = Form.matching(
  /^[a-z0-9_-]{3,50}$/,
  "must be the handle of an organisation (3 to 50 of a-z, 0-9, _ and -)"
)
const tingType = Form.matching(
  /^(?=.{1,255}$)[a-z][a-z0-9_-]{0,79}\.[a-z][a-z0-9_-]*\.[a-z][a-z0-9_-]*$/,
  "must list types such as music.trigger.fired"
)
// An address holds a password, which the name of a file does not hide.
const databaseFile = Form.matching(
  /^(?!.*:\/\/)/s,
  "must name a file; an address of Postgres is for MUSIC_DATABASE_URL"
)
const version = Form.matching(clientVersionPattern, "must be a version such as 0.1.0")
const token = Form.redacted(/^[\x21-\x7e]{1,1000}$/, "must be visible ASCII without spaces")

const tableKey = (name: string, table: TableName) => {
  const key = Form.redacted(
    new RegExp(`^table-${table}-[0-9a-f]{32}$`),
    `must be the key of the table ${table} (table-${table}-<32 hex>)`
  )
  return optional(name, key, { meaning: `key of the table ${table}, which is off without it` })
}

/** In the order of .env.example. */
export const settingsTable = {
  iam: {
    url: required("MUSIC_IAM_URL", Form.serviceUrl, nowhere, { meaning: "identity service (IAM)" }),
    applicationSecret: required("MUSIC_IAM_APP_SECRET", applicationSecret, unset(43, "ask_"), {
      meaning: "this application's secret at IAM"
    }),
    webhookSecret: required("MUSIC_IAM_WEBHOOK_SECRET", webhookSecret, unset(32), {
      meaning: "secret that signs IAM's webhooks"
    }),
    webhookKeyVersion: withDefault("MUSIC_IAM_WEBHOOK_KEY_VERSION", keyVersion, "1", {
      meaning: "key version of the webhook secret. IAM sends it with each webhook"
    }),
    previousWebhookSecret: optional("MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET", webhookSecret, {
      meaning: "previous webhook secret, accepted while rotating"
    }),
    previousWebhookKeyVersion: optional("MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION", keyVersion, {
      meaning: "key version of the previous webhook secret"
    }),
    applicationId: withDefault("MUSIC_IAM_APP_ID", applicationId, "music", {
      meaning: "application id at IAM"
    }),
    callsPerMinute: withDefault("MUSIC_IAM_CALLS_PER_MINUTE", Form.whole(10, 10_000), "110", {
      meaning:
        "calls a minute to each path of IAM, in each plane, that this instance makes at most. From 10 to 10,000. IAM allows 120 to all instances together: give each of three 36"
    }),
    introspectionCacheSeconds: withDefault("MUSIC_INTROSPECTION_CACHE_SECONDS", Form.whole(0, 30), "0", {
      meaning:
        "seconds for which a successful introspection of a token is reused. At most 30, for more clients than the budget serves. 0 shows a revocation at once"
    })
  },
  organisation: withDefault("MUSIC_ORG_ID", organisation, "music", {
    meaning: "organisation that owns the application"
  }),
  ting: {
    url: required("MUSIC_TING_URL", Form.serviceUrl, nowhere, { meaning: "notification service (Ting)" }),
    types: withDefault("MUSIC_TING_TYPES", Form.list(tingType), "music.trigger.fired,music.trigger.expired", {
      meaning: "notification types registered for this application, comma-separated"
    })
  },
  bind: withDefault("MUSIC_BIND", Form.address, "127.0.0.1:8787", {
    meaning: "listen address, host:port. `[::1]:8787` for IPv6"
  }),
  webOrigins: withDefault("MUSIC_WEB_ORIGINS", Form.list(Form.webOrigin), "", {
    meaning: "origins of the web client, comma-separated. They get CORS headers and may send telemetry"
  }),
  minCli: withDefault("MUSIC_MIN_CLI", version, "0.1.0", {
    meaning:
      "oldest client version that GET /api/v1/version calls supported. A client that sends a lower `X-Music-Client-Version` gets it in `X-Music-Min-Cli`"
  }),
  rateLimit: withDefault("MUSIC_RATE_LIMIT", Form.onOff, "on", {
    meaning: "request limits, on or off. Turn them off behind a gateway that limits already"
  }),
  trustedProxies: withDefault("MUSIC_TRUSTED_PROXIES", Form.list(Form.proxy), "", {
    meaning: "addresses or CIDRs of proxies whose X-Forwarded-For is believed, comma-separated"
  }),
  requestDeadlineSeconds: withDefault("MUSIC_REQUEST_DEADLINE_SECONDS", Form.whole(1, 300), "25", {
    meaning: "seconds for one request, retries included"
  }),
  shutdownGraceSeconds: withDefault("MUSIC_SHUTDOWN_GRACE_SECONDS", Form.whole(1, 600), "30", {
    meaning:
      "seconds for requests in flight at shutdown, at least the deadline + 2. Requests get all but the last 1.5 s"
  }),
  databasePath: withDefault("MUSIC_DATABASE_PATH", databaseFile, "data/music.sqlite", {
    meaning: "SQLite file. Its folder is made when missing"
  }),
  databaseUrl: optional("MUSIC_DATABASE_URL", Form.postgresUrl, {
    meaning:
      "Postgres instead of the file. `postgres://user:password@host:port/database`, version 14 or newer. Several instances need it"
  }),
  telemetry: {
    enabled: withDefault("MUSIC_TELEMETRY", Form.onOff, "on", {
      meaning: "recording of telemetry, on or off"
    }),
    spoolBytes: withDefault("MUSIC_TELEMETRY_SPOOL_MEGABYTES", Form.megabytes, "500", {
      meaning: "bound of the telemetry spool in megabytes"
    })
  },
  tables: {
    url: optional("MUSIC_TABLES_URL", Form.serviceUrl, {
      meaning: "table service, required when a table key is set"
    }),
    keys: {
      musicclidaemon: tableKey("MUSIC_CLIDAEMON_TABLE_KEY", "musicclidaemon"),
      musicfrontendanalytics: tableKey("MUSIC_FRONTEND_ANALYTICS_TABLE_KEY", "musicfrontendanalytics"),
      musicfrontendevents: tableKey("MUSIC_FRONTEND_EVENTS_TABLE_KEY", "musicfrontendevents")
    }
  },
  tracker: {
    token: optional("MUSIC_GITHUB_TOKEN", token, {
      meaning: 'token with which reports are filed as issues. It needs the right "Issues: read and write"'
    }),
    repository: optional("MUSIC_GITHUB_REPOSITORY", Form.repository, {
      meaning: "repository of the issues, owner/repo; required with a token"
    }),
    url: withDefault("MUSIC_GITHUB_URL", Form.serviceUrl, "https://api.github.com", {
      meaning: "API of the issue tracker"
    })
  },
  reportsBytes: withDefault("MUSIC_REPORTS_MEGABYTES", Form.megabytes, "1000", {
    meaning:
      "bound of all stored reports in megabytes. From 80 % of it on only signed-in reporters who have none stored may store one"
  }),
  anonymousReports: withDefault("MUSIC_REPORTS_ANONYMOUS", Form.onOff, "on", {
    meaning:
      "reports of callers whom IAM does not vouch for, on or off. Off refuses new ones; those that are stored stay"
  }),
  retention: {
    reportsDays: withDefault("MUSIC_RETENTION_REPORTS_DAYS", Form.retentionDays, "0", {
      meaning: "days for which reports are kept, 0 for ever; one whose delivery waits stays until it is over"
    }),
    anonymousReportsDays: withDefault("MUSIC_RETENTION_REPORTS_ANONYMOUS_DAYS", Form.retentionDays, "0", {
      meaning: "a shorter time for reports that IAM does not vouch for, 0 for none"
    })
  },
  adminBind: optional("MUSIC_ADMIN_BIND", Form.address, {
    meaning:
      "address of Prometheus' /metrics, host:port; off without it. Not authenticated: keep it on loopback or a private network"
  }),
  logLevel: withDefault("MUSIC_LOG_LEVEL", Form.logLevel, "info", {
    meaning: "log level: trace, debug, info, warn, error or none"
  }),
  logClientAddress: withDefault("MUSIC_LOG_CLIENT_ADDRESS", Form.onOff, "off", {
    meaning:
      "the client's address in the log, on or off. The address that the limits count; of IPv6 its /64 network"
  })
}

type Decoded<T> = { readonly [K in keyof T]: T[K] extends Setting<infer A> ? A : Decoded<T[K]> }

/** The value of each setting, in the shape of the table. */
export type SettingValues = Decoded<typeof settingsTable>

/** The variable that opens a table. */
export const tableKeyName = (table: TableName): string => settingsTable.tables.keys[table].name

export const isSetting = (node: object): node is Setting<unknown> => "parse" in node

const entriesOf = (node: object): ReadonlyArray<SettingEntry> =>
  Object.values<object>({ ...node }).flatMap((one) => (isSetting(one) ? [one] : entriesOf(one)))

export const settingEntries: ReadonlyArray<SettingEntry> = entriesOf(settingsTable)
