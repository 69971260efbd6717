/** What one seed plays: every crash point on both databases, and a storm over several instances on one PostgreSQL. */
import { startPostgres } from "../world/Postgres.ts"
import { seeded } from "../world/Arbitraries.ts"
import { playChain } from "./Chain.ts"
import { postgresDatabase, sqliteDatabase, type TestDatabase } from "./Databases.ts"
import { bundleInstance } from "./Instances.ts"
import type { Verdict } from "./Laws.ts"
import { migrating, running, splitRandomly } from "./Points.ts"
import { playStorm } from "./Storm.ts"

/** Concurrent chains on each database. */
const hands = 4

interface RunOptions {
  readonly seed: number
  /** Of the storm. */
  readonly seconds?: number
}

interface Played extends RunOptions {
  readonly file: string
  /** The URL of a PostgreSQL. */
  readonly server: string
}

/** Plays on a database of its own. */
const on = async <A>(open: () => Promise<TestDatabase>, use: (database: TestDatabase) => Promise<A>) => {
  const database = await open()
  try {
    return await use(database)
  } finally {
    await database.remove()
  }
}

/** Kills at every crash point, on both databases; in a slice at each that it has, on one of them. */
const crash = async ({ file, seed, server }: Played, isSlice: boolean): Promise<Verdict> => {
  const chains = [sqliteDatabase, () => postgresDatabase(server)].flatMap((open, index) => {
    const points = isSlice ? running.filter((_, at) => (at + (at >> 1) + seed) % 2 === index) : running
    // A different order on each database.
    return splitRandomly(points, seeded(seed + index * 1_000), hands).map((hand, at) => ({
      open,
      points: at === 0 ? [...migrating, ...hand] : hand
    }))
  })
  const played = await Promise.all(
    chains.map(({ open, points }) =>
      on(open, (database) => playChain({ instanceFile: file, database, points, seed }))
    )
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

const storm = ({ file, seconds = 60, seed, server }: Played): Promise<Verdict> =>
  on(
    () => postgresDatabase(server),
    async (database) => {
      const { broken, figures } = await playStorm({ instanceFile: file, database, seed, seconds })
      return { broken: broken.map((law) => `${law} [storm, seed ${seed}]`), figures: { seed, ...figures } }
    }
  )

const parts = {
  slice: (played: Played) => crash(played, true),
  crashes: (played: Played) => crash(played, false),
  storm
} as const

/** Verdicts; a failure names its seed and places. */
export const playSeed = async (
  names: ReadonlyArray<keyof typeof parts>,
  options: RunOptions
): Promise<ReadonlyArray<Verdict>> => {
  const file = await bundleInstance()
  const { stop, url } = await startPostgres()
  try {
    const verdicts: Array<Verdict> = []
    // One after the other: the storm measures times.
    for (const name of names) verdicts.push(await parts[name]({ ...options, file, server: url }))
    return verdicts
  } finally {
    await stop()
  }
}
