/** Kills a process at crash points and checks that nothing is lost or done twice. `npm run durability` plays all points on both databases. */
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest"
import { playChain } from "./Chain.ts"
import { postgresDatabase, sqliteDatabase } from "./Databases.ts"
import type { Bundle } from "./Fleet.ts"
import { splitRandomly, migrating, type Point, running } from "./Points.ts"
import { prepareInstance } from "./Prepared.ts"
import { seeded } from "./Random.ts"

const seed = 1
const server = inject("postgres").server
let instance: Bundle | undefined

beforeAll(async () => {
  instance = await prepareInstance()
})
afterAll(() => instance?.remove())

const databases = [
  { kind: "SQLite", open: sqliteDatabase },
  { kind: "PostgreSQL", open: () => postgresDatabase(server) }
]
// An eighth of the points, shared between the databases, in two chains each; the schema is made on both.
const hands = splitRandomly(running, seeded(seed), 32).slice(0, 4)
const chains = hands.map(
  (hand, index): { kind: string; open: typeof sqliteDatabase; points: ReadonlyArray<Point> } => {
    const { kind, open } = databases[index % 2] ?? { kind: "SQLite", open: sqliteDatabase }
    return { kind, open, points: index < 2 ? [...migrating, ...hand] : hand }
  }
)

describe("A killed process", () => {
  it.concurrent.each(chains)(
    "loses nothing and does nothing twice on $kind: $points.length crash points",
    async ({ open, points }) => {
      const database = await open()
      try {
        const { broken, crashes, where } = await playChain({
          instanceFile: instance?.file ?? "",
          database,
          points,
          seed
        })
        expect(broken, where).toEqual([])
        expect(crashes).toBe(points.length)
      } finally {
        await database.remove()
      }
    },
    300_000
  )
})
