/** Two instances on one PostgreSQL under load, while instances, the server and the network between them fail in turn. */
import { chmodSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as pause } from "node:timers/promises"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import pg from "pg"
import { pgProxy, type PgProxy } from "../layers/store/postgres/PgProxy.ts"
import { embeddedPostgres } from "../support/Postgres.ts"
import { freePort } from "../support/Process.ts"
import { makeClient, until } from "./Client.ts"
import type { Row, TestDatabase } from "./Databases.ts"
import { type Instance, startInstance } from "./Fleet.ts"
import { isQuiet, judge, type Verdict, whatWaits } from "./Laws.ts"
import { emptyLedger, makeLoad } from "./Load.ts"
import { seeded } from "./Random.ts"
import { scratch } from "./Scratch.ts"
import { environmentOf, startSimulators } from "./Simulators.ts"

const instances = 2
/** Milliseconds. */
const tick = 250
const betweenOutages = 4_000
const timeoutMillis = 180_000
const longestEnd = 90_000
const reconcileSeconds = [1, 2, 3]

const role = "music"

interface Server extends TestDatabase {
  /** Ends all sessions and restarts. */
  readonly restart: (mode: "fast" | "immediate") => Promise<void>
  /** As superuser. */
  readonly administer: (statement: string) => Promise<ReadonlyArray<Row>>
  readonly url: string
}

/** A server of its own, because it is restarted, with a role and a database of that role. */
const startServer = async (): Promise<Server> => {
  const EmbeddedPostgres = await embeddedPostgres()
  const folder = scratch()
  chmodSync(folder.path, 0o755)
  const data = join(folder.path, "data")
  const port = await freePort()
  const server = new EmbeddedPostgres({
    databaseDir: data,
    user: "postgres",
    password: "postgres",
    port,
    persistent: true,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ["--locale=C", "--encoding=UTF8"],
    postgresFlags: ["-c", "listen_addresses=127.0.0.1"],
    onLog: () => undefined
  })
  await server.initialise()
  await server.start()
  // A connection for each statement: the server restarts in between.
  const ask = (name: string) => async (statement: string) => {
    const client = new pg.Client({
      connectionString: `postgres://postgres:postgres@127.0.0.1:${port}/${name}`
    })
    client.on("error", () => undefined)
    await client.connect()
    try {
      return (await client.query<Row>(statement)).rows
    } finally {
      await client.end()
    }
  }
  const administer = ask("postgres")
  await administer(`CREATE ROLE ${role} LOGIN PASSWORD 'music'`)
  await administer(`CREATE DATABASE ${role} OWNER ${role}`)
  const quit = async () => {
    const pid = Number.parseInt(readFileSync(join(data, "postmaster.pid"), "utf8"), 10)
    process.kill(pid, "SIGQUIT")
    const ended = () => {
      try {
        return !process.kill(pid, 0)
      } catch {
        return true
      }
    }
    await until("the server ended", ended, { within: 60_000 })
  }
  return {
    kind: "PostgreSQL",
    url: `postgres://${role}:music@127.0.0.1:${port}/${role}`,
    environment: {},
    rows: ask(role),
    administer,
    restart: async (mode) => {
      await (mode === "fast" ? server.stop() : quit())
      await server.start()
    },
    remove: async () => {
      await server.stop()
      folder.remove()
    }
  }
}

export interface OutageRow {
  readonly outage: string
  /** Milliseconds from its end, or its begin, until both instances had answered. */
  readonly recovery: Readonly<Record<string, number>>
}

export interface OutagesOutcome extends Verdict {
  readonly rows: ReadonlyArray<OutageRow>
  readonly sent: number
  readonly acknowledged: number
}

interface Outage {
  readonly name: string
  /** Returns when the outage has ended, and with it the moment from which recovery counts. */
  readonly play: () => Promise<void>
  /** Measured while the outage lasts. */
  readonly lasting?: () => Promise<void>
}

