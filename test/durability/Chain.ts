/** Plays many crashes on one database: each process dies at another crash point, and the last one finishes all work. */
import { setTimeout as pause } from "node:timers/promises"
import { seeded } from "../world/Arbitraries.ts"
import { startSimulators, until } from "../world/Fleet.ts"
import type { TestDatabase } from "./Databases.ts"
import { type Death, type Instance, insistAt, makeWork, quick, startInstance } from "./Instances.ts"
import { isQuiet, judge, type Verdict, whatWaits } from "./Laws.ts"
import { emptyLedger, makeLoad } from "./Load.ts"
import type { Point } from "./Points.ts"
import { actOf, type Scene } from "./Provocations.ts"

/** Milliseconds in which a process reaches its crash point: longer than a provocation waits, which would disturb the next try. */
const attemptTimeout = 20_000
const mostTries = 4
const longestEnd = 30_000
/** Milliseconds for which a client retries: longer than a whole chain on a busy machine. */
const timeoutMillis = 300_000
/** One process in so many receives a request of every kind. */
const everythingIn = 16

/** Kills the process at each point, one after the other. */
export const playChain = async (parts: {
  readonly instanceFile: string
  readonly database: TestDatabase
  readonly points: ReadonlyArray<Point>
  readonly seed: number
}): Promise<Verdict> => {
  const { database, instanceFile, points, seed } = parts
  const random = seeded(seed)
  const world = await startSimulators()
  const environment = { ...database.environment, MUSIC_REQUEST_DEADLINE_SECONDS: "5" }
  const ledger = emptyLedger()
  let url: string | undefined
  let current: Instance | undefined
  let refusable = 0
  let crashes = 0
  const insist = insistAt(() => url, timeoutMillis)
  const load = makeLoad(world, insist, ledger, random)
  const broken: Array<string> = []
  const { begin, failures } = makeWork()

  const live = (crashAt: string): Instance => {
    const started = startInstance(instanceFile, world, environment, { ...quick, crashAt })
    current = started
    void started.ready.then((address) => {
      if (current === started) url = address
    })
    void started.died.then(() => {
      if (current === started) url = undefined
    })
    return started
  }
  const scene: Scene = {
    world,
    load,
    instance: () => current ?? live(""),
    refusing: () => {
      refusable += 1
    }
  }

  /** Runs one process with a crash point. Its death is undefined when it did not end in time. */
  const liveUntil = async ({ name, provocation }: Point): Promise<{ life: Instance; death?: Death }> => {
    world.tracker.setListLag(0)
    const { before, beside, story } = actOf(provocation)
    before?.(scene)
    const life = live(name)
    // Rarely, because it costs time and there are many processes.
    if (random.below(everythingIn) === 0) begin(load.everything())
    let death: Death | undefined
    // Another request may consume the fault of this one; then it is injected again.
    for (let tries = 0; death === undefined && tries < mostTries; tries += 1) {
      if (tries > 0) before?.(scene)
      if (story !== undefined) begin(load.stories[story]())
      if (beside !== undefined) begin(beside(scene))
      death = await Promise.race([life.died, pause<undefined>(attemptTimeout)])
    }
    return death === undefined ? { life } : { life, death }
  }

  const dieAt = async (point: Point): Promise<void> => {
    const { death, life } = await liveUntil(point)
    if (death?.signal !== "SIGKILL") {
      broken.push(`${point.name} was not reached (${JSON.stringify(death)}): ${life.log()}`)
      life.kill()
      await life.died
    } else crashes += 1
    for (const simulator of [world.iam, world.ting, world.tables, world.tracker]) simulator.clearFaults()
  }

  const finish = async (): Promise<Verdict> => {
    world.tracker.setListLag(0)
    const last = live("")
    begin(load.everything())
    if ((await last.ready) === undefined) throw new Error(`the last instance did not start: ${last.log()}`)
    broken.push(...(await failures()))
    const delivered = () => isQuiet(database, { sweeps: true })
    await until("everything was delivered", delivered, { within: longestEnd }).catch(async () =>
      broken.push(`still waiting: ${await whatWaits(database)}; ${last.log()}`)
    )
    const repairable = points.some(({ provocation }) => provocation === "two issues")
    return judge({ world, database, insist, ledger, refusable, repairable })
  }

  try {
    for (const point of points) await dieAt(point)
    const { broken: found, figures } = await finish()
    const where = `${database.kind}, seed ${seed}: ${points.map(({ name }) => name).join("; ")}`
    return {
      broken: [...broken, ...found].map((law) => `${law} [${where}]`),
      figures: { ...figures, crashes }
    }
  } finally {
    current?.kill()
    await current?.died
    await world.close()
  }
}
