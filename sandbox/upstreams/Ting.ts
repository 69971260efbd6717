/** The simulated notification service (notification-service.md): it verifies proofs through IAM and keeps its state per plane. */
import { randomBytes } from "node:crypto"
import {
  canonical,
  handleBy,
  type JsonObject,
  type Now,
  type Reply,
  type Routes,
  type Seen,
  settled,
  sha256
} from "./Contract.ts"
import { type Fault, type Listening, type Simulator, startSimulator } from "./Simulator.ts"
import { errorReply, exactly, objectOf, readBearer, readRequest, refuse, textOf } from "./ting/Checks.ts"
import { makeIamVerification, production, type Verified } from "./ting/IamVerification.ts"

/** An organisation, known by its handle and its UUID. Compared by identity. */
interface Org {
  readonly handle: string
  readonly id: string
}

interface Grant {
  readonly id: string
  readonly org: Org
  readonly appId: string
  readonly actor: string
  active: boolean
}

interface TingView {
  readonly id: string
  /** The organisation's handle. */
  readonly org: string
  readonly created_at: string
  readonly type: string
  readonly data: unknown
  readonly metadata: unknown
  readonly for: string
  readonly key: string
  /** No recipient mutes the application here. */
  readonly silent: false
}

/** Each plane has its own copy of everything (notification-service.md 6). */
interface Plane {
  /** By handle and by UUID. */
  readonly orgs: Map<string, Org>
  /** The types that an operator registered. */
  readonly types: Set<string>
  readonly grants: Array<Grant>
  readonly keys: Map<string, { readonly digest: string; readonly acceptedAt: number; readonly reply: Reply }>
  readonly tings: Array<TingView>
}

/** One recipient's relation to one application. `org` is a handle or a UUID that a proof has named. */
type RecipientOf = Readonly<Record<"plane" | "org" | "app_id" | "for", string>>

/** A verified call. */
interface Call {
  readonly plane: Plane
  readonly org: Org
  readonly proof: Verified
  readonly fields: JsonObject
  readonly now: number
}

/** How long a key is kept after its first acceptance, milliseconds. */
const keyLife = 1_209_600_000

/** An opaque id: prefix, `_`, 32 lower-case hex. */
const newId = (prefix: "sub" | "msg" | "req"): string => `${prefix}_${randomBytes(16).toString("hex")}`

/** RFC 3339 UTC with six fraction digits; the last three distinguish tings of one millisecond. */
const timestamp = (at: number, sequence: number): string =>
  new Date(at).toISOString().replace("Z", `${String(sequence % 1_000).padStart(3, "0")}Z`)

const findGrant = ({ grants }: Plane, org: Org | undefined, appId: string, actor: string) =>
  grants.find((grant) => grant.org === org && grant.appId === appId && grant.actor === actor)

/** Makes a grant, or activates a revoked one under its id: 201. An active grant stays as it is: 200. */
const register = ({ fields, org, plane, proof }: Call): Reply => {
  exactly(fields, ["org_id", "app_id"], ["for"])
  textOf(fields, "app_id")
  if (Object.hasOwn(fields, "for") && textOf(fields, "for") !== proof.actor) throw refuse("permission_denied")
  const known = findGrant(plane, org, proof.issuer, proof.actor)
  const status = known?.active === true ? 200 : 201
  const grant = known ?? { id: newId("sub"), org, appId: proof.issuer, actor: proof.actor, active: true }
  grant.active = true
  if (known === undefined) plane.grants.push(grant)
  const body = { id: grant.id, app_id: grant.appId, for: grant.actor, active: true, required_delivery: false }
  return { status, body }
}

/** Accepts a ting of the verified application, replays an earlier acceptance, or refuses (notification-service.md 3.2 and 7). */
const send = ({ fields, now, org, plane, proof }: Call): Reply => {
  exactly(fields, ["org_id", "type", "for", "key", "data"], ["metadata"])
  const type = textOf(fields, "type")
  const actor = textOf(fields, "for")
  const key = textOf(fields, "key")
  const data = objectOf(fields, "data")
  const metadata = objectOf(fields, "metadata")

  const slot = canonical([org.id, proof.issuer, key])
  const digest = sha256(canonical({ metadata: {}, ...fields, org_id: org.id }))
  const known = plane.keys.get(slot)
  if (known !== undefined && now < known.acceptedAt + keyLife) {
    if (known.digest !== digest) throw refuse("idempotency_conflict")
    return { ...known.reply, status: 200 }
  }
  if (!plane.types.has(type)) throw refuse("not_found", "the type is not registered for this application")
  if (findGrant(plane, org, proof.issuer, actor)?.active !== true) throw refuse("recipient_not_registered")

  const id = newId("msg")
  const created_at = timestamp(now, plane.tings.length + 1)
  plane.tings.push({ id, org: org.handle, created_at, type, data, metadata, for: actor, key, silent: false })
  const reply: Reply = { status: 202, body: { id, created_at, status: "accepted", key, silent: false } }
  plane.keys.set(slot, { digest, acceptedAt: now, reply })
  return reply
}

