import { execFileSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { call } from "../../sandbox/HttpExchange.ts"
import { startUpstreams, mintSlt } from "../../sandbox/SimulatedUpstreams.ts"
import { environmentFor, killedWithScope, metricsUrl, root, start, urlOf } from "../world/Fleet.ts"
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
    const process_ = yield* killedWithScope(() => start(program, parameters, environment))
    return { world, base: yield* Effect.promise(() => urlOf(process_)), server: process_ }
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
    const url = yield* metricsUrl({ server: process_ })
    const output = process_.output()
    expect(output).toContain(`"Starting","version":"${version}","build":"${build}"`)
    expect((yield* call(url)).text).toContain(`music_build_info{version="${version}",build="${build}"} 1`)
    const warnings = output.split("\n").filter((line) => line.includes('"level":"warn"'))
    const wanted = "MUSIC_RATE_LIMITS is not a setting"
    expect(warnings).toEqual([expect.stringContaining(wanted)])
    expect(output).not.toContain("hidden")
  })

  const bad = {
    MUSIC_BIND: "nowhere",
    MUSIC_TING_URL: "http://hidden.example",
    MUSIC_IAM_APP_SECRET: "ask_hidden",
    MUSIC_IAM_WEBHOOK_SECRET_FILE: join(folder, "absent"),
    MUSIC_DATABASE_URL: "postgres://music:hid#den@db.example/music"
  }
  const file = join(folder, "bad.env")
  it.live("lists all bad settings at once, without their values, and exits with 78", () =>
    Effect.promise(async () => {
      const text = Object.entries(bad).map(([name, value]) => `${name}='${value}'\n`)
      writeFileSync(file, text.join(""))
      const { ended, output } = start(process.execPath, ["dist/cli.js", "--env-file", file, "serve"], {})
      expect((await ended).code).toBe(78)
      const problems = [
        ["MUSIC_BIND", "must be host:port"],
        ["MUSIC_DATABASE_URL", "# as %23"],
        ["MUSIC_IAM_APP_SECRET", "must be ask_ and 43 characters"],
        ["MUSIC_IAM_URL", "is required"],
        ["MUSIC_IAM_WEBHOOK_SECRET", "the file of MUSIC_IAM_WEBHOOK_SECRET_FILE cannot be read (ENOENT)"],
        ["MUSIC_TING_URL", "must be an https URL"]
      ] as const
      const lines = output().trim().split("\n").sort()
      const said = problems.map(([name]) => expect.stringContaining(`music-backend: ${name}: `))
      expect(lines).toEqual(said)
      for (const [at, [, reason]] of problems.entries()) expect(lines[at]).toContain(reason)
      expect(output()).not.toMatch(/hid(?:#|den)/)
    })
  )

  it.scopedLive("finishes its requests at a signal, and repeated ones change nothing", function* () {
    const { world, base, server: process_ } = yield* running("second.sqlite")
    world.iam.fail({ path: "/api/v1/app-auth/tokens", fault: { kind: "delay", milliseconds: 2_000 } })
    const headers = { "idempotency-key": "key-0123456789abcdef" }
    const sent = { method: "POST", body: { slt: mintSlt(world) }, headers }
    const login = yield* Effect.fork(call(`${base}/api/v1/auth/login`, sent))
    yield* until(() => world.iam.seen.some(({ path }) => path.endsWith("/tokens")))
    // npm forwards the signal that the terminal sent too.
    for (const signal of ["SIGTERM", "SIGINT", "SIGHUP", "SIGTERM"] as const) {
      process_.child.kill(signal)
      yield* Effect.sleep(100)
    }
    expect((yield* Fiber.join(login)).status).toBe(200)
    expect(yield* Effect.promise(() => process_.ended)).toEqual({ code: 0, signal: null })
    expect(process_.output().match(/"Stopping"/g)).toHaveLength(1)
    expect(process_.output()).toMatch(
      /"Stopped","duration_ms":\d+,"requests_finished":1,"requests_cut":0\}\n$/
    )
  })

  it.scopedLive("receives signals under npm start, and its exit code is npm's", function* () {
    const { base, server: process_ } = yield* running("npm.sqlite", ["npm", "start", "--silent"])
    expect((yield* call(`${base}/healthz`)).status).toBe(200)
    process_.child.kill("SIGTERM")
    expect((yield* Effect.promise(() => process_.ended)).code).toBe(0)
  })
})
