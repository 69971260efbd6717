/**
 * The cost of observability: the server's CPU per request, of two builds side by side.
 *
 *     git archive HEAD~1 | tar -x -C ../before && ln -s $PWD/node_modules ../before/node_modules
 *     (cd ../before && npm run build) && npm run build
 *     npx tsx bench/observability.ts ../before .
 *
 * Rounds alternate between the servers, so that other load on the machine affects all of them. Prints medians and their ratio to the first server.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { Agent, request } from "node:http"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import * as Effect from "effect/Effect"
import { call, expectJson, textOf } from "../sandbox/HttpExchange.ts"
import { startUpstreams, mintSlt, type SimulatedUpstreams } from "../sandbox/SimulatedUpstreams.ts"
import { startCollector } from "../test/observability/Collector.ts"
import { environmentFor, freePort, start } from "../test/support/Process.ts"

const rounds = 9
const connections = 8

interface Subject {
  readonly name: string
  readonly folder: string
  readonly environment: Readonly<Record<string, string>>
}

const agent = new Agent({ keepAlive: true, maxSockets: connections })

const get = (url: string, headers: Readonly<Record<string, string>>): Promise<number> =>
  new Promise((done, failed) => {
    request(url, { agent, headers }, (response) => {
      response.resume()
      response.on("end", () => done(response.statusCode ?? 0))
    })
      .on("error", failed)
      .end()
  })

const ticksPerSecond = 100

/** Milliseconds of CPU that a process used (Linux only); other load on the machine hardly changes it. */
const cpuOf = (pid: number): number => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /, "")
    .split(" ")
  return ((Number(fields[11]) + Number(fields[12])) * 1_000) / ticksPerSecond
}

/** Microseconds of the server's CPU per request. */
const load = async (
  pid: number,
  url: string,
  headers: Readonly<Record<string, string>>,
  count: number
): Promise<number> => {
  const before = cpuOf(pid)
  let left = count
  const client = async () => {
    while (left > 0) {
      left -= 1
      const status = await get(url, headers)
      if (status !== 200) throw new Error(`${url} answered ${status}`)
    }
  }
  await Promise.all(Array.from({ length: connections }, client))
  return ((cpuOf(pid) - before) * 1_000) / count
}

const median = (values: ReadonlyArray<number>): number =>
  [...values].sort((one, other) => one - other)[Math.floor(values.length / 2)] ?? 0

const running = (world: SimulatedUpstreams, scratch: string, { environment, folder, name }: Subject) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const port = await freePort()
      const startedAt = performance.now()
      const server = start(process.execPath, [resolve(folder, "dist/main.js")], {
        ...environmentFor(world, { port, databasePath: join(scratch, `${name.replace(/\W/g, "-")}.sqlite`) }),
        MUSIC_RATE_LIMIT: "off",
        // Every measured request makes one call to IAM.
        MUSIC_IAM_CALLS_PER_MINUTE: "10000",
        MUSIC_LOG_LEVEL: "error",
        ...environment
      })
      const base = `http://127.0.0.1:${port}`
      while (
        !(await get(`${base}/healthz`, {}).then(
          (status) => status === 200,
          () => false
        ))
      )
        await new Promise((later) => setTimeout(later, 5))
      return {
        name,
        base,
        server,
        started: performance.now() - startedAt,
        rates: new Map<string, Array<number>>()
      }
    }),
    ({ server }) =>
      Effect.promise(() => {
        server.child.kill("SIGTERM")
        return server.ended
      })
  )

const program = Effect.gen(function* () {
  const [before = "", now = "."] = process.argv.slice(2)
  const scratch = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "music-bench-"))),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
  )
  const world = yield* startUpstreams(() => Date.now())
  const collector = yield* startCollector()
  const admin = yield* Effect.promise(freePort)
  const subjects: ReadonlyArray<Subject> = [
    { name: "before", folder: before, environment: {} },
    { name: "now, off", folder: now, environment: {} },
    { name: "now, metrics", folder: now, environment: { MUSIC_ADMIN_BIND: `127.0.0.1:${admin}` } },
    { name: "now, traces", folder: now, environment: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url } }
  ]
  const servers = yield* Effect.forEach(subjects, (subject) => running(world, scratch, subject))
  const session = yield* expectJson(
    yield* call(`${servers[0]?.base}/api/v1/auth/login`, {
      method: "POST",
      body: { slt: mintSlt(world) },
      headers: { "idempotency-key": "bench-0000000000000001" }
    }),
    200
  )
  const signed = { authorization: `Bearer ${yield* textOf(session, "access_token")}`, "x-org-id": "acme" }
  const targets = [
    { path: "/healthz", headers: {}, count: 2_000 },
    { path: "/api/v1/auth/me", headers: signed, count: 400 }
  ] as const
  yield* Effect.promise(async () => {
    for (let round = 0; round <= rounds; round += 1) {
      for (const { count, headers, path } of targets) {
        for (const { base, rates, server } of servers) {
          const rate = await load(server.child.pid ?? 0, `${base}${path}`, headers, count)
          // The first round warms up.
          if (round > 0) rates.set(path, [...(rates.get(path) ?? []), rate])
          collector.received.length = 0
        }
      }
    }
  })
  const first = servers[0]
  for (const { name, rates, started } of servers) {
    const columns = targets.map(({ path }) => {
      const rate = median(rates.get(path) ?? [])
      const ratio = rate / median(first?.rates.get(path) ?? [])
      return `${path} ${Math.round(rate)} us (${ratio.toFixed(3)})`
    })
    process.stdout.write(`${name.padEnd(14)} ${columns.join("   ")}   up after ${Math.round(started)} ms\n`)
  }
}).pipe(Effect.scoped)

await Effect.runPromise(program)
process.exit(0)
