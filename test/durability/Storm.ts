/** Several instances on one PostgreSQL under load, with production's leases. One is killed every few seconds and restarted. */
import { setTimeout as pause } from "node:timers/promises"
import { failures } from "../../sandbox/upstreams/tracker/Failures.ts"
import { insistAt, makeWork, until } from "./Client.ts"
import { type TestDatabase, text, toNumber } from "./Databases.ts"
import { type Instance, startInstance } from "./Fleet.ts"
import { isQuiet, judge, type Verdict, whatWaits } from "./Laws.ts"
import { emptyLedger, makeLoad } from "./Load.ts"
import { type Random, seeded } from "./Random.ts"
import { environmentOf, ingestPath, issuesPath, type Simulators, startSimulators } from "./Simulators.ts"

const instances = 3
/** Milliseconds. */
const promisedRecovery = 15_000
const tick = 250
const restartAfter = 500
const betweenKills = { least: 2_500, most: 5_000 }
/** Milliseconds in which every instance must make a delivery under continuous load. */
const share = 15_000
const longestEnd = 90_000
const timeoutMillis = 120_000
/** Milliseconds by which upstreams are slowed before a kill, so that the victim holds a lease, and the longest wait for such a victim. */
const slow = 2_000
const handful = 3_000
/** Searches for a report whose sender died: earlier than in production, so that recovery measures the lease. */
const reconcileSeconds = [1, 2, 3]

/** One run of an instance, from its start to its death or the end. */
interface Life {
  readonly instance: Instance
  readonly since: number
  until: number | undefined
}

/** Whole periods of a life, each with its deliveries. */
const sharesOf = ({ instance, since, until: end = since }: Life) =>
  Array.from({ length: Math.floor((end - since) / share) }, (_, index) => {
    const from = since + index * share
    return instance.deliveries.filter((at) => at >= from && at < from + share).length
  })

interface Held {
  readonly reports: ReadonlyArray<string>
  readonly records: ReadonlyArray<string>
}

interface Kill extends Held {
  readonly at: number
}

/** The rows that these owners lease. */
const heldBy = async (database: TestDatabase, lives: ReadonlyArray<Life | undefined>): Promise<Held> => {
  const owners = lives.flatMap((life) => [...(life?.instance.owners ?? [])]).map((owner) => `'${owner}'`)
  if (owners.length === 0) return { reports: [], records: [] }
  const reports = await database.rows(
    `SELECT id FROM deliveries WHERE kind = 'report' AND state = 'leased' AND lease_owner IN (${owners})`
  )
  const records = await database.rows(`SELECT record_id FROM spool WHERE lease_owner IN (${owners})`)
  return { reports: reports.map((row) => text(row.id)), records: records.map((row) => text(row.record_id)) }
}

/**
 * Milliseconds that each held item took to be delivered after the last kill that delayed it. For a record that is a kill of its holder.
 * For a report it is a kill of the holder of any report, because one is handled at a time. From then on it waits for that lease.
 */
const recoveriesFrom = async (database: TestDatabase, kills: ReadonlyArray<Kill>) => {
  const finished = await database.rows("SELECT id, finished_at AS at FROM deliveries WHERE finished_at > 0")
  const delivered = await database.rows("SELECT record_id AS id, delivered_at AS at FROM spool_delivered")
  const ends = new Map([...finished, ...delivered].map(({ at, id }) => [text(id), toNumber(at)]))
  const recovery = (id: string, inTheWay: ReadonlyArray<Kill>) => {
    const end = ends.get(id) ?? Number.POSITIVE_INFINITY
    const moments = inTheWay.map(({ at }) => at).filter((at) => at <= end)
    return { id, took: end - Math.max(...moments) }
  }
  const ofReports = kills.filter(({ reports }) => reports.length > 0)
  return [
    ...[...new Set(kills.flatMap(({ reports }) => reports))].map((id) => recovery(id, ofReports)),
    ...[...new Set(kills.flatMap(({ records }) => records))].map((id) =>
      recovery(
        id,
        kills.filter(({ records }) => records.includes(id))
      )
    )
  ]
}

/** Injects one random fault for one request. */
const sprinkle = (world: Simulators, random: Random): void => {
  const filing = { method: "POST", path: issuesPath }
  const troubles = [
    () => world.tracker.fail({ ...filing, fault: failures["502-after"] }),
    () => world.tracker.fail({ ...filing, fault: failures.drop }),
    () => world.tables.failIngest("before"),
    () => world.tables.failIngest("after"),
    () => world.iam.fail({ path: "/api/v1/app-auth/tokens", fault: { kind: "drop-after" } }),
    () => world.ting.fail({ path: "/v1/tings", fault: { kind: "drop-after" } }),
    () => world.ting.fail({ path: "/v1/tings", fault: { kind: "delay", milliseconds: 800 } })
  ]
  troubles[random.below(troubles.length)]?.()
}

