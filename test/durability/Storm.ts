/** Several instances on one PostgreSQL under load, with production's leases. One is killed every few seconds and restarted. */
import { setTimeout as pause } from "node:timers/promises"
import { failures } from "../../sandbox/upstreams/tracker/Failures.ts"
import { makeClient, until } from "./Client.ts"
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

export interface StormFigures {
  readonly sent: number
  readonly acknowledged: number
  readonly attempts: number
  readonly kills: number
  /** Reports and telemetry records that a killed instance held. */
  readonly recoveries: number
  /** Milliseconds from a kill to the delivery of what the dead one held. */
  readonly slowestRecovery: number
  readonly faults: number
  /** Periods of 15 s of running instances; each needs a delivery. */
  readonly shares: number
}

export interface StormOutcome extends Verdict {
  readonly storm: StormFigures
}

/** One run of an instance, from its start to its death or the end. */
interface Life {
  readonly instance: Instance
  readonly since: number
  until: number | undefined
}

const sharesOf = (life: Life) => {
  const { deliveries } = life.instance
  const lived = (life.until ?? life.since) - life.since
  return Array.from({ length: Math.floor(lived / share) }, (_, index) => {
    const from = life.since + index * share
    return { life, delivered: deliveries.filter((at) => at >= from && at < from + share).length }
  })
}

interface Kill {
  readonly at: number
  readonly reports: ReadonlyArray<string>
  readonly records: ReadonlyArray<string>
}

/** The rows that these owners lease. */
const heldBy = async (
  database: TestDatabase,
  owners: ReadonlySet<string>
): Promise<Pick<Kill, "reports" | "records">> => {
  if (owners.size === 0) return { reports: [], records: [] }
  const list = [...owners].map((owner) => `'${owner}'`).join(", ")
  const reports = await database.rows(
    `SELECT id FROM deliveries WHERE kind = 'report' AND state = 'leased' AND lease_owner IN (${list})`
  )
  const records = await database.rows(`SELECT record_id FROM spool WHERE lease_owner IN (${list})`)
  return { reports: reports.map((row) => text(row.id)), records: records.map((row) => text(row.record_id)) }
}

interface Recovery {
  readonly id: string
  /** Time of the kill that it recovers from. */
  readonly at: number
  /** Milliseconds. */
  readonly took: number
}

/**
 * How long each held item took to be delivered after the last kill that delayed it. For a record that is a kill of its holder. For a
 * report it is a kill of the holder of any report, because one is handled at a time. From then on it waits for that lease.
 */
