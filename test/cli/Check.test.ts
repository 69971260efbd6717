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
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import { diskFinding } from "../../src/layers/diagnostics/DatabaseCheck.ts"
import { checkExposure, isTooWide, publicAddressOf } from "../../src/layers/diagnostics/ExposureCheck.ts"
import type { Finding } from "../../src/layers/diagnostics/Finding.ts"
import { checkSqliteIntegrity, postgresFinding } from "../../src/layers/diagnostics/IntegrityCheck.ts"
import { clockFinding } from "../../src/layers/diagnostics/IamCheck.ts"
import { checkOutboundProxy } from "../../src/layers/diagnostics/OutboundProxyCheck.ts"
import { listenFailure } from "../../src/layers/diagnostics/ListenCheck.ts"
import { checkProxy } from "../../src/layers/diagnostics/ProxyCheck.ts"
import { overlap } from "../../src/layers/diagnostics/ServerCheck.ts"
import { readSettings } from "../../src/layers/settings/Settings.ts"
import { openDatabase } from "../../src/layers/store/sqlite/SqliteStore.ts"
import { startUpstreams, type SimulatedUpstreams } from "../../sandbox/SimulatedUpstreams.ts"
import { postgres, rawClient, rawQuery, sampleReport, withStore } from "../layers/store/Stores.ts"
import { answering } from "../layers/upstream/Simulated.ts"
import { startCollector } from "../observability/Collector.ts"
import { pooler } from "../support/Pooler.ts"
import { freePort, root } from "../support/Process.ts"
import { testSettings } from "../support/Settings.ts"
import { until } from "../support/Waiting.ts"
import { run, wholeEnvironment } from "./Harness.ts"

const scratch = mkdtempSync(join(tmpdir(), "music-check-"))
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

const repository = "harbor/music"
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

interface Expected {
  /** The line. */
  readonly name: string
  readonly status?: "FAIL" | "WARN"
  readonly found: RegExp
  readonly fix: RegExp
}

/** A misconfiguration: what is wrong, how it comes about, and all findings that it causes. */
type Misconfiguration = readonly [
  wrong: string,
  seed: Seed,
  expected: Expected | ReadonlyArray<Expected>,
  clock?: () => number
]

const set =
  (changes: Readonly<Record<string, string>>): Seed =>
  (_, environment) => {
    Object.assign(environment, changes)
  }

/** Expects these findings with their fixes, and no other failure or warning. */
const finds = ([wrong, seed, expected, clock]: Misconfiguration) =>
  it.scopedLive(wrong, function* () {
    const { checks, exit, status } = yield* checked(seed, clock)
    const all = "name" in expected ? [expected] : expected
    expect(notPassed(checks)).toEqual(
      all.map(({ fix, found, name, status: wanted = "FAIL" }) => ({
        name,
        status: wanted,
        found: expect.stringMatching(found),
        fix: expect.stringMatching(fix)
      }))
    )
    const fails = all.some((one) => one.status !== "WARN")
    expect(status).toBe(fails ? "FAIL" : "WARN")
    expect(exit).toBe(fails ? 1 : 0)
  })

const appSecret = "ask_S3hB1zKq8LrXe0WvN5tYcJ2mUoPdAfG7iH9jK4lM6nO"
const webhookSecret = "Zq8LrXe0WvN5tYcJ2mUoPdAfS3hB1zKw4GxTy7Ru"
const nowhere = "http://127.0.0.1:1"

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

/** Settings that are refused or doubtful. Each is found without any other system, and start-up refuses each FAIL. */
const badSettings: ReadonlyArray<
  readonly [wrong: string, Readonly<Record<string, string>>, found: RegExp, fix: RegExp, "WARN"?]
