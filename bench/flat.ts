/**
 * `npm run bench:flat -- --rows 1000000`: the speed of every call on a full database, as a ratio to a database without those rows. Both
 * servers run at once and are measured in turn, so that other load on the machine affects both. The upstreams that receive telemetry
 * and reports refuse all of it, so that the waiting rows stay.
 */
import { randomUUID } from "node:crypto"
import { join } from "node:path"
import { parseArgs } from "node:util"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import Sqlite from "better-sqlite3"
import pg from "pg"
import { mintSlt } from "../sandbox/SimulatedUpstreams.ts"
import { faults } from "../sandbox/upstreams/Simulator.ts"
import { databaseFromSettings } from "../src/layers/store/StoreFromSettings.ts"
import { bulkStatements } from "../test/world/BulkRows.ts"
import { scratch, type Simulators, startSimulators } from "../test/world/Fleet.ts"
import { freshDatabase, startPostgres } from "../test/world/Postgres.ts"
import { closedLoop, type Length, median } from "./Load.ts"
import { inTurn, login, type Outgoing, requestsOf, send } from "./Requests.ts"
import { prepare, type Server } from "./Servers.ts"

const { values } = parseArgs({
  options: {
    rows: { type: "string", default: "1000000" },
    rounds: { type: "string", default: "9" },
    only: { type: "string" }
  }
})
const rows = Number(values.rows)
const rounds = Number(values.rounds)
type DialectName = "sqlite" | "postgres"
const dialects = (["sqlite", "postgres"] as const).filter((name) => (values.only ?? name) === name)

const target = 0.9
const connections = 4
/** Short, because it is repeated. */
const slice: Length = { seconds: 0.4 }
/** IAM's budget of 10,000 calls a minute bounds the calls that reach it. */
const iamSlice: Length = { ...slice, requests: 60 }

const print = (line: string) => process.stdout.write(`${line}\n`)
const log = (line: string) => process.stderr.write(`${new Date().toISOString().slice(11, 19)} ${line}\n`)

/** A slice of each call; the result is in milliseconds of one call. */
const callsOf = async (world: Simulators, { adminUrl, url }: Server) => {
  const requests = requestsOf(world)
  const caller = inTurn(await login(url, world, 6))
  const ids = Array.from({ length: 200 }, () => randomUUID())
  for (const id of ids) {
    await send(url, requests.report(id))
    await send(url, requests.webhook(id))
  }
  const known = inTurn(ids)
  const run =
    (next: () => Outgoing, length = slice, base = url) =>
    async (): Promise<number> => {
      const { failed, perSecond } = await closedLoop(base, connections, length, () => next())
      if (failed > 0) throw new Error(`${next().path} failed`)
      return 1_000 / perSecond
    }
  return {
    healthz: run(requests.healthz),
    readyz: run(requests.readyz),
    "/metrics": run(requests.metrics, slice, adminUrl),
    "report, new": run(() => requests.report()),
    "report, replayed": run(() => requests.report(known())),
    "webhook, new": run(() => requests.webhook()),
    "webhook, duplicate": run(() => requests.webhook(known())),
    "telemetry of ten": run(() => requests.telemetry()),
    me: run(() => requests.me(caller().token), iamSlice),
    login: run(() => requests.login(mintSlt(world)), { ...slice, requests: 20 }),
    ting: run(() => requests.ting(caller()), iamSlice)
  }
}
type Calls = Awaited<ReturnType<typeof callsOf>>

/** A database, and the settings of a server on it. */
const newPlace = async (dialect: DialectName, postgresUrl: string) => {
  if (dialect === "postgres") {
    const { drop, url } = await freshDatabase(postgresUrl)
    return { address: url, environment: { MUSIC_DATABASE_URL: url }, remove: drop }
  }
  const { path, remove } = scratch()
  const address = join(path, "music.sqlite")
  return { address, environment: { MUSIC_DATABASE_PATH: address }, remove: async () => remove() }
}
type Place = Awaited<ReturnType<typeof newPlace>>

/** Without the store's rules, and as fast as the database is. */
const fillPlace = async (dialect: DialectName, { address }: Place): Promise<void> => {
  const databaseUrl = dialect === "postgres" ? Option.some(Redacted.make(address)) : Option.none()
  await Effect.runPromise(
    Effect.scoped(databaseFromSettings({ databasePath: address, databaseUrl }, { migrate: true }))
  )
  log(`${dialect}: filling ${rows} rows`)
  const volumes = { reports: rows, waiting: Math.ceil(rows / 10), others: Math.ceil(rows / 10) }
  const statements = bulkStatements(dialect === "sqlite", Date.now(), volumes)
  if (dialect === "postgres") {
    const client = new pg.Client({ connectionString: address })
    await client.connect()
    // As autovacuum does some time later.
    for (const statement of [...statements, "VACUUM ANALYZE"]) await client.query(statement)
    return client.end()
  }
  const connection = new Sqlite(address)
  connection.pragma("synchronous = OFF")
  for (const statement of statements) connection.prepare(statement).run()
  connection.close()
}

/** Prints a row for each call. Each round measures all calls on both databases, and the order changes with the round. */
const compare = async (empty: Calls, full: Calls): Promise<void> => {
  const names = Object.keys(empty) as ReadonlyArray<keyof Calls>
  const taken = names.map((name) => ({ name, empty: [] as Array<number>, full: [] as Array<number> }))
  // The first round warms caches, statements and the compiled code.
  for (let round = 0; round <= rounds; round += 1) {
    for (const { empty: short, full: long, name } of taken) {
      const turns = [
        { times: short, calls: empty },
        { times: long, calls: full }
      ]
      for (const { calls, times } of round % 2 === 0 ? turns : turns.reverse()) {
        const millis = await calls[name]()
        if (round > 0) times.push(millis)
      }
    }
    log(`round ${round} of ${rounds}`)
  }
  for (const { empty: short, full: long, name } of taken) {
    const ratio = median(short.map((value, index) => value / (long[index] ?? value)))
    const cells = [name, median(short).toFixed(2), median(long).toFixed(2)]
    print(`| ${cells.join(" | ")} | ${ratio.toFixed(2)}${ratio < target ? ` (below ${target})` : ""} |`)
  }
}

const start = await prepare("now")
const world = await startSimulators()
const everything = { times: Number.POSITIVE_INFINITY }
world.tracker.fail({ ...everything, fault: faults.status(401, { message: "Bad credentials" }) })
world.tables.fail({ ...everything, fault: faults.status(503, {}) })
const postgres = dialects.includes("postgres") ? await startPostgres({ fsync: true }) : undefined
try {
  for (const dialect of dialects) {
    const url = postgres?.url ?? ""
    const places = [await newPlace(dialect, url), await newPlace(dialect, url)] as const
    await fillPlace(dialect, places[1])
    const servers = [
      await start(world, places[0].environment),
      await start(world, places[1].environment)
    ] as const
    print(`\n${dialect}, ${rows} reports; medians of ${rounds} rounds, in milliseconds\n`)
    print("| call | empty | full | ratio |\n|---|--:|--:|--:|")
    await compare(await callsOf(world, servers[0]), await callsOf(world, servers[1]))
    for (const server of servers) await server.stop()
    for (const place of places) await place.remove()
  }
} finally {
  await postgres?.stop()
  await world.close()
}
process.exit(0)
