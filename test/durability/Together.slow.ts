/** Two instances on one PostgreSQL keep the promises of one: what is sent to both at once is carried out once. */
import { expect, inject, it } from "vitest"
import { seeded } from "../world/Arbitraries.ts"
import { bodyOf } from "../world/Driver.ts"
import { startSimulators, until } from "../world/Fleet.ts"
import { patience } from "../world/Waiting.ts"
import { postgresDatabase } from "./Databases.ts"
import { bundleInstance, type Insist, insistAt, quick, startInstance } from "./Instances.ts"
import { isQuiet, judge } from "./Laws.ts"
import { emptyLedger, makeLoad } from "./Load.ts"

const rounds = 5

it("Two instances carry out a request to both once, with the same answer", async () => {
  const file = await bundleInstance()
  const world = await startSimulators()
  const database = await postgresDatabase(inject("postgres").server)
  // Both migrate the schema at the same time.
  const instances = [1, 2].map(() => startInstance(file, world, database.environment, quick))
  try {
    const urls = await Promise.all(instances.map(({ ready }) => ready))
    const clients = urls.map((url) => insistAt(() => url, 30_000))
    const toBoth: Insist = async (request, ...statuses) => {
      const [one, other] = await Promise.all(clients.map((insist) => insist(request, ...statuses)))
      if (one === undefined || other === undefined) throw new Error("no instances")
      const [mine, theirs] = [bodyOf(one), bodyOf(other)]
      for (const name of ["access_token", "refresh_token", "ting", "id"])
        expect(theirs[name]).toEqual(mine[name])
      if ("replayed" in mine) expect([mine.replayed, theirs.replayed].sort()).toEqual([false, true])
      return one
    }
    const ledger = emptyLedger()
    const load = makeLoad(world, toBoth, ledger, seeded(1))
    for (let round = 0; round < rounds; round += 1) await load.everything()
    await until("everything is delivered", () => isQuiet(database), { within: patience })
    const { broken, figures } = await judge({ world, database, insist: toBoth, ledger })
    expect(broken).toEqual([])
    expect(figures).toMatchObject({
      reports: rounds,
      events: 4 * rounds,
      webhooks: 2 * rounds,
      duplicates: 0
    })
    const [sums] = await database.rows("SELECT * FROM spool_counts WHERE table_name = 'musicclidaemon'")
    expect([sums?.accepted, sums?.delivered, sums?.duplicates].map(Number)).toEqual([70, 20, 50])
  } finally {
    for (const { kill } of instances) kill()
    await Promise.all(instances.map(({ died }) => died))
    await database.remove()
    await world.close()
  }
})
