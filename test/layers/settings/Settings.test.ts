import { describe, expect, it } from "@effect/vitest"
import * as fc from "effect/FastCheck"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { type Environment, readSettings } from "../../../src/layers/settings/Settings.ts"
import type { SettingsValues } from "../../../src/services/Settings.ts"
import { testEnvironment, testWebhookSecret } from "../../support/Settings.ts"

const problemsOf = (given: Environment) => readSettings({ ...testEnvironment, ...given }).problems
const badNames = (given: Environment) => problemsOf(given).map(({ name }) => name)

/** Settings of an environment without problems. */
const read = (given: Environment, terminal = false): SettingsValues => {
  const { problems, settings } = readSettings({ ...testEnvironment, ...given }, terminal)
  expect(problems).toEqual([])
  return settings
}

const tableKey = (table: string) => `table-${table}-${"b".repeat(32)}`
const previous = {
  MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET: "p".repeat(40),
  MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION: "1"
}

describe("Settings", () => {
  it("have the documented defaults", () => {
    const settings = read({})
    expect(settings).toMatchObject({
      bind: { host: "127.0.0.1", port: 8787 },
      databasePath: "data/music.sqlite",
      organisation: "music",
      iam: { applicationId: "music", timeoutSeconds: 8, introspectionCacheSeconds: 0, callsPerMinute: 110 },
      ting: { timeoutSeconds: 15, types: ["music.trigger.fired", "music.trigger.expired"] },
      telemetry: { enabled: true, spoolBytes: 500_000_000, spoolHours: 24 },
      reportsBytes: 1_000_000_000,
      anonymousReports: true,
      webOrigins: [],
      minCli: "0.1.0",
      rateLimit: true,
      trustedProxies: [],
      requestDeadlineSeconds: 25,
      shutdownGraceSeconds: 30,
      retention: {
        reportsDays: 0,
        anonymousReportsDays: 0,
        webhooksDays: 46,
        deliveriesDays: 30,
        recipientsDays: 90
      },
      logFormat: "json"
    })
    const { adminBind, databaseUrl, repository, tables, tracker } = settings
    expect([adminBind, databaseUrl, repository, tables, tracker].every(({ _tag }) => _tag === "None")).toBe(
      true
    )
    expect([...settings.iam.webhookSecrets.keys()]).toEqual([1])
    expect([read({}, true).logFormat, read({ MUSIC_LOG_FORMAT: "json" }, true).logFormat]).toEqual([
      "pretty",
      "json"
    ])
  })

  it("report every bad or missing variable at once, in the order of the table and without a value", () => {
    const { problems } = readSettings({
      MUSIC_BIND: "nowhere",
      MUSIC_IAM_URL: "http://iam.example",
      MUSIC_TING_URL: "",
      MUSIC_IAM_APP_SECRET: "ask_short-secret-value",
      MUSIC_IAM_WEBHOOK_KEY_VERSION: "0",
      MUSIC_GITHUB_TOKEN: "github_pat_value",
      MUSIC_CLIDAEMON_TABLE_KEY: tableKey("musicbackend"),
      MUSIC_BACKEND_TABLE_KEY: tableKey("musicbackend"),
      MUSIC_LOG_LEVEL: "loud",
      MUSIC_SHUTDOWN_GRACE_SECONDS: "10",
      MUSIC_WEB_ORIGINS: "https://a.example,https://b.example/path",
      MUSIC_DATABASE_URL: "mysql://user:hidden@host/db"
    })
    expect(problems.map(({ name }) => name)).toEqual([
      "MUSIC_IAM_URL",
      "MUSIC_TING_URL",
      "MUSIC_IAM_APP_SECRET",
      "MUSIC_IAM_WEBHOOK_SECRET",
      "MUSIC_IAM_WEBHOOK_KEY_VERSION",
      "MUSIC_BIND",
      "MUSIC_WEB_ORIGINS",
      "MUSIC_SHUTDOWN_GRACE_SECONDS",
      "MUSIC_DATABASE_URL",
      "MUSIC_TABLES_URL",
      "MUSIC_CLIDAEMON_TABLE_KEY",
      "MUSIC_GITHUB_REPOSITORY",
      "MUSIC_LOG_LEVEL"
    ])
    expect(JSON.stringify(problems)).not.toMatch(/short-secret|github_pat|hidden|bbbb/)
  })

  it("are read as far as they are valid", () => {
    const { problems, settings } = readSettings({ MUSIC_ORG_ID: "harbor", MUSIC_BIND: "nowhere" })
    expect(problems).toContainEqual({ name: "MUSIC_IAM_URL", problem: "is required" })
    expect([settings.organisation, settings.bind.port]).toEqual(["harbor", 8787])
  })

  it("print no secret", () => {
    const settings = read({
      MUSIC_GITHUB_TOKEN: "github_pat_hidden",
      MUSIC_GITHUB_REPOSITORY: "harbor/music"
    })
    const printed = JSON.stringify(settings) + String(settings.iam.applicationSecret)
    expect(printed).not.toMatch(/hidden|A1b2C3d4|example-webhook-secret/)
  })

  it("keep webhooks for ever, or for longer than IAM may send one again", () => {
    const problem =
      "must be 0 (for ever) or a whole number from 46 to 36500: " +
      "IAM may send an event again for 45 days, and one that is forgotten would count twice"
    for (const days of ["1", "45", "36501"])
      expect(problemsOf({ MUSIC_RETENTION_WEBHOOKS_DAYS: days })).toEqual([
        { name: "MUSIC_RETENTION_WEBHOOKS_DAYS", problem }
      ])
    for (const days of [0, 46, 400])
      expect(read({ MUSIC_RETENTION_WEBHOOKS_DAYS: String(days) }).retention.webhooksDays).toBe(days)
  })

  it("require the table service for a table key, and no key for the service", () => {
    const key = tableKey("musicbackend")
    expect(problemsOf({ MUSIC_BACKEND_TABLE_KEY: key })).toEqual([
      { name: "MUSIC_TABLES_URL", problem: "is required when a table key is set" }
    ])
    const url = { MUSIC_TABLES_URL: "http://127.0.0.1:9" }
    const { keys } = Option.getOrThrow(read({ ...url, MUSIC_BACKEND_TABLE_KEY: key }).tables)
    expect([...keys].map(([table, value]) => [table, Redacted.value(value)])).toEqual([["musicbackend", key]])
    expect(Option.getOrThrow(read(url).tables).keys.size).toBe(0)
  })

  it("accept two webhook secrets while one replaces the other, each with its key version", () => {
    const { iam } = read({ MUSIC_IAM_WEBHOOK_KEY_VERSION: "2", ...previous })
    expect([...iam.webhookSecrets].map(([version, value]) => [version, Redacted.value(value)])).toEqual([
      [2, testWebhookSecret],
      [1, previous.MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET]
    ])
    expect(problemsOf(previous)).toEqual([
      {
        name: "MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION",
        problem: "must differ from MUSIC_IAM_WEBHOOK_KEY_VERSION"
      }
    ])
    expect(problemsOf({ ...previous, MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET: "" })).toEqual([
      {
        name: "MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET",
        problem: "is required with MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION"
      }
    ])
    expect(problemsOf({ ...previous, MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION: "" })).toEqual([
      {
        name: "MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION",
        problem: "is required with MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET"
      }
    ])
  })

  it("require a repository for a tracker token, and keep the repository without a token", () => {
    const target = { MUSIC_GITHUB_REPOSITORY: "harbor/music" }
    expect(Option.getOrThrow(read({ ...target, MUSIC_GITHUB_TOKEN: "t" }).tracker)).toMatchObject({
      owner: "harbor",
      repository: "music",
      url: "https://api.github.com",
      reconcileSeconds: [5, 15, 40]
    })
    expect(badNames({ MUSIC_GITHUB_TOKEN: "t" })).toEqual(["MUSIC_GITHUB_REPOSITORY"])
    const { repository, tracker } = read(target)
    expect(Option.getOrThrow(repository).name).toBe("music")
    expect(Option.isNone(tracker)).toBe(true)
  })

  it("give requests in flight at least 2 seconds more than the deadline", () => {
    expect(read({ MUSIC_REQUEST_DEADLINE_SECONDS: "60" }).shutdownGraceSeconds).toBe(62)
    const deadline = { MUSIC_REQUEST_DEADLINE_SECONDS: "60" }
    expect(badNames({ ...deadline, MUSIC_SHUTDOWN_GRACE_SECONDS: "61" })).toEqual([
      "MUSIC_SHUTDOWN_GRACE_SECONDS"
    ])
    expect(read({ ...deadline, MUSIC_SHUTDOWN_GRACE_SECONDS: "62" }).shutdownGraceSeconds).toBe(62)
  })
})

