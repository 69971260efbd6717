/** The four upstreams in memory with their contracts' limits, and who caused each call to IAM. */
import { makeIam } from "../../../sandbox/upstreams/Iam.ts"
import type { Reply, Seen } from "../../../sandbox/upstreams/Simulator.ts"
import { makeTracker } from "../../../sandbox/upstreams/Tracker.ts"
import type { Delivery, OutgoingRequest, Send } from "../../../src/layers/upstream/UpstreamTransport.ts"
import { sendInMemory } from "../../support/InMemoryTransport.ts"
import { seedTestIam } from "../../support/SeededIam.ts"
import type { SimulatedTime } from "../../support/SimulatedTime.ts"
import type { Ledger } from "./Ledger.ts"
import { mostWithin } from "./Statistics.ts"

export const origins = {
  iam: "http://iam.simulated",
  ting: "http://ting.simulated",
  tracker: "http://tracker.simulated",
  tables: "http://tables.simulated"
} as const

type Upstream = keyof typeof origins

const upstreams: ReadonlyArray<Upstream> = ["iam", "ting", "tracker", "tables"]

export const repository = { owner: "music", name: "reports" } as const
export const trackerToken = "github_pat_of_the_simulation"

/** Milliseconds until an upstream answers a call of this path. */
export type Latency = (upstream: Upstream, path: string) => number

/** GitHub's secondary limits (issue-tracker.md 3): requests that create content. */
const trackerLimits = { minute: 80, hour: 500, spacing: 1_000 }

const jsonOf = (body: Buffer): Readonly<Record<string, unknown>> => {
  const value: unknown = JSON.parse(body.toString())
  return typeof value === "object" && value !== null ? { ...value } : {}
}

const textOf = (value: unknown): string => (typeof value === "string" ? value : "")

/** The credentials in a call to IAM, and in its answer. */
const credentialsIn = (bytes: Uint8Array): ReadonlyArray<string> =>
  Buffer.from(bytes)
    .toString()
    .match(/(?:oat|ort|oac|ask)_[A-Za-z0-9_-]{43}/g) ?? []

/** The testing secret of a call in a testing plane. */
const testingSecretOf = (headers: Readonly<Record<string, string>>): string | undefined => {
  const selector = headers["x-testing-application"]
  return selector === undefined
    ? undefined
    : Buffer.from(selector.slice("Basic ".length), "base64").toString().split(":")[1]
}

export const makeUpstreams = (time: SimulatedTime, ledger: Ledger, latency: Latency) => {
  const iam = makeIam({ now: time.now })
  const seeded = seedTestIam(iam.controls)
  const tracker = makeTracker({
    now: time.now,
    repositories: [`${repository.owner}/${repository.name}`],
    tokens: [{ token: trackerToken, login: "music", rights: "write" }]
  })
  /** The kind of client that presented, or was given, a credential. */
  const owners = new Map<string, string>()
  const counts = { tings: 0, records: 0 }
  const writes: Array<number> = []
  /** Whether the table service answers. */
  let tablesWork = true
  let foreignCalls = 0

  const ting = (seen: Seen): Reply => {
    const fields = jsonOf(seen.body)
    if (seen.path === "/v1/subscriptions")
      return {
        status: 200,
        body: { id: "sub_1", app_id: fields.app_id, for: fields.for, active: true }
      }
    counts.tings += 1
    const created_at = new Date(time.now()).toISOString()
    return {
      status: 202,
      body: { id: `msg_${counts.tings}`, created_at, status: "accepted", key: fields.key, silent: false }
    }
  }

  const tables = (seen: Seen): Reply => {
    if (!tablesWork) return { status: 503, body: { error: { code: "unavailable" } } }
    const { batch_id, records } = jsonOf(seen.body)
    counts.records += Array.isArray(records) ? records.length : 0
    return { status: 200, body: { batch_id, status: "ok" } }
  }

  const trackerWithLimits = (seen: Seen): Reply => {
    if (seen.method !== "GET") writes.push(time.now())
    return tracker.handle(seen)
  }

  const none = () => ({})
  const sends: Readonly<Record<Upstream, Send>> = {
    iam: sendInMemory(time.now, iam),
    ting: sendInMemory(time.now, { handle: ting, decorate: none }),
    tracker: sendInMemory(time.now, { handle: trackerWithLimits, decorate: tracker.decorate }),
    tables: sendInMemory(time.now, { handle: tables, decorate: none })
  }

  const pathOf = (request: OutgoingRequest): string =>
    new URL(request.path, request.origin).pathname.replace(/^\/api\/v1/, "")

  const recordIamCall = (request: OutgoingRequest, delivery: Delivery): void => {
    const secret = testingSecretOf(request.headers)
    const presented = [
      ...credentialsIn(Buffer.from(request.body ?? "")),
      ...(secret === undefined ? [] : [secret])
    ]
    const kind = presented.map((credential) => owners.get(credential)).find((owner) => owner !== undefined)
    if (delivery._tag === "Answered" && kind !== undefined)
      for (const issued of credentialsIn(delivery.body)) owners.set(issued, kind)
    ledger.iamCalled({
      at: time.now(),
      kind: kind ?? "service",
      // IAM counts by plane and path.
      path: `${secret ?? ""} ${pathOf(request)}`,
      status: delivery._tag === "Answered" ? delivery.status : 0
    })
  }

  const send: Send = (request, settle) => {
    time.touch()
    const upstream = upstreams.find((name) => origins[name] === request.origin) ?? "iam"
    const answer = (delivery: Delivery): void => {
      time.touch()
      settle(delivery)
    }
    // The upstream acts when the call arrives; its answer comes later.
    let answered: Delivery | undefined
    sends[upstream](request, (delivery) => {
      answered = delivery
    })
    if (answered === undefined) return () => {}
    const delivery = answered
    if (upstream === "iam") recordIamCall(request, delivery)
    const delay = latency(upstream, pathOf(request))
    if (delay === 0) {
      answer(delivery)
      return () => {}
    }
    return time.after(delay, () => answer(delivery))
  }

  return {
    send,
    controls: iam.controls,
    environment: seeded.environment,
    counts,
    /** Names the kind of client that a credential belongs to. */
    own: (credential: string, kind: string): string => {
      owners.set(credential, kind)
      return credential
    },
    setTablesWork: (work: boolean): void => {
      tablesWork = work
    },
    issues: () => tracker.issues(`${repository.owner}/${repository.name}`),
    /** Which of the tracker's limits were passed. */
    passedTrackerLimits: (): ReadonlyArray<string> => [
      ...(mostWithin(writes, 60_000) > trackerLimits.minute
        ? ["tracker: more than 80 writes in a minute"]
        : []),
      ...(mostWithin(writes, 3_600_000) > trackerLimits.hour
        ? ["tracker: more than 500 writes in an hour"]
        : []),
      ...(writes.some((at, index) => index > 0 && at - (writes[index - 1] ?? 0) < trackerLimits.spacing)
        ? ["tracker: two writes within a second"]
        : [])
    ],
    /** A call of another instance of the application, which this one does not know of. */
    callFromElsewhere: (path: string): void => {
      foreignCalls += 1
      iam.handle({
        at: time.now(),
        method: "POST",
        path: `/api/v1${path}`,
        query: new URLSearchParams(),
        headers: new Map([
          ["authorization", [`Basic ${Buffer.from(`music:${foreignCalls}`).toString("base64")}`]]
        ]),
        body: Buffer.from(""),
        status: undefined
      })
    },
    text: textOf
  }
}

export type Upstreams = ReturnType<typeof makeUpstreams>