const recoveriesFrom = async (
  database: TestDatabase,
  kills: ReadonlyArray<Kill>
): Promise<ReadonlyArray<Recovery>> => {
  const ends = new Map([
    ...(await database.rows("SELECT id, finished_at FROM deliveries WHERE finished_at IS NOT NULL")).map(
      (row): [string, number] => [text(row.id), toNumber(row.finished_at)]
    ),
    ...(await database.rows("SELECT record_id, delivered_at FROM spool_delivered")).map(
      (row): [string, number] => [text(row.record_id), toNumber(row.delivered_at)]
    )
  ])
  const recovery = (id: string, inTheWay: ReadonlyArray<Kill>): Recovery => {
    const end = ends.get(id) ?? Number.POSITIVE_INFINITY
    const at = Math.max(...inTheWay.map((kill) => kill.at).filter((moment) => moment <= end))
    return { id, at, took: end - at }
  }
  const ofReports = kills.filter(({ reports }) => reports.length > 0)
  const ids = (pick: (kill: Kill) => ReadonlyArray<string>) => [...new Set(kills.flatMap(pick))]
  return [
    ...ids(({ reports }) => reports).map((id) => recovery(id, ofReports)),
    ...ids(({ records }) => records).map((id) =>
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
  readonly holders?: boolean
  readonly log?: (line: string) => void
}): Promise<StormOutcome> => {
  const { database, instanceFile, seconds, seed, log = () => undefined } = parts
  const random = seeded(seed)
  const world = await startSimulators()
  const environment = { ...environmentOf(world), ...database.environment }
  const ledger = emptyLedger()
  const broken: Array<string> = []
  const lives: Array<Life> = []
  const current: Array<Life | undefined> = []
  const urls: Array<string | undefined> = []
  const kills: Array<Kill> = []
  let faults = 0
  let lastTarget = 0
  let over = false

  /** Round-robin over the instances that listen. */
  const target = (): string | undefined => {
    for (let tries = 0; tries < instances; tries += 1) {
      lastTarget = (lastTarget + 1) % instances
      const url = urls[lastTarget]
      if (url !== undefined) return url
    }
    return undefined
  }
  const client = makeClient(target, timeoutMillis, random.next)
  const load = makeLoad(world, client, ledger, random)
  const begun: Array<Promise<unknown>> = []
  const begin = (work: Promise<unknown>): void => {
    begun.push(work)
    work.catch(() => undefined)
  }

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
  const victim = async (): Promise<number> => {
    world.tables.fail({ path: ingestPath, fault: { kind: "delay", milliseconds: slow } })
    world.tracker.fail({ method: "POST", path: issuesPath, fault: { kind: "delay", milliseconds: slow } })
    const began = performance.now()
    while (!over && performance.now() - began < handful) {
      for (const place of [...current.keys()].sort(() => random.next() - 0.5)) {
        const held = await heldBy(database, current[place]?.instance.owners ?? new Set())
        if (held.records.length + held.reports.length > 0) return place
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
    const early = await heldBy(database, life.instance.owners)
    await startAt(place)
    // The database may execute its last statements after its death.
    const late = await heldBy(database, life.instance.owners)
    const reports = [...new Set([...early.reports, ...late.reports])]
    const records = [...new Set([...early.records, ...late.records])]
    kills.push({ at, reports, records })
    log(
      `${new Date(at).toISOString()} killed, holding ${reports.length} reports and ${records.length} records`
    )
  }

  const allRecovered = async (): Promise<boolean> => {
    const dead = new Set(
      lives.filter((life) => life.until !== undefined).flatMap(({ instance }) => [...instance.owners])
    )
    const { records, reports } = await heldBy(database, dead)
    return records.length + reports.length === 0
  }

  const storm = async (): Promise<void> => {
    while (!over) {
      const wait = betweenKills.least + random.next() * (betweenKills.most - betweenKills.least)
      await pause(wait / 2)
      // A fault during a recovery would distort its measurement.
      if (await allRecovered()) {
        sprinkle(world, random)
        faults += 1
      }
      await pause(wait / 2)
      if (!over) await kill(parts.holders === true ? await victim() : random.below(instances))
    }
  }

  try {
    await Promise.all(Array.from({ length: instances }, (_, place) => startAt(place)))
    const sending = send()
    const storming = storm()
    await pause(seconds * 1000)
    over = true
    for (const life of lives) life.until ??= performance.now()
    await Promise.all([sending, storming])
    for (const result of await Promise.allSettled(begun))
      if (result.status === "rejected") broken.push(String(result.reason))
    await until("everything was delivered", () => isQuiet(database), {
      every: 100,
      within: longestEnd
    }).catch(async () => broken.push(`still waiting: ${await whatWaits(database)}`))
    const verdict = await judge({ world, database, client, ledger, refusable: 0, repairable: false })

    const recoveries = await recoveriesFrom(database, kills)
    const slowestRecovery = Math.max(0, ...recoveries.map(({ took }) => took))
    for (const { at, id, took } of recoveries.filter(({ took }) => took > promisedRecovery))
      broken.push(`${id} was recovered ${took} ms after the kill at ${new Date(at).toISOString()}`)
    const shares = lives.flatMap(sharesOf)
    for (const { life, delivered } of shares)
      if (delivered === 0) broken.push(`an instance stood idle: ${life.instance.log().slice(-500)}`)
    log(
      `${lives.length} lives delivered ${lives.map(({ instance }) => instance.deliveries.length).join(", ")} times`
    )
    return {
      figures: verdict.figures,
      broken: [...broken, ...verdict.broken],
      storm: {
        sent: ledger.sent,
        acknowledged: ledger.acknowledged,
        attempts: client.attempts(),
        kills: kills.length,
        recoveries: recoveries.length,
        slowestRecovery,
        faults,
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
