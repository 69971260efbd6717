import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { readSettings } from "../../../src/layers/settings/Settings.ts"

const secret = `ask_${"s".repeat(43)}`
const webhookSecret = "w".repeat(32)
const least = {
  MUSIC_IAM_URL: "https://iam.example",
  MUSIC_TING_URL: "https://ting.example",
  MUSIC_IAM_APP_SECRET: secret,
  MUSIC_IAM_WEBHOOK_SECRET: webhookSecret
}

const problemsOf = (environment: Record<string, string | undefined>) =>
  readSettings(environment).pipe(
    Effect.either,
    Effect.map(Either.match({ onLeft: ({ problems }) => [...problems].sort(), onRight: () => [] }))
  )

describe("Settings", () => {
  it.effect("fill in the documented defaults", () =>
    Effect.gen(function* () {
      const settings = yield* readSettings(least)
      expect(settings).toMatchObject({
        bind: { host: "127.0.0.1", port: 8787 },
        databasePath: "data/music.sqlite",
        organisation: "music",
        iam: { applicationId: "music", timeoutSeconds: 8, introspectionCacheSeconds: 0 },
        ting: { timeoutSeconds: 15, types: ["music.trigger.fired", "music.trigger.expired"] },
        telemetry: { enabled: true, spoolBytes: 500_000_000, spoolHours: 24 },
        reportsBytes: 1_000_000_000,
        webOrigins: [],
        minCli: "0.1.0",
        rateLimit: true,
        trustedProxies: [],
        requestDeadlineSeconds: 25,
        shutdownGraceSeconds: 30,
        retention: { reportsDays: 0, webhooksDays: 46, deliveriesDays: 30 },
        logFormat: "json"
      })
      expect(
        Option.isNone(settings.tracker) && Option.isNone(settings.tables) && Option.isNone(settings.adminBind)
      ).toBe(true)
      expect([...settings.iam.webhookSecrets.keys()]).toEqual([1])
      expect((yield* readSettings(least, true)).logFormat).toBe("pretty")
    })
  )

  it.effect("keep webhooks for ever, or for longer than IAM may send one again", () =>
    Effect.gen(function* () {
      for (const days of ["1", "45"]) {
        const problems = yield* problemsOf({ ...least, MUSIC_RETENTION_WEBHOOKS_DAYS: days })
        expect(problems).toEqual([
          "MUSIC_RETENTION_WEBHOOKS_DAYS: must be 0 (for ever) or a whole number from 46 to 36500: " +
            "IAM may send an event again for 45 days, and one that is forgotten would count twice"
        ])
      }
      for (const days of [0, 46, 400]) {
        const { retention } = yield* readSettings({ ...least, MUSIC_RETENTION_WEBHOOKS_DAYS: String(days) })
        expect(retention.webhooksDays).toBe(days)
      }
    })
  )

  it.effect("list every bad or missing variable at once, without any value", () =>
    Effect.gen(function* () {
      const problems = yield* problemsOf({
        MUSIC_BIND: "nowhere",
        MUSIC_IAM_URL: "http://iam.example",
        MUSIC_TING_URL: "",
        MUSIC_IAM_APP_SECRET: "ask_short-secret-value",
        MUSIC_IAM_WEBHOOK_KEY_VERSION: "0",
        MUSIC_GITHUB_TOKEN: "github_pat_value",
        MUSIC_CLIDAEMON_TABLE_KEY: `table-musicbackend-${"a".repeat(32)}`,
        MUSIC_BACKEND_TABLE_KEY: `table-musicbackend-${"b".repeat(32)}`,
        MUSIC_LOG_LEVEL: "loud",
        MUSIC_SHUTDOWN_GRACE_SECONDS: "10",
        MUSIC_WEB_ORIGINS: "https://a.example,https://b.example/path",
        MUSIC_DATABASE_URL: "mysql://user:hidden@host/db"
      })
      expect(problems.map((line) => line.split(":")[0])).toEqual([
        "MUSIC_BIND",
        "MUSIC_CLIDAEMON_TABLE_KEY",
        "MUSIC_DATABASE_URL",
        "MUSIC_GITHUB_REPOSITORY",
        "MUSIC_IAM_APP_SECRET",
        "MUSIC_IAM_URL",
        "MUSIC_IAM_WEBHOOK_KEY_VERSION",
        "MUSIC_IAM_WEBHOOK_SECRET",
        "MUSIC_LOG_LEVEL",
        "MUSIC_SHUTDOWN_GRACE_SECONDS",
        "MUSIC_TING_URL",
        "MUSIC_WEB_ORIGINS"
      ])
      expect(problems.join("\n")).not.toMatch(/short-secret|github_pat|hidden|aaaa|bbbb/)
    })
  )

  it.effect("demand a table address for a table key, and nothing for none", () =>
    Effect.gen(function* () {
      const key = `table-musicbackend-${"b".repeat(32)}`
      expect(yield* problemsOf({ ...least, MUSIC_BACKEND_TABLE_KEY: key })).toEqual([
        "MUSIC_TABLES_URL: is required when a table key is set"
      ])
      const settings = yield* readSettings({
        ...least,
        MUSIC_BACKEND_TABLE_KEY: key,
        MUSIC_TABLES_URL: "http://127.0.0.1:9"
      })
      const tables = Option.getOrThrow(settings.tables)
      expect([...tables.keys].map(([table, value]) => [table, Redacted.value(value)])).toEqual([
        ["musicbackend", key]
      ])
    })
  )

  it.effect("take both webhook secrets while one replaces the other", () =>
    Effect.gen(function* () {
      const settings = yield* readSettings({
        ...least,
        MUSIC_IAM_WEBHOOK_KEY_VERSION: "2",
        MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET: "p".repeat(40),
        MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION: "1"
      })
      expect(
        [...settings.iam.webhookSecrets].map(([version, value]) => [version, Redacted.value(value)])
      ).toEqual([
        [2, webhookSecret],
        [1, "p".repeat(40)]
      ])
      expect(yield* problemsOf({ ...least, MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET: "p".repeat(40) })).toHaveLength(
        1
      )
      expect(
        yield* problemsOf({
          ...least,
          MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET: "p".repeat(40),
          MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION: "1"
        })
      ).toHaveLength(1)
    })
  )

  it.effect("allow plain http on loopback only, and keep a path prefix", () =>
    Effect.gen(function* () {
      for (const url of [
        "http://localhost:1",
        "http://127.9.9.9:1",
        "http://[::1]:1",
        "https://h.example/x"
      ]) {
        const settings = yield* readSettings({ ...least, MUSIC_IAM_URL: `${url}/` })
        expect(settings.iam.url).toBe(url)
      }
      for (const url of [
        "http://iam.example",
        "https://u:p@h.example",
        "https://h.example?q=1",
        "https://h.example#f",
        "ftp://h",
        "h",
        "https://h.example:0"
      ]) {
        expect(yield* problemsOf({ ...least, MUSIC_IAM_URL: url }), url).toHaveLength(1)
      }
    })
  )

  it.effect("need a tracker repository with a token, and need the grace to outlast the deadline", () =>
    Effect.gen(function* () {
      const settings = yield* readSettings({
        ...least,
        MUSIC_GITHUB_TOKEN: "t",
        MUSIC_GITHUB_REPOSITORY: "harbor/music"
      })
      expect(Option.getOrThrow(settings.tracker)).toMatchObject({
        owner: "harbor",
        repository: "music",
        url: "https://api.github.com",
        reconcileSeconds: [5, 15, 40]
      })
      expect(
        yield* problemsOf({ ...least, MUSIC_GITHUB_TOKEN: "t", MUSIC_GITHUB_REPOSITORY: "harbor/.." })
      ).toHaveLength(1)
      expect(yield* problemsOf({ ...least, MUSIC_TRACKER_RECONCILE_SECONDS: "5,5" })).toHaveLength(1)
      expect(
        (yield* readSettings({ ...least, MUSIC_REQUEST_DEADLINE_SECONDS: "60" })).shutdownGraceSeconds
      ).toBe(62)
      expect(
        yield* problemsOf({
          ...least,
          MUSIC_REQUEST_DEADLINE_SECONDS: "60",
          MUSIC_SHUTDOWN_GRACE_SECONDS: "61"
        })
      ).toHaveLength(1)
    })
  )

  it.effect("print no secret", () =>
    Effect.gen(function* () {
      const settings = yield* readSettings({
        ...least,
        MUSIC_GITHUB_TOKEN: "github_pat_hidden",
        MUSIC_GITHUB_REPOSITORY: "harbor/music"
      })
      expect(JSON.stringify(settings) + String(settings.iam.applicationSecret)).not.toMatch(
        /hidden|sssss|wwwww/
      )
    })
  )
})
