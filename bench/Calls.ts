/** One request of every call of the API, as the programs that measure send them. */
import { randomUUID } from "node:crypto"
import { Agent, request as requestHttp } from "node:http"
import { production } from "../sandbox/upstreams/Iam.ts"
import { mintSlt, type SimulatedUpstreams } from "../sandbox/SimulatedUpstreams.ts"
import type { BundledServer } from "./BundledServer.ts"

export interface Sent {
  readonly url: string
  readonly method: "GET" | "POST"
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | Buffer
}

export interface Received {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly body: string
}

/** Sends one request and reads its response. Rejects when the connection fails. */
export const send = (agent: Agent, { body, headers, method, url }: Sent): Promise<Received> =>
  new Promise((resolve, reject) => {
    const outgoing = requestHttp(
      url,
      {
        agent,
        method,
        headers: {
          ...headers,
          ...(body === undefined ? {} : { "content-length": String(Buffer.byteLength(body)) })
        }
      },
      (response) => {
        const chunks: Array<Buffer> = []
        response.on("data", (chunk: Buffer) => chunks.push(chunk))
        response.on("end", () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            body: Buffer.concat(chunks).toString("utf8")
          })
        )
        response.on("error", reject)
      }
    )
    outgoing.on("error", reject)
    outgoing.end(body)
  })

/** Closed loop: each sender waits for its answer before it sends again. Gives successful answers a second. */
export const throughput = async (senders: number, seconds: number, next: () => Sent): Promise<number> => {
  const agent = new Agent({ keepAlive: true, maxSockets: senders })
  const began = performance.now()
  let answered = 0
  const sender = async () => {
    while (performance.now() - began < seconds * 1_000) {
      const status = await send(agent, next()).then(
        (response) => response.status,
        () => 0
      )
      if (status >= 200 && status < 300) answered += 1
    }
  }
  await Promise.all(Array.from({ length: senders }, sender))
  agent.destroy()
  return (answered * 1_000) / (performance.now() - began)
}

const json = { "content-type": "application/json" }

const post = (url: string, headers: Readonly<Record<string, string>>, body: unknown): Sent => ({
  url,
  method: "POST",
  headers: { ...json, ...headers },
  body: JSON.stringify(body)
})

const get = (url: string, headers: Readonly<Record<string, string>> = {}): Sent => ({
  url,
  method: "GET",
  headers
})

const textIn = (body: string, name: string): string => {
  const value: unknown = JSON.parse(body)
  return String(Reflect.get(Object(value), name))
}

export interface Session {
  readonly actor: string
  readonly bearer: Readonly<Record<string, string>>
  refreshToken: string
}

/** Makes requests to one server. */
export const makeCalls = (world: SimulatedUpstreams, server: Pick<BundledServer, "url" | "adminUrl">) => {
  const api = `${server.url}/api/v1`
  const agent = new Agent({ keepAlive: true, maxSockets: 16 })
  const next = <A>(items: ReadonlyArray<A>) => {
    let index = 0
    return (): A => {
      index = (index + 1) % items.length
      const item = items[index]
      if (item === undefined) throw new Error("there is nothing to send")
      return item
    }
  }

  const login = (actor: string): Sent =>
    post(`${api}/auth/login`, { "idempotency-key": `login-${randomUUID()}` }, { slt: mintSlt(world, actor) })

  /** Logs new members of acme in. */
  const sessions = async (count: number): Promise<ReadonlyArray<Session>> => {
    const opened: Array<Session> = []
    for (let index = 0; index < count; index += 1) {
      const actor = `si:bench${randomUUID().slice(0, 8)}`
      world.iam.controls.addActor(production, actor)
      world.iam.controls.addMembership(production, actor, "acme")
      const { body, status } = await send(agent, login(actor))
      if (status !== 200) throw new Error(`a login answered ${status}: ${body}`)
      const bearer = { authorization: `Bearer ${textIn(body, "access_token")}`, "x-org-id": "acme" }
      opened.push({ actor, bearer, refreshToken: textIn(body, "refresh_token") })
    }
    return opened
  }

  const reportWith = (key: string): Sent =>
    post(
      `${api}/reports`,
      { "idempotency-key": key },
      { message: `Playback stops after a seek near the end of a track. ${"It repeats. ".repeat(20)}` }
    )

  const webhookOf = (eventId: string): Sent => {
    const event = world.iam.controls.events.membershipUpdated(production, "si:lyra", "acme")
    const { body, headers } = world.iam.controls.buildWebhook(production, {
      ...event,
      eventId,
      // Deliveries of one aggregate are serialised; IAM sends events of many aggregates.
      aggregate: { type: "organization_membership", id: randomUUID(), version: 1 }
    })
    return { url: `${server.url}/webhook/`, method: "POST", headers, body }
  }

  const telemetry = (events = 10): Sent =>
    post(
      `${api}/telemetry`,
      {},
      {
        table: "musicclidaemon",
        events: Array.from({ length: events }, () => ({
          id: randomUUID(),
          type: "playback.track.started",
          data: { track: 7 },
          metadata: {}
        }))
      }
    )

  const me = (session: Session): Sent => get(`${api}/auth/me`, session.bearer)
  const ting = (session: Session): Sent =>
    post(`${api}/tings`, session.bearer, {
      type: "music.trigger.fired",
      key: `${session.actor}/${randomUUID()}`,
      data: { trigger: 7 }
    })

  return {
    agent,
    next,
    sessions,
    login,
    me,
    ting,
    telemetry,
    report: () => reportWith(`report-${randomUUID()}`),
    reportWith,
    webhook: () => webhookOf(randomUUID()),
    webhookOf,
    healthz: () => get(`${server.url}/healthz`),
    readyz: () => get(`${server.url}/readyz`),
    metrics: () => get(`${server.adminUrl}/metrics`)
  }
}