export const playOutages = async (parts: {
  readonly instanceFile: string
  readonly seed: number
  readonly log?: (line: string) => void
}): Promise<OutagesOutcome> => {
  const { instanceFile, log = () => undefined, seed } = parts
  const random = seeded(seed)
  const world = await startSimulators()
  const server = await startServer()
  const scope = await Effect.runPromise(Scope.make())
  const proxy: PgProxy = await Effect.runPromise(Scope.extend(pgProxy(server.url), scope))
  const environment = { ...environmentOf(world), MUSIC_DATABASE_URL: proxy.url }
  const ledger = emptyLedger()
  const broken: Array<string> = []
  const current: Array<Instance | undefined> = []
  const all: Array<Instance> = []
  const urls: Array<string | undefined> = []
  let lastTarget = 0
  let over = false
  let probes = 0

  const target = (): string | undefined => {
    for (let tries = 0; tries < instances; tries += 1) {
      lastTarget = (lastTarget + 1) % instances
      const url = urls[lastTarget]
      if (url !== undefined) return url
    }
    return undefined
  }
  const client = makeClient(target, timeoutMillis, random.next, { patient: true })
  const load = makeLoad(world, client, ledger, random)
  const begun: Array<Promise<unknown>> = []
  const begin = (work: Promise<unknown>): void => {
    begun.push(work)
    work.catch(() => undefined)
  }
  const run = (change: Effect.Effect<void>) => Effect.runPromise(change)

  const startAt = async (place: number): Promise<void> => {
    const instance = startInstance(instanceFile, environment, { reconcileSeconds })
    all.push(instance)
    const url = await instance.ready
    if (url === undefined) broken.push(`an instance did not start: ${instance.log().slice(-1_500)}`)
    current[place] = instance
    urls[place] = url
  }

  const send = async (): Promise<void> => {
    for (let ticks = 0; !over; ticks += 1) {
      begin(load.stories.telemetry())
      // All are of one member, and so one after the other, each with three round trips to the database.
      if (ticks % 8 === 4) begin(load.stories.webhook())
      if (ticks % 6 === 0) begin(load.stories.report())
      if (ticks % 8 === 0) begin(load.stories.login())
      await pause(tick)
    }
  }

  /** Milliseconds until each kind of request has succeeded at each instance. */
  const measure = async (): Promise<OutageRow["recovery"]> => {
    const from = performance.now()
    const timed = async (work: Promise<unknown>) => {
      await work
      return performance.now() - from
    }
    const places = await Promise.all(
      urls.map(async (url) => {
        // Repeats at once.
        const eager = makeClient(() => url, timeoutMillis, random.next)
        probes += 1
        const own = makeLoad(world, eager, ledger, random, `probe${probes}x`)
        const [ready, login, report, telemetry, webhook] = await Promise.all([
          timed(eager.insist({ method: "GET", path: "/readyz" }, 200)),
          timed(own.login()),
          timed(own.report()),
          timed(own.telemetry(own.events(1))),
          timed(own.stories.webhook())
        ])
        return { ready, login, report, telemetry, webhook }
      })
    )
    const slowest = (kind: keyof (typeof places)[number]) => Math.max(...places.map((place) => place[kind]))
    return {
      ready: slowest("ready"),
      login: slowest("login"),
      report: slowest("report"),
      telemetry: slowest("telemetry"),
      webhook: slowest("webhook")
    }
  }

  const lasting = (millis: number) => pause(millis)
  const terminate = () =>
    server.administer(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '${role}'`)

  const outages: ReadonlyArray<Outage> = [
    { name: "none", play: async () => undefined },
    {
      name: "`kill -9` of one, until it has started again",
      play: async () => {
        const victim = current[0]
        victim?.kill()
        urls[0] = undefined
        await victim?.died
        await startAt(0)
      }
    },
    {
      name: "rolling restart (SIGTERM, then the new one)",
      play: async () => {
        for (let place = 0; place < instances; place += 1) {
          const old = current[place]
          old?.stop()
          urls[place] = undefined
          const death = await old?.died
          if (death?.code !== 0) broken.push(`a stop ended with ${death?.code}`)
          await startAt(place)
        }
      }
    },
    { name: "PostgreSQL restarted, fast", play: () => server.restart("fast") },
    {
      name: "PostgreSQL restarted, immediate (it recovers from a crash)",
      play: () => server.restart("immediate")
    },
    {
      name: "refuses connections for 30 s",
      play: async () => {
        await run(proxy.cut)
        await lasting(30_000)
        await run(proxy.repair)
      }
    },
    {
      name: "hangs for 20 s",
      play: async () => {
        await run(proxy.freeze)
        await lasting(20_000)
        await run(proxy.repair)
      }
    },
    {
      name: "answers 500 ms late for 20 s, while that lasts",
      lasting: () => run(proxy.slow(500)),
      play: async () => {
        await lasting(20_000)
        await run(proxy.slow(0))
      }
    },
    {
      name: "gives three connections in all for 20 s, while that lasts",
      lasting: async () => {
        await server.administer(`ALTER ROLE ${role} CONNECTION LIMIT 3`)
        await terminate()
      },
      play: async () => {
        await lasting(20_000)
        await server.administer(`ALTER ROLE ${role} CONNECTION LIMIT -1`)
      }
    }
  ]

  const rows: Array<OutageRow> = []
  const add = async (outage: string) => {
    const recovery = await measure().catch((error: unknown) => {
      broken.push(`${outage}: ${String(error)}`)
      return {}
    })
    rows.push({ outage, recovery })
    log(`${outage}: ${JSON.stringify(recovery)}`)
  }
  try {
    // One after the other, as an operator does: the first one migrates.
    for (let place = 0; place < instances; place += 1) await startAt(place)
    const sending = send()
    await pause(betweenOutages)
    for (const outage of outages) {
      if (outage.lasting !== undefined) {
        await outage.lasting()
        await add(outage.name)
      }
      await outage.play()
      await add(outage.lasting === undefined ? outage.name : "the same, after its end")
      await pause(betweenOutages)
    }
    over = true
    await sending
    for (const result of await Promise.allSettled(begun))
      if (result.status === "rejected") broken.push(String(result.reason))
    await until("everything was delivered", () => isQuiet(server), {
      every: 100,
      within: longestEnd
    }).catch(async () => broken.push(`still waiting: ${await whatWaits(server)}`))
    const verdict = await judge({ world, database: server, client, ledger, refusable: 0, repairable: false })
    for (const instance of all)
      if (/"level":"fatal"|"code":"internal"/.test(instance.log()))
        broken.push(`an instance met a defect: ${instance.log().slice(-1_500)}`)
    return {
      ...verdict,
      broken: [...broken, ...verdict.broken],
      rows,
      sent: ledger.sent,
      acknowledged: ledger.acknowledged
    }
  } finally {
    over = true
    for (const instance of all) instance.kill()
    await Promise.all(all.map(({ died }) => died))
    await world.close()
    await Effect.runPromise(Scope.close(scope, Exit.void))
    await server.remove()
  }
}
