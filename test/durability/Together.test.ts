/** Two instances on one PostgreSQL keep the promises of one: a request sent to both at once is carried out once. */
import { randomUUID } from "node:crypto"
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest"
import { production } from "../../sandbox/upstreams/Iam.ts"
import { type Answer, type Insist, insistAt, type Request, until } from "./Client.ts"
import { postgresDatabase, type TestDatabase, text, toNumber } from "./Databases.ts"
import { type Bundle, bundle, entry, type Instance, quick, startInstance } from "./Fleet.ts"
import { isQuiet } from "./Laws.ts"
import { environmentOf, repository, type Simulators, startSimulators } from "./Simulators.ts"
import { patience } from "../support/Waiting.ts"

const server = inject("postgres").server
const rounds = 5

let built: Bundle
let world: Simulators
let database: TestDatabase
let instances: ReadonlyArray<Instance>
let clients: ReadonlyArray<Insist>

beforeAll(async () => {
  built = await bundle(entry)
  world = await startSimulators()
  database = await postgresDatabase(server)
  const environment = { ...environmentOf(world), ...database.environment }
  // Both migrate the schema at the same time.
  instances = [1, 2].map(() => startInstance(built.file, environment, quick))
  const urls = await Promise.all(instances.map(({ ready }) => ready))
  clients = urls.map((url) => insistAt(() => url, 30_000, Math.random))
})

afterAll(async () => {
  for (const instance of instances) instance.kill()
  await Promise.all(instances.map(({ died }) => died))
  await database.remove()
  await world.close()
  built.remove()
})

const toBoth = (request: Request, status: number): Promise<ReadonlyArray<Answer>> =>
  Promise.all(clients.map((insist) => insist(request, status)))

const bodies = (answers: ReadonlyArray<Answer>) =>
  answers.map(({ body }): Record<string, unknown> => JSON.parse(body))

const counted = async (statement: string): Promise<number> =>
  toNumber((await database.rows(statement))[0]?.count)

describe("Two instances on one database", () => {
  it("run one login for two requests: one session, one registration, the same answer", async () => {
    for (let round = 1; round <= rounds; round += 1) {
      const actor = `si:twin${round}`
      world.iam.controls.addActor(production, actor)
      world.iam.controls.addMembership(production, actor, "acme")
      const slt = world.iam.controls.mintSlt(production, { appId: "music", actor })
      const headers = { "idempotency-key": `login-${randomUUID()}` }
      const [one, other] = bodies(await toBoth({ path: "/api/v1/auth/login", headers, body: { slt } }, 200))
      expect(other?.access_token).toBe(one?.access_token)
      expect(other?.refresh_token).toBe(one?.refresh_token)
      expect(other?.ting).toEqual(one?.ting)
      expect(one?.ting).toMatchObject({ subscribed: true })
      const families = [...world.iam.controls.plane(production).families.values()]
      expect(families.filter((family) => family.actor === actor)).toHaveLength(1)
      expect(world.ting.grants(production).filter((grant) => grant.for === actor)).toHaveLength(1)
      expect(await counted("SELECT COUNT(*) AS count FROM login_outcomes")).toBe(round)
    }
  })

  it("store one report, and file one issue", async () => {
    for (let round = 0; round < rounds; round += 1) {
      const headers = { "idempotency-key": `report-${randomUUID()}` }
      const body = { message: "Playback stops after a seek near the end of a track." }
      const [one, other] = bodies(await toBoth({ path: "/api/v1/reports", headers, body }, 200))
      expect(other?.id).toBe(one?.id)
      expect([one?.replayed, other?.replayed].sort()).toEqual([false, true])
    }
    await until("all reports are filed", () => isQuiet(database), { within: patience })
    const reports = await database.rows("SELECT id, marker FROM reports")
    expect(reports).toHaveLength(rounds)
    const issues = world.tracker.issues(repository)
    for (const { id, marker } of reports) {
      const marked = issues.filter(
        ({ body }) => body?.includes(`report-ref: ${text(id)}-${text(marker)}`) === true
      )
      expect(marked).toHaveLength(1)
    }
  })

  it("keep one webhook", async () => {
    const event = world.iam.controls.events.membershipUpdated(production, "si:lyra", "acme")
    for (let round = 0; round < rounds; round += 1) {
      const eventId = randomUUID()
      const { body, headers } = world.iam.controls.buildWebhook(production, { ...event, eventId })
      await toBoth({ path: "/webhook/", headers, body: body.toString("utf8") }, 200)
      expect(await counted(`SELECT COUNT(*) AS count FROM webhook_inbox WHERE event_id = '${eventId}'`)).toBe(
        1
      )
    }
  })

  it("ship one event", async () => {
    const ids = Array.from({ length: rounds * 3 }, () => randomUUID())
    const events = ids.map((id) => ({ id, type: "playback.track.started", data: {}, metadata: {} }))
    await toBoth({ path: "/api/v1/telemetry", body: { table: "musicclidaemon", events } }, 204)
    await until("all events are shipped", () => isQuiet(database), { within: patience })
    const rows = world.tables.rows("musicclidaemon").map(({ record_id }) => record_id)
    expect(rows.sort()).toEqual(ids.sort())
    const [sums] = await database.rows("SELECT * FROM spool_counts WHERE table_name = 'musicclidaemon'")
    expect([sums?.accepted, sums?.delivered, sums?.duplicates].map(toNumber)).toEqual([
      ids.length * 2,
      ids.length,
      ids.length
    ])
  })
})
