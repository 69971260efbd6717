import { execFileSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { call } from "../../sandbox/HttpExchange.ts"
import { startUpstreams, mintSlt } from "../../sandbox/SimulatedUpstreams.ts"
import { environmentFor, type Running, root, start } from "../world/Fleet.ts"
import { until } from "../world/Waiting.ts"

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
  it.scopedLive("says at its start its build, and what is misspelt", function* () {
    const { server: process_ } = yield* running("build.sqlite", undefined, {
      MUSIC_ADMIN_BIND: "127.0.0.1:0",
      MUSIC_RATE_LIMITS: "hidden",
      // Of a client.
      MUSIC_URL: "hidden"
    })
    const command = [process.execPath, ["dist/cli.js", "version"], { cwd: root, encoding: "utf8" }] as const
    const shown = execFileSync(...command)
    const [, version, build] = /^(\S+) \(build ([0-9a-f]{12})\)\n$/.exec(shown) ?? []
    const [, url = ""] = yield* Effect.promise(() => process_.says(/"Metrics served".*?"url":"(http:[^"]+)"/))
    const output = process_.output()
    expect(output).toContain(`"Starting","version":"${version}","build":"${build}"`)
    expect((yield* call(url)).text).toContain(`music_build_info{version="${version}",build="${build}"} 1`)
    const warnings = output.split("\n").filter((line) => line.includes('"level":"warn"'))
    const wanted = "MUSIC_RATE_LIMITS is not a setting; did you mean MUSIC_RATE_LIMIT?"
    expect(warnings).toEqual([expect.stringContaining(wanted)])
    expect(output).not.toContain("hidden")
  })

  it.live("lists all bad settings at once, without their values, and exits with 78", () =>
    Effect.promise(async () => {
      const { ended, output } = start(process.execPath, server, {
        MUSIC_BIND: "nowhere",
        MUSIC_TING_URL: "http://hidden.example",
        MUSIC_IAM_APP_SECRET: "ask_hidden",
        MUSIC_IAM_WEBHOOK_SECRET_FILE: join(folder, "absent"),
        MUSIC_DATABASE_URL: "postgres://music:hid#den@db.example/music"
      })
      expect((await ended).code).toBe(78)
      const problems = [
        ["MUSIC_BIND", "must be host:port"],
        ["MUSIC_DATABASE_URL", "# as %23"],
        ["MUSIC_IAM_APP_SECRET", "must be ask_ and 43 characters"],
        ["MUSIC_IAM_URL", "is required"],
        ["MUSIC_IAM_WEBHOOK_SECRET", "the file of MUSIC_IAM_WEBHOOK_SECRET_FILE does not exist"],
        ["MUSIC_TING_URL", "must be an https URL"]
      ] as const
      const lines = output().trim().split("\n").sort()
      const said = problems.map(([name]) => expect.stringContaining(`music-backend: ${name}: `))
      expect(lines).toEqual(said)
      for (const [at, [, reason]] of problems.entries()) expect(lines[at]).toContain(reason)
      expect(output()).not.toMatch(/hid(?:#|den)/)
    })
  )

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

  it.scopedLive("receives signals under npm start, and its exit code is npm's", function* () {
    const { base, server: process_ } = yield* running("npm.sqlite", ["npm", "start", "--silent"])
    expect((yield* call(`${base}/healthz`)).status).toBe(200)
    process_.child.kill("SIGTERM")
    expect((yield* Effect.promise(() => process_.ended)).code).toBe(0)
  })

  it.scopedLive(
    "does not start with a corrupt database, or when the port is in use, and names them",
    function* () {
      const { world, base } = yield* running("taken.sqlite")
      const path = join(folder, "corrupt.sqlite")
      writeFileSync(path, "this is no database ".repeat(500))
      const port = Number(new URL(base).port)
      for (const [change, named] of [
        [{ port: 0, databasePath: path }, path],
        [{ port, databasePath: join(folder, "free.sqlite") }, `127.0.0.1:${port}`]
      ] as const) {
        const { ended, output } = start(process.execPath, server, environmentFor(world, change))
        expect((yield* Effect.promise(() => ended)).code).toBe(69)
        expect(output()).toContain(named)
        expect(output()).not.toMatch(/^\s+at /m)
      }
    }
  )
})
