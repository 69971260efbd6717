/** Requests of clients and of IAM, and a ledger of what was acknowledged. */
import { randomUUID } from "node:crypto"
import { production } from "../../sandbox/upstreams/Iam.ts"
import type { Client, Request } from "./Client.ts"
import type { Random } from "./Random.ts"
import type { Simulators } from "./Simulators.ts"

export const table = "musicclidaemon"

export interface Session {
  readonly actor: string
  readonly slt: string
  readonly token: string
}

export interface Ledger {
  /** Started requests, and those of them with a final answer. */
  sent: number
  acknowledged: number
  /** By the id that the server gave. */
  readonly reports: Set<string>
  readonly events: Set<string>
  readonly webhooks: Set<string>
  readonly tings: Set<string>
  readonly sessions: Array<Session>
  /** People whose registration must be inactive in the end. */
  readonly removed: Set<string>
}

export const emptyLedger = (): Ledger => ({
  sent: 0,
  acknowledged: 0,
  reports: new Set(),
  events: new Set(),
  webhooks: new Set(),
  tings: new Set(),
  sessions: [],
  removed: new Set()
})

const field = (body: string, name: string): unknown => {
  const value: unknown = JSON.parse(body)
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined
}

/** Loads of one run need different `people`. */
export const makeLoad = (
  world: Simulators,
  client: Client,
  ledger: Ledger,
  random: Random,
  people = "listener"
) => {
  let actors = 0

  const insist = async (request: Request | (() => Request), ...statuses: ReadonlyArray<number>) => {
    ledger.sent += 1
    const answer = await client.insist(request, ...statuses)
    ledger.acknowledged += 1
    return answer
  }

  /** A new Silicon of acme. */
  const newActor = (): string => {
    actors += 1
    const actor = `si:${people}${actors}`
    world.iam.controls.addActor(production, actor)
    world.iam.controls.addMembership(production, actor, "acme")
    return actor
  }

  const bearer = ({ token }: Session) => ({ authorization: `Bearer ${token}`, "x-org-id": "acme" })

  const login = async (actor = newActor()): Promise<Session> => {
    const slt = world.iam.controls.mintSlt(production, { appId: "music", actor })
    const { body } = await insist(
      {
        path: "/api/v1/auth/login",
        headers: { "idempotency-key": `login-${randomUUID()}` },
        body: { slt }
      },
      200
    )
    const session = { actor, slt, token: String(field(body, "access_token")) }
    ledger.sessions.push(session)
    // A login succeeds while Ting fails. The client then subscribes, as the response suggests.
    if (Reflect.get(Object(field(body, "ting")), "subscribed") !== true)
      await insist({ path: "/api/v1/ting/subscription", headers: bearer(session), body: {} }, 200)
    return session
  }

  const ting = async (session: Session): Promise<void> => {
    const key = `${session.actor}/${randomUUID()}`
    const body = { type: "music.trigger.fired", key, data: { trigger: random.below(10) } }
    await insist({ path: "/api/v1/tings", headers: bearer(session), body }, 200)
    ledger.tings.add(key)
  }

  /** Ting answers that the person is not registered, and the server stores that. */
  const tingWithoutRecipient = async (session: Session): Promise<void> => {
    world.ting.revokeGrant({ plane: production, org: "acme", app_id: "music", for: session.actor })
    const key = `${session.actor}/${randomUUID()}`
    const body = { type: "music.trigger.fired", key, data: {} }
    await insist({ path: "/api/v1/tings", headers: bearer(session), body }, 403)
    ledger.removed.add(session.actor)
  }

  const report = async (): Promise<string> => {
    const key = `report-${randomUUID()}`
    const { body } = await insist(
      {
        path: "/api/v1/reports",
        headers: { "idempotency-key": key },
        body: { message: `Playback stops after a seek near the end of track ${random.below(1000)}.` }
      },
      200
    )
    const id = String(field(body, "id"))
    ledger.reports.add(id)
    return id
  }

  const telemetry = async (ids: ReadonlyArray<string>): Promise<void> => {
    const events = ids.map((id) => ({ id, type: "playback.track.started", data: { track: 1 }, metadata: {} }))
    await insist({ path: "/api/v1/telemetry", body: { table, events } }, 204)
    for (const id of ids) ledger.events.add(id)
  }

  /** Like IAM: sends the same event until it is acknowledged, with a new signature each time. */
  const webhook = async (event: ReturnType<Simulators["iam"]["controls"]["events"]["membershipUpdated"]>) => {
    const eventId = randomUUID()
    const request = (): Request => {
      const { body, headers } = world.iam.controls.buildWebhook(production, { ...event, eventId })
      return { path: "/webhook/", headers, body: body.toString("utf8") }
    }
    await insist(request, 200)
    ledger.webhooks.add(eventId)
    return request
  }

  const update = async (): Promise<void> => {
    const again = await webhook(world.iam.controls.events.membershipUpdated(production, "si:lyra", "acme"))
    // A redelivery, as after a lost acknowledgement.
    await insist(again, 200)
  }

  /** Sends the removal of the person. The session stays valid, so that the test can read it at the end. */
  const remove = async ({ actor }: Session): Promise<void> => {
    const event = world.iam.controls.events.membershipRemoved(production, actor, "acme", { named: true })
    const data = JSON.parse(JSON.stringify(event.data).replaceAll('"status":"active"', '"status":"removed"'))
    await webhook({ ...event, data })
    ledger.removed.add(actor)
  }

  /** A request of a testing plane that the server has not seen yet. */
  const newPlane = async (): Promise<void> => {
    const { environmentId } = world.iam.controls.addEnvironment({ orgId: "acme", name: "crash" })
    const { secret } = world.iam.controls.importApp(environmentId, "music")
    await insist(
      { method: "GET", path: "/api/v1/iam", headers: { "x-testing-environment-key": secret } },
      200
    )
  }

  const events = (count: number): ReadonlyArray<string> => Array.from({ length: count }, () => randomUUID())

  const stories = {
    login: async () => {
      const session = await login()
      await ting(session)
      await remove(session)
    },
    report: async () => {
      await report()
    },
    telemetry: async () => {
      const ids = events(3)
      await telemetry(ids)
      // A client repeats them after a lost acknowledgement, with a new one added.
      await telemetry([...ids, ...events(1)])
    },
    webhook: update
  }

  /** One request of every kind in random order; resolves when all are acknowledged. */
  const everything = (): Promise<unknown> =>
    Promise.all(random.shuffled(Object.values(stories)).map((story) => story()))

  return { everything, events, login, newPlane, report, stories, telemetry, tingWithoutRecipient }
}

export type Story = keyof Load["stories"]
export type Load = ReturnType<typeof makeLoad>
