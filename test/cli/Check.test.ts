import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Finding } from "../../src/layers/diagnostics/Finding.ts"
import { checkProxy } from "../../src/layers/diagnostics/ProxyCheck.ts"
import { storeAt } from "../../src/layers/store/sqlite/SqliteStore.ts"
import { startUpstreams, type SimulatedUpstreams } from "../../sandbox/SimulatedUpstreams.ts"
import { rawClient } from "../layers/store/Stores.ts"
import { freePort } from "../support/Process.ts"
import { testSettings } from "../support/Settings.ts"
import { run, wholeEnvironment } from "./Harness.ts"

const scratch = mkdtempSync(join(tmpdir(), "music-check-"))
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

const repository = "harbor/music"
const reply = (status: number, body: unknown, headers: Readonly<Record<string, string>> = {}) =>
  ({ kind: "reply", reply: { status, body, headers } }) as const

type Seed = (world: SimulatedUpstreams, environment: Record<string, string>) => Effect.Effect<void> | void

/** Checks a working installation after a change by `seed`. */
const checked = (seed: Seed, clock: () => number = Date.now) =>
  Effect.gen(function* () {
    const world = yield* startUpstreams(clock)
    const port = yield* Effect.promise(freePort)
    const environment: Record<string, string> = {
      ...wholeEnvironment(world, {
        port,
        databasePath: join(mkdtempSync(join(scratch, "db-")), "music.sqlite")
      })
    }
    const seeded = seed(world, environment)
    if (seeded !== undefined) yield* seeded
    const { err, exit, json, out } = yield* run(["check", "--json"], environment)
    const { checks, status } = json as { readonly status: string; readonly checks: ReadonlyArray<Finding> }
    expect(err).toBe("")
    expect(world.minted()).not.toEqual([])
    for (const secret of world.minted()) expect(out).not.toContain(secret)
    return { world, exit, status, checks, environment }
  })

const notPassed = (checks: ReadonlyArray<Finding>) =>
  checks.filter(({ status }) => status === "FAIL" || status === "WARN")

/** Expects one finding with its fix, and no other failure or warning. */
const finds = (
  title: string,
  seed: Seed,
  expected: {
    readonly name: string
    readonly status?: "FAIL" | "WARN"
    readonly found: RegExp
    readonly fix: RegExp
  },
  clock?: () => number
) =>
  it.scopedLive(title, () =>
    Effect.gen(function* () {
      const { checks, exit, status } = yield* checked(seed, clock)
      const wanted = expected.status ?? "FAIL"
      expect(notPassed(checks)).toEqual([
        {
          name: expected.name,
          status: wanted,
          found: expect.stringMatching(expected.found),
          fix: expect.stringMatching(expected.fix)
        }
      ])
      expect(status).toBe(wanted)
      expect(exit).toBe(wanted === "FAIL" ? 1 : 0)
    })
  )

