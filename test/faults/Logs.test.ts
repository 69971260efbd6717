/** The log of the real process: its lines, and targets that do not take them. */
import { execFileSync } from "node:child_process"
import { join } from "node:path"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { beforeAll } from "vitest"
import { call } from "../../sandbox/HttpExchange.ts"
import { startUpstreams } from "../../sandbox/SimulatedUpstreams.ts"
import { folder } from "../layers/store/Stores.ts"
import { parse, scrape, sum } from "../observability/Exposition.ts"
import { freePort, root, start, type Running } from "../support/Process.ts"
import { environmentOf } from "./Processes.ts"

beforeAll(() => {
  execFileSync(process.execPath, ["scripts/build.mjs", "--if-needed"], { cwd: root })
})

const entries = { "node dist/main.js": ["dist/main.js"], "music-backend serve": ["dist/cli.js", "serve"] }

/** Starts the server; `shell` runs before, for example to redirect its output. Killed with the scope. */
const startServer = (
  entry: keyof typeof entries,
  environment: Readonly<Record<string, string>>,
  shell = ""
): Effect.Effect<Running, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() =>
      start("sh", ["-c", `${shell} exec "$@"`, "sh", process.execPath, ...entries[entry]], environment)
    ),
    ({ child, ended }) =>
      Effect.promise(() => {
        child.kill("SIGKILL")
        return ended
      })
  )

const settings = (more: Readonly<Record<string, string>> = {}) =>
  Effect.gen(function* () {
    const world = yield* startUpstreams(() => Date.now())
    return {
      ...environmentOf(world),
      MUSIC_DATABASE_PATH: join(yield* folder, "music.sqlite"),
      ...more
    }
  })

const linesOf = ({ output }: Running) =>
  output()
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line))

const listening = /"Listening".*?"url":"(http:[^"]+)"/

describe.concurrent("The log of a server", () => {
  it.scopedLive.each(["node dist/main.js", "music-backend serve"] as const)(
    "that %s starts has one line for each record, from its start to its stop",
    function* (entry) {
      const environment = yield* settings({
        MUSIC_TRUSTED_PROXIES: "127.0.0.1",
        MUSIC_LOG_CLIENT_ADDRESS: "on"
      })
      const server = yield* startServer(entry, environment)
      const [, base = ""] = yield* Effect.promise(() => server.says(listening))
      yield* call(`${base}/healthz`)
      yield* call(`${base}/readyz`)
      yield* call(`${base}/api/v1/version`, { headers: { "x-forwarded-for": "203.0.113.7" } })
      server.child.kill(entry === "music-backend serve" ? "SIGHUP" : "SIGTERM")
      expect(yield* Effect.promise(() => server.ended)).toEqual({ code: 0, signal: null })
      // Neither a second form of a line nor a report of the signal: every line is JSON.
      const lines = linesOf(server)
      expect(lines.map(({ message }) => message)).toEqual([
        "Starting",
        "Database opened",
        "Database migrated",
        "Listening",
        "Request",
        "Stopping",
        "Stopped"
      ])
      const [starting, opened, migrated, , request, stopping, stopped] = lines
      expect(starting).toMatchObject({
        level: "info",
        node: process.version,
        pid: server.child.pid,
        database: `SQLite database ${environment.MUSIC_DATABASE_PATH}`,
        request_deadline_seconds: 25,
        shutdown_grace_seconds: 30,
        iam_calls_per_minute: 110,
        rate_limit: "on",
        trusted_proxies: ["127.0.0.1"],
        telemetry_spool_megabytes: 500,
        reports_megabytes: 1_000,
        tables: ["musicbackend", "musicclidaemon"],
        tracker: "harbor/music"
      })
      expect(starting).not.toHaveProperty("database_connections")
      expect(opened).toMatchObject({ schema_found: 0 })
      expect(migrated).toMatchObject({ from: 0, to: opened.schema_needed })
      expect(request).toMatchObject({ route: "/api/v1/version", client_address: "203.0.113.7" })
      expect(stopping).toMatchObject({ signal: entry === "music-backend serve" ? "SIGHUP" : "SIGTERM" })
      expect(stopped).toMatchObject({
        level: "info",
        complete: true,
        requests_finished: 0,
        requests_cut: 0
      })
      for (const [name, value] of Object.entries(environment))
        if (/SECRET|KEY$|TOKEN/.test(name) && value !== "") expect(server.output()).not.toContain(value)
    }
  )

  it.scopedLive.each([
    { entry: "node dist/main.js", format: "pretty", target: "a full disk", shell: "exec >/dev/full 2>&1;" },
    { entry: "music-backend serve", format: "json", target: "a pipe without a reader", shell: "" }
  ] as const)(
    "of $entry on $target ends neither its start nor its work nor its stop",
    function* ({ entry, format, shell }) {
      const [port, adminPort] = yield* Effect.promise(() => Promise.all([freePort(), freePort()]))
      const admin = `127.0.0.1:${adminPort}`
      const environment = yield* settings({
        MUSIC_BIND: `127.0.0.1:${port}`,
        MUSIC_ADMIN_BIND: admin,
        MUSIC_LOG_FORMAT: format
      })
      const server = yield* startServer(entry, environment, shell)
      server.child.stdout?.destroy()
      server.child.stderr?.destroy()
      const answer = call(`http://127.0.0.1:${port}/api/v1/version`)
      yield* Effect.retry(answer, {
        while: () => server.child.exitCode === null,
        schedule: Schedule.spaced(50)
      })
      for (let at = 0; at < 5; at += 1) yield* answer
      const samples = parse(yield* scrape(`http://${admin}`))
      expect(sum(samples, "music_log_lines_lost_total")).toBeGreaterThan(5)
      server.child.kill("SIGTERM")
      expect(yield* Effect.promise(() => server.ended)).toEqual({ code: 0, signal: null })
    }
  )

  it.scopedLive.each(["node dist/main.js", "music-backend serve"] as const)(
    "that %s starts with bad settings exits with 78 although standard error is full",
    function* (entry) {
      const server = yield* startServer(entry, { MUSIC_BIND: "nowhere" }, "exec >/dev/full 2>&1;")
      expect(yield* Effect.promise(() => server.ended)).toEqual({ code: 78, signal: null })
    }
  )
})