export const playStorm = async (parts: {
  readonly instanceFile: string
  readonly database: TestDatabase
  readonly seed: number
  readonly seconds: number
  /** Kills only instances that hold a lease, so that every kill needs a recovery. */
  readonly holders: boolean
  readonly log: (line: string) => void
}): Promise<Verdict> => {
  const { database, holders, instanceFile, log, seconds, seed } = parts
  const random = seeded(seed)
  const world = await startSimulators()
  const environment = { ...environmentOf(world), ...database.environment }
  const ledger = emptyLedger()
  const broken: Array<string> = []
  const lives: Array<Life> = []
  const current: Array<Life | undefined> = []
  const urls: Array<string | undefined> = []
  const kills: Array<Kill> = []
  let turn = 0
  let over = false

  /** Round-robin over the instances that listen. */
  const target = (): string | undefined => {
    const listening = urls.filter((url) => url !== undefined)
    turn += 1
    return listening[turn % Math.max(1, listening.length)]
  }
  const insist = insistAt(target, timeoutMillis, random.next)
  const load = makeLoad(world, insist, ledger, random)
  const { begin, failures: rejected } = makeWork()

  const startAt = async (place: number): Promise<void> => {
    const instance = startInstance(instanceFile, environment, { reconcileSeconds })
    const url = await instance.ready
    if (url === undefined) {
      broken.push(`an instance did not start: ${instance.log().slice(-1500)}`)
      return
    }
    const life: Life = { instance, since: performance.now(), until: undefined }
    lives.push(life)
    current[place] = life
    urls[place] = url
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

  /** An instance that holds a lease, while upstreams are slow; else any instance. */
  const findHolder = async (): Promise<number> => {
    world.tables.fail({ path: ingestPath, fault: { kind: "delay", milliseconds: slow } })
    world.tracker.fail({ method: "POST", path: issuesPath, fault: { kind: "delay", milliseconds: slow } })
    const began = performance.now()
    while (!over && performance.now() - began < handful) {
      for (const place of random.shuffled([...current.keys()])) {
        const { records, reports } = await heldBy(database, [current[place]])
        if (records.length + reports.length > 0) return place
      }
      await pause(50)
    }
    return random.below(instances)
  }

  const kill = async (place: number): Promise<void> => {
    const life = current[place]
    if (life === undefined) return
    const at = Date.now()
    life.instance.kill()
    life.until = performance.now()
    urls[place] = undefined
    current[place] = undefined
    await life.instance.died
    await pause(restartAfter)
    const early = await heldBy(database, [life])
    await startAt(place)
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
        lives.filter((life) => life.until !== undefined)
      )
      if (records.length + reports.length === 0) sprinkle(world, random)
      await pause(wait / 2)
      if (!over) await kill(holders ? await findHolder() : random.below(instances))
    }
  }

  try {
    await Promise.all(Array.from({ length: instances }, (_, place) => startAt(place)))
    const working = Promise.all([send(), storm()])
    await pause(seconds * 1000)
    over = true
    for (const life of lives) life.until ??= performance.now()
    await working
    broken.push(...(await rejected()))
    await until("everything was delivered", () => isQuiet(database), {
      every: 100,
      within: longestEnd
    }).catch(async () => broken.push(`still waiting: ${await whatWaits(database)}`))
    const verdict = await judge({ world, database, insist, ledger, refusable: 0, repairable: false })
    const recoveries = await recoveriesFrom(database, kills)
    for (const { id, took } of recoveries)
      if (took > promisedRecovery) broken.push(`${id} was recovered ${took} ms after the kill of its holder`)
    const shares = lives.flatMap(sharesOf)
    if (shares.includes(0)) broken.push(`an instance stood idle for ${share} ms`)
    return {
      broken: [...broken, ...verdict.broken],
      figures: {
        ...verdict.figures,
        sent: ledger.sent,
        acknowledged: ledger.acknowledged,
        kills: kills.length,
        recoveries: recoveries.length,
        "slowest recovery, ms": Math.max(0, ...recoveries.map(({ took }) => took)),
        shares: shares.length
      }
    }
  } finally {
    over = true
    for (const { instance } of lives) instance.kill()
    await Promise.all(lives.map(({ instance }) => instance.died))
    await world.close()
  }
}