const makeState = () => {
  const planes = new Map<string, Plane>()
  /** A plane by its id, made on first use. */
  const planeOf = (id: string): Plane => {
    const plane = planes.get(id) ?? {
      orgs: new Map(),
      types: new Set(),
      grants: [],
      keys: new Map(),
      tings: []
    }
    planes.set(id, plane)
    return plane
  }
  const controls = {
    /** Registers a type in a plane, as an operator does. Repeating it has no effect. */
    registerType: (plane: string, type: string): void => {
      planeOf(plane).types.add(type)
    },
    revokeGrant: ({ app_id, for: actor, org, plane: id }: RecipientOf): void => {
      const plane = planeOf(id)
      const grant = findGrant(plane, plane.orgs.get(org), app_id, actor)
      if (grant === undefined) throw new Error("this recipient has no grant")
      grant.active = false
    },
    grants: (plane: string) =>
      planeOf(plane).grants.map(({ active, actor, appId, id, org }) => ({
        ...{ id, app_id: appId, for: actor, active },
        /** The organisation's handle. */
        org: org.handle
      })),
    /** A recipient's tings in an organisation, newest first. */
    inbox: (id: string, org: string, actor: string): ReadonlyArray<TingView> => {
      const { orgs, tings } = planeOf(id)
      const handle = orgs.get(org)?.handle
      return tings.filter((ting) => ting.org === handle && ting.for === actor).reverse()
    },
    /** Every accepted ting of a plane, oldest first. */
    accepted: (plane: string): ReadonlyArray<TingView> => planeOf(plane).tings
  }
  return { planeOf, controls }
}

/** Ting's own limit as a fault, for `fail`. */
export const rateLimited = (seconds: number): Fault => ({
  kind: "reply",
  reply: errorReply("temporarily_rate_limited", undefined, { "retry-after": String(seconds) })
})

interface TingOptions {
  readonly now: Now
  readonly iamUrl: string
  /** Ting's secret in IAM's production plane. */
  readonly appSecret: string
  /** Instead of the platform's, for an IAM in memory. */
  readonly fetch?: typeof globalThis.fetch
}

/** A Ting without a socket, types, grants or tings. */
export const makeTing = (options: TingOptions) => {
  const { controls, planeOf } = makeState()
  const iam = makeIamVerification({ ...options, appId: "ting" })

  interface Request {
    readonly request: Seen
    readonly fields: JsonObject
  }
  /** Steps 8 to 16 of notification-service.md 2. Everything after the verification runs in one step, without waiting. */
  const verified = (run: (call: Call) => Reply) =>
    settled(async ({ fields, request }: Request) => {
      const bearer = readBearer(request)
      const { app_id: appId, org_id: orgId, type } = fields
      if (typeof orgId !== "string") throw refuse("invalid_input", "org_id is required")
      const selected = await iam.resolvePlane(request)
      const proof = await iam.verify(selected, request, { bearer, orgId })
      if (typeof appId === "string" && appId !== proof.issuer) throw refuse("permission_denied")
      if (typeof type === "string" && !type.startsWith(`${proof.issuer}.`)) throw refuse("permission_denied")
      const plane = planeOf(selected.id)
      const org = plane.orgs.get(proof.orgId) ?? { handle: proof.orgHandle, id: proof.orgId }
      plane.orgs.set(org.handle, org).set(org.id, org)
      return run({ plane, org, proof, fields, now: options.now() })
    })
  const routes: Routes<Request, Reply | Promise<Reply>> = {
    "GET /healthz": () => ({ status: 200, body: { status: "ok", service: "ting", version: "0.1.9" } }),
    "POST /v1/subscriptions": verified(register),
    "POST /v1/tings": verified(send)
  }
  const control: Routes<Seen> = {
    "GET /_sandbox/inbox": ({ query }) => {
      const [org, actor] = [query.get("org"), query.get("for")]
      if (org === null || actor === null) throw new Error("org and for are required")
      return { status: 200, body: { items: controls.inbox(query.get("plane") ?? production, org, actor) } }
    }
  }
  const read = (request: Seen): Request => ({ request, fields: readRequest(request) })

  return {
    controls,
    control,
    routes: Object.keys(routes),
    handle: handleBy(routes, read, () => {
      // Everything else needs a recipient's session, which is not simulated (notification-service.md 2).
      throw refuse("authentication_required")
    }),
    decorate: () => ({ "ting-request-id": newId("req"), vary: "Origin" })
  }
}

export type TingSimulator = Simulator & ReturnType<typeof makeState>["controls"]

/** Starts an empty Ting on loopback. */
export const startTing = async (options: TingOptions & Listening): Promise<TingSimulator> => {
  const ting = makeTing(options)
  return { ...(await startSimulator({ ...options, ...ting })), ...ting.controls }
}
