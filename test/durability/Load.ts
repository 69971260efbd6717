/** Requests of clients and of IAM, and a ledger of what was acknowledged. */
import { randomUUID } from "node:crypto"
import { production } from "../../sandbox/upstreams/Iam.ts"
import type { Insist, Request } from "./Client.ts"
import type { Random } from "./Random.ts"
import type { Simulators } from "./Simulators.ts"

export const table = "musicclidaemon"

interface Session {
  readonly actor: string
  readonly token: string
}

export const bearer = ({ token }: Session) => ({ authorization: `Bearer ${token}`, "x-org-id": "acme" })

export const emptyLedger = () => ({
  /** Started requests, and those of them with a final answer. */
  sent: 0,
  acknowledged: 0,
  /** By the id that the server gave. */
  reports: new Set<string>(),
  events: new Set<string>(),
  webhooks: new Set<string>(),
  tings: new Set<string>(),
  /** Each of a person of its own. */
  sessions: new Array<Session>(),
  /** People whose registration must be inactive in the end. */
  removed: new Set<string>()
})
export type Ledger = ReturnType<typeof emptyLedger>

export const makeLoad = (world: Simulators, client: Insist, ledger: Ledger, random: Random) => {
  const { controls } = world.iam

  const insist = async (request: Request | (() => Request), status: number) => {
    ledger.sent += 1
    const { body } = await client(request, status)
    ledger.acknowledged += 1
    return body
  }
  const keyed = (path: string, body: unknown): Request => ({
    path: `/api/v1/${path}`,
    headers: { "idempotency-key": `key-${randomUUID()}` },
    body
  })

  /** Of a new Silicon of acme. */
  const login = async (): Promise<Session> => {
    const actor = `si:listener${ledger.sent}-${random.below(1_000_000)}`
    controls.addActor(production, actor)
    controls.addMembership(production, actor, "acme")
    const slt = controls.mintSlt(production, { appId: "music", actor })
    const { access_token, ting } = JSON.parse(await insist(keyed("auth/login", { slt }), 200))
    const session = { actor, token: access_token }
    ledger.sessions.push(session)
    // A login succeeds while Ting fails. The client then subscribes, as the response suggests.
    if (ting.subscribed !== true)
      await insist({ path: "/api/v1/ting/subscription", headers: bearer(session), body: {} }, 200)
    return session
  }

  const sendTing = async (session: Session, status: number): Promise<string> => {
    const key = `${session.actor}/${randomUUID()}`
    const body = { type: "music.trigger.fired", key, data: { trigger: random.below(10) } }
    await insist({ path: "/api/v1/tings", headers: bearer(session), body }, status)
    return key
  }

  /** Ting answers that the person is not registered, and the server stores that. */
  const tingWithoutRecipient = async (): Promise<void> => {
    const session = await login()
    world.ting.revokeGrant({ plane: production, org: "acme", app_id: "music", for: session.actor })
    await sendTing(session, 403)
    ledger.removed.add(session.actor)
  }

  const report = async (): Promise<void> => {
    const message = `Playback stops after a seek near the end of track ${random.below(1000)}.`
    ledger.reports.add(JSON.parse(await insist(keyed("reports", { message }), 200)).id)
  }

  const telemetry = async (ids: ReadonlyArray<string>): Promise<void> => {
    const events = ids.map((id) => ({ id, type: "playback.track.started", data: { track: 1 }, metadata: {} }))
    await insist({ path: "/api/v1/telemetry", body: { table, events } }, 204)
    for (const id of ids) ledger.events.add(id)
  }

  /** Like IAM: sends the same event until it is acknowledged, with a new signature each time; so often. */
  const webhook = async (event: ReturnType<typeof controls.events.membershipUpdated>, times = 1) => {
    const eventId = randomUUID()
    const request = (): Request => {
      const { body, headers } = controls.buildWebhook(production, { ...event, eventId })
      return { path: "/webhook/", headers, body: body.toString("utf8") }
    }
    for (let time = 0; time < times; time += 1) await insist(request, 200)
    ledger.webhooks.add(eventId)
  }

  /** Sends the removal of the person. The session stays valid, so that the test can read it at the end. */
  const remove = async ({ actor }: Session): Promise<void> => {
    const event = controls.events.membershipRemoved(production, actor, "acme", { named: true })
    const data = JSON.parse(JSON.stringify(event.data).replaceAll('"status":"active"', '"status":"removed"'))
    await webhook({ ...event, data })
    ledger.removed.add(actor)
  }

  /** A request of a testing plane that the server has not seen yet. */
  const newPlane = async (): Promise<void> => {
    const { environmentId } = controls.addEnvironment({ orgId: "acme", name: "crash" })
    const { secret } = controls.importApp(environmentId, "music")
    const headers = { "x-testing-environment-key": secret }
    await insist({ method: "GET", path: "/api/v1/iam", headers }, 200)
  }

  const stories = {
    login: async () => {
      const session = await login()
      ledger.tings.add(await sendTing(session, 200))
      await remove(session)
    },
    report,
    telemetry: async () => {
      const ids = [randomUUID(), randomUUID(), randomUUID()]
      await telemetry(ids)
      // A client repeats them after a lost acknowledgement, with a new one added.
      await telemetry([...ids, randomUUID()])
    },
    // A redelivery, as after a lost acknowledgement.
    webhook: () => webhook(controls.events.membershipUpdated(production, "si:lyra", "acme"), 2)
  }

  /** One request of every kind in random order; resolves when all are acknowledged. */
  const everything = (): Promise<unknown> =>
    Promise.all(random.shuffled(Object.values(stories)).map((story) => story()))

  return { everything, newPlane, report, stories, tingWithoutRecipient }
}

export type Story = keyof Load["stories"]
export type Load = ReturnType<typeof makeLoad>
