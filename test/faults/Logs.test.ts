/** The log of the real process: its lines, and targets that do not take them. */
import { Effect, Schedule } from "effect"
import { beforeAll, describe, expect } from "vitest"
import { call } from "../../sandbox/HttpExchange.ts"
import { parse, scrape, sum } from "../observability/Exposition.ts"
import { build, environmentOf, freePort, killedWithScope, start, upstreams, urlOf } from "../world/Fleet.ts"
import { it } from "../world/Test.ts"
import { newPath } from "../layers/store/Stores.ts"

beforeAll(build)

/** Starts the built server. */
const startServer = (environment: Readonly<Record<string, string>>) =>
  killedWithScope(() => start(process.execPath, ["dist/main.js"], environment))

const settings = (more: Readonly<Record<string, string>>) =>
  Effect.gen(function* () {
    return { ...environmentOf(yield* upstreams), MUSIC_DATABASE_PATH: yield* newPath, ...more }
  })

describe.concurrent("The log of a server", () => {
  it.scopedLive("has one line for each record, from its start to its stop", function* () {
    const environment = yield* settings({
      MUSIC_TRUSTED_PROXIES: "127.0.0.1",
      MUSIC_LOG_CLIENT_ADDRESS: "on",
      MUSIC_RATE_LIMITS: "hidden",
      // Of a client.
      MUSIC_URL: "hidden"
    })
    const server = yield* startServer(environment)
    const { child, ended, output } = server
    const base = yield* Effect.promise(() => urlOf(server))
    for (const probe of ["healthz", "readyz"]) yield* call(`${base}/${probe}`)
    yield* call(`${base}/api/v1/version`, { headers: { "x-forwarded-for": "203.0.113.7" } })
    const signal = "SIGHUP"
    child.kill(signal)
    expect(yield* Effect.promise(() => ended)).toEqual({ code: 0, signal: null })
    // Neither a second form of a line nor a report of the signal: every line is JSON.
    const lines = output()
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line))
    expect(lines).toMatchObject([
      {
        message: "Starting",
        level: "info",
        build: expect.stringMatching(/^[0-9a-f]{12}$/),
        pid: child.pid,
        trusted_proxies: ["127.0.0.1"],
        tables: ["musicclidaemon"],
        tracker: "harbor/music"
      },
      { level: "warn", message: expect.stringContaining("MUSIC_RATE_LIMITS is not a setting") },
      {
        message: "Database opened",
        database: `SQLite database ${environment.MUSIC_DATABASE_PATH}`,
        schema_found: 0
      },
      { message: "Database migrated", from: 0, to: lines[2].schema_needed },
      { message: "Listening" },
      { message: "Request", route: "/api/v1/version", client_address: "203.0.113.7" },
      { message: "Stopping", signal },
      { message: "Stopped", level: "info" }
    ])
    for (const [name, value] of Object.entries(environment))
      if (/SECRET|KEY$|TOKEN|^MUSIC_URL$|LIMITS$/.test(name) && value !== "")
        expect(output()).not.toContain(value)
  })

  it.scopedLive("on a pipe without a reader ends neither start nor work nor stop", function* () {
    const [port, adminPort] = yield* Effect.promise(() => Promise.all([freePort(), freePort()]))
    const environment = yield* settings({
      MUSIC_BIND: `127.0.0.1:${port}`,
      MUSIC_ADMIN_BIND: `127.0.0.1:${adminPort}`
    })
    const { child, ended } = yield* startServer(environment)
    child.stdout?.destroy()
    child.stderr?.destroy()
    const answer = call(`http://127.0.0.1:${port}/api/v1/version`)
    yield* Effect.retry(answer, { while: () => child.exitCode === null, schedule: Schedule.spaced(50) })
    for (let at = 0; at < 5; at += 1) yield* answer
    const samples = parse(yield* scrape(`http://127.0.0.1:${adminPort}`))
    expect(sum(samples, "music_log_lines_lost_total")).toBeGreaterThan(5)
    child.kill("SIGTERM")
    expect(yield* Effect.promise(() => ended)).toEqual({ code: 0, signal: null })
  })
})
