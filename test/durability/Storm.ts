/** Several instances on one PostgreSQL under load, with production's leases. One is killed every few seconds and restarted. */
import { setTimeout as pause } from "node:timers/promises"
import { failures } from "../../sandbox/upstreams/tracker/Failures.ts"
import { type Random, seeded } from "../world/Arbitraries.ts"
import { type Simulators, startSimulators, until } from "../world/Fleet.ts"
import { type TestDatabase, text } from "./Databases.ts"
import { type Instance, insistAt, makeWork, startInstance } from "./Instances.ts"
import { isQuiet, judge, type Verdict, whatWaits } from "./Laws.ts"
import { emptyLedger, makeLoad } from "./Load.ts"
import { filings, ingestPath } from "./Provocations.ts"

const instances = 3
/** Milliseconds. */
const promisedRecovery = 15_000
const tick = 250
const restartAfter = 500
const betweenKills = { least: 2_500, most: 5_000 }
const longestEnd = 90_000
const timeoutMillis = 120_000
/** Milliseconds by which upstreams are slowed before a kill, so that a victim mostly holds a lease. */
const slow = 2_000
/** Searches for a report whose sender died: earlier than in production, so that recovery measures the lease. */
const reconcileSeconds = [1, 2, 3]

/** One run of an instance, from its start to its death or the end. */
interface Life {
  readonly instance: Instance
  readonly url: string
  isOver: boolean
}

interface Kill {
  readonly at: number
  readonly reports: ReadonlyArray<string>
  readonly records: ReadonlyArray<string>
}

/** The rows that these instances lease. */
const heldBy = async (database: TestDatabase, lives: ReadonlyArray<Life>) => {
  const owners = lives.flatMap(({ instance }) => [...instance.owners]).map((owner) => `'${owner}'`)
  const read = async (rows: string) =>
    owners.length === 0
      ? []
      : (await database.rows(`${rows} lease_owner IN (${owners})`)).map(({ id }) => text(id))
  return {
    reports: await read("SELECT id FROM deliveries WHERE kind = 'report' AND state = 'leased' AND"),
    records: await read("SELECT record_id AS id FROM spool WHERE")
  }
}

/**
 * Milliseconds that each held item took to be delivered after the last kill that delayed it. For a record that is a kill of its holder.
 * For a report it is a kill of the holder of any report, because one is handled at a time. From then on it waits for that lease.
 */
const recoveriesFrom = async (database: TestDatabase, kills: ReadonlyArray<Kill>) => {
  const delivered = await database.rows(
    `SELECT id, finished_at AS at FROM deliveries WHERE finished_at > 0
     UNION SELECT record_id, delivered_at FROM spool_delivered`
  )
  const ends = new Map(delivered.map(({ at, id }) => [text(id), Number(at)]))
  const recovery = (id: string, isInTheWay: (kill: Kill) => boolean) => {
    const end = ends.get(id) ?? Number.POSITIVE_INFINITY
    const moments = kills.filter(isInTheWay).map(({ at }) => at)
    return { id, took: end - Math.max(...moments.filter((at) => at <= end)) }
  }
  return [
    ...[...new Set(kills.flatMap(({ reports }) => reports))].map((id) =>
      recovery(id, ({ reports }) => reports.length > 0)
    ),
    ...[...new Set(kills.flatMap(({ records }) => records))].map((id) =>
      recovery(id, ({ records }) => records.includes(id))
    )
  ]
}

/** Injects one random fault for one request. */
const sprinkle = ({ iam, tables, ting, tracker }: Simulators, random: Random): void => {
  const troubles = [
    () => tracker.fail({ ...filings, fault: failures["502-after"] }),
    () => tracker.fail({ ...filings, fault: failures.drop }),
    () => tables.failIngest("before"),
    () => tables.failIngest("after"),
    () => iam.fail({ path: "/api/v1/app-auth/tokens", fault: { kind: "drop-after" } }),
    () => ting.fail({ path: "/v1/tings", fault: { kind: "drop-after" } })
  ]
  troubles[random.below(troubles.length)]?.()
}

