/** Several instances on one PostgreSQL under load, with production's leases. One is killed every few seconds and restarted. */
import { setTimeout as pause } from "node:timers/promises"
import { trackerFaults } from "../../sandbox/upstreams/Tracker.ts"
import { type Random, seeded } from "../world/Arbitraries.ts"
import { type Simulators, startSimulators, until } from "../world/Fleet.ts"
import type { TestDatabase } from "./Databases.ts"
import { type Instance, insistAt, makeWork, startInstance } from "./Instances.ts"
import { isQuiet, judge, type Verdict, whatWaits } from "./Laws.ts"
import { emptyLedger, makeLoad } from "./Load.ts"
import { filings, ingestPath } from "./Provocations.ts"

const instances = 3
/** Milliseconds after the last kill within which everything is delivered: leases end, and dead senders' reports are searched. */
const promisedRecovery = 30_000
const tick = 250
const restartAfter = 500
const betweenKills = { least: 2_500, most: 5_000 }
const timeoutMillis = 120_000
/** Milliseconds by which upstreams are slowed before a kill, so that a victim mostly holds a lease. */
const slow = 2_000
/** Searches for a report whose sender died: earlier than in production, so that recovery measures the lease. */
const limits = { searchDelays: [1_000, 2_000, 3_000] }

/** Injects one random fault for one request. */
const sprinkle = ({ iam, tables, ting, tracker }: Simulators, random: Random): void => {
  const troubles = [
    () => tracker.fail({ ...filings, fault: trackerFaults.badGatewayAfter }),
    () => tracker.fail({ ...filings, fault: { kind: "drop" } }),
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
}): Promise<Verdict> => {
  const { database, instanceFile, seconds, seed } = parts
  const random = seeded(seed)
  const world = await startSimulators()
  const ledger = emptyLedger()
  const broken: Array<string> = []
  /** Those that listen. */
  const lives: Array<{ readonly instance: Instance; readonly url: string }> = []
  let kills = 0
  let turn = 0
  let over = false

  /** Round-robin over the instances that listen. */
  const target = (): string | undefined => {
    turn += 1
    return lives[turn % Math.max(1, lives.length)]?.url
  }
  const insist = insistAt(target, timeoutMillis)
  const load = makeLoad(world, insist, ledger, random)
  const { begin, failures: rejected } = makeWork()

  const startOne = async (): Promise<void> => {
    const instance = startInstance(instanceFile, world, database.environment, { limits })
    const url = await instance.ready
    if (url === undefined) broken.push(`an instance did not start: ${instance.log()}`)
    else lives.push({ instance, url })
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

  /** While the upstreams are slow, so that the victim mostly holds a lease. */
  const killOne = async (): Promise<void> => {
    world.tables.fail({ path: ingestPath, fault: { kind: "delay", milliseconds: slow } })
    world.tracker.fail({ ...filings, fault: { kind: "delay", milliseconds: slow } })
    await pause(slow / 2)
    const [life] = lives.splice(random.below(instances), 1)
    if (life === undefined) return
    kills += 1
    life.instance.kill()
    await life.instance.died
  }

  const storm = async (): Promise<void> => {
    while (!over) {
      const wait = betweenKills.least + random.next() * (betweenKills.most - betweenKills.least)
      await pause(wait / 2)
      sprinkle(world, random)
      await pause(wait / 2)
      await killOne()
      await pause(restartAfter)
      await startOne()
    }
  }

  try {
    await Promise.all(Array.from({ length: instances }, startOne))
    const working = Promise.all([send(), storm()])
    await pause(seconds * 1000)
    over = true
    await working
    broken.push(...(await rejected()))
    await killOne()
    const delivered = () => isQuiet(database)
    await until("everything was delivered", delivered, { every: 100, within: promisedRecovery }).catch(
      async () => broken.push(`still waiting: ${await whatWaits(database)}`)
    )
    const verdict = await judge({ world, database, insist, ledger })
    return { broken: [...broken, ...verdict.broken], figures: { ...verdict.figures, kills } }
  } finally {
    over = true
    for (const { instance } of lives) instance.kill()
    await Promise.all(lives.map(({ instance }) => instance.died))
    await world.close()
  }
}
