/** Runs the commands of the documents that start the service, or work beside it: the sandbox, a server of one's own, its database, its proof. */
import { execFileSync } from "node:child_process"
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  statSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { join } from "node:path"
import { Effect } from "effect"
import { expect } from "vitest"
import { startUpstreams } from "../../sandbox/SimulatedUpstreams.ts"
import { freePort, root } from "../world/Fleet.ts"
import { temporaryFolder } from "../world/SqliteTemplate.ts"
import { it } from "../world/Test.ts"
import { background, interrupt, listening, required, run, scriptOf, scripts } from "./Shell.ts"

const mode = (file: string) => (statSync(file).mode & 0o777).toString(8)
const settings = Effect.map(
  startUpstreams(() => Date.now()),
  required
)

/** What a clone has after `npm ci`, and `music-backend` as an installed package has it. */
const installed = Effect.map(temporaryFolder, (folder) => {
  for (const name of ["package.json", ".env.example"]) copyFileSync(join(root, name), join(folder, name))
  for (const name of ["src", "sandbox", "scripts", "dist", "node_modules"])
    symlinkSync(join(root, name), join(folder, name))
  mkdirSync(join(folder, "bin"))
  symlinkSync(join(root, "dist/cli.js"), join(folder, "bin/music-backend"))
  return { folder, path: `${join(folder, "bin")}:${process.env.PATH}` }
})

const report = (base: string) =>
  Effect.promise(async () => {
    const answer = await fetch(`${base}/api/v1/reports`, {
      method: "POST",
      headers: { "content-type": "application/json", "idempotency-key": "report-000000000000001" },
      body: JSON.stringify({ message: "Playback stops after a seek." })
    })
    expect(answer.status).toBe(200)
  })

