/**
 * `npm run bench:flat -- --rows 1000000`: the speed of every call and of the workers' statements on a full
 * database, as a ratio to a database without those rows. Both servers run at once and are measured in turn, so that other
 * load on the machine affects both. Upstreams that receive telemetry and reports refuse all of it, so that the waiting rows stay.
 */
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Exit from "effect/Exit"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import { databaseFromSettings } from "../src/layers/store/StoreFromSettings.ts"
import { makeStore } from "../src/layers/store/repositories/Repositories.ts"
import { DeliveryUpdate } from "../src/services/Store.ts"
import { bundle, environmentOf, scratch, type Simulators, startSimulators } from "../test/world/Fleet.ts"
import { freshDatabase, startPostgres } from "../test/world/Postgres.ts"
import { type DialectName, fill, volumesOf } from "../test/world/BulkRows.ts"
import { type BundledServer, startServer } from "./BundledServer.ts"
import { makeCalls, send, type Sent } from "./Calls.ts"

const { values } = parseArgs({
  options: {
    rows: { type: "string", default: "1000000" },
    rounds: { type: "string", default: "9" },
    only: { type: "string" }
  }
})
const rows = Number(values.rows)
const rounds = Number(values.rounds)
const dialects: ReadonlyArray<DialectName> = (["sqlite", "postgres"] as const).filter(
  (name) => values.only === undefined || name === values.only
)

const target = 0.9
const connections = 4
/** Milliseconds of one measurement; short, because it is repeated. */
const slice = 400
/** Rows of the database without many rows, so that the workers and the pages of the operator have something to read. */
const fewRows = 2_000

const print = (line: string) => process.stdout.write(`${line}\n`)
const log = (line: string) => process.stderr.write(`${new Date().toISOString().slice(11, 19)} ${line}\n`)

const median = (given: ReadonlyArray<number>): number => {
  const sorted = [...given].sort((one, other) => one - other)
  const middle = Math.floor(sorted.length / 2)
  return sorted.length % 2 === 1
    ? (sorted[middle] ?? 0)
    : ((sorted[middle - 1] ?? 0) + (sorted[middle] ?? 0)) / 2
}

interface Place {
  readonly address: string
  readonly environment: Readonly<Record<string, string>>
  readonly remove: () => Promise<void>
}

interface Measured {
  readonly name: string
  /** Milliseconds of one call. */
  readonly empty: number
  readonly full: number
  readonly ratio: number
}

/** One call that is measured on both databases, in turn. Gives milliseconds of one call. */
interface Subject {
  readonly name: string
  readonly empty: () => Promise<number>
  readonly full: () => Promise<number>
}

/** Each round measures every subject on both databases, and the order changes with the round. */
const compare = async (subjects: ReadonlyArray<Subject>): Promise<ReadonlyArray<Measured>> => {
  const taken = subjects.map(({ name }) => ({ name, empty: [] as Array<number>, full: [] as Array<number> }))
  // The first round warms caches, statements and the compiled code.
  for (let round = 0; round <= rounds; round += 1) {
    for (const [index, { empty, full }] of subjects.entries()) {
      const both = round % 2 === 0 ? [await empty(), await full()] : [await full(), await empty()].reverse()
      if (round === 0) continue
      taken[index]?.empty.push(both[0] ?? 0)
      taken[index]?.full.push(both[1] ?? 0)
    }
    log(`round ${round} of ${rounds}`)
  }
  return taken.map(({ empty, full, name }) => ({
    name,
    empty: median(empty),
    full: median(full),
    ratio: median(empty.map((value, index) => value / (full[index] ?? value)))
  }))
}

