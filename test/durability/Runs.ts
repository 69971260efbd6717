/** What one seed plays: every crash point on both databases, and a storm over several instances on one PostgreSQL. */
import { startPostgres } from "../world/Postgres.ts"
import { seeded } from "../world/Arbitraries.ts"
import { bundle, startSimulators } from "../world/Fleet.ts"
import { playChain } from "./Chain.ts"
import { postgresDatabase, sqliteDatabase } from "./Databases.ts"
import { entry, insistAt, quick, startInstance } from "./Instances.ts"
import type { Verdict } from "./Laws.ts"
import { emptyLedger, makeLoad } from "./Load.ts"
import { migrating, running, splitRandomly } from "./Points.ts"
import { playStorm } from "./Storm.ts"

/** Concurrent chains on each database. */
const hands = 4

/** The instance of a run, warmed up once, so that later instances start with compiled code; and a PostgreSQL. */
const prepare = async () => {
  const file = await bundle(entry)
  const world = await startSimulators()
  const database = await sqliteDatabase()
  const instance = startInstance(file, world, database.environment, quick)
  try {
    const url = await instance.ready
    if (url === undefined) throw new Error(`the instance does not start: ${instance.log()}`)
    const insist = insistAt(() => url, 60_000)
    await makeLoad(world, insist, emptyLedger(), seeded(1)).everything()
    await instance.keepCompiled()
  } finally {
    instance.kill()
    await database.remove()
    await world.close()
  }
  const server = await startPostgres()
  return { file, server: server.url, end: server.stop }
}
type Prepared = Awaited<ReturnType<typeof prepare>>

interface RunOptions {
  readonly seed: number
  /** Of the storm. */
  readonly seconds?: number
}

/** Kills at every crash point, on both databases; in a slice at each that it has, on one of them. */
const crash = async ({ file, server }: Prepared, { seed }: RunOptions, isSlice: boolean) => {
  const chains = [sqliteDatabase, () => postgresDatabase(server)].flatMap((open, index) => {
    const points = isSlice ? running.filter((_, at) => (at + (at >> 1) + seed) % 2 === index) : running
    // A different order on each database.
    return splitRandomly(points, seeded(seed + index * 1_000), hands).map((hand, at) => ({
      open,
      points: at === 0 ? [...migrating, ...hand] : hand
    }))
  })
  const played = await Promise.all(
    chains.map(async ({ open, points }) => {
      const database = await open()
      try {
        return await playChain({ instanceFile: file, database, points, seed })
      } finally {
        await database.remove()
      }
    })
  )
  const sum = (name: string) => played.reduce((total, { figures }) => total + (figures[name] ?? 0), 0)
  const places = chains.reduce((total, { points }) => total + points.length, 0)
  const broken = played.flatMap((one) => one.broken)
  if (sum("crashes") !== places) broken.push(`${sum("crashes")} processes died at ${places} places`)
  return {
    broken,
    figures: { seed, places, crashes: sum("crashes"), "duplicates after crashes": sum("duplicates") }
  }
}

const storm = async ({ file, server }: Prepared, options: RunOptions): Promise<Verdict> => {
  const { seconds = 60, seed } = options
  const database = await postgresDatabase(server)
  try {
    const { broken, figures } = await playStorm({ instanceFile: file, database, seed, seconds })
    return { broken: broken.map((law) => `${law} [storm, seed ${seed}]`), figures: { seed, ...figures } }
  } finally {
    await database.remove()
  }
}

const parts = {
  slice: (prepared: Prepared, options: RunOptions) => crash(prepared, options, true),
  crashes: (prepared: Prepared, options: RunOptions) => crash(prepared, options, false),
  storm
} as const
export type Part = keyof typeof parts

/** Verdicts; a failure names its seed and places. */
export const playSeed = async (
  names: ReadonlyArray<Part>,
  options: RunOptions
): Promise<ReadonlyArray<Verdict>> => {
  const prepared = await prepare()
  try {
    const verdicts: Array<Verdict> = []
    // One after the other: the storm measures times.
    for (const name of names) verdicts.push(await parts[name](prepared, options))
    return verdicts
  } finally {
    await prepared.end()
  }
}
