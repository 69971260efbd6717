/** The misconfigurations that an operator makes, with the verdict of `check`, its fix and its exit code for each. */
import { existsSync, symlinkSync, writeFileSync } from "node:fs"
import { beforeAll, describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import { Effect, Fiber, type Scope, TestClock } from "effect"
import type { SqlError } from "@effect/sql/SqlError"
import { Anonymous, type StoreUnavailable } from "../../src/services/Store.ts"
import {
  startUpstreams,
  type SimulatedUpstreams,
  upstreamEnvironment
} from "../../sandbox/SimulatedUpstreams.ts"
import { sampleReport } from "../layers/store/Samples.ts"
import { newPath, postgres, withStore } from "../layers/store/Stores.ts"
import { build, freePort } from "../world/Fleet.ts"
import { until } from "../world/Waiting.ts"
import { run, shell, tcpServer } from "./Harness.ts"

const nowhere = "http://127.0.0.1:1"
const appSecret = "ask_S3hB1zKq8LrXe0WvN5tYcJ2mUoPdAfG7iH9jK4lM6nO"
const webhookSecret = "Zq8LrXe0WvN5tYcJ2mUoPdAfS3hB1zKw4GxTy7Ru"
const repository = "harbor/music"

beforeAll(build)

type Changes = Readonly<Record<string, string>>

/** Settings without a finding of their own. Nothing answers at their addresses. */
const soundSettings: Changes = {
  MUSIC_BIND: "127.0.0.1:0",
  MUSIC_IAM_URL: nowhere,
  MUSIC_TING_URL: nowhere,
  MUSIC_IAM_APP_SECRET: appSecret,
  MUSIC_IAM_WEBHOOK_SECRET: webhookSecret,
  MUSIC_TRUSTED_PROXIES: "127.0.0.1"
}

interface Finding {
  readonly name: string
  readonly status: "PASS" | "WARN" | "FAIL" | "SKIP"
  readonly found: string
  readonly fix?: string
}

/** Every secret of an environment, whether it has the right form or not. */
const secretsOf = (environment: Changes): ReadonlyArray<string> => [
  "hidden-word",
  ...Object.entries(environment)
    .filter(([name, value]) => /_(?:SECRET|TOKEN|TABLE_KEY|HEADERS)$/.test(name) && value !== "")
    .map(([, value]) => value)
]

/** Runs `check`; nothing secret may be in its output. */
const check = (environment: Changes, more: ReadonlyArray<string> = []) =>
  Effect.map(run(["check", "--json"], environment), ({ err, exit, json, out }) => {
    const { checks, status } = json as { readonly status: string; readonly checks: ReadonlyArray<Finding> }
    expect(err).toBe("")
    for (const secret of [...more, ...secretsOf(environment)]) expect(out).not.toContain(secret)
    const having = (...statuses: ReadonlyArray<string>) =>
      checks.filter((one) => statuses.includes(one.status))
    return { exit, status, checks, skipped: having("SKIP"), notPassed: having("FAIL", "WARN") }
  })

type Spoiling = Effect.Effect<Changes | undefined, StoreUnavailable | SqlError, Scope.Scope>

/** What makes a working installation wrong: settings, or what may return some. */
type Seed = Changes | ((world: SimulatedUpstreams, environment: Changes) => Changes | Spoiling | undefined)

const checked = (seed: Seed, clock: () => number = Date.now) =>
  Effect.gen(function* () {
    const world = yield* startUpstreams(clock)
    const port = yield* Effect.promise(freePort)
    const working = {
      ...{ MUSIC_BIND: `127.0.0.1:${port}`, MUSIC_TRUSTED_PROXIES: "127.0.0.1" },
      ...{ MUSIC_DATABASE_PATH: yield* newPath, ...upstreamEnvironment(world) }
    }
    const seeded = typeof seed === "function" ? seed(world, working) : seed
    const changes = Effect.isEffect(seeded) ? yield* Effect.orDie(seeded) : seeded
    const found = yield* check({ ...working, ...changes }, world.minted())
    expect(world.minted()).not.toEqual([])
    return { world, ...found }
  })

const pathOf = ({ MUSIC_DATABASE_PATH: path = "" }: Changes) => path

const catalogue = "/api/v1/obo-access/applications/ting/endpoints"

const reply = (to: SimulatedUpstreams["iam"], path: string, status: number, body: unknown) =>
  void to.fail({ method: "GET", path, fault: { kind: "reply", reply: { status, body, headers: {} } } })

/** What a line of `check` says, and how it comes about. */
const finding =
  (status: "FAIL" | "WARN") => (line: string, found: RegExp, seed: Seed, clock?: () => number) => ({
    status,
    line,
    found,
    seed,
    clock
  })
const fails = finding("FAIL")
const warns = finding("WARN")

const misconfigurations = [
  fails(
    "database",
    /is corrupt, or not a database \(SQLITE_NOTADB\)$/,
    (_, environment) => void writeFileSync(pathOf(environment), "hidden-word ".repeat(1_000))
  ),
  warns("reports", /^0\.6 MB of 1 MB: some or all new ones are refused/, (_, environment) =>
    Effect.gen(function* () {
      const content = { message: "x".repeat(600_000), pr: null, attachments: [], context: null }
      const report = sampleReport({ reporter: Anonymous(), network: "a", content })
      yield* withStore(pathOf(environment), ({ reports }) => reports.admit(report, false))
      return { MUSIC_REPORTS_MEGABYTES: "1" }
    })
  ),
  fails("database", /^Postgres database 127\.0\.0\.1:1\/music does not answer/, {
    MUSIC_DATABASE_URL: "postgres://music:hidden-word@127.0.0.1:1/music"
  }),
  warns("database", /older schema .*\(0, needed \d+\)$/, () =>
    Effect.map(postgres.emptyPath, (place) => ({ MUSIC_DATABASE_URL: place }))
  ),
  warns("settings", /^MUSIC_FAVOURITE_COLOUR is not a setting$/, { MUSIC_FAVOURITE_COLOUR: "blue" }),
  fails("iam", /no response from .*ECONNREFUSED/, { MUSIC_IAM_URL: nowhere }),
  fails("ting", /does not answer as Ting/, ({ iam }) => ({ MUSIC_TING_URL: iam.url })),
  fails("tables", /does not answer as the table service/, ({ tracker }) => ({
    MUSIC_TABLES_URL: tracker.url
  })),
  fails("iam secret", /401 invalid_client/, {
    MUSIC_IAM_APP_SECRET: "ask_Zq8LrXe0WvN5tYcJ2mUoPdAfS3hB1zKhiddenword12"
  }),
  fails("clock", /(?:599|600|601) seconds behind/, {}, () => Date.now() + 600_000),
  warns("clock", /(?:9|10|11) seconds ahead/, {}, () => Date.now() - 10_000),
  fails("table musicclidaemon", /rotated/, ({ tables }) => void tables.rotateKey("musicclidaemon")),
  fails(
    "tracker",
    /token is missing, expired or revoked: it answered 401/,
    (world) => void world.tracker.revokeToken(world.trackerToken)
  ),
  fails(
    "tracker",
    /the token may not write issues/,
    (world) => void world.tracker.setRights(world.trackerToken, "read")
  ),
  fails("ting at iam", /does not list tings\.send for ting$/, ({ iam }) =>
    reply(iam, catalogue, 200, { endpoints: [{ endpoint_id: "subscriptions.register" }] })
  ),
  warns("iam secret", /^not verifiable now: answered 500/, ({ iam }) => reply(iam, catalogue, 500, {})),
  fails("tracker", /does not exist, or the token cannot see it/, {
    MUSIC_GITHUB_REPOSITORY: "harbor/nowhere"
  }),
  fails("tracker", /issues are disabled/, ({ tracker }) => void tracker.disableIssues(repository))
]

/** The lines that are skipped before the first start. */
const withoutFile = [
  { name: "database", found: expect.stringContaining("a start creates it, or MUSIC_DATABASE_PATH is wrong") },
  { name: "reports", found: "needs database" },
  { name: "integrity", found: "needs database" }
]

describe("music-backend check", () => {
  it.scopedLive("passes a working installation; stores, files and creates nothing", function* () {
    const { exit, notPassed, skipped, status, world } = yield* checked({})
    expect(notPassed).toEqual([])
    expect(skipped).toMatchObject([...withoutFile, { name: "server" }])
    expect([status, exit]).toEqual(["PASS", 0])
    expect(world.tables.received()).toMatchObject({ stored: 0, rejected: 3 })
    expect(world.tracker.issues(repository)).toEqual([])
  })

  it.scopedLive("finds a missing setting, and skips only what needs it or is not configured", function* () {
    const { checks, exit, notPassed, skipped } = yield* checked((_, environment) => ({
      ...Object.fromEntries(
        Object.keys(environment).flatMap((name) => (/TABLE/.test(name) ? [[name, ""]] : []))
      ),
      MUSIC_TING_URL: "",
      MUSIC_GITHUB_REPOSITORY: ""
    }))
    expect(notPassed).toMatchObject([
      { name: "settings", found: "MUSIC_TING_URL is required" },
      { name: "settings", found: expect.stringContaining("MUSIC_GITHUB_REPOSITORY is required with") }
    ])
    expect(skipped).toMatchObject([
      ...withoutFile,
      { name: "ting", found: "needs MUSIC_TING_URL" },
      { name: "tables", fix: expect.stringContaining("MUSIC_TABLES_URL") },
      { name: "tracker", found: "needs MUSIC_GITHUB_REPOSITORY" },
      { name: "server" }
    ])
    expect(checks.find(({ name }) => name === "iam secret")?.status).toBe("PASS")
    expect(exit).toBe(1)
  })

  it.scopedLive("sends no secret to a service that is not IAM", function* () {
    const { notPassed, world } = yield* checked(({ ting }) => ({ MUSIC_IAM_URL: ting.url }))
    expect(notPassed).toMatchObject([
      { name: "iam", status: "FAIL", fix: expect.stringMatching(/^see that IAM runs, set MUSIC_IAM_URL/) }
    ])
    expect(world.ting.seen.map(({ headers, path }) => [path, headers.has("authorization")])).toEqual([
      ["/api/version", false],
      ["/healthz", false]
    ])
  })

  it.scoped("ends within 20 seconds when nothing answers", function* () {
    const { connections, port } = yield* tcpServer()
    const silent = `http://127.0.0.1:${port}`
    const environment = {
      ...soundSettings,
      MUSIC_IAM_URL: silent,
      MUSIC_TING_URL: silent,
      MUSIC_TABLES_URL: silent,
      MUSIC_CLIDAEMON_TABLE_KEY: "table-musicclidaemon-0123456789abcdef0123456789abcdef",
      MUSIC_GITHUB_URL: silent,
      MUSIC_GITHUB_TOKEN: "hidden-word",
      MUSIC_GITHUB_REPOSITORY: repository,
      MUSIC_DATABASE_URL: `postgres://music:hidden-word@127.0.0.1:${port}/music`,
      OTEL_EXPORTER_OTLP_ENDPOINT: silent
    }
    const checking = yield* Effect.fork(check(environment))
    // All checks have begun then.
    yield* until(() => connections() > 0)
    yield* TestClock.adjust("20 seconds")
    expect((yield* Fiber.join(checking)).status).toBe("FAIL")
  })
})

for (const { clock, found, line, seed, status: verdict } of misconfigurations)
  it.scopedLive(`music-backend check finds ${line}: ${found}`, function* () {
    const { exit, notPassed, status } = yield* checked(seed, clock)
    expect(notPassed).toEqual([
      { name: line, status: verdict, found: expect.stringMatching(found), fix: expect.stringMatching(/\w/) }
    ])
    expect([status, exit]).toEqual([verdict, verdict === "FAIL" ? 1 : 0])
  })

it.scoped("music-backend check judges the disk of the file that a link leads to", function* () {
  const path = yield* newPath
  // A file system without free space.
  symlinkSync(existsSync("/proc/version") ? "/proc/version" : "/dev/null", path)
  const { notPassed } = yield* check({ ...soundSettings, MUSIC_DATABASE_PATH: path })
  expect(notPassed).toContainEqual(
    expect.objectContaining({ name: "disk", found: expect.stringMatching(/^0 MB free/) })
  )
})

it.scopedLive("music-backend check fails as a process where the disk takes no write", function* () {
  const path = yield* newPath
  yield* withStore(path, () => Effect.void)
  const environment = { ...soundSettings, MUSIC_DATABASE_PATH: path }
  const { err, exit, out } = shell("ulimit -f 0; music check", environment)
  for (const secret of secretsOf(environment)) expect(out + err).not.toContain(secret)
  expect([exit, err]).toEqual([1, ""])
  expect(out).toMatch(
    /^FAIL {2}database +SQLite database \S+ (?:is full|cannot be opened, read or written).*\n +-> /m
  )
})