export const playStorm = async (parts: {
  readonly instanceFile: string
  readonly database: TestDatabase
  readonly seed: number
  readonly seconds: number
  readonly log: (line: string) => void
}): Promise<Verdict> => {
  const { database, instanceFile, log, seconds, seed } = parts
  const random = seeded(seed)
  const world = await startSimulators()
  const ledger = emptyLedger()
  const broken: Array<string> = []
  const lives: Array<Life> = []
  const kills: Array<Kill> = []
  let turn = 0
  let over = false

  const listening = () => lives.filter(({ isOver }) => !isOver)
  /** Round-robin over the instances that listen. */
  const target = (): string | undefined => {
    turn += 1
    return listening()[turn % Math.max(1, listening().length)]?.url
  }
  const insist = insistAt(target, timeoutMillis)
  const load = makeLoad(world, insist, ledger, random)
  const { begin, failures: rejected } = makeWork()

  const startOne = async (): Promise<void> => {
    const instance = startInstance(instanceFile, world, database.environment, { reconcileSeconds })
    const url = await instance.ready
    if (url === undefined) broken.push(`an instance did not start: ${instance.log()}`)
    else lives.push({ instance, url, isOver: false })
  }

  const send = async (): Promise<void> => {
    for (let ticks = 0; !over; ticks += 1) {
      begin(load.stories.telemetry())
      if (ticks % 2 === 0) begin(load.stories.webhook())
      if (ticks % 6 === 0) begin(load.stories.report())
      if (ticks % 8 === 0) begin(load.stories.login())
      await pause(tick)
    }
  }

  const killOne = async (): Promise<void> => {
    const life = listening()[random.below(instances)]
    if (life === undefined) return
    const at = Date.now()
    life.instance.kill()
    life.isOver = true
    await life.instance.died
    await pause(restartAfter)
    const early = await heldBy(database, [life])
    await startOne()
    // The database may execute its last statements after its death.
    const late = await heldBy(database, [life])
    const reports = [...new Set([...early.reports, ...late.reports])]
    const records = [...new Set([...early.records, ...late.records])]
    kills.push({ at, reports, records })
    log(`killed, holding ${reports.length} reports and ${records.length} records`)
  }

  const storm = async (): Promise<void> => {
    while (!over) {
      const wait = betweenKills.least + random.next() * (betweenKills.most - betweenKills.least)
      await pause(wait / 2)
      // A fault during a recovery would distort its measurement.
      const { records, reports } = await heldBy(
        database,
        lives.filter(({ isOver }) => isOver)
      )
      if (records.length + reports.length === 0) sprinkle(world, random)
      await pause(wait / 2)
      if (over) return
      world.tables.fail({ path: ingestPath, fault: { kind: "delay", milliseconds: slow } })
      world.tracker.fail({ ...filings, fault: { kind: "delay", milliseconds: slow } })
      await pause(slow / 2)
      await killOne()
    }
  }

  try {
    await Promise.all(Array.from({ length: instances }, startOne))
    const working = Promise.all([send(), storm()])
    await pause(seconds * 1000)
    over = true
    await working
    broken.push(...(await rejected()))
    const delivered = () => isQuiet(database)
    await until("everything was delivered", delivered, { every: 100, within: longestEnd }).catch(async () =>
      broken.push(`still waiting: ${await whatWaits(database)}`)
    )
    const verdict = await judge({ world, database, insist, ledger })
    const recoveries = await recoveriesFrom(database, kills)
    for (const { id, took } of recoveries)
      if (took > promisedRecovery) broken.push(`${id} was recovered ${took} ms after the kill of its holder`)
    return {
      broken: [...broken, ...verdict.broken],
      figures: {
        ...verdict.figures,
        kills: kills.length,
        recoveries: recoveries.length,
        "slowest recovery, ms": Math.max(0, ...recoveries.map(({ took }) => took))
      }
    }
  } finally {
    over = true
    for (const { instance } of lives) instance.kill()
    await Promise.all(lives.map(({ instance }) => instance.died))
    await world.close()
  }
}
