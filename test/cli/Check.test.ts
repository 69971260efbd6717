/** The misconfigurations that an operator makes, with the verdict of `check`, its fix and its exit code for each. */
import {
  chmodSync,
  chownSync,
  closeSync,
  mkdtempSync,
  openSync,
  rmSync,
  writeFileSync,
  writeSync
} from "node:fs"
import { createServer, type Socket } from "node:net"
import { execFileSync, spawnSync } from "node:child_process"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import { readSettings } from "../../src/layers/settings/Settings.ts"
import { openDatabase } from "../../src/layers/store/sqlite/SqliteStore.ts"
import { startUpstreams, type SimulatedUpstreams } from "../../sandbox/SimulatedUpstreams.ts"
import { postgres, rawClient, rawQuery, sampleReport, withStore } from "../layers/store/Stores.ts"
import { freePort, root } from "../world/Fleet.ts"
import { until } from "../support/Waiting.ts"
import { run, wholeEnvironment } from "./Harness.ts"

const scratch = mkdtempSync(join(tmpdir(), "music-check-"))
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

const nowhere = "http://127.0.0.1:1"
const appSecret = "ask_S3hB1zKq8LrXe0WvN5tYcJ2mUoPdAfG7iH9jK4lM6nO"
const webhookSecret = "Zq8LrXe0WvN5tYcJ2mUoPdAfS3hB1zKw4GxTy7Ru"
const repository = "harbor/music"

/** Settings without a finding of their own. Nothing answers at their addresses. */
const soundSettings: Readonly<Record<string, string>> = {
  MUSIC_BIND: "127.0.0.1:0",
  MUSIC_IAM_URL: nowhere,
  MUSIC_TING_URL: nowhere,
  MUSIC_IAM_APP_SECRET: appSecret,
  MUSIC_IAM_WEBHOOK_SECRET: webhookSecret,
  MUSIC_TRUSTED_PROXIES: "127.0.0.1",
  MUSIC_DATABASE_PATH: join(scratch, "unused", "music.sqlite")
}

/** Doubtful settings, with which the server starts, and what is said of them. */
const doubtful: ReadonlyArray<readonly [changes: Readonly<Record<string, string>>, found: RegExp]> = [
  [{ MUSIC_IAM_WEBHOOK_SECRET: "example-webhook-secret-0123456789abcdef" }, /looks like an example/],
  [{ MUSIC_IAM_WEBHOOK_SECRET: "1234123412341234123412341234123412341234" }, /looks like an example/],
  [{ MUSIC_IAM_WEBHOOK_SECRET: appSecret }, /hold the same secret$/],
  [
    { MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET: webhookSecret, MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION: "7" },
    /hold the same secret$/
  ],
  [
    { MUSIC_TRUSTED_PROXIES: "127.0.0.1, 0.0.0.0/0,::/0" },
    /trusts 0\.0\.0\.0\/0 and ::\/0: any client there/
  ],
  [{ MUSIC_DATABSE_PATH: "x" }, /is not a setting; did you mean MUSIC_DATABASE_PATH/],
  [{ MUSIC_FAVOURITE_COLOUR_OF_ALL: "blue" }, /is not a setting$/]
]

/** Settings that a start refuses; test/layers/settings has every one. */
const refused: ReadonlyArray<readonly [changes: Readonly<Record<string, string>>, found: RegExp]> = [
  [
    { MUSIC_IAM_URL: "https://me:hidden-word@iam.example" },
    /^MUSIC_IAM_URL must be an https URL .* without user/
  ],
  [{ MUSIC_IAM_APP_SECRET: "ask_hidden-word" }, /^MUSIC_IAM_APP_SECRET must be ask_ and 43 characters/],
  [{ MUSIC_IAM_APP_SECRET: "", MUSIC_IAM_APP_SECRET_FILE: join(scratch, "absent") }, /^MUSIC_IAM_APP_SECRET/],
  [{ HTTPS_PROXY: "socks5://hidden-word@127.0.0.1:1080" }, /^HTTPS_PROXY/]
]

