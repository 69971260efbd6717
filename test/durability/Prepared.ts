/** Bundles the instance of a run and warms it up once, so that later instances start with compiled code. */
import { makeClient } from "./Client.ts"
import { sqliteDatabase } from "./Databases.ts"
import { type Bundle, bundle, startInstance } from "./Fleet.ts"
import { emptyLedger, makeLoad } from "./Load.ts"
import { entry, quick } from "./Quick.ts"
import { seeded } from "./Random.ts"
import { environmentOf, startSimulators } from "./Simulators.ts"

/** Milliseconds. */
const timeoutMillis = 60_000

export const prepareInstance = async (): Promise<Bundle> => {
  const built = await bundle(entry)
  const world = await startSimulators()
  const database = await sqliteDatabase()
  const instance = startInstance(built.file, { ...environmentOf(world), ...database.environment }, quick)
  try {
    const url = await instance.ready
    if (url === undefined) throw new Error(`the instance does not start: ${instance.log()}`)
    const random = seeded(1)
    const client = makeClient(() => url, timeoutMillis, random.next)
    await makeLoad(world, client, emptyLedger(), random).everything()
    await instance.keepCompiled()
    return built
  } catch (error) {
    built.remove()
    throw error
  } finally {
    instance.kill()
    await database.remove()
    await world.close()
  }
}