it.scopedLive("The sandbox starts, prints its addresses, and shows a ting that arrives", function* () {
  const sandbox = yield* background(scriptOf("README.md: Try it"), { folder: root, environment: {} })
  const variables = yield* Effect.promise(async () => {
    const [, page = ""] = await sandbox.says(/^Open (http:\S+) /m)
    expect((await fetch(page)).headers.get("content-type")).toMatch(/^text\/html/)
    const [, line = ""] = await sandbox.says(/^ *(BASE=http\S+ IAM=http\S+ TING=http\S+)$/m)
    return line
  })
  const [login = "", ting = "", bug = "", ...others] = scripts("README.md: With curl")
  expect(others).toEqual([])
  const client = scriptOf("README.md: With the client")
  const commands = [variables, login, ting, ting, bug, client].join("\n")
  const out = yield* run(commands, { folder: root, environment: {} })
  expect(out).toContain('"public_id":"si:deejay"')
  expect(out).toMatch(/"replayed":false[\s\S]*"replayed":true/)
  expect(out).toMatch(/"id":"rep_\w+","status":"stored"/)
  expect(out.match(/si:deejay\/curl\/1/g)?.length).toBeGreaterThan(2)
  expect(out).toContain('"data":{"name":"hello"}')
  // And what the sandbox itself prints to paste, up to a logout.
  const [printed = ""] = yield* Effect.promise(() =>
    sandbox.says(/^ {2}# mint a token[\s\S]*?^ {2}curl -siw .*$/m)
  )
  const pasted = yield* run(`${variables}\n${printed}`, { folder: root, environment: {} })
  expect(pasted).toMatch(
    /"ting_ready":true[\s\S]*"replayed":false[\s\S]*si:deejay\/first[\s\S]*HTTP\/1\.1 204/
  )
  yield* interrupt(sandbox)
})

it.scopedLive("A server starts with npm and without, from settings of its owner alone", function* () {
  const { folder } = yield* installed
  const desk = { folder, environment: {} }
  const [copy = "", start = ""] = scripts("README.md: Run it")
  yield* run(copy, desk)
  const file = join(folder, ".env")
  expect(mode(file)).toBe("600")
  // A reader fills in the settings, each within its quotes.
  const filled = Object.entries(yield* settings).reduce(
    (text, [name, value]) => text.replace(new RegExp(`^(?:# )?${name}='.*'$`, "m"), `${name}='${value}'`),
    readFileSync(file, "utf8")
  )
  writeFileSync(file, filled)
  const [measured = ""] = scripts("observability.md: Prometheus and Grafana")
  const metrics = `127.0.0.1:${yield* Effect.promise(freePort)}`
  const configured = {
    folder: root,
    environment: {
      ...(yield* settings),
      MUSIC_DATABASE_PATH: join(folder, "other.sqlite"),
      PATH: process.env.PATH
    },
    instead: { "127.0.0.1:9464": metrics }
  }
  for (const [script, at] of [
    [start, desk],
    [scriptOf("operations.md: Start"), desk],
    [measured, configured],
    [scriptOf("observability.md: Traces"), configured]
  ] as const) {
    const server = yield* background(script, at)
    const base = yield* listening(server)
    expect((yield* Effect.promise(() => fetch(`${base}/readyz`))).status).toBe(200)
    yield* interrupt(server)
  }
})

it.scopedLive("A server is checked, read, measured and backed up while it runs", function* () {
  const { folder, path } = yield* installed
  const backups = join(folder, "backups")
  mkdirSync(backups)
  const metrics = `127.0.0.1:${yield* Effect.promise(freePort)}`
  const environment = {
    ...(yield* settings),
    MUSIC_BIND: `127.0.0.1:${yield* Effect.promise(freePort)}`,
    MUSIC_ADMIN_BIND: metrics,
    PATH: path
  }
  const instead = { "/backups": backups, "127.0.0.1:9464": metrics }
  const desk = { folder, environment, instead }
  const server = yield* background("exec music-backend serve", desk)
  yield* report(yield* listening(server))
  const out = yield* run(scriptOf("README.md: Operate it"), desk)
  expect(out).toMatch(/^PASS +server +runs at /m)
  expect(out).toMatch(/^rep_\w+ /m)
  const [, scrape = ""] = scripts("observability.md: Prometheus and Grafana")
  expect(yield* run(scrape, desk)).toMatch(/^music_build_info\{version="[^"]+",build="[0-9a-f]{12}"\} 1$/m)
  const [copy = ""] = scripts("operations.md: Backup")
  yield* run(copy, desk)
  const files = readdirSync(backups)
  expect(files).toEqual([expect.stringMatching(/^music-\d{4}-\d\d-\d\d\.sqlite$/), "music.sqlite"])
  expect(files.map((name) => mode(join(backups, name)))).toEqual(["600", "600"])
})

/** A PostgreSQL with the tools of its version: the server of the packages has no pg_dump, and Debian's refuses a later server. */
const startPostgres = Effect.gen(function* () {
  const versions = "/usr/lib/postgresql"
  const [version = ""] = (existsSync(versions) ? readdirSync(versions) : []).sort(
    (one, other) => +other - +one
  )
  const programs = join(versions, version, "bin")
  const folder = yield* temporaryFolder
  chmodSync(folder, 0o777)
  const port = yield* Effect.promise(freePort)
  // The server refuses to run as root.
  const as = process.getuid?.() === 0 ? ["runuser", "-u", "postgres", "--"] : ["env"]
  const operate = (program: string, ...parameters: ReadonlyArray<string>) => {
    const [first = "", ...rest] = [...as, join(programs, program), ...parameters]
    execFileSync(first, rest, { cwd: folder, stdio: "ignore" })
  }
  const data = join(folder, "data")
  const options = `-p ${port} -c listen_addresses=127.0.0.1 -c fsync=off -k ${folder}`
  operate("initdb", "-D", data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-sync")
  yield* Effect.acquireRelease(
    Effect.sync(() => operate("pg_ctl", "-D", data, "-o", options, "-w", "-l", join(folder, "log"), "start")),
    () => Effect.sync(() => operate("pg_ctl", "-D", data, "-m", "fast", "stop"))
  )
  const host = `127.0.0.1:${port}`
  const administer = (database: string, statement: string) =>
    operate("psql", "-v", "ON_ERROR_STOP=1", "-c", statement, `postgres://postgres@${host}/${database}`)
  return { programs, host, administer }
})

it.scopedLive("A PostgreSQL database is dumped, and restored into the same database", function* () {
  const { administer, host, programs } = yield* startPostgres
  const [anywhere = "", within = ""] = scripts("operations.md: Role and database", "sql")
  for (const statement of anywhere.split("\n")) administer("postgres", statement)
  for (const statement of within.split("\n")) administer("music", statement)
  const { folder, path } = yield* installed
  const environment = {
    ...(yield* settings),
    PATH: `${programs}:${path}`,
    MUSIC_DATABASE_URL: `postgres://music@${host}/music`
  }
  const desk = { folder, environment, instead: { "db.example": host } }
  const serve = background("exec music-backend serve", desk)
  const reports = Effect.map(
    run("music-backend reports list --json", desk),
    (out) => (out.match(/rep_\w+/g) ?? []).length
  )
  const first = yield* serve
  yield* report(yield* listening(first))
  const [, dump = ""] = scripts("operations.md: Backup")
  yield* run(dump, desk)
  expect(mode(join(folder, "music.dump"))).toBe("600")
  yield* interrupt(first)
  administer("music", "DELETE FROM deliveries; DELETE FROM reports")
  expect(yield* reports).toBe(0)
  yield* run(scriptOf("operations.md: Restore"), desk)
  expect(yield* reports).toBe(1)
  const again = yield* serve
  yield* listening(again)
  // The password of the role is rotated while it serves; a bridge has the same rights meanwhile.
  const [bridge = "", rotation = "", end = ""] = (
    scripts("operations.md: Rotate a secret", "sql")[0] ?? ""
  ).split("\n")
  administer("postgres", bridge)
  const bridged = { ...environment, MUSIC_DATABASE_URL: `postgres://music_bridge@${host}/music` }
  expect(yield* run("music-backend reports list --json", { ...desk, environment: bridged })).toContain("rep_")
  administer("postgres", rotation)
  administer("postgres", end)
  expect(yield* reports).toBe(1)
  yield* interrupt(again)
})

it.scopedLive("The secrets of compose.yaml are made, each for its reader alone", function* () {
  const folder = yield* temporaryFolder
  const [, secrets = ""] = scripts("operations.md: In a container")
  yield* run(secrets, { folder, environment: {} })
  const made = readdirSync(join(folder, "secrets")).map((name) => {
    const { mode, uid } = statSync(join(folder, "secrets", name))
    return `${name} ${uid} ${(mode & 0o777).toString(8)}`
  })
  expect(made).toEqual([
    "database-password 999 400",
    "database-url 10001 400",
    "iam-app-secret 10001 600",
    "iam-webhook-secret 10001 600"
  ])
})