interface Finding {
  readonly name: string
  readonly status: string
  readonly found: string
  readonly fix?: string
}

const reply = (status: number, body: unknown, headers: Readonly<Record<string, string>> = {}) =>
  ({ kind: "reply", reply: { status, body, headers } }) as const

type Seed = (
  world: SimulatedUpstreams,
  environment: Record<string, string>
) => Effect.Effect<void, never, Scope.Scope> | void

/** Every secret of an environment, whether it has the right form or not. */
const secretsOf = (environment: Readonly<Record<string, string>>): ReadonlyArray<string> =>
  Object.entries(environment)
    .map(([name, value]) =>
      name === "MUSIC_DATABASE_URL"
        ? (/:\/\/[^:/]*:([^@]*)@/.exec(value)?.[1] ?? "")
        : /_(?:SECRET|TOKEN|TABLE_KEY|HEADERS)$/.test(name)
          ? value
          : ""
    )
    .filter((secret) => secret !== "")

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
    for (const secret of [...world.minted(), ...secretsOf(environment), "hidden-word"])
      expect(out).not.toContain(secret)
    return { world, exit, status, checks, environment }
  })

const notPassed = (checks: ReadonlyArray<Finding>) =>
  checks.filter(({ status }) => status === "FAIL" || status === "WARN")

/** What is wrong, the line of `check` and its verdict, what it says, and how it comes about. */
type Misconfiguration = readonly [
  wrong: string,
  line: string,
  status: "FAIL" | "WARN",
  found: RegExp,
  seed: Seed,
  clock?: () => number
]

const set =
  (changes: Readonly<Record<string, string>>): Seed =>
  (_, environment) => {
    Object.assign(environment, changes)
  }

const databasePathOf = (environment: Readonly<Record<string, string>>) =>
  environment.MUSIC_DATABASE_PATH ?? ""

/** Statements of another program on the database file, made by this program before. */
const onDatabase = (environment: Readonly<Record<string, string>>, statement: string) =>
  Effect.gen(function* () {
    const path = databasePathOf(environment)
    yield* Effect.scoped(openDatabase(path))
    yield* rawQuery(path, statement)
  }).pipe(Effect.orDie)

/** A database with one delivery, which is changed in this way. */
const deliveryWith = (environment: Readonly<Record<string, string>>, change: string) =>
  Effect.gen(function* () {
    const path = databasePathOf(environment)
    yield* withStore(path, ({ reports }) => reports.admit(sampleReport({ createdAt: Date.now() }), true))
    yield* rawQuery(path, `UPDATE deliveries SET ${change}`)
  }).pipe(Effect.orDie)

/** Postgres at a changed address. */
const atPostgres =
  (change: Partial<Pick<URL, "password" | "pathname" | "port" | "search">>): Seed =>
  (_, environment) =>
    Effect.gen(function* () {
      const place = yield* postgres.freshPath
      environment.MUSIC_DATABASE_URL = Object.assign(new URL(place), change).href
    })

/** A port of another program until the scope closes; it greets or says nothing. */
const takenPort = (greets = true) =>
  Effect.acquireRelease(
    Effect.async<{
      readonly port: number
      readonly connections: () => number
      readonly close: () => void
    }>((resume) => {
      const sockets = new Set<Socket>()
      const server = createServer((socket) => {
        sockets.add(socket)
        if (greets) socket.end("220 mail\r\n")
      })
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        resume(
          Effect.succeed({
            port: typeof address === "object" && address !== null ? address.port : 0,
            connections: () => sockets.size,
            close: () => {
              for (const socket of sockets) socket.destroy()
              server.close()
            }
          })
        )
      })
    }),
    ({ close }) => Effect.sync(close)
  )

