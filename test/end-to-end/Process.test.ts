import { execFileSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { call } from "../../sandbox/HttpExchange.ts"
import { startUpstreams, mintSlt } from "../../sandbox/SimulatedUpstreams.ts"
import { environmentFor, type Running, root, start } from "../support/Process.ts"
import { until } from "../support/Waiting.ts"

const folder = mkdtempSync(join(tmpdir(), "music-process-"))
const server = ["dist/main.js"]

beforeAll(() => {
  execFileSync(process.execPath, ["scripts/build.mjs", "--if-needed"], { cwd: root })
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** A server against simulated upstreams, killed at the end of the test. */
const running = (
  databaseName: string,
  command: readonly [string, ...ReadonlyArray<string>] = [process.execPath, ...server],
  more: Readonly<Record<string, string>> = {}
) =>
  Effect.gen(function* () {
    const world = yield* startUpstreams(() => Date.now())
    const environment = {
      ...environmentFor(world, { port: 0, databasePath: join(folder, databaseName) }),
      ...more
    }
    const [program, ...parameters] = command
    const process_: Running = yield* Effect.acquireRelease(
      Effect.sync(() => start(program, parameters, environment)),
      ({ child, ended }) =>
        Effect.promise(() => {
          child.kill("SIGKILL")
          return ended
        })
    )
    const [, base = ""] = yield* Effect.promise(() => process_.says(/"Listening".*?"url":"(http:[^"]+)"/))
    return { world, base, server: process_ }
  })

const login = (base: string, slt: string) =>
  call(`${base}/api/v1/auth/login`, {
    method: "POST",
    body: { slt },
    headers: { "idempotency-key": `login-${slt}` }
  })

describe("The process", () => {
  it.scopedLive("names its build in the log and the metrics, as the command line does", function* () {
    const { server: process_ } = yield* running("build.sqlite", [process.execPath, ...server], {
      MUSIC_ADMIN_BIND: "127.0.0.1:0"
    })
    const shown = execFileSync(process.execPath, ["dist/cli.js", "version"], {
      cwd: root,
      encoding: "utf8"
    })
    const [, version, build] = /^(\S+) \(build ([0-9a-f]{12})\)\n$/.exec(shown) ?? []
    const [, url = ""] = yield* Effect.promise(() => process_.says(/"Metrics served".*?"url":"(http:[^"]+)"/))
    expect(process_.output()).toContain(`"Starting","version":"${version}","build":"${build}"`)
    expect((yield* call(url)).text).toContain(`music_build_info{version="${version}",build="${build}"} 1`)
  })

  it.live("lists all bad settings at once, exits with 78, and prints no stack and no value", () =>
    Effect.promise(async () => {
      const { ended, output } = start(process.execPath, server, {
        MUSIC_BIND: "nowhere",
        MUSIC_TING_URL: "http://ting.example",
        MUSIC_IAM_APP_SECRET: "ask_much-too-short",
        MUSIC_IAM_WEBHOOK_SECRET_FILE: join(folder, "absent")
      })
      expect((await ended).code).toBe(78)
      expect(output().trim().split("\n").sort()).toEqual([
        "music-backend: MUSIC_BIND: must be host:port, such as 127.0.0.1:8787 or [::1]:8787",
        "music-backend: MUSIC_IAM_APP_SECRET: must be ask_ and 43 characters of A-Z, a-z, 0-9, _ and -",
        "music-backend: MUSIC_IAM_URL: is required",
        "music-backend: MUSIC_IAM_WEBHOOK_SECRET: the file of MUSIC_IAM_WEBHOOK_SECRET_FILE does not exist",
        "music-backend: MUSIC_TING_URL: must be an https URL (http on loopback only) without user, query or fragment"
      ])
    })
  )

  it.live.each<readonly [string, string, string]>([
    ["MUSIC_DATABASE_URL", "postgres://music:hid#den@db.example/music", "# as %23"],
    ["MUSIC_DATABASE_URL", "postgres://music:hid/den@db.example/music", "/ as %2F"],
    ["MUSIC_DATABASE_URL", "postgres://music:12?hidden@db.example/music", "? as %3F"],
    [
      "MUSIC_WEB_ORIGINS",
      "https://a.example,https://b.example/hidden,https://c.example",
      "entry 2 does not fit"
    ],
    ["MUSIC_TRUSTED_PROXIES", "10.0.0.0/8, 10.1.0.0/16, hidden.example", "entry 3 does not fit"],
    ["MUSIC_TING_TYPES", "music.trigger.fired,hidden", "entry 2 does not fit"],
    ["OTEL_EXPORTER_OTLP_HEADERS", "a=b,hidden", "entry 2 does not fit"]
  ])("says what of %s is wrong, without its value, and exits with 78: %s", ([name, value, reason]) =>
    Effect.promise(async () => {
      const { ended, output } = start(process.execPath, server, {
        OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318",
        [name]: value
      })
      expect((await ended).code).toBe(78)
      const line = output()
        .split("\n")
        .find((text) => text.startsWith(`music-backend: ${name}: `))
      expect(line).toContain(reason)
      expect(output()).not.toMatch(/hid/)
    })
  )

  it.scopedLive("warns of misspelt settings at its start, and not of a client's variables", function* () {
    const { server: process_ } = yield* running("misspelt.sqlite", [process.execPath, ...server], {
      MUSIC_RATE_LIMITS: "hidden",
      MUSIC_BIND_FILE: "hidden",
      MUSIC_FAVOURITE_COLOUR_OF_ALL: "hidden",
      MUSIC_TEST_APP_SECRET: "hidden",
      MUSIC_URL: "hidden",
      MUSIC_TABLES_URLS: ""
    })
    const warnings = process_
      .output()
      .split("\n")
      .filter((line) => line.includes('"level":"warn"'))
      .map((line) => JSON.parse(line) as { readonly message: string })
    expect(warnings.map(({ message }) => message)).toEqual([
      "MUSIC_BIND_FILE has no effect: only secrets are read from files",
      "MUSIC_FAVOURITE_COLOUR_OF_ALL is not a setting",
      "MUSIC_RATE_LIMITS is not a setting; did you mean MUSIC_RATE_LIMIT?"
    ])
    expect(process_.output()).not.toContain("hidden")
  })

  it.scopedLive("finishes the request in flight at SIGTERM and exits with 0", function* () {
    const { world, base, server: process_ } = yield* running("drain.sqlite")
    world.iam.fail({ path: "/api/v1/app-auth/tokens", fault: { kind: "delay", milliseconds: 250 } })
    const answer = yield* Effect.fork(login(base, mintSlt(world)))
    yield* until(() => world.iam.seen.some(({ path }) => path.endsWith("/tokens")))
    process_.child.kill("SIGTERM")
    expect((yield* answer).status).toBe(200)
    expect(yield* Effect.promise(() => process_.ended)).toEqual({ code: 0, signal: null })
  })

  it.scopedLive(
    "counts a repeated signal as the same one, and ends at once at a second one a second later",
    function* () {
      const { world, base, server: process_ } = yield* running("second.sqlite")
      world.iam.fail({ path: "/api/v1/app-auth/tokens", fault: { kind: "hang" } })
      yield* Effect.fork(Effect.either(login(base, mintSlt(world))))
      yield* until(() => world.iam.seen.some(({ path }) => path.endsWith("/tokens")))
      // Two kinds, because the system joins two of one kind that wait. The process sees them together, however slow it is.
      process_.child.kill("SIGTERM")
      process_.child.kill("SIGINT")
      yield* Effect.promise(() => process_.says(/"Stopping"/))
      // By then the first one was seen more than a second ago.
      yield* Effect.sleep(1_100)
      expect(process_.child.exitCode).toBeNull()
      process_.child.kill("SIGTERM")
      expect(yield* Effect.promise(() => process_.ended)).toEqual({ code: 143, signal: null })
      expect(process_.output()).toMatch(
        /"Stopped","complete":false,"duration_ms":\d+,"requests_finished":0,"requests_cut":1\}/
      )
    }
  )

  it.scopedLive("keeps acknowledged data: a report survives a kill", function* () {
    const report = { message: "Playback stops after a seek near the end of a track." }
    const send = (base: string) =>
      call(`${base}/api/v1/reports`, {
        method: "POST",
        body: report,
        headers: { "idempotency-key": "report-0123456789" }
      })
    const first = yield* running("kept.sqlite")
    const stored = yield* send(first.base)
    first.server.child.kill("SIGKILL")
    yield* Effect.promise(() => first.server.ended)
    const second = yield* running("kept.sqlite")
    const again = yield* send(second.base)
    expect(JSON.parse(again.text)).toEqual({ ...JSON.parse(stored.text), replayed: true })
  })

  it.scopedLive("receives signals under npm start, and its exit code is npm's", function* () {
    const { base, server: process_ } = yield* running("npm.sqlite", ["npm", "start", "--silent"])
    expect((yield* call(`${base}/healthz`)).status).toBe(200)
    process_.child.kill("SIGTERM")
    expect((yield* Effect.promise(() => process_.ended)).code).toBe(0)
  })

  it.scopedLive("does not start with a corrupt database, and names it", function* () {
    const path = join(folder, "corrupt.sqlite")
    writeFileSync(path, "this is no database ".repeat(500))
    const world = yield* startUpstreams(() => Date.now())
    const { ended, output } = start(
      process.execPath,
      server,
      environmentFor(world, { port: 0, databasePath: path })
    )
    expect((yield* Effect.promise(() => ended)).code).toBe(69)
    expect(output()).toContain(path)
    expect(output()).not.toMatch(/^\s+at /m)
  })

  it.scopedLive("does not start when the port is in use, and names the address", function* () {
    const { world, base } = yield* running("taken.sqlite")
    const port = Number(new URL(base).port)
    const { ended, output } = start(
      process.execPath,
      server,
      environmentFor(world, { port, databasePath: join(folder, "free.sqlite") })
    )
    expect((yield* Effect.promise(() => ended)).code).toBe(69)
    expect(output()).toContain(`127.0.0.1:${port}`)
    expect(output()).not.toMatch(/^\s+at /m)
  })
})
