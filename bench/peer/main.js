/**
 * The peer of the benchmarks: the measured calls of this service, written by hand on Fastify and better-sqlite3. It keeps the same
 * promises for them (docs/performance.md lists what it leaves out) and reads the same environment variables.
 */
import { startDelivery } from "./Delivery.js"
import { makeServer } from "./Server.js"
import { openStore } from "./Store.js"
import { makeUpstreams } from "./Upstreams.js"

const settings = process.env
const store = openStore(settings.MUSIC_DATABASE_PATH)
const upstreams = makeUpstreams(settings)
const delivery = startDelivery(store, upstreams)
const server = makeServer({ settings, store, upstreams, delivery })

const [host, port] = settings.MUSIC_BIND.split(":")
void server.listen({ host, port: Number(port) })

process.on("SIGTERM", async () => {
  await server.close()
  await delivery.stop()
  await store.close()
  process.exit(0)
})
