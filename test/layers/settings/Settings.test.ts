import { describe, expect, it } from "@effect/vitest"
import { Option, Redacted } from "effect"
import { type Environment, readSettings, unknownVariables } from "../../../src/layers/settings/Settings.ts"
import type { SettingsValues } from "../../../src/services/Settings.ts"
import { testEnvironment, testWebhookSecret } from "../../world/Settings.ts"

const problemsOf = (given: Environment) => readSettings({ ...testEnvironment, ...given }).problems
const badNames = (given: Environment) => problemsOf(given).map(({ name }) => name)

/** Settings of an environment without problems. */
const read = (given: Environment): SettingsValues => {
  const { problems, settings } = readSettings({ ...testEnvironment, ...given })
  expect(problems).toEqual([])
  return settings
}

const tableKey = (table: string) => `table-${table}-${"b".repeat(32)}`
const previous = {
  MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET: "p".repeat(40),
  MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION: "1"
}

describe("Settings", () => {
  it("of one upstream are one value; two webhook secrets are accepted while one replaces the other", () => {
    const key = tableKey("musicclidaemon")
    const tables = { MUSIC_TABLES_URL: "http://127.0.0.1:9", MUSIC_CLIDAEMON_TABLE_KEY: key }
    const { keys } = Option.getOrThrow(read(tables).tables)
    expect([...keys].map(([table, value]) => [table, Redacted.value(value)])).toEqual([
      ["musicclidaemon", key]
    ])
    const target = { MUSIC_GITHUB_REPOSITORY: "harbor/music" }
    const place = { owner: "harbor", repository: "music", url: "https://api.github.com" }
    const { repository, tracker } = read(target)
    expect([repository, tracker]).toEqual([Option.some(place), Option.none()])
    expect(read({ ...target, MUSIC_GITHUB_TOKEN: "t" }).tracker).toMatchObject({ value: place })
    expect(read({ MUSIC_IAM_URL: "https://h.example/x/" }).iam.url).toBe("https://h.example/x")
    const { iam } = read({ MUSIC_IAM_WEBHOOK_KEY_VERSION: "2", ...previous })
    expect([...iam.webhookSecrets].map(([version, value]) => [version, Redacted.value(value)])).toEqual([
      [2, testWebhookSecret],
      [1, previous.MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET]
    ])
  })

  const times = (deadline: string, grace = "") => ({
    MUSIC_REQUEST_DEADLINE_SECONDS: deadline,
    MUSIC_SHUTDOWN_GRACE_SECONDS: grace
  })
  it.each<readonly [bad: string, given: Environment]>([
    ["MUSIC_TABLES_URL", { MUSIC_CLIDAEMON_TABLE_KEY: tableKey("musicclidaemon") }],
    ["MUSIC_GITHUB_REPOSITORY", { MUSIC_GITHUB_TOKEN: "t" }],
    ["MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION", previous],
    ["MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION", { MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET: "p".repeat(40) }],
    ["MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET", { MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION: "2" }],
    ["MUSIC_SHUTDOWN_GRACE_SECONDS", times("60", "61")],
    ["MUSIC_SHUTDOWN_GRACE_SECONDS", times("29")],
    ["MUSIC_REQUEST_DEADLINE_SECONDS", times("a", "3")],
    ["", times("60", "62")]
  ])("of which %s lacks or contradicts another one: %j", (bad, given) => {
    expect(badNames(given).join()).toBe(bad)
  })

  it("name the place of the bad entry of a list, without its value", () => {
    for (const [name, list] of [
      ["MUSIC_TRUSTED_PROXIES", "10.0.0.0/8, hidden.example, ::1"],
      ["MUSIC_WEB_ORIGINS", "https://a.example,https://hidden.example/"]
    ] as const) {
      const problem = expect.stringMatching(/^(?!.*hidden).*; entry 2 does not fit$/)
      expect(problemsOf({ [name]: list })).toMatchObject([{ problem }])
    }
  })
})

