/** Runs the commands of the documents that start the service, or work beside it: the sandbox, a server of one's own, its database. */
import { execFileSync } from "node:child_process"
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { beforeAll, describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import {
  type SimulatedUpstreams,
  startUpstreams,
  upstreamEnvironment
} from "../../sandbox/SimulatedUpstreams.ts"
import { freePort, root } from "../world/Fleet.ts"
import { scriptOf, scripts } from "./Blocks.ts"
import { startDebianPostgres } from "./DebianPostgres.ts"
import { background, type Desk, run, type Started } from "./Shell.ts"

beforeAll(() => {
  execFileSync(process.execPath, ["scripts/build.mjs", "--if-needed"], { cwd: root })
})

const scoped = (title: string, test: () => Effect.Effect<void, unknown, Scope.Scope>) =>
  it.scopedLive(title, test)

const temporaryFolder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "music-documents-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)

const starting = (script: string, desk: Desk) =>
  Effect.acquireRelease(
    Effect.sync(() => background(script, desk)),
    ({ ended, kill }) => Effect.sync(kill).pipe(Effect.zipRight(Effect.promise(() => ended)))
  )

const does = <A>(what: () => Promise<A>) => Effect.promise(what)
const running = (script: string, desk: Desk) => does(() => run(script, desk))

const interrupted = (started: Started) =>
  Effect.map(does(started.interrupt), ({ code }) => expect(code).toBe(0))

/** The URL of a server that listens. */
const listening = (started: Started) =>
  Effect.map(
    does(() => started.says(/"Listening".*?"url":"(http:[^"]+)"/)),
    ([, url = ""]) => url
  )

const mode = (file: string) => (statSync(file).mode & 0o777).toString(8)

/** What a clone has after `npm ci`. */
const cloned = Effect.map(temporaryFolder, (folder) => {
  for (const name of ["package.json", ".env.example"]) copyFileSync(join(root, name), join(folder, name))
  for (const name of ["src", "sandbox", "scripts", "dist", "node_modules"])
    symlinkSync(join(root, name), join(folder, name))
  return folder
})

/** `music-backend` as an installed package has it, and a place for backups. */
const installed = Effect.map(temporaryFolder, (folder) => {
  for (const name of ["bin", "backups"]) mkdirSync(join(folder, name))
  symlinkSync(join(root, "dist/cli.js"), join(folder, "bin/music-backend"))
  return { folder, path: `${join(folder, "bin")}:${process.env.PATH}`, backups: join(folder, "backups") }
})

/** A reader fills in the settings, each within its quotes. */
const fillIn = (file: string, values: Readonly<Record<string, string>>) =>
  writeFileSync(
    file,
    Object.entries(values).reduce(
      (text, [name, value]) => text.replace(new RegExp(`^(?:# )?${name}='.*'$`, "m"), `${name}='${value}'`),
      readFileSync(file, "utf8")
    )
  )

const required = (world: SimulatedUpstreams) => {
  const { MUSIC_IAM_APP_SECRET, MUSIC_IAM_URL, MUSIC_IAM_WEBHOOK_SECRET, MUSIC_TING_URL } =
    upstreamEnvironment(world)
  return {
    MUSIC_IAM_APP_SECRET: MUSIC_IAM_APP_SECRET ?? "",
    MUSIC_IAM_URL: MUSIC_IAM_URL ?? "",
    MUSIC_IAM_WEBHOOK_SECRET: MUSIC_IAM_WEBHOOK_SECRET ?? "",
    MUSIC_TING_URL: MUSIC_TING_URL ?? ""
  }
}

const world = startUpstreams(() => Date.now())

/** An environment with the four required settings, on a free port and a database of its own. */
const settings = Effect.gen(function* () {
  const port = yield* does(freePort)
  return { ...required(yield* world), MUSIC_BIND: `127.0.0.1:${port}` }
})

const report = (base: string) =>
  does(async () => {
    const answer = await fetch(`${base}/api/v1/reports`, {
      method: "POST",
      headers: { "content-type": "application/json", "idempotency-key": "report-000000000000001" },
      body: JSON.stringify({ message: "Playback stops after a seek." })
    })
    expect(answer.status).toBe(200)
  })

describe("The sandbox", () => {
  scoped("starts, prints its addresses, and shows a ting that arrives", () =>
    Effect.gen(function* () {
      const start = scriptOf("README.md: Try it")
      expect(scriptOf("getting-started.md: Start the sandbox")).toBe(start)
      const sandbox = yield* starting(start, { folder: root, environment: {} })
      const address = (line: string) =>
        Effect.map(
          does(() => sandbox.says(new RegExp(`^ +${line} +(http:\\S+)$`, "m"))),
          ([, url = ""]) => url
        )
      const [, page = ""] = yield* does(() => sandbox.says(/^Open (http:\S+) /m))
      expect((yield* does(() => fetch(page))).headers.get("content-type")).toMatch(/^text\/html/)
      const environment = {
        BASE: yield* address("server"),
        IAM: yield* address("identity \\(IAM\\)"),
        TING: yield* address("notifications")
      }
      const desk = { folder: root, environment }
      const [login = "", ting = "", bug = "", ...others] = scripts("getting-started.md: The same with curl")
      expect(others).toEqual([])
      const { out } = yield* running([login, ting, ting, bug].join("\n"), desk)
      const [me, sent, , again] = out.split("\n")
      expect(me).toContain('"public_id":"si:deejay"')
      expect(sent).toContain('"replayed":false')
      expect(again).toContain('"replayed":true')
      expect(out.match(/"si:deejay\/curl\/1"/g)?.length).toBeGreaterThanOrEqual(3)
      expect(out).toMatch(/"id":"rep_\w+","status":"stored"/)
      yield* interrupted(sandbox)
    })
  )
})

describe("A server of one's own", () => {
  scoped("starts with npm and without, from a file of settings that only its owner can read", () =>
    Effect.gen(function* () {
      const folder = yield* cloned
      const desk = { folder, environment: {} }
      const [copy = "", start = ""] = scripts("README.md: Run it")
      yield* running(copy, desk)
      expect(mode(join(folder, ".env"))).toBe("600")
      fillIn(join(folder, ".env"), yield* settings)
      for (const script of [start, scriptOf("operations.md: Start")]) {
        const server = yield* starting(script, desk)
        const base = yield* listening(server)
        expect((yield* does(() => fetch(`${base}/readyz`))).status).toBe(200)
        yield* interrupted(server)
      }
    })
  )

  scoped("is checked, read and backed up while it runs", () =>
    Effect.gen(function* () {
      const folder = yield* cloned
      const { backups, path } = yield* installed
      const environment = { ...(yield* settings), PATH: path }
      const desk = { folder, environment, instead: { "/backups": backups } }
      const server = yield* starting("exec music-backend serve", desk)
      yield* report(yield* listening(server))
      const { out } = yield* running(scriptOf("README.md: Operate it"), desk)
      expect(out).toMatch(/^PASS +server +runs at /m)
      expect(out).toMatch(/^rep_\w+ /m)
      const [copy = ""] = scripts("operations.md: Backup")
      yield* running(copy, desk)
      const files = readdirSync(backups)
      expect(files).toEqual([expect.stringMatching(/^music-\d{4}-\d\d-\d\d\.sqlite$/), "music.sqlite"])
      expect(files.map((name) => mode(join(backups, name)))).toEqual(["600", "600"])
    })
  )

  scoped("has metrics for Prometheus, and sends traces to a collector", () =>
    Effect.gen(function* () {
      const folder = yield* cloned
      const metrics = `127.0.0.1:${yield* does(freePort)}`
      const desk = {
        folder,
        environment: yield* settings,
        instead: { "127.0.0.1:9464": metrics }
      }
      const [start = "", scrape = ""] = scripts("observability.md: Prometheus and Grafana")
      const first = yield* starting(start, desk)
      yield* listening(first)
      expect((yield* running(scrape, desk)).out).toMatch(
        /^music_build_info\{version="[^"]+",build="[0-9a-f]{12}"\} 1$/m
      )
      yield* interrupted(first)
      const second = yield* starting(scriptOf("observability.md: Traces"), desk)
      yield* listening(second)
      yield* interrupted(second)
    })
  )
})

describe("A PostgreSQL database", () => {
  scoped("is dumped, and restored into the same database", () =>
    Effect.gen(function* () {
      const postgres = yield* Effect.acquireRelease(does(startDebianPostgres), ({ stop }) => does(stop))
      yield* does(async () => {
        await postgres.administer("postgres", "CREATE ROLE music LOGIN", "CREATE DATABASE music OWNER music")
        await postgres.administer("music", "ALTER SCHEMA public OWNER TO music")
      })
      const { folder, path } = yield* installed
      const environment = {
        ...(yield* settings),
        PATH: `${postgres.programs}:${path}`,
        MUSIC_DATABASE_URL: `postgres://music@${postgres.host}/music`
      }
      const desk = { folder, environment, instead: { "db.example": postgres.host } }
      const serve = starting("exec music-backend serve", desk)
      const reports = Effect.map(
        running("music-backend reports list --json", desk),
        ({ out }): number => JSON.parse(out).items.length
      )

      const first = yield* serve
      yield* report(yield* listening(first))
      const [, dump = ""] = scripts("operations.md: Backup")
      yield* running(dump, desk)
      expect(mode(join(folder, "music.dump"))).toBe("600")
      yield* interrupted(first)

      yield* does(() => postgres.administer("music", "DELETE FROM deliveries", "DELETE FROM reports"))
      expect(yield* reports).toBe(0)
      yield* running(scriptOf("operations.md: Restore"), desk)
      expect(yield* reports).toBe(1)
      expect(readdirSync(folder)).not.toContain("music.dump.sql")
      yield* interrupted(yield* Effect.tap(serve, listening))
    })
  )
})