/** Upstreams that are up and refuse everything: a tracker whose token ended, and a table service that fails. */
const startRefusing = async (status: number) => {
  const server = createServer((request, response) => {
    request.resume()
    response.writeHead(status, { "content-type": "application/json" })
    response.end('{"message":"Bad credentials"}')
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    close: () => {
      server.closeAllConnections()
      server.close()
    }
  }
}

/** A closed loop of a few connections; milliseconds of one call. */
const timePerCall =
  (
    makeRequest: () => Sent,
    agent: Parameters<typeof send>[0],
    expected: number,
    atMost = Number.POSITIVE_INFINITY
  ) =>
  async (): Promise<number> => {
    let sent = 0
    const began = performance.now()
    const sender = async () => {
      while (performance.now() - began < slice && sent < atMost) {
        sent += 1
        const { body, status } = await send(agent, makeRequest())
        if (status !== expected) throw new Error(`${makeRequest().url} answered ${status}: ${body}`)
      }
    }
    await Promise.all(Array.from({ length: connections }, sender))
    return (performance.now() - began) / sent
  }

/** IAM's budget of 10,000 calls a minute bounds the calls that reach it. */
const iamCallsPerSlice = 60

const callsOf = async (world: Simulators, server: BundledServer) => {
  const calls = makeCalls(world, server)
  const sessions = await calls.sessions(6)
  const nextSession = calls.next(sessions)
  const keys = Array.from({ length: 200 }, (_, index) => `replayed-report-${index}-${server.pid}`)
  const events = Array.from({ length: 200 }, () => crypto.randomUUID())
  for (const key of keys) await send(calls.agent, calls.reportWith(key))
  for (const id of events) await send(calls.agent, calls.webhookOf(id))
  const nextKey = calls.next(keys)
  const nextEvent = calls.next(events)
  const run = (request: () => Sent, expected: number, atMost?: number) =>
    timePerCall(request, calls.agent, expected, atMost)
  return new Map<string, () => Promise<number>>([
    ["healthz", run(calls.healthz, 200)],
    ["readyz", run(calls.readyz, 200)],
    ["/metrics", run(calls.metrics, 200)],
    ["report, new", run(calls.report, 200)],
    ["report, replayed", run(() => calls.reportWith(nextKey()), 200)],
    ["webhook, new", run(calls.webhook, 200)],
    ["webhook, duplicate", run(() => calls.webhookOf(nextEvent()), 200)],
    ["telemetry of ten", run(() => calls.telemetry(10), 204)],
    ["me", run(() => calls.me(nextSession()), 200, iamCallsPerSlice)],
    ["login", run(() => calls.login(nextSession().actor), 200, iamCallsPerSlice / 3)],
    ["ting", run(() => calls.ting(nextSession()), 200, iamCallsPerSlice)]
  ])
}

const day = 86_400_000

/** The statements of workers, on a store of this process. */
const statementsOf = async (dialect: DialectName, { address }: Place) => {
  const scope = await Effect.runPromise(Scope.make())
  const store = await Effect.runPromise(
    Effect.gen(function* () {
      const database = yield* databaseFromSettings(
        dialect === "sqlite"
          ? { databasePath: address, databaseUrl: Option.none() }
          : { databasePath: "", databaseUrl: Option.some(Redacted.make(address)) },
        { migrate: true }
      )
      return yield* makeStore(database)
    }).pipe(Effect.provideService(Scope.Scope, scope))
  )
  const timed = async <A, E>(effect: Effect.Effect<A, E>): Promise<readonly [number, A]> => {
    const began = performance.now()
    const value = await Effect.runPromise(effect)
    return [performance.now() - began, value]
  }
  const repeated = (effect: Effect.Effect<unknown, unknown>) => async () => {
    const times: Array<number> = []
    for (let index = 0; index < 5; index += 1) times.push((await timed(effect))[0])
    return median(times)
  }
  const kinds = ["report", "sweep"] as const
  const lease = Effect.suspend(() => {
    const now = Date.now()
    return store.deliveries.lease({
      kinds,
      count: 1,
      concurrency: 1,
      now,
      leaseUntil: now + 10_000,
      owner: "bench"
    })
  })
  const giveBack = (id: string, fence: number) =>
    Effect.suspend(() =>
      store.deliveries.update(
        id,
        fence,
        DeliveryUpdate.Waiting({ availableAt: Date.now() - 1_000, failure: "none" })
      )
    )
  const leaseAndReturn = Effect.flatMap(lease, ([leased]) =>
    leased === undefined ? Effect.die("nothing is due") : giveBack(leased.id, leased.fence)
  )

  let offered = 0
  const entries = (count: number) =>
    Array.from({ length: count }, () => {
      offered += 1
      const recordId = crypto.randomUUID()
      const json = `{"id":"${recordId}","n":${offered}}`
      return {
        table: "musicclidaemon" as const,
        recordId,
        eventAt: Date.now(),
        json,
        bytes: json.length,
        acceptedAt: Date.now()
      }
    })
  const shipping = Effect.suspend(() => {
    const now = Date.now()
    const owner = crypto.randomUUID()
    return store.spool
      .lease({
        tables: new Set(["musicclidaemon"]),
        count: 100,
        bytes: 1024 * 1024,
        now,
        leaseUntil: now + 12_000,
        owner
      })
      .pipe(
        Effect.flatMap((leased) =>
          store.spool.settle({
            owner,
            now,
            delivered: leased.map(({ recordId }) => recordId),
            duplicates: [],
            refused: []
          })
        )
      )
  })
  const replacing =
    (prepare: Effect.Effect<unknown, unknown>, effect: Effect.Effect<unknown, unknown>) => async () => {
      const times: Array<number> = []
      for (let index = 0; index < 3; index += 1) {
        await Effect.runPromise(prepare)
        times.push((await timed(effect))[0])
      }
      return median(times)
    }

  const subjects = new Map<string, () => Promise<number>>([
    ["lease of a delivery, and its return", repeated(leaseAndReturn)],
    ["time of the next delivery", repeated(store.deliveries.nextDueAt(kinds, 1))],
    [
      "telemetry: lease and settle 100",
      replacing(
        Effect.suspend(() => store.spool.offer(entries(100), { limitBytes: 1e12 })),
        shipping
      )
    ],
    [
      "telemetry: expiry without expired rows",
      repeated(
        Effect.suspend(() =>
          store.spool.expire({
            acceptedBefore: Date.now() - day,
            deliveredBefore: Date.now() - day,
            deliveredAtMost: 1_000_000
          })
        )
      )
    ],
    [
      "scrape: counts, oldest, bytes",
      repeated(
        Effect.all([
          store.deliveries.counts,
          store.deliveries.oldestOpen,
          store.spool.counts,
          store.reports.storedBytes
        ])
      )
    ],
    ["readiness", repeated(store.check)]
  ])
  const close = async () => {
    await Effect.runPromise(Scope.close(scope, Exit.void))
  }
  return { subjects, close }
}

const pair = (
  empty: ReadonlyMap<string, () => Promise<number>>,
  full: ReadonlyMap<string, () => Promise<number>>
): ReadonlyArray<Subject> =>
  [...empty].flatMap(([name, run]) => {
    const other = full.get(name)
    return other === undefined ? [] : [{ name, empty: run, full: other }]
  })

const migrated = async (dialect: DialectName, place: Place): Promise<void> => {
  const { close } = await statementsOf(dialect, place)
  await close()
}

const measure = async (
  dialect: DialectName,
  parts: {
    readonly file: string
    readonly world: Simulators
    readonly newPlace: () => Promise<Place>
    readonly environment: Readonly<Record<string, string>>
  }
): Promise<ReadonlyArray<Measured>> => {
  const { environment, file, newPlace, world } = parts
  const [empty, full] = [await newPlace(), await newPlace()]
  try {
    await migrated(dialect, empty)
    await migrated(dialect, full)
    log(`${dialect}: filling ${rows} rows`)
    await fill(dialect, full.address, volumesOf(rows), Date.now())
    log(`${dialect}: filled`)
    const start = (place: Place) => startServer(file, { ...environment, ...place.environment })
    const servers = [await start(empty), await start(full)] as const
    const calls = await compare(pair(await callsOf(world, servers[0]), await callsOf(world, servers[1])))
    for (const server of servers) await server.stop()
    await fill(dialect, empty.address, volumesOf(fewRows), Date.now())
    const [few, many] = [await statementsOf(dialect, empty), await statementsOf(dialect, full)]
    const statements = await compare(pair(few.subjects, many.subjects))
    await few.close()
    await many.close()
    return [...calls, ...statements]
  } finally {
    await empty.remove()
    await full.remove()
  }
}

const title: Readonly<Record<DialectName, string>> = { sqlite: "SQLite", postgres: "PostgreSQL" }

const table = (results: ReadonlyMap<DialectName, ReadonlyArray<Measured>>): ReadonlyArray<string> => {
  const shown = [...results]
  const cells = ({ empty, full, ratio }: Measured) => [
    empty.toFixed(2),
    full.toFixed(2),
    ratio < target ? `**${ratio.toFixed(2)}**` : ratio.toFixed(2)
  ]
  const header = ["call", ...shown.flatMap(([name]) => [`${title[name]}, empty (ms)`, "full (ms)", "ratio"])]
  const names = shown[0]?.[1].map(({ name }) => name) ?? []
  const line = (columns: ReadonlyArray<string>) => `| ${columns.join(" | ")} |`
  return [
    line(header),
    line(header.map((_, index) => (index === 0 ? "---" : "--:"))),
    ...names.map((name) =>
      line([
        name,
        ...shown.flatMap(([, measured]) => {
          const found = measured.find((each) => each.name === name)
          return found === undefined ? ["", "", ""] : cells(found)
        })
      ])
    )
  ]
}

const server = await bundle(fileURLToPath(new URL("../src/main.ts", import.meta.url)))
const world = await startSimulators()
const tracker = await startRefusing(401)
const tables = await startRefusing(503)
const postgres = dialects.includes("postgres") ? await startPostgres({ fsync: true }) : undefined
const newPlace = async (dialect: DialectName): Promise<Place> => {
  if (dialect === "postgres") {
    const { drop, url } = await freshDatabase(postgres?.url ?? "")
    return { address: url, environment: { MUSIC_DATABASE_URL: url }, remove: drop }
  }
  const folder = scratch()
  const address = join(folder.path, "music.sqlite")
  return { address, environment: { MUSIC_DATABASE_PATH: address }, remove: async () => folder.remove() }
}

const results = new Map<DialectName, ReadonlyArray<Measured>>()
try {
  for (const dialect of dialects)
    results.set(
      dialect,
      await measure(dialect, {
        file: server,
        world,
        newPlace: () => newPlace(dialect),
        environment: {
          ...environmentOf(world),
          MUSIC_LOG_LEVEL: "error",
          MUSIC_GITHUB_URL: tracker.url,
          MUSIC_TABLES_URL: tables.url
        }
      })
    )
} finally {
  tracker.close()
  tables.close()
  await postgres?.stop()
  await world.close()
}
const counts = volumesOf(rows)
print(
  `${counts.reports} reports, ${counts.webhooks} inbox rows, ${counts.waitingDeliveries} waiting deliveries, ${counts.spool} waiting telemetry records; medians of ${rounds} rounds.`
)
print("")
for (const line of table(results)) print(line)
const slow = [...results.values()].flat().filter(({ ratio }) => ratio < target)
print("")
print(
  slow.length === 0
    ? `Every call keeps ${target} of its speed.`
    : `Below ${target}: ${slow.map(({ name, ratio }) => `${name} ${ratio.toFixed(2)}`).join("; ")}.`
)
process.exit(0)
