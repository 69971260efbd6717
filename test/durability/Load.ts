/** Requests of clients and of IAM, and a ledger of what was acknowledged. */
import { randomUUID } from "node:crypto"
import { production } from "../../sandbox/upstreams/Iam.ts"
import type { Random } from "../world/Arbitraries.ts"
import { type Answer, bodyOf, requests, type Sent } from "../world/Driver.ts"
import type { Simulators } from "../world/Fleet.ts"
import type { Insist } from "./Instances.ts"

export const table = "musicclidaemon"

interface Session {
  readonly actor: string
  readonly token: string
}

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
  sessions: [] as Array<Session>,
  /** People whose registration must be inactive in the end. */
  removed: new Set<string>()
})
export type Ledger = ReturnType<typeof emptyLedger>

const newKey = () => `key-${randomUUID()}`

export const makeLoad = (world: Simulators, client: Insist, ledger: Ledger, random: Random) => {
  const { controls } = world.iam

  const insist = async (request: Sent | (() => Sent), status: number): Promise<Answer> => {
    ledger.sent += 1
    const answer = await client(request, status)
    ledger.acknowledged += 1
    return answer
  }

  /** Of a new Silicon of acme. */
  const login = async (): Promise<Session> => {
    const actor = `si:listener${ledger.sent}-${random.below(1_000_000)}`
    controls.addActor(production, actor)
    controls.addMembership(production, actor, "acme")
    const slt = controls.mintSlt(production, { appId: "music", actor })
    const answer = await insist(requests.login(slt, newKey()), 200)
    const session = { actor, token: String(bodyOf(answer).access_token) }
    ledger.sessions.push(session)
    // A login succeeds while Ting fails. The client then subscribes, as the response suggests.
    if (!answer.text.includes('"subscribed":true')) await insist(requests.subscribe(session.token), 200)
    return session
  }

  const sendTing = async ({ actor, token }: Session, status: number): Promise<string> => {
    const key = `${actor}/${randomUUID()}`
    await insist(requests.ting(token, key, { trigger: random.below(10) }), status)
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
    ledger.reports.add(String(bodyOf(await insist(requests.report(message, newKey()), 200)).id))
  }

  const telemetry = async (ids: ReadonlyArray<string>): Promise<void> => {
    const events = ids.map((id) => ({ id, type: "playback.track.started", data: { track: 1 }, metadata: {} }))
    await insist(requests.telemetry(events, table), 204)
    for (const id of ids) ledger.events.add(id)
  }

  /** Like IAM: sends the same event until it is acknowledged, with a new signature each time; so often. */
  const webhook = async (event: ReturnType<typeof controls.events.membershipUpdated>, times = 1) => {
    const eventId = randomUUID()
    const request = (): Sent => {
      const { body, headers } = controls.buildWebhook(production, { ...event, eventId })
      return { method: "POST", path: "/webhook/", headers, body }
    }
    for (let time = 0; time < times; time += 1) await insist(request, 200)
    ledger.webhooks.add(eventId)
  }

  /** Sends the removal of the person. The session stays valid, so that the test can read it at the end. */
  const remove = async ({ actor }: Session): Promise<void> => {
    const type = `organization.${actor.startsWith("si:") ? "silicon" : "membership"}.removed.v1`
    await webhook(controls.events.about(production, type, { actor, org: "acme" }))
    ledger.removed.add(actor)
  }

  /** A request of a testing plane that the server has not seen yet. */
  const newPlane = async (): Promise<void> => {
    const { environmentId } = controls.addEnvironment({ orgId: "acme", name: "crash" })
    await insist(requests.plane(controls.importApp(environmentId, "music").secret), 200)
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

  /** One request of every kind; resolves when all are acknowledged. */
  const everything = (): Promise<unknown> => Promise.all(Object.values(stories).map((story) => story()))

  return { everything, newPlane, report, stories, tingWithoutRecipient }
}

export type Story = keyof Load["stories"]
export type Load = ReturnType<typeof makeLoad>