const misconfigurations: ReadonlyArray<Misconfiguration> = [
  [
    "a database below a file",
    "database",
    "FAIL",
    /a-file is not a folder/,
    (_, environment) => {
      const file = join(scratch, "a-file")
      writeFileSync(file, "")
      environment.MUSIC_DATABASE_PATH = join(file, "music.sqlite")
    }
  ],
  [
    "a folder as the database",
    "database",
    "FAIL",
    /cannot be opened/,
    (_, environment) => {
      environment.MUSIC_DATABASE_PATH = mkdtempSync(join(scratch, "a-folder-"))
    }
  ],
  [
    "a text file as the database",
    "database",
    "FAIL",
    /is corrupt, or not a database \(SQLITE_NOTADB\)$/,
    (_, environment) => {
      writeFileSync(databasePathOf(environment), "hidden-word ".repeat(1_000))
    }
  ],
  [
    "the database of another program",
    "database",
    "FAIL",
    /belongs to another program/,
    (_, environment) => rawQuery(databasePathOf(environment), "CREATE TABLE songs (title TEXT)")
  ],
  [
    "a database of a newer version",
    "database",
    "FAIL",
    /newer schema .*\(999, known \d+\)$/,
    (_, environment) =>
      onDatabase(environment, "INSERT INTO migrations (migration_id, name) VALUES (999, 'later')")
  ],
  [
    "a database of an older version",
    "database",
    "WARN",
    /older schema .*\(4, needed \d+\)$/,
    (_, environment) => onDatabase(environment, "DELETE FROM migrations WHERE migration_id > 4")
  ],
  [
    "a database with a damaged table",
    "integrity",
    "FAIL",
    /^damaged: reports$/,
    (_, environment) =>
      Effect.gen(function* () {
        const path = databasePathOf(environment)
        yield* onDatabase(environment, "PRAGMA wal_checkpoint(TRUNCATE)")
        const [root] = yield* rawQuery(path, "SELECT rootpage FROM sqlite_master WHERE name = 'reports'")
        const descriptor = openSync(path, "r+")
        writeSync(descriptor, Buffer.alloc(4_096, 0xa5), 0, 4_096, (Number(root?.rootpage) - 1) * 4_096)
        closeSync(descriptor)
      })
  ],
  [
    "a delivery that failed",
    "deliveries",
    "WARN",
    /^1 failed$/,
    (_, environment) => deliveryWith(environment, "state = 'failed'")
  ],
  [
    "a delivery that has waited for two hours",
    "deliveries",
    "WARN",
    /^the oldest one has waited for 2 h$/,
    (_, environment) => deliveryWith(environment, `created_at = ${Date.now() - 7_200_000}`)
  ],
  [
    "a locked database",
    "database",
    "FAIL",
    /is locked by another process/,
    (_, environment) =>
      Effect.gen(function* () {
        const path = databasePathOf(environment)
        yield* Effect.scoped(openDatabase(path))
        const other = yield* rawClient(path)
        yield* Effect.acquireRelease(Effect.orDie(other.unsafe("BEGIN EXCLUSIVE")), () =>
          Effect.orDie(other.unsafe("ROLLBACK"))
        )
      }).pipe(Effect.orDie)
  ],
  [
    "Postgres at a closed port",
    "database",
    "FAIL",
    /^Postgres database 127\.0\.0\.1:1\/music does not answer/,
    set({ MUSIC_DATABASE_URL: "postgres://music:hidden-word@127.0.0.1:1/music" })
  ],
  [
    "a wrong password of Postgres",
    "database",
    "FAIL",
    /refuses the login \(28P01\)$/,
    atPostgres({ password: "hidden-word" })
  ],
  [
    "a database that Postgres does not have",
    "database",
    "FAIL",
    /\/missing does not exist \(3D000\)$/,
    atPostgres({ pathname: "/missing" })
  ],
  [
    "an empty database of Postgres",
    "database",
    "WARN",
    /older schema .*\(0, needed \d+\)$/,
    (_, environment) =>
      Effect.map(postgres.emptyPath, (place) => {
        environment.MUSIC_DATABASE_URL = place
      })
  ],
  [
    "the address of another service as IAM",
    "iam",
    "FAIL",
    /is not IAM/,
    (world, environment) => {
      environment.MUSIC_IAM_URL = world.ting.url
    }
  ],
  [
    "an IAM that is away",
    "iam",
    "FAIL",
    /no response from .*ECONNREFUSED/,
    set({ MUSIC_IAM_URL: "http://127.0.0.1:1" })
  ],
  [
    "a wrong application secret",
    "iam secret",
    "FAIL",
    /401 invalid_client/,
    set({ MUSIC_IAM_APP_SECRET: "ask_Zq8LrXe0WvN5tYcJ2mUoPdAfS3hB1zKhiddenword12" })
  ],
  [
    "the id of another application",
    "iam secret",
    "FAIL",
    /401 invalid_client/,
    set({ MUSIC_IAM_APP_ID: "radio" })
  ],
  [
    "a clock that is 10 minutes off",
    "clock",
    "FAIL",
    /(?:599|600|601) seconds behind/,
    () => undefined,
    () => Date.now() + 600_000
  ],
  [
    "a clock that is 10 seconds off",
    "clock",
    "WARN",
    /(?:9|10|11) seconds ahead/,
    () => undefined,
    () => Date.now() - 10_000
  ],
  [
    "the address of another service as Ting",
    "ting",
    "FAIL",
    /is not Ting/,
    (world, environment) => {
      environment.MUSIC_TING_URL = world.iam.url
    }
  ],
  [
    "a Ting that is away",
    "ting",
    "FAIL",
    /no response from .*ECONNREFUSED/,
    set({ MUSIC_TING_URL: "http://127.0.0.1:1" })
  ],
  [
    "a table key that was rotated",
    "table musicclidaemon",
    "FAIL",
    /rotated/,
    (world) => {
      world.tables.rotateKey("musicclidaemon")
    }
  ],
  [
    "a table key that was never issued",
    "table musicbackend",
    "FAIL",
    /does not know the key/,
    set({ MUSIC_BACKEND_TABLE_KEY: "table-musicbackend-0123456789abcdef0123456789abcdef" })
  ],
  [
    "the address of another service as the table service",
    "tables",
    "FAIL",
    /is not the table service/,
    (world, environment) => {
      environment.MUSIC_TABLES_URL = world.tracker.url
    }
  ],
  [
    "a table service that is away",
    "tables",
    "FAIL",
    /no response from .*ECONNREFUSED/,
    set({ MUSIC_TABLES_URL: "http://127.0.0.1:1" })
  ],
  [
    "a tracker token that was revoked",
    "tracker token",
    "FAIL",
    /refuses it/,
    (world) => {
      world.tracker.revokeToken(world.trackerToken)
    }
  ],
  [
    "a tracker token that may not write issues",
    "tracker rights",
    "FAIL",
    /lacks issues=write/,
    (world) => {
      world.tracker.setRights(world.trackerToken, "read")
    }
  ],
  [
    "a tracker token that expires soon",
    "tracker token",
    "WARN",
    /expires on \d{4}-\d\d-\d\d/,
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
    }
  ],
  [
    "a repository that does not exist",
    "tracker",
    "FAIL",
    /does not exist, or the token cannot see it/,
    set({ MUSIC_GITHUB_REPOSITORY: "harbor/nowhere" })
  ],
  [
    "a repository that was archived",
    "tracker",
    "FAIL",
    /archived/,
    (world) => {
      world.tracker.archive(repository)
    }
  ],
  [
    "a repository without issues",
    "tracker",
    "FAIL",
    /issues are disabled/,
    (world) => {
      world.tracker.disableIssues(repository)
    }
  ],
  [
    "a tracker that is away",
    "tracker",
    "FAIL",
    /no response from .*ECONNREFUSED/,
    set({ MUSIC_GITHUB_URL: "http://127.0.0.1:1" })
  ],
  [
    "a loopback address without a trusted proxy",
    "proxy",
    "WARN",
    /^MUSIC_BIND is a loopback address, and no proxy is trusted/,
    set({ MUSIC_TRUSTED_PROXIES: "" })
  ],
  [
    "a port of another web server",
    "server",
    "FAIL",
    /another program listens at 127\.0\.0\.1:\d+$/,
    (world, environment) => {
      environment.MUSIC_BIND = `127.0.0.1:${world.ting.port}`
    }
  ],
  [
    "a port of a program that speaks no HTTP",
    "server",
    "FAIL",
    /another program listens at 127\.0\.0\.1:\d+$/,
    (_, environment) =>
      Effect.map(takenPort(), ({ port }) => {
        environment.MUSIC_BIND = `127.0.0.1:${port}`
      })
  ],
  [
    "an address that this machine does not have",
    "metrics",
    "FAIL",
    /^192\.168\.255\.254 is no address of this machine$/,
    set({ MUSIC_BIND: "127.0.0.1:0", MUSIC_ADMIN_BIND: "192.168.255.254:9464" })
  ],
  [
    "metrics at the port of another program",
    "metrics",
    "FAIL",
    /another program listens at/,
    (_, environment) =>
      Effect.map(takenPort(), ({ port }) => {
        environment.MUSIC_ADMIN_BIND = `127.0.0.1:${port}`
      })
  ]
]