> = [
  ["no IAM", { MUSIC_IAM_URL: "" }, /^MUSIC_IAM_URL is required$/, /set MUSIC_IAM_URL .*\.env\.example/],
  [
    "IAM over http",
    { MUSIC_IAM_URL: "http://iam.example" },
    /^MUSIC_IAM_URL must be an https URL/,
    /set MUSIC_IAM_URL/
  ],
  [
    "a password in an address",
    { MUSIC_IAM_URL: "https://me:hidden-word@iam.example" },
    /^MUSIC_IAM_URL must be an https URL .* without user/,
    /set MUSIC_IAM_URL/
  ],
  ["no Ting", { MUSIC_TING_URL: "" }, /^MUSIC_TING_URL is required$/, /set MUSIC_TING_URL/],
  [
    "a host without scheme",
    { MUSIC_TING_URL: "ting.example" },
    /^MUSIC_TING_URL must be/,
    /set MUSIC_TING_URL/
  ],
  [
    "no application secret",
    { MUSIC_IAM_APP_SECRET: "" },
    /^MUSIC_IAM_APP_SECRET is required$/,
    /secret at IAM/
  ],
  [
    "an application secret that was cut",
    { MUSIC_IAM_APP_SECRET: "ask_hidden-word" },
    /^MUSIC_IAM_APP_SECRET must be ask_ and 43 characters/,
    /set MUSIC_IAM_APP_SECRET/
  ],
  [
    "the webhook secret as the application secret",
    { MUSIC_IAM_APP_SECRET: "hidden-word-S3hB1zKq8LrXe0WvN5tYcJ2mUoPdAf" },
    /^MUSIC_IAM_APP_SECRET must be ask_/,
    /set MUSIC_IAM_APP_SECRET/
  ],
  [
    "no webhook secret",
    { MUSIC_IAM_WEBHOOK_SECRET: "" },
    /^MUSIC_IAM_WEBHOOK_SECRET is required$/,
    /signs IAM's webhooks/
  ],
  [
    "a file of a secret that does not exist",
    { MUSIC_IAM_APP_SECRET: "", MUSIC_IAM_APP_SECRET_FILE: join(scratch, "absent") },
    /^MUSIC_IAM_APP_SECRET/,
    /^correct MUSIC_IAM_APP_SECRET_FILE or the content of its file/
  ],
  [
    "a proxy of another kind",
    { HTTPS_PROXY: "socks5://127.0.0.1:1080" },
    /^HTTPS_PROXY/,
    /^correct or remove HTTPS_PROXY/
  ],
  [
    "a webhook secret that is too short",
    { MUSIC_IAM_WEBHOOK_SECRET: "hidden-word" },
    /^MUSIC_IAM_WEBHOOK_SECRET must be 32 to 512/,
    /set MUSIC_IAM_WEBHOOK_SECRET/
  ],
  [
    "the webhook secret of the documents",
    { MUSIC_IAM_WEBHOOK_SECRET: "example-webhook-secret-0123456789abcdef" },
    /^MUSIC_IAM_WEBHOOK_SECRET looks like an example/,
    /create a random one at IAM/,
    "WARN"
  ],
  [
    "a webhook secret that was typed",
    { MUSIC_IAM_WEBHOOK_SECRET: "1234123412341234123412341234123412341234" },
    /^MUSIC_IAM_WEBHOOK_SECRET looks like an example/,
    /random/,
    "WARN"
  ],
  [
    "the application secret as the webhook secret",
    { MUSIC_IAM_WEBHOOK_SECRET: appSecret },
    /^MUSIC_IAM_APP_SECRET and MUSIC_IAM_WEBHOOK_SECRET hold the same secret$/,
    /each a secret of its own/,
    "WARN"
  ],
  [
    "a rotation to the same secret",
    { MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET: webhookSecret, MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION: "7" },
    /^MUSIC_IAM_WEBHOOK_SECRET and MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET hold the same secret$/,
    /each a secret of its own/,
    "WARN"
  ],
  [
    "a rotation without the key version",
    { MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET: "hidden-word-S3hB1zKq8LrXe0WvN5tYcJ2mUoPdAf" },
    /^MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION is required with/,
    /set MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION/
  ],
  [
    "a rotation to the same key version",
    {
      MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET: "hidden-word-S3hB1zKq8LrXe0WvN5tYcJ2mUoPdAf",
      MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION: "1"
    },
    /^MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION must differ/,
    /set MUSIC_IAM_WEBHOOK_PREVIOUS_KEY_VERSION/
  ],
  [
    "a key version that is no number",
    { MUSIC_IAM_WEBHOOK_KEY_VERSION: "v1" },
    /^MUSIC_IAM_WEBHOOK_KEY_VERSION must be a whole/,
    /default, 1/
  ],
  [
    "a budget of IAM below its minimum",
    { MUSIC_IAM_CALLS_PER_MINUTE: "1" },
    /^MUSIC_IAM_CALLS_PER_MINUTE must be/,
    /default, 110/
  ],
  [
    "a time with its unit",
    { MUSIC_IAM_TIMEOUT_SECONDS: "8s" },
    /^MUSIC_IAM_TIMEOUT_SECONDS must be a whole number/,
    /default, 8/
  ],
  [
    "notification types without a prefix",
    { MUSIC_TING_TYPES: "fired" },
    /^MUSIC_TING_TYPES must list types/,
    /default, music\.trigger/
  ],
  [
    "a listen address without a port",
    { MUSIC_BIND: "0.0.0.0" },
    /^MUSIC_BIND must be host:port/,
    /default, 127\.0\.0\.1:8787/
  ],
  [
    "a listen address with a scheme",
    { MUSIC_BIND: "http://127.0.0.1:8787" },
    /^MUSIC_BIND must be host:port/,
    /default/
  ],
  [
    "an admin address that is only a port",
    { MUSIC_ADMIN_BIND: "9464" },
    /^MUSIC_ADMIN_BIND must be host:port/,
    /set MUSIC_ADMIN_BIND/
  ],
  [
    "a web origin with a path",
    { MUSIC_WEB_ORIGINS: "https://music.example/app" },
    /^MUSIC_WEB_ORIGINS must list origins/,
    /set MUSIC_WEB_ORIGINS/
  ],
  [
    "a switch that is neither on nor off",
    { MUSIC_RATE_LIMIT: "true" },
    /^MUSIC_RATE_LIMIT must be one of on, off/,
    /default, on/
  ],
  [
    "the name of a proxy",
    { MUSIC_TRUSTED_PROXIES: "nginx" },
    /^MUSIC_TRUSTED_PROXIES must list addresses or CIDRs/,
    /set MUSIC_TRUSTED_PROXIES/
  ],
  [
    "every address as a trusted proxy",
    { MUSIC_TRUSTED_PROXIES: "127.0.0.1, 0.0.0.0/0,::/0" },
    /^MUSIC_TRUSTED_PROXIES trusts 0\.0\.0\.0\/0 and ::\/0: any client there chooses the address/,
    /only the addresses of the proxies/,
    "WARN"
  ],
  [
    "a deadline above the grace of the shutdown",
    { MUSIC_REQUEST_DEADLINE_SECONDS: "40", MUSIC_SHUTDOWN_GRACE_SECONDS: "30" },
    /^MUSIC_SHUTDOWN_GRACE_SECONDS must be at least MUSIC_REQUEST_DEADLINE_SECONDS \+ 2$/,
    /set MUSIC_SHUTDOWN_GRACE_SECONDS/
  ],
  [
    "another database's address",
    { MUSIC_DATABASE_URL: "mysql://music:hidden-word@db.example/music" },
    /^MUSIC_DATABASE_URL must be an address such as postgres:/,
    /set MUSIC_DATABASE_URL/
  ],
  [
    "the key of another table",
    { MUSIC_TABLES_URL: nowhere, MUSIC_BACKEND_TABLE_KEY: `table-musicclidaemon-${"0f".repeat(16)}` },
    /^MUSIC_BACKEND_TABLE_KEY must be the key of the table musicbackend/,
    /set MUSIC_BACKEND_TABLE_KEY/
  ],
  [
    "a table key without the table service",
    { MUSIC_BACKEND_TABLE_KEY: `table-musicbackend-${"0f".repeat(16)}` },
    /^MUSIC_TABLES_URL is required when a table key is set/,
    /set MUSIC_TABLES_URL/
  ],
  [
    "one key for two tables",
    {
      MUSIC_TABLES_URL: nowhere,
      MUSIC_BACKEND_TABLE_KEY: `table-musicbackend-${"0f".repeat(16)}`,
      MUSIC_CLIDAEMON_TABLE_KEY: `table-musicclidaemon-${"0f".repeat(16)}`
    },
    /^MUSIC_BACKEND_TABLE_KEY and MUSIC_CLIDAEMON_TABLE_KEY hold the same secret$/,
    /each a secret of its own/,
    "WARN"
  ],
  [
    "a tracker token without a repository",
    { MUSIC_GITHUB_TOKEN: "hidden-word" },
    /^MUSIC_GITHUB_REPOSITORY is required when MUSIC_GITHUB_TOKEN is set/,
    /set MUSIC_GITHUB_REPOSITORY/
  ],
  [
    "a repository's web address",
    { MUSIC_GITHUB_TOKEN: "hidden-word", MUSIC_GITHUB_REPOSITORY: "https://github.com/harbor/music" },
    /^MUSIC_GITHUB_REPOSITORY must be owner\/repository/,
    /set MUSIC_GITHUB_REPOSITORY/
  ],
  [
    "searches that do not rise",
    { MUSIC_TRACKER_RECONCILE_SECONDS: "15,5" },
    /must list rising seconds/,
    /default, 5,15,40/
  ],
  [
    "webhooks that are forgotten too soon",
    { MUSIC_RETENTION_WEBHOOKS_DAYS: "30" },
    /^MUSIC_RETENTION_WEBHOOKS_DAYS must be .* would count twice$/,
    /default, 46/
  ],
  [
    "an unknown log level",
    { MUSIC_LOG_LEVEL: "verbose" },
    /^MUSIC_LOG_LEVEL must be one of/,
    /default, info/
  ],
  [
    "OTLP over gRPC",
    { OTEL_EXPORTER_OTLP_ENDPOINT: nowhere, OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" },
    /^OTEL_EXPORTER_OTLP_PROTOCOL must be .* gRPC is not supported$/,
    /default, http\/json/
  ],
  [
    "a name with a slip of the pen",
    { MUSIC_DATABSE_PATH: "x" },
    /^MUSIC_DATABSE_PATH is not a setting; did you mean MUSIC_DATABASE_PATH/,
    /rename it/,
    "WARN"
  ],
  [
    "a name of nothing",
    { MUSIC_FAVOURITE_COLOUR_OF_ALL: "blue" },
    /^MUSIC_FAVOURITE_COLOUR_OF_ALL is not a setting$/,
    /remove it/,
    "WARN"
  ]
]

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

const database: ReadonlyArray<Misconfiguration> = [
  [
    "a database below a file",
    (_, environment) => {
      const file = join(scratch, "a-file")
      writeFileSync(file, "")
      environment.MUSIC_DATABASE_PATH = join(file, "music.sqlite")
    },
    { name: "database", found: /a-file is not a folder/, fix: /set MUSIC_DATABASE_PATH/ }
  ],
  [
    "a folder as the database",
    (_, environment) => {
      environment.MUSIC_DATABASE_PATH = mkdtempSync(join(scratch, "a-folder-"))
    },
    { name: "database", found: /cannot be opened/, fix: /set MUSIC_DATABASE_PATH/ }
  ],
  [
    "a text file as the database",
    (_, environment) => {
      writeFileSync(databasePathOf(environment), "hidden-word ".repeat(1_000))
    },
    { name: "database", found: /is corrupt, or not a database \(SQLITE_NOTADB\)$/, fix: /restore a backup/ }
  ],
  [
    "the database of another program",
    (_, environment) => rawQuery(databasePathOf(environment), "CREATE TABLE songs (title TEXT)"),
    { name: "database", found: /belongs to another program/, fix: /set MUSIC_DATABASE_PATH/ }
  ],
  [
    "a database of a newer version",
    (_, environment) =>
      onDatabase(environment, "INSERT INTO migrations (migration_id, name) VALUES (999, 'later')"),
    {
      name: "database",
      found: /newer schema .*\(999, known \d+\)$/,
      fix: /the version of music-backend that created it/
    }
  ],
  [
    "a database of an older version",
    (_, environment) => onDatabase(environment, "DELETE FROM migrations WHERE migration_id > 4"),
    {
      name: "database",
      status: "WARN",
      found: /older schema .*\(4, needed \d+\)$/,
      fix: /music-backend migrate/
    }
  ],
  [
    "a database with a damaged table",
    (_, environment) =>
      Effect.gen(function* () {
        const path = databasePathOf(environment)
        yield* onDatabase(environment, "PRAGMA wal_checkpoint(TRUNCATE)")
        const [root] = yield* rawQuery(path, "SELECT rootpage FROM sqlite_master WHERE name = 'reports'")
        const descriptor = openSync(path, "r+")
        writeSync(descriptor, Buffer.alloc(4_096, 0xa5), 0, 4_096, (Number(root?.rootpage) - 1) * 4_096)
        closeSync(descriptor)
      }),
    { name: "integrity", found: /^damaged: reports$/, fix: /restore a backup with music-backend restore/ }
  ],
  [
    "a delivery that failed",
    (_, environment) => deliveryWith(environment, "state = 'failed'"),
    { name: "deliveries", status: "WARN", found: /^1 failed$/, fix: /deliveries list --state failed/ }
  ],
  [
    "a delivery that has waited for two hours",
    (_, environment) => deliveryWith(environment, `created_at = ${Date.now() - 7_200_000}`),
    {
      name: "deliveries",
      status: "WARN",
      found: /^the oldest one has waited for 2 h$/,
      fix: /deliveries list/
    }
  ],
  [
    "a locked database",
    (_, environment) =>
      Effect.gen(function* () {
        const path = databasePathOf(environment)
        yield* Effect.scoped(openDatabase(path))
        const other = yield* rawClient(path)
        yield* Effect.acquireRelease(Effect.orDie(other.unsafe("BEGIN EXCLUSIVE")), () =>
          Effect.orDie(other.unsafe("ROLLBACK"))
        )
      }).pipe(Effect.orDie),
    { name: "database", found: /is locked by another process/, fix: /stop the process that holds the lock/ }
  ],
  [
    "Postgres at a closed port",
    set({ MUSIC_DATABASE_URL: "postgres://music:hidden-word@127.0.0.1:1/music" }),
    {
      name: "database",
      found: /^Postgres database 127\.0\.0\.1:1\/music does not answer/,
      fix: /start the database server, or correct host and port in MUSIC_DATABASE_URL/
    }
  ],
  [
    "a wrong password of Postgres",
    atPostgres({ password: "hidden-word" }),
    {
      name: "database",
      found: /refuses the login \(28P01\)$/,
      fix: /correct user and password in MUSIC_DATABASE_URL/
    }
  ],
  [
    "a database that Postgres does not have",
    atPostgres({ pathname: "/missing" }),
    { name: "database", found: /\/missing does not exist \(3D000\)$/, fix: /create the database/ }
  ],
  [
    "TLS with a Postgres that has none",
    atPostgres({ search: "sslmode=require" }),
    { name: "database", found: /does not support TLS/, fix: /set sslmode in MUSIC_DATABASE_URL/ }
  ],
  [
    "an empty database of Postgres",
    (_, environment) =>
      Effect.map(postgres.emptyPath, (place) => {
        environment.MUSIC_DATABASE_URL = place
      }),
    {
      name: "database",
      status: "WARN",
      found: /older schema .*\(0, needed \d+\)$/,
      fix: /music-backend migrate/
    }
  ],
  [
    "a pooler that assigns transactions",
    (_, environment) =>
      Effect.gen(function* () {
        environment.MUSIC_DATABASE_URL = yield* pooler(yield* postgres.freshPath, "transaction")
      }),
    { name: "database", found: /pooler/, fix: /pool_mode = session/ }
  ],
  [
    "a Postgres that is too old",
    (_, environment) =>
      Effect.gen(function* () {
        const place = yield* postgres.emptyPath
        yield* postgres.rawQuery(
          place,
          `CREATE FUNCTION public.current_setting(name TEXT) RETURNS TEXT LANGUAGE sql AS $$
            SELECT CASE name WHEN 'server_version' THEN '13.9' WHEN 'server_version_num' THEN '130009'
              WHEN 'server_encoding' THEN 'UTF8' END $$`
        )
        const options = encodeURIComponent("-c search_path=public,pg_catalog")
        environment.MUSIC_DATABASE_URL = `${place}?options=${options}`
      }),
    {
      name: "database",
      found: /is on PostgreSQL 13\.9: 14 or newer is needed/,
      fix: /use a newer PostgreSQL/
    }
  ]
]

const identity: ReadonlyArray<Misconfiguration> = [
  [
    "the address of another service as IAM",
    (world, environment) => {
      environment.MUSIC_IAM_URL = world.ting.url
    },
    { name: "iam", found: /is not IAM/, fix: /set MUSIC_IAM_URL/ }
  ],
  [
    "an IAM that is away",
    set({ MUSIC_IAM_URL: "http://127.0.0.1:1" }),
    { name: "iam", found: /no response from .*ECONNREFUSED/, fix: /set MUSIC_IAM_URL/ }
  ],
  [
    "a wrong application secret",
    set({ MUSIC_IAM_APP_SECRET: "ask_Zq8LrXe0WvN5tYcJ2mUoPdAfS3hB1zKhiddenword12" }),
    { name: "iam secret", found: /401 invalid_client/, fix: /set MUSIC_IAM_APP_SECRET/ }
  ],
  [
    "the id of another application",
    set({ MUSIC_IAM_APP_ID: "radio" }),
    { name: "iam secret", found: /401 invalid_client/, fix: /the application radio \(MUSIC_IAM_APP_ID\)/ }
  ],
  [
    "a clock that is 10 minutes off",
    () => undefined,
    { name: "clock", found: /(?:599|600|601) seconds behind/, fix: /NTP/ },
    () => Date.now() + 600_000
  ],
  [
    "a clock that is 10 seconds off",
    () => undefined,
    { name: "clock", status: "WARN", found: /(?:9|10|11) seconds ahead/, fix: /NTP/ },
    () => Date.now() - 10_000
  ]
]

const upstreams: ReadonlyArray<Misconfiguration> = [
  [
    "the address of another service as Ting",
    (world, environment) => {
      environment.MUSIC_TING_URL = world.iam.url
    },
    { name: "ting", found: /is not Ting/, fix: /set MUSIC_TING_URL/ }
  ],
  [
    "a Ting that is away",
    set({ MUSIC_TING_URL: "http://127.0.0.1:1" }),
    { name: "ting", found: /no response from .*ECONNREFUSED/, fix: /set MUSIC_TING_URL/ }
  ],
  [
    "a table key that was rotated",
    (world) => {
      world.tables.rotateKey("musicclidaemon")
    },
    { name: "table musicclidaemon", found: /rotated/, fix: /set MUSIC_CLIDAEMON_TABLE_KEY/ }
  ],
  [
    "a table key that was never issued",
    set({ MUSIC_BACKEND_TABLE_KEY: "table-musicbackend-0123456789abcdef0123456789abcdef" }),
    { name: "table musicbackend", found: /does not know the key/, fix: /set MUSIC_BACKEND_TABLE_KEY/ }
  ],
  [
    "the address of another service as the table service",
    (world, environment) => {
      environment.MUSIC_TABLES_URL = world.tracker.url
    },
    { name: "tables", found: /is not the table service/, fix: /set MUSIC_TABLES_URL/ }
  ],
  [
    "a table service that is away",
    set({ MUSIC_TABLES_URL: "http://127.0.0.1:1" }),
    { name: "tables", found: /no response from .*ECONNREFUSED/, fix: /set MUSIC_TABLES_URL/ }
  ],
  [
    "a wrong tracker token",
    set({ MUSIC_GITHUB_TOKEN: "hidden-word" }),
    { name: "tracker token", found: /refuses it/, fix: /set MUSIC_GITHUB_TOKEN/ }
  ],
  [
    "a tracker token that was revoked",
    (world) => {
      world.tracker.revokeToken(world.trackerToken)
    },
    { name: "tracker token", found: /refuses it/, fix: /set MUSIC_GITHUB_TOKEN/ }
  ],
  [
    "a tracker token that may not write issues",
    (world) => {
      world.tracker.setRights(world.trackerToken, "read")
    },
    { name: "tracker rights", found: /lacks issues=write/, fix: /Issues: read and write/ }
  ],
  [
    "a rate limit of the tracker that prevents the check",
    (world) => {
      world.tracker.limits.secondary({ method: "POST" })
    },
    { name: "tracker rights", status: "WARN", found: /not verifiable now: rate limit/, fix: /again/ }
  ],
  [
    "a tracker token that expires soon",
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
  ],
  [
    "a repository that does not exist",
    set({ MUSIC_GITHUB_REPOSITORY: "harbor/nowhere" }),
    {
      name: "tracker",
      found: /does not exist, or the token cannot see it/,
      fix: /correct MUSIC_GITHUB_REPOSITORY/
    }
  ],
  [
    "a repository that was archived",
    (world) => {
      world.tracker.archive(repository)
    },
    { name: "tracker", found: /archived/, fix: /unarchive it/ }
  ],
  [
    "a repository without issues",
    (world) => {
      world.tracker.disableIssues(repository)
    },
    { name: "tracker", found: /issues are disabled/, fix: /enable Issues/ }
  ],
  [
    "a repository that was moved",
    (world) => {
      world.tracker.move(repository, "harbor/elsewhere")
    },
    { name: "tracker", found: /renamed or moved/, fix: /its new name/ }
  ],
  [
    "a tracker that is away",
    set({ MUSIC_GITHUB_URL: "http://127.0.0.1:1" }),
    { name: "tracker", found: /no response from .*ECONNREFUSED/, fix: /set MUSIC_GITHUB_URL/ }
  ],
  [
    "a collector that is away",
    set({
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1",
      OTEL_EXPORTER_OTLP_HEADERS: "authorization=hidden-word"
    }),
    ["traces", "metrics"].map((signal) => ({
      name: `collector ${signal}`,
      status: "WARN",
      found: /^no response from the collector at http:\/\/127\.0\.0\.1:1 \(ECONNREFUSED\)$/,
      fix: /correct OTEL_EXPORTER_OTLP_ENDPOINT/
    }))
  ],
  [
    "a collector that refuses the headers, and another service as the one for metrics",
    (_, environment) =>
      Effect.gen(function* () {
        const [refusing, other] = yield* Effect.all([
          answering(() => ({ status: 401 })),
          answering(() => ({ status: 404 }))
        ])
        environment.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT = `${refusing.url}/v1/traces?key=hidden-word`
        environment.OTEL_EXPORTER_OTLP_METRICS_ENDPOINT = `${other.url}/v1/metrics`
        environment.OTEL_EXPORTER_OTLP_METRICS_PROTOCOL = "http/protobuf"
      }),
    [
      { name: "collector traces", status: "WARN", found: /refuses them: HTTP 401$/, fix: /OTLP_HEADERS/ },
      { name: "collector metrics", status: "WARN", found: /not accept them: HTTP 404$/, fix: /OTLP_ENDPOINT/ }
    ]
  ]
]

const addresses: ReadonlyArray<Misconfiguration> = [
  [
    "a loopback address without a trusted proxy",
    set({ MUSIC_TRUSTED_PROXIES: "" }),
    {
      name: "proxy",
      status: "WARN",
      found: /^MUSIC_BIND is a loopback address, and no proxy is trusted/,
      fix: /MUSIC_TRUSTED_PROXIES/
    }
  ],
  [
    "a port of another web server",
    (world, environment) => {
      environment.MUSIC_BIND = `127.0.0.1:${world.ting.port}`
    },
    { name: "server", found: /another program listens at 127\.0\.0\.1:\d+$/, fix: /set MUSIC_BIND/ }
  ],
  [
    "a port of a program that speaks no HTTP",
    (_, environment) =>
      Effect.map(takenPort(), ({ port }) => {
        environment.MUSIC_BIND = `127.0.0.1:${port}`
      }),
    { name: "server", found: /another program listens at 127\.0\.0\.1:\d+$/, fix: /set MUSIC_BIND/ }
  ],
  [
    "a port of a program that says nothing",
    (_, environment) =>
      Effect.map(takenPort(false), ({ port }) => {
        environment.MUSIC_BIND = `127.0.0.1:${port}`
      }),
    { name: "server", found: /the program at \S+ does not answer within 3 seconds$/, fix: /see its log/ }
  ],
  [
    "an address that this machine does not have",
    set({ MUSIC_BIND: "127.0.0.1:0", MUSIC_ADMIN_BIND: "192.168.255.254:9464" }),
    {
      name: "metrics",
      found: /^192\.168\.255\.254 is no address of this machine$/,
      fix: /set MUSIC_ADMIN_BIND .*127\.0\.0\.1:9464/
    }
  ],
  [
    "metrics at the port of another program",
    (_, environment) =>
      Effect.map(takenPort(), ({ port }) => {
        environment.MUSIC_ADMIN_BIND = `127.0.0.1:${port}`
      }),
    { name: "metrics", found: /another program listens at/, fix: /set MUSIC_ADMIN_BIND to another port/ }
  ],
  [
    "metrics at the port of the server",
    (_, environment) => {
      environment.MUSIC_ADMIN_BIND = environment.MUSIC_BIND?.replace("127.0.0.1", "localhost") ?? ""
    },
    { name: "metrics", found: /MUSIC_ADMIN_BIND and MUSIC_BIND are the same address/, fix: /another port/ }
  ]
]

describe("music-backend check", () => {
  it.scopedLive(
    "passes a working installation, and neither stores nor files anything nor creates a database",
    function* () {
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

  it.each([
    ["limits are off", { rateLimit: false }],
    ["it listens on the network", { bind: { host: "0.0.0.0", port: 8787 } }],
    ["a proxy is trusted", { trustedProxies: ["127.0.0.1"] }]
  ])("does not warn of a proxy when %s", (_, change) => {
    expect(checkProxy(testSettings({ rateLimit: true, ...change })).status).toBe("PASS")
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

  it.scopedLive(
    "sends an empty batch of each signal to the collector, and reports that it is accepted",
    function* () {
      const { received, url } = yield* startCollector()
      const { checks } = yield* checked(set({ OTEL_EXPORTER_OTLP_ENDPOINT: url }))
      expect(notPassed(checks)).toEqual([])
      expect(checks.filter(({ name }) => name.startsWith("collector")).map(({ status }) => status)).toEqual([
        "PASS",
        "PASS"
      ])
      expect(received.map(({ body, path }) => [path, body.toString()]).toSorted()).toEqual([
        ["/v1/metrics", '{"resourceMetrics":[]}'],
        ["/v1/traces", '{"resourceSpans":[]}']
      ])
    }
  )

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
    const [first = ""] = out.split("\n")
    expect(first).toMatch(/^PASS {2}settings {22}16 set, \d+ at their default or off$/)
    expect(out).toMatch(
      /\nFAIL {2}table musicbackend {12}the service does not know the key: .*\n {36}-> set MUSIC_BACKEND_TABLE_KEY to /
    )
    expect(out).toMatch(/\n\n17 passed, 0 warnings, 1 failed, 1 skipped$/)
    expect(progress.at(-1)).toBe("")
    expect(exit).toBe(1)
  })
})

describe.concurrent("music-backend check finds", () => {
  for (const group of [database, identity, upstreams, addresses]) for (const row of group) finds(row)

  it.live.each(badSettings.map((row) => ({ title: row[0], row })))("$title", function* ({ row }) {
    const [, changes, found, fix, status = "FAIL"] = row
    const environment = { ...soundSettings, ...changes }
    const { err, exit, json, out } = yield* run(["check", "--json"], environment)
    const { checks } = json as { readonly checks: ReadonlyArray<Finding> }
    expect(notPassed(checks).filter(({ name }) => name === "settings")).toEqual([
      { name: "settings", status, found: expect.stringMatching(found), fix: expect.stringMatching(fix) }
    ])
    // The server starts in spite of a warning only.
    expect(readSettings(environment).problems.length > 0).toBe(status === "FAIL")
    // Nothing answers at the addresses of these settings.
    expect([exit, err]).toEqual([1, ""])
    for (const secret of [...secretsOf(environment), "hidden-word"]) expect(out).not.toContain(secret)
  })
})

describe("Findings of what a test cannot bring about:", () => {
  it("a disk that is full, or nearly", () => {
    const spool = 500_000_000
    expect(diskFinding(0, spool)).toMatchObject({
      status: "FAIL",
      found: "0 MB free: reports, telemetry and webhooks are refused, or will soon be",
      fix: expect.stringContaining("MUSIC_DATABASE_PATH")
    })
    expect(diskFinding(400_000_000, spool)).toMatchObject({ status: "WARN" })
    expect(diskFinding(600_000_000, spool)).toMatchObject({ status: "PASS" })
  })

  it("a clock that is off by a few seconds, or by a minute", () => {
    const statuses = [0, 1, 5, -5, 6, -6, 60, -60, 61, -61].map((seconds) => clockFinding(seconds).status)
    expect(statuses).toEqual(["PASS", "PASS", "PASS", "PASS", "WARN", "WARN", "WARN", "WARN", "FAIL", "FAIL"])
  })

  it("a proxy, which is named without its credentials, and a variable without effect", () => {
    const found = (environment: Readonly<Record<string, string>>) =>
      checkOutboundProxy(readSettings(environment).settings, environment)
    expect(found({})).toEqual([])
    const [one, ...others] = found({
      HTTPS_PROXY: "http://operator:hidden-word@proxy.example:3128",
      NO_PROXY: "a.example,10.0.0.0/8"
    })
    expect(others).toEqual([])
    expect(one).toMatchObject({
      status: "PASS",
      found: "https: http://proxy.example:3128; http: none; not for this machine, a.example, 10.0.0.0/8"
    })
    expect(JSON.stringify(one)).not.toMatch(/hidden-word|operator/)
    for (const name of ["ALL_PROXY", "all_proxy"])
      expect(found({ [name]: "socks5://proxy.example" })).toMatchObject([
        { status: "WARN", found: `${name} has no effect`, fix: expect.stringContaining("HTTPS_PROXY") }
      ])
  })

  it("a port that needs a right, and a host that is not known", () => {
    const at = { host: "127.0.0.1", port: 80 }
    expect(listenFailure("server", "MUSIC_BIND", at, "EACCES")).toMatchObject({
      status: "FAIL",
      found: "this user may not listen on port 80",
      fix: expect.stringContaining("CAP_NET_BIND_SERVICE")
    })
    expect(listenFailure("server", "MUSIC_BIND", { ...at, host: "nowhere" }, "ENOTFOUND")).toMatchObject({
      status: "FAIL",
      found: "the host nowhere is not known",
      fix: expect.stringContaining("MUSIC_BIND")
    })
  })

  it("pages of Postgres with bad checksums", () => {
    expect(postgresFinding(Option.some(2))).toMatchObject({
      status: "WARN",
      found: expect.stringContaining("2 reads"),
      fix: expect.stringContaining("pg_stat_reset()")
    })
    expect(postgresFinding(Option.some(0)).status).toBe("PASS")
    expect(postgresFinding(Option.none()).status).toBe("SKIP")
  })

  it.scopedLive("a database that is larger than the time", function* () {
    const path = join(mkdtempSync(join(scratch, "db-")), "music.sqlite")
    yield* openDatabase(path)
    expect(yield* checkSqliteIntegrity(path, 1)).toMatchObject([
      {
        status: "WARN",
        found: expect.stringMatching(/^only 0 of all tables/),
        fix: expect.stringMatching(/backup/)
      }
    ])
  })

  it.live("addresses of a public network", function* () {
    const cloud = ["127.0.0.1", "10.0.0.4", "203.0.113.7", "::1", "fe80::1", "2001:db8::7"]
    const inside = cloud.filter((address) => !/^(?:203|2001)/.test(address))
    const found = yield* Effect.forEach(
      [
        ["0.0.0.0", cloud],
        ["::", cloud.filter((address) => !address.startsWith("203"))],
        ["0.0.0.0", inside],
        ["::", inside],
        ["203.0.113.7", cloud],
        ["10.0.0.4", cloud],
        ["::ffff:10.0.0.4", cloud],
        ["localhost", cloud]
      ] as const,
      ([host, all]) => publicAddressOf(host, all)
    )
    expect(found).toEqual([
      "203.0.113.7",
      "2001:db8::7",
      undefined,
      undefined,
      "203.0.113.7",
      undefined,
      undefined,
      undefined
    ])
    const exposed = yield* checkExposure(
      testSettings({
        bind: { host: "0.0.0.0", port: 8787 },
        adminBind: Option.some({ host: "::", port: 9464 }),
        iam: { webhookSecrets: new Map([[1, Redacted.make(webhookSecret)]]) }
      }),
      () => false,
      cloud
    )
    expect(exposed).toMatchObject([
      {
        status: "WARN",
        found: expect.stringMatching(/^MUSIC_BIND .* 203\.0\.113\.7, .* plain HTTP$/),
        fix: expect.stringContaining("TLS")
      },
      { status: "WARN", found: expect.stringMatching(/^MUSIC_ADMIN_BIND .* not authenticated$/) }
    ])
  })

  it("networks that are no proxies, and addresses that include each other", () => {
    const wide = ["0.0.0.0/0", "0.0.0.0/1", "::/0", "2000::/3", "::ffff:0.0.0.0/96"]
    const sound = ["10.0.0.0/8", "fc00::/7", "127.0.0.1", "::1", "104.16.0.0/13", "2400:cb00::/32"]
    expect([...wide, ...sound].filter(isTooWide)).toEqual(wide)
    const one = (host: string, port = 8787) => ({ host, port })
    expect([
      overlap(one("0.0.0.0"), one("127.0.0.1")),
      overlap(one("::1"), one("::")),
      overlap(one("127.0.0.1"), one("localhost")),
      overlap(one("127.0.0.1"), one("127.0.0.1", 9464)),
      overlap(one("127.0.0.1"), one("10.0.0.4")),
      overlap(one("0.0.0.0"), one("::1")),
      overlap(one("127.0.0.1", 0), one("127.0.0.1", 0))
    ]).toEqual([true, true, true, false, false, false, false])
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