describe("An outbound proxy", () => {
  const proxyOf = (given: Environment) => {
    const { except, http, https } = read(given).outboundProxy
    return [http, https]
      .map((proxy) => Option.getOrUndefined(Option.map(proxy, Redacted.value)))
      .concat(except)
  }

  it("is read from the standard variables, first from those in lower case", () => {
    expect(proxyOf({})).toEqual([undefined, undefined])
    expect(
      proxyOf({
        HTTP_PROXY: "proxy.example:3128",
        HTTPS_PROXY: "http://not.used",
        https_proxy: "http://user:p%40ss@proxy.example:3128",
        NO_PROXY: "a.example, 10.0.0.0/8"
      })
    ).toEqual([
      "http://proxy.example:3128/",
      "http://user:p%40ss@proxy.example:3128/",
      "a.example",
      "10.0.0.0/8"
    ])
  })

  it.each(["socks5://proxy.example", "http://proxy.example/path", "http://", "http://u:%ff@proxy.example"])(
    "may not be %s",
    (address) => {
      expect(badNames({ HTTPS_PROXY: address })).toEqual(["HTTPS_PROXY"])
    }
  )
})

describe("NO_PROXY", () => {
  it.each(["*", ".a.example", "a.example:443", "10.0.0.1", "[fd00::1]:443", "fd00::/8", "[fd00::]/8"])(
    "may have %s",
    (entry) => {
      expect(badNames({ NO_PROXY: `b.example,${entry}` })).toEqual([])
    }
  )

  it.each(["10.0.0.0/33", "10.0.0.0/", "[fd00::]/129", "10.0/8", "https://a.example", "a.example b.example"])(
    "may not have %s",
    (entry) => {
      expect(badNames({ NO_PROXY: `b.example,${entry}` })).toEqual(["NO_PROXY"])
    }
  )
})