describe("music-backend check", () => {
  it.scopedLive(
    "passes a working installation, and neither stores nor files anything nor creates a database",
    function* () {
      const { checks, exit, status, world } = yield* checked(() => undefined)
      expect(notPassed(checks)).toEqual([])
      expect(checks.filter((one) => one.status === "SKIP").map(({ name }) => name)).toEqual(["server"])
      expect(status).toBe("PASS")
      expect(exit).toBe(0)
      expect(world.tables.received()).toMatchObject({ stored: 0, rejected: 4 })
      expect(world.tracker.issues(repository)).toEqual([])
      expect(checks.find(({ name }) => name === "database")?.found).toContain("the first start creates it")
    }
  )

  it.scopedLive("skips a feature without configuration, and names its setting", function* () {
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

  it.scopedLive("finds a missing setting, and skips only the checks that need it", function* () {
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

  it.scopedLive("sends no secret to a service that is not IAM", function* () {
    const { world } = yield* checked((given, environment) => {
      environment.MUSIC_IAM_URL = given.ting.url
    })
    expect(world.ting.seen.map(({ headers, path }) => [path, headers.has("authorization")])).toEqual([
      ["/api/version", false],
      ["/healthz", false]
    ])
  })

  it.scoped("ends within 20 seconds when nothing answers", function* () {
    const { connections, port } = yield* takenPort(false)
    const silent = `http://127.0.0.1:${port}`
    const checking = yield* Effect.fork(
      run(["check", "--json"], {
        ...soundSettings,
        MUSIC_IAM_URL: silent,
        MUSIC_TING_URL: silent,
        MUSIC_TABLES_URL: silent,
        MUSIC_BACKEND_TABLE_KEY: "table-musicbackend-0123456789abcdef0123456789abcdef",
        MUSIC_GITHUB_URL: silent,
        MUSIC_GITHUB_TOKEN: "hidden-word",
        MUSIC_GITHUB_REPOSITORY: "harbor/music",
        MUSIC_DATABASE_URL: `postgres://music:hidden-word@127.0.0.1:${port}/music`,
        OTEL_EXPORTER_OTLP_ENDPOINT: silent
      })
    )
    // All checks have begun then.
    yield* until(() => connections() > 0)
    yield* TestClock.adjust("20 seconds")
    const { json } = yield* Fiber.join(checking)
    expect(json).toMatchObject({ status: "FAIL" })
  })

  it.scopedLive("prints one line for each finding with its fix below, and counts them", function* () {
    const world = yield* startUpstreams(Date.now)
    const environment = wholeEnvironment(world, {
      port: 1,
      databasePath: join(scratch, "none", "music.sqlite")
    })
    world.tables.rotateKey("musicbackend")
    const { exit, out, progress } = yield* run(["check"], environment)
    expect(out).toMatch(/^PASS +settings /)
    expect(out).toMatch(
      /\nFAIL +table musicbackend +the service does not know the key: .*\n +-> set MUSIC_BACKEND_TABLE_KEY to /
    )
    expect(out).toMatch(/\n\n17 passed, 0 warnings, 1 failed, 1 skipped$/)
    expect(progress.at(-1)).toBe("")
    expect(exit).toBe(1)
  })
})

describe.concurrent("music-backend check finds", () => {
  for (const [wrong, line, verdict, found, seed, clock] of misconfigurations)
    it.scopedLive(wrong, function* () {
      const { checks, exit, status } = yield* checked(seed, clock)
      expect(notPassed(checks)).toEqual([
        { name: line, status: verdict, found: expect.stringMatching(found), fix: expect.stringMatching(/\w/) }
      ])
      expect([status, exit]).toEqual([verdict, verdict === "FAIL" ? 1 : 0])
    })

  const settings = [
    ...doubtful.map(([changes, found]) => ({ changes, found, status: "WARN" })),
    ...refused.map(([changes, found]) => ({ changes, found, status: "FAIL" }))
  ]
  it.live.each(settings)("$found in the settings", function* ({ changes, found, status }) {
    const environment = { ...soundSettings, ...changes }
    const { err, exit, json, out } = yield* run(["check", "--json"], environment)
    const { checks } = json as { readonly checks: ReadonlyArray<Finding> }
    expect(notPassed(checks).filter(({ name }) => name === "settings")).toEqual([
      { name: "settings", status, found: expect.stringMatching(found), fix: expect.stringMatching(/\w/) }
    ])
    expect(readSettings(environment).problems.length > 0).toBe(status === "FAIL")
    // Nothing answers at the addresses of these settings.
    expect([exit, err]).toEqual([1, ""])
    for (const secret of [...secretsOf(environment), "hidden-word"]) expect(out).not.toContain(secret)
  })
})

describe("music-backend check as a process", () => {
  beforeAll(() => {
    execFileSync(process.execPath, ["scripts/build.mjs", "--if-needed"], { cwd: root })
  })

  /** Root may write everywhere: then another account makes the check. */
  const nobody = 65_534
  const isRoot = process.getuid?.() === 0

  it.scopedLive(
    "fails where the disk takes no write, and in a folder that it may not write; prints no secret",
    function* () {
      const folder = mkdtempSync(join(scratch, "db-"))
      const path = join(folder, "music.sqlite")
      yield* Effect.scoped(openDatabase(path))
      const started = (shell: string, databasePath: string, account = {}) =>
        Effect.sync(() => {
          const environment = { ...soundSettings, MUSIC_DATABASE_PATH: databasePath }
          const { status, stderr, stdout } = spawnSync(
            "sh",
            ["-c", `${shell} exec "$@"`, "sh", process.execPath, "dist/cli.js", "check"],
            {
              cwd: root,
              env: { PATH: process.env.PATH ?? "", ...environment },
              encoding: "utf8",
              ...account
            }
          )
          for (const secret of secretsOf(environment)) expect(stdout + stderr).not.toContain(secret)
          return { status, stdout, stderr }
        })
      const full = yield* started("ulimit -f 0;", path)
      expect([full.status, full.stderr]).toEqual([1, ""])
      expect(full.stdout).toMatch(
        /^FAIL {2}database +SQLite database \S+ (?:is full|cannot be opened, read or written).*\n +-> /m
      )

      const locked = mkdtempSync(join(scratch, "locked-"))
      chmodSync(locked, 0o500)
      if (isRoot) {
        chmodSync(scratch, 0o755)
        chownSync(locked, nobody, nobody)
      }
      const refused = yield* started(
        "",
        join(locked, "music.sqlite"),
        isRoot ? { uid: nobody, gid: nobody } : {}
      )
      expect([refused.status, refused.stderr]).toEqual([1, ""])
      expect(refused.stdout).toMatch(
        /^FAIL {2}database +\S+ cannot be created: \S+ is not a folder that this user can write\n +-> set MUSIC_DATABASE_PATH/m
      )
    }
  )
})