it("The password of the database is percent-encoded, and not read as another part of the address", () => {
  const secret = `ab#/?@%:&+!$[]"'`
  for (const rest of ["db.example/music", "db.example:5432/music?sslmode=require", "/music?host=/tmp"]) {
    const problems = (text: string) => problemsOf({ MUSIC_DATABASE_URL: `postgres://music:${text}@${rest}` })
    expect(problems(encodeURIComponent(secret))).toEqual([])
    expect(problems(secret)).toMatchObject([{ problem: expect.stringContaining("# as %23") }])
  }
})

/** Which values a variable may have, and which not. */
const values: ReadonlyArray<
  readonly [name: string, accepted: ReadonlyArray<string>, refused: ReadonlyArray<string>]
> = [
  ["MUSIC_REQUEST_DEADLINE_SECONDS", ["28"], ["0", "301", "1.5"]],
  ["MUSIC_INTROSPECTION_CACHE_SECONDS", ["30"], ["31"]],
  ["MUSIC_IAM_WEBHOOK_SECRET", ["w".repeat(32), "w".repeat(512)], ["w".repeat(31), "w".repeat(513)]],
  ["MUSIC_BIND", ["[::1]:65535"], ["::1:8787", "127.0.0.1:65536"]],
  ["MUSIC_TRUSTED_PROXIES", ["10.0.0.0/8, fd00::/128"], ["10.0.0.0/33", "::1/1/2", "proxy.example"]],
  ["MUSIC_DATABASE_PATH", ["data/a:b.sqlite", "/var/lib/music.sqlite"], ["postgres://u:p@db/music"]],
  ["MUSIC_GITHUB_REPOSITORY", ["harbor/music", ".github/..x"], ["harbor/..", "./music", "harbor/"]],
  ["MUSIC_WEB_ORIGINS", ["https://a.example"], ["https://a.example/"]],
  [
    "MUSIC_DATABASE_URL",
    [
      "postgresql://u:p@host",
      "postgres://db/music?application_name=a@b",
      "postgres:///music?host=/tmp&user=a@b",
      "postgres://u:p@[2001:db8::1]:5432/music",
      "postgres://u:p@%2Fvar%2Frun%2Fpostgresql:5433/music"
    ],
    ["mysql://user@host/database", "postgres://u:p@/var/run/postgresql@/music"]
  ],
  [
    "MUSIC_IAM_URL",
    ["http://localhost:1", "http://127.9.9.9:1", "http://[::1]:1", "https://h.example/x"],
    [
      "http://iam.example",
      "http://[::12]:1",
      "https://u:p@h.example",
      "https://h.example?",
      "https://h.example#f",
      "h"
    ]
  ],
  ...["https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY"].map(
    (name) =>
      [
        name,
        ["http://u:p@proxy.example:3128", "https://proxy.example"],
        ["proxy.example:3128", "socks5://proxy.example", "http://u:%ff@proxy.example"]
      ] as const
  )
]

it("A setting keeps to its bounds and its form", () => {
  for (const [name, accepted, refused] of values) {
    expect(accepted.filter((value) => badNames({ [name]: value }).length > 0)).toEqual([])
    expect(refused.filter((value) => badNames({ [name]: value }).join() !== name)).toEqual([])
  }
})

it("Variables that look like settings and have no effect are named, those of clients are not", () => {
  const others = { MUSIC_WEB_ORIGIN: "a", MUSIC_MUSIC_URL: "a", MUSIC_BIND_FILE: "a" }
  const known = { MUSIC_BIND: "a", MUSIC_GITHUB_TOKEN_FILE: "a", MUSIC_EMPTY: "", OTHER_BIND: "a" }
  const ofClients = {
    MUSIC_URL: "a",
    MUSIC_PATIENCE: "a",
    MUSIC_TEST_APP_SECRET: "a",
    MUSIC_DAEMON_PORT: "a"
  }
  const found = unknownVariables({ ...others, ...known, ...ofClients })
  expect(found).toEqual(["MUSIC_BIND_FILE", "MUSIC_MUSIC_URL", "MUSIC_WEB_ORIGIN"])
})
