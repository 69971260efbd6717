/** The requests of the benchmarks: what the client, the daemon and IAM send. */
import { randomUUID } from "node:crypto"
import * as Schema from "effect/Schema"
import { mintSlt, type SimulatedUpstreams } from "../sandbox/SimulatedUpstreams.ts"
import { production } from "../sandbox/upstreams/Iam.ts"
import { orderedUuid } from "../src/schema/Patterns.ts"
import { keyed, post, requests as calls } from "../test/world/Driver.ts"

export interface Outgoing {
  readonly method?: "GET" | "POST"
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

const Session = Schema.Struct({ access_token: Schema.String, refresh_token: Schema.String })
export type Session = typeof Session.Type
export const decodeSession = Schema.decodeUnknownSync(Schema.parseJson(Session))

export interface Caller {
  readonly actor: string
  /** The access token. */
  readonly token: string
}

/** Sends one request, and fails unless its answer is a success. */
export const send = async (url: string, { path, ...sent }: Outgoing): Promise<string> => {
  const response = await fetch(url + path, sent)
  const text = await response.text()
  if (!response.ok) throw new Error(`${path} answered ${response.status}: ${text}`)
  return text
}

const get = (path: string): Outgoing => ({ path, headers: {} })

const event = (id: string) => ({
  id,
  type: "playback.track.started",
  data: { track: "Harbor Lights", position_ms: 184_220, queue: [7, 12, 31] },
  metadata: { occurred_at: Date.now(), version: "0.1.0", platform: "linux" }
})

/** Keys and ids by which a server recognises a repetition are new, unless they are given. */
export const requestsOf = (world: SimulatedUpstreams) => {
  return {
    healthz: () => get("/healthz"),
    readyz: () => get("/readyz"),
    metrics: () => get("/metrics"),
    version: () => get("/api/v1/version"),
    iam: () => get("/api/v1/iam"),
    me: (token: string) => calls.me(token),
    login: (slt: string) => calls.login(slt, randomUUID()),
    refresh: (token: string) => calls.refresh(token, randomUUID()),
    logout: (token: string) => calls.logout(token, randomUUID()),
    ting: ({ actor, token }: Caller) => calls.ting(token, `${actor}/${randomUUID()}`, { trigger: "sunrise" }),
    subscribe: (token: string) => calls.subscribe(token),
    report: (key: string = randomUUID()) =>
      post(
        "/api/v1/reports",
        { message: "The player stops after a seek near the end of a track.", context: { version: "0.1.0" } },
        keyed(key)
      ),
    telemetry: (events = 10) =>
      calls.telemetry(Array.from({ length: events }, () => event(orderedUuid(Date.now(), randomUUID())))),
    webhook: (eventId: string = randomUUID()): Outgoing => {
      const changed = world.iam.controls.events.membershipUpdated(production, "si:lyra", "acme")
      const { body, headers } = world.iam.controls.buildWebhook(production, {
        ...changed,
        eventId,
        // Deliveries of one aggregate are serialised; IAM sends events of many aggregates.
        aggregate: { type: "organization_membership", id: randomUUID(), version: 1 }
      })
      return { method: "POST", path: "/webhook/", headers: { ...headers }, body: body.toString("utf8") }
    }
  }
}

/** Logs as many new members of acme in, so that no two share an introspection or a bound of one actor. */
export const login = async (
  url: string,
  world: SimulatedUpstreams,
  count: number
): Promise<ReadonlyArray<Caller>> => {
  const requests = requestsOf(world)
  const callers: Array<Caller> = []
  while (callers.length < count) {
    const actor = `si:bench${randomUUID().slice(0, 8)}`
    world.iam.controls.addActor(production, actor)
    world.iam.controls.addMembership(production, actor, "acme")
    const session = decodeSession(await send(url, requests.login(mintSlt(world, actor))))
    callers.push({ actor, token: session.access_token })
  }
  return callers
}

/** Takes the items in turn. A stride without a divisor in common with their number spreads equal ones that are side by side. */
export const inTurn = <A>(items: ReadonlyArray<A>, stride = 1): (() => A) => {
  let index = 0
  return () => {
    index = (index + stride) % items.length
    const item = items[index]
    if (item === undefined) throw new Error("there is nothing to take")
    return item
  }
}

/** Requests of several kinds, each as often as its number says. */
export const mixOf = (kinds: ReadonlyArray<readonly [number, () => Outgoing]>, stride: number) => {
  const next = inTurn(
    kinds.flatMap(([times, make]) => Array.from({ length: times }, () => make)),
    stride
  )
  return () => next()()
}