describe("music-backend check", () => {
  it.scopedLive(
    "passes a working installation, and neither stores nor files anything nor creates a database",
    () =>
      Effect.gen(function* () {
        const { checks, exit, status, world } = yield* checked(() => undefined)
        expect(notPassed(checks)).toEqual([])
        expect(checks.filter((one) => one.status === "SKIP").map(({ name }) => name)).toEqual(["server"])
        expect(checks.map(({ name }) => name)).toEqual([
          "settings",
          "database",
          "disk",
          "iam",
          "clock",
          "iam secret",
          "ting at iam",
          "webhook secret",
          "ting",
          "tables",
          "table musicbackend",
          "table musicclidaemon",
          "table musicfrontendanalytics",
          "table musicfrontendevents",
          "tracker",
          "tracker token",
          "tracker rights",
          "proxy",
          "server"
        ])
        expect(status).toBe("PASS")
        expect(exit).toBe(0)
        expect(world.tables.received()).toMatchObject({ stored: 0, rejected: 4 })
        expect(world.tracker.issues(repository)).toEqual([])
        expect(checks.find(({ name }) => name === "database")?.found).toContain("the first start creates it")
      })
  )

  it.scopedLive("skips a feature without configuration, and names its setting", () =>
    Effect.gen(function* () {
      const { checks, exit } = yield* checked((_, environment) => {
        for (const name of Object.keys(environment)) if (/TABLE|GITHUB/.test(name)) delete environment[name]
      })
      expect(notPassed(checks)).toEqual([])
      expect(checks.filter(({ status }) => status === "SKIP")).toMatchObject([
        { name: "tables", fix: expect.stringContaining("MUSIC_TABLES_URL") },
        { name: "tracker", fix: expect.stringContaining("MUSIC_GITHUB_TOKEN") },
        { name: "server" }
      ])
      expect(exit).toBe(0)
    })
  )

  finds(
    "warns of a loopback address without a trusted proxy",
    (_, environment) => {
      environment.MUSIC_TRUSTED_PROXIES = ""
    },
    {
      name: "proxy",
      status: "WARN",
      found: /^MUSIC_BIND is a loopback address, and no proxy is trusted/,
      fix: /MUSIC_TRUSTED_PROXIES/
    }
  )

  it.each([
    ["limits are off", { rateLimit: false }],
    ["it listens on the network", { bind: { host: "0.0.0.0", port: 8787 } }],
    ["a proxy is trusted", { trustedProxies: ["127.0.0.1"] }]
  ])("does not warn of a proxy when %s", (_, change) => {
    expect(checkProxy(testSettings({ rateLimit: true, ...change })).status).toBe("PASS")
  })

  finds(
    "finds a bad setting, and checks the others",
    (_, environment) => {
      environment.MUSIC_IAM_TIMEOUT_SECONDS = "soon"
    },
    { name: "settings", found: /^MUSIC_IAM_TIMEOUT_SECONDS must be a whole number/, fix: /default, 8/ }
  )

  it.scopedLive("finds a missing setting, and skips only the checks that need it", () =>
    Effect.gen(function* () {
      const { checks, exit } = yield* checked((_, environment) => {
        environment.MUSIC_TING_URL = ""
        environment.MUSIC_GITHUB_REPOSITORY = ""
      })
      expect(notPassed(checks)).toMatchObject([
        {
          name: "settings",
          found: "MUSIC_TING_URL is required",
          fix: expect.stringContaining(".env.example")
        },
        { name: "settings", found: expect.stringContaining("MUSIC_GITHUB_REPOSITORY is required when") }
      ])
      expect(checks.filter(({ status }) => status === "SKIP")).toMatchObject([
        { name: "ting", found: "needs MUSIC_TING_URL" },
        { name: "tracker", found: "needs MUSIC_GITHUB_REPOSITORY" },
        { name: "server" }
      ])
      expect(checks.find(({ name }) => name === "iam secret")?.status).toBe("PASS")
      expect(exit).toBe(1)
    })
  )

  finds(
    "warns of an unknown setting",
    (_, environment) => {
      environment.MUSIC_DATABSE_PATH = "x"
    },
    { name: "settings", status: "WARN", found: /mean MUSIC_DATABASE_PATH/, fix: /rename it/ }
  )

  finds(
    "finds a database path that cannot be written",
    (_, environment) => {
      const file = join(scratch, "a-file")
      writeFileSync(file, "")
      environment.MUSIC_DATABASE_PATH = join(file, "music.sqlite")
    },
    { name: "database", found: /a-file is not a folder/, fix: /set MUSIC_DATABASE_PATH/ }
  )

  finds(
    "finds a path that is no database",
    (_, environment) => {
      environment.MUSIC_DATABASE_PATH = join(scratch, "a-folder")
      mkdirSync(environment.MUSIC_DATABASE_PATH, { recursive: true })
    },
    { name: "database", found: /cannot be opened/, fix: /set MUSIC_DATABASE_PATH/ }
  )

  finds(
    "finds a Postgres server that does not answer, without its password",
    (_, environment) => {
      environment.MUSIC_DATABASE_URL = "postgres://music:hidden-password@127.0.0.1:1/music"
    },
    {
      name: "database",
      found: /^Postgres database 127\.0\.0\.1:1\/music does not answer/,
      fix: /MUSIC_DATABASE_URL/
    }
  )

  finds(
    "finds a database of a newer version",
    (_, environment) =>
      Effect.gen(function* () {
        const path = environment.MUSIC_DATABASE_PATH ?? ""
        yield* Effect.scoped(Layer.build(storeAt(path)))
        const sql = yield* rawClient(path)
        yield* sql`INSERT INTO migrations (migration_id, name) VALUES (999, 'later')`
      }).pipe(Effect.scoped, Effect.orDie),
    {
      name: "database",
      found: /newer schema .*\(999, known \d+\)$/,
      fix: /the version of music-backend that created it/
    }
  )

  finds(
    "finds an IAM URL of another service",
    (world, environment) => {
      environment.MUSIC_IAM_URL = world.ting.url
    },
    { name: "iam", found: /is not IAM/, fix: /set MUSIC_IAM_URL/ }
  )

  it.scopedLive("sends no secret to a service that is not IAM", () =>
    Effect.gen(function* () {
      const { world } = yield* checked((given, environment) => {
        environment.MUSIC_IAM_URL = given.ting.url
      })
      expect(world.ting.seen.map(({ headers, path }) => [path, headers.has("authorization")])).toEqual([
        ["/api/version", false],
        ["/healthz", false]
      ])
    })
  )

  finds(
    "finds an IAM URL without a listener",
    (_, environment) => {
      environment.MUSIC_IAM_URL = "http://127.0.0.1:1"
    },
    { name: "iam", found: /no response from .*ECONNREFUSED/, fix: /set MUSIC_IAM_URL/ }
  )

  finds(
    "finds a wrong application secret",
    (_, environment) => {
      environment.MUSIC_IAM_APP_SECRET = `ask_${"x".repeat(43)}`
    },
    { name: "iam secret", found: /401 invalid_client/, fix: /set MUSIC_IAM_APP_SECRET/ }
  )

  finds(
    "finds a clock that is 10 minutes off",
    () => undefined,
    { name: "clock", found: /(?:599|600|601) seconds behind/, fix: /NTP/ },
    () => Date.now() + 600_000
  )

  finds(
    "warns of a clock that is 10 seconds off",
    () => undefined,
    { name: "clock", status: "WARN", found: /(?:9|10|11) seconds ahead/, fix: /NTP/ },
    () => Date.now() - 10_000
  )

  finds(
    "finds a Ting URL of another service",
    (world, environment) => {
      environment.MUSIC_TING_URL = world.iam.url
    },
    { name: "ting", found: /is not Ting/, fix: /set MUSIC_TING_URL/ }
  )

  finds(
    "finds a table key that was rotated",
    (world) => {
      world.tables.rotateKey("musicclidaemon")
    },
    { name: "table musicclidaemon", found: /rotated/, fix: /set MUSIC_CLIDAEMON_TABLE_KEY/ }
  )

  finds(
    "finds a table service URL of another service",
    (world, environment) => {
      environment.MUSIC_TABLES_URL = world.tracker.url
    },
    { name: "tables", found: /is not the table service/, fix: /set MUSIC_TABLES_URL/ }
  )

  finds(
    "finds a tracker token that is refused",
    (world) => {
      world.tracker.revokeToken(world.trackerToken)
    },
    { name: "tracker token", found: /refuses it/, fix: /set MUSIC_GITHUB_TOKEN/ }
  )

  finds(
    "finds a tracker token that may not write issues",
    (world) => {
      world.tracker.setRights(world.trackerToken, "read")
    },
    { name: "tracker rights", found: /lacks issues=write/, fix: /Issues: read and write/ }
  )

  finds(
    "warns when a rate limit of the tracker prevents the check",
    (world) => {
      world.tracker.limits.secondary({ method: "POST" })
    },
    { name: "tracker rights", status: "WARN", found: /not verifiable now: rate limit/, fix: /again/ }
  )

  finds(
    "warns of a tracker token that expires soon",
    (world) => {
      const end = new Date(Date.now() + 3 * 86_400_000)
        .toISOString()
        .replace("T", " ")
        .replace(/\..*/, " UTC")
      world.tracker.fail({
        method: "GET",
        path: `/repos/${repository}`,
        fault: reply(
          200,
          { full_name: repository, archived: false, has_issues: true },
          { "github-authentication-token-expiration": end }
        )
      })
    },
    {
      name: "tracker token",
      status: "WARN",
      found: /expires on \d{4}-\d\d-\d\d/,
      fix: /set MUSIC_GITHUB_TOKEN/
    }
  )

  finds(
    "finds a repository that does not exist",
    (_, environment) => {
      environment.MUSIC_GITHUB_REPOSITORY = "harbor/nowhere"
    },
    {
      name: "tracker",
      found: /does not exist, or the token cannot see it/,
      fix: /correct MUSIC_GITHUB_REPOSITORY/
    }
  )

  finds(
    "finds a repository that was archived",
    (world) => {
      world.tracker.archive(repository)
    },
    { name: "tracker", found: /archived/, fix: /unarchive it/ }
  )

  finds(
    "finds a repository without issues",
    (world) => {
      world.tracker.disableIssues(repository)
    },
    { name: "tracker", found: /issues are disabled/, fix: /enable Issues/ }
  )

  finds(
    "finds a repository that was moved",
    (world) => {
      world.tracker.move(repository, "harbor/elsewhere")
    },
    { name: "tracker", found: /renamed or moved/, fix: /its new name/ }
  )

  finds(
    "finds another service at the listen address",
    (world, environment) => {
      environment.MUSIC_BIND = `127.0.0.1:${world.ting.port}`
    },
    { name: "server", found: /another program listens/, fix: /MUSIC_BIND/ }
  )

  it.scopedLive("prints one line for each finding with its fix below, and counts them", () =>
    Effect.gen(function* () {
      const world = yield* startUpstreams(Date.now)
      const environment = wholeEnvironment(world, {
        port: 1,
        databasePath: join(scratch, "none", "music.sqlite")
      })
      world.tables.rotateKey("musicbackend")
      const { exit, out, progress } = yield* run(["check"], environment)
      const [first = ""] = out.split("\n")
      expect(first).toMatch(/^PASS {2}settings {22}16 set, \d+ at their default or off$/)
      expect(out).toMatch(
        /\nFAIL {2}table musicbackend {12}the service does not know the key: .*\n {36}-> set MUSIC_BACKEND_TABLE_KEY to /
      )
      expect(out).toMatch(/\n\n17 passed, 0 warnings, 1 failed, 1 skipped$/)
      expect(progress.at(-1)).toBe("")
      expect(exit).toBe(1)
    })
  )
})
