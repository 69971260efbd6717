/** What one seed plays: every crash point on both databases, and meanwhile a storm over several instances on one PostgreSQL. */
import { startPostgres } from "../support/Postgres.ts"
import { playChain } from "./Chain.ts"
import { insistAt } from "./Client.ts"
import { postgresDatabase, sqliteDatabase } from "./Databases.ts"
import { bundle, entry, quick, startInstance } from "./Fleet.ts"
import type { Verdict } from "./Laws.ts"
import { emptyLedger, makeLoad } from "./Load.ts"
import { migrating, running, splitRandomly } from "./Points.ts"
import { seeded } from "./Random.ts"
import { environmentOf, startSimulators } from "./Simulators.ts"
import { playStorm } from "./Storm.ts"

/** Concurrent chains on each database. */
const hands = 4

/** Bundles the instance of a run and warms it up once, so that later instances start with compiled code. */
export const prepareInstance = async () => {
  const built = await bundle(entry)
  const world = await startSimulators()
  const database = await sqliteDatabase()
  const instance = startInstance(built.file, { ...environmentOf(world), ...database.environment }, quick)
  try {
    const url = await instance.ready
    if (url === undefined) throw new Error(`the instance does not start: ${instance.log()}`)
    const random = seeded(1)
    await makeLoad(
      world,
      insistAt(() => url, 60_000, random.next),
      emptyLedger(),
      random
    ).everything()
    await instance.keepCompiled()
    return built
  } finally {
    instance.kill()
    await database.remove()
    await world.close()
  }
}

export interface RunOptions {
  readonly seeds: ReadonlyArray<number>
  /** Of each storm. */
  readonly seconds: number
  /** The storm kills only instances that hold a lease, while upstreams are slow. */
  readonly holders?: boolean
  readonly log?: (line: string) => void
}

const playCrashes = async (
  instanceFile: string,
  server: string,
  seed: number,
  log: (line: string) => void
): Promise<Verdict> => {
  const chains = [sqliteDatabase, () => postgresDatabase(server)].flatMap((open, index) =>
    // A different order on each database.
    splitRandomly(running, seeded(seed + index * 1_000), hands).map((hand, at) => ({
      open,
      points: at === 0 ? [...migrating, ...hand] : hand
    }))
  )
  const played = await Promise.all(
    chains.map(async ({ open, points }) => {
      const database = await open()
      try {
        return await playChain({ instanceFile, database, points, seed, modest: true, log })
      } finally {
        await database.remove()
      }
    })
  )
  const sum = (name: string) => played.reduce((total, { figures }) => total + (figures[name] ?? 0), 0)
  const crashes = sum("crashes")
  const expected = 2 * (running.length + migrating.length)
  return {
    broken: [
      ...played.flatMap(({ broken }) => broken),
      ...(crashes === expected ? [] : [`${crashes} processes died at ${expected} places`])
    ],
    figures: { places: expected, crashes, "duplicates after crashes": sum("duplicates") }
  }
}

/** A verdict for each seed; a failure names its seed and places. */
export const playSeeds = async ({
  holders = false,
  log = () => undefined,
  seconds,
  seeds
}: RunOptions): Promise<ReadonlyArray<Verdict>> => {
  const { file, remove } = await prepareInstance()
  const server = await startPostgres()
  const play = async (seed: number): Promise<Verdict> => {
    const database = await postgresDatabase(server.url)
    try {
      const storming = playStorm({ instanceFile: file, database, seed, seconds, holders, log })
      const [crashes, storm] = await Promise.all([playCrashes(file, server.url, seed, log), storming])
      return {
        broken: [...crashes.broken, ...storm.broken.map((law) => `${law} [storm, seed ${seed}]`)],
        figures: { seed, ...crashes.figures, ...storm.figures }
      }
    } finally {
      await database.remove()
    }
  }
  try {
    const verdicts: Array<Verdict> = []
    for (const seed of seeds) verdicts.push(await play(seed))
    return verdicts
  } finally {
    await server.stop()
    remove()
  }
}