describe("A service's URL", () => {
  const urlOf = (url: string) => read({ MUSIC_IAM_URL: url }).iam.url

  it.each(["http://localhost:1", "http://127.9.9.9:1", "http://[::1]:1", "https://h.example/x"])(
    "may be %s, and loses a trailing slash",
    (url) => {
      expect(urlOf(`${url}/`)).toBe(url)
    }
  )

  it.each([
    "http://iam.example",
    "https://u:p@h.example",
    "https://h.example?q=1",
    "https://h.example?",
    "https://h.example#f",
    "ftp://h",
    "h",
    "https://h.example:0"
  ])("may not be %s", (url) => {
    expect(badNames({ MUSIC_IAM_URL: url })).toEqual(["MUSIC_IAM_URL"])
  })
})

describe("The password of the database", () => {
  const password = fc.string({ minLength: 1, unit: fc.constantFrom(...'ab#/?@%:&+!$[]"') })
  const address = (secret: string, rest: string) => `postgres://music:${secret}@${rest}`
  const places = fc.constantFrom(
    "db.example/music",
    "db.example:5432/music?sslmode=require",
    "/music?host=/tmp"
  )

  it("may hold every character, percent-encoded", () => {
    fc.assert(
      fc.property(password, places, (secret, rest) => {
        expect(badNames({ MUSIC_DATABASE_URL: address(encodeURIComponent(secret), rest) })).toEqual([])
      })
    )
  })

  it("is not read as another part of the address", () => {
    fc.assert(
      fc.property(password, places, (secret, rest) => {
        const [problem] = problemsOf({ MUSIC_DATABASE_URL: address(secret, rest) })
        if (/[#/?]/.test(secret))
          expect(problem).toMatchObject({ problem: expect.stringContaining("# as %23") })
        else expect(problem).toBeUndefined()
      })
    )
  })

  it.each(["db/music?application_name=a@b", "/music?host=/tmp&user=a@b", "db:5432/music", "db:5432"])(
    "is not missed in postgres://%s",
    (rest) => {
      expect(badNames({ MUSIC_DATABASE_URL: `postgres://${rest}` })).toEqual([])
    }
  )
})

describe("Bounds", () => {
  const accepted: ReadonlyArray<readonly [name: string, value: string]> = [
    ["MUSIC_IAM_TIMEOUT_SECONDS", "120"],
    ["MUSIC_IAM_CALLS_PER_MINUTE", "10"],
    ["MUSIC_INTROSPECTION_CACHE_SECONDS", "30"],
    ["MUSIC_IAM_WEBHOOK_SECRET", "w".repeat(32)],
    ["MUSIC_IAM_WEBHOOK_SECRET", "w".repeat(512)],
    ["MUSIC_BIND", "[::1]:65535"],
    ["MUSIC_TRUSTED_PROXIES", "10.0.0.0/8, fd00::/128"],
    ["MUSIC_TRACKER_RECONCILE_SECONDS", "1,86400"],
    ["MUSIC_DATABASE_URL", "postgresql://user:password@host/database"],
    ...["trace", "debug", "info", "warn", "error", "none"].map((level) => ["MUSIC_LOG_LEVEL", level] as const)
  ]
  const refused: ReadonlyArray<readonly [name: string, value: string]> = [
    ["MUSIC_IAM_TIMEOUT_SECONDS", "0"],
    ["MUSIC_IAM_TIMEOUT_SECONDS", "121"],
    ["MUSIC_IAM_TIMEOUT_SECONDS", "1.5"],
    ["MUSIC_IAM_CALLS_PER_MINUTE", "9"],
    ["MUSIC_INTROSPECTION_CACHE_SECONDS", "31"],
    ["MUSIC_IAM_WEBHOOK_SECRET", "w".repeat(31)],
    ["MUSIC_IAM_WEBHOOK_SECRET", "w".repeat(513)],
    ["MUSIC_BIND", "::1:8787"],
    ["MUSIC_BIND", "127.0.0.1:65536"],
    ["MUSIC_TRUSTED_PROXIES", "10.0.0.0/33"],
    ["MUSIC_TRUSTED_PROXIES", "proxy.example"],
    ["MUSIC_GITHUB_REPOSITORY", "harbor/.."],
    ["MUSIC_TRACKER_RECONCILE_SECONDS", "5,5"],
    ["MUSIC_TRACKER_RECONCILE_SECONDS", "0,5"],
    ["MUSIC_TRACKER_RECONCILE_SECONDS", ","],
    ["MUSIC_WEB_ORIGINS", "https://a.example/"],
    ["MUSIC_RATE_LIMIT", "true"]
  ]

  it.each(accepted)("%s may be %s", (name, value) => {
    expect(badNames({ [name]: value })).toEqual([])
  })

  it.each(refused)("%s may not be %s", (name, value) => {
    expect(badNames({ [name]: value })).toEqual([name])
  })
})
