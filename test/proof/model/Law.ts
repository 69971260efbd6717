/** What each machine may hold, and what must never happen. The ground truth is the state of IAM itself. */
import { type Family, production } from "../../../sandbox/upstreams/Iam.ts"
import type { Reply } from "../../../sandbox/upstreams/Simulator.ts"
import type { StoredSession } from "../../../client/stores/SessionStore.ts"
import { faults } from "../../world/Faults.ts"
import type { Observer, UpstreamCall } from "../../world/Upstreams.ts"
import type { World } from "../../world/World.ts"

/** Milliseconds in which IAM replays a login or refresh. */
export const replayWindow = 600_000
/** Milliseconds from the first receipt of a pair in which a server believes no inactive answer about it. */
const disbelief = 60_000
/**
 * The documented limits that excuse a lost session: an answer that is not fetched within 10 minutes, an inactive answer about a pair that
 * the instance received more than a minute ago, and a refresh without an organisation.
 */
type Excuse = "too late" | "misjudged" | "without organisation"

/** The slot of one machine in one plane. */
export interface Holder {
  readonly name: string
  readonly plane: string
  /** Parent sessions of the logins that its programs began. */
  readonly sessions: Set<string>
}

const readGrant = (reply: Reply | undefined) => {
  if (reply?.status !== 200) return undefined
  const { access_token, refresh_token }: Readonly<Record<string, unknown>> = Object(reply.body)
  return { access: String(access_token), refresh: String(refresh_token) }
}

const keyOf = (call: UpstreamCall, what: string) => `${call.caller.name} ${what}`

/** `world` is asked once something happens in it. */
export const makeLaw = (world: () => World) => {
  const broken = new Set<string>()
  /** Families that IAM ended for a reason that is known. */
  const compromised = new Set<string>()
  /** Access tokens of logins that a server has not answered, with that server. */
  const loggingIn = new Map<string, UpstreamCall["caller"]>()
  /** By refresh token or short-lived token: when IAM spent it. */
  const spentAt = new Map<string, number>()
  /** Access tokens that a server got and has not introspected yet, with the call. */
  const uncompleted = new Map<string, UpstreamCall>()
  /** By server and access token: when it first got the token. */
  const receivedAt = new Map<string, number>()
  /** Families about which IAM gave a false inactive answer that a server may believe. */
  const misjudged = new Set<string>()
  let rotations = 0

  const now = () => world().time.now()
  const controls = () => world().upstreams.iam.controls
  const planes = () => world().upstreams.planes
  const familyOf = (token: string) => controls().familyOf(token)
  const planeOf = (family: Family) =>
    planes().find((id) => controls().plane(id).families.has(family.id)) ?? production
  const breakWith = (problem: string) => void broken.add(problem)
  const isTooLate = (spent: number | undefined) => spent !== undefined && now() - spent >= replayWindow
  const isMember = (family: Family): boolean => {
    const { memberships } = controls().plane(planeOf(family))
    return [...family.session.organizations].some(
      (org) => memberships.get(`${family.actor}[${org}]`)?.status === "active"
    )
  }

  /** A reuse under another key ends the family, which only a very late client may do. */
  const judgeReuse = (presented: string, family: Family): void => {
    if (compromised.has(family.id)) return
    compromised.add(family.id)
    if (isTooLate(spentAt.get(presented))) world().oracle.allowEnd(presented)
    else breakWith(`IAM ended a login of ${family.actor}: its refresh token was used again under another key`)
  }

  const onTokensHandled = ({ form }: UpstreamCall, reply: Reply): void => {
    const presented = form.get("refresh_token")
    const family = presented === null ? undefined : familyOf(presented)
    if (presented !== null && family?.status === "compromised") judgeReuse(presented, family)
    const grant = readGrant(reply)
    if (grant === undefined || reply.headers?.["idempotency-replayed"] === "true") return
    spentAt.set(presented ?? form.get("slt") ?? "", now())
    if (presented !== null && family !== undefined) rotations += 1
  }

  /** A login whose actor has no organisation is refused, and its grant revoked (api.md, login). */
  const onIntrospected = ({ caller, form }: UpstreamCall): void => {
    const token = form.get("token") ?? ""
    const family = familyOf(token)
    if (family !== undefined && loggingIn.get(token) === caller && !isMember(family))
      world().oracle.allowEnd(token)
  }

  /** A false verdict that a server may believe. */
  const onVerdict = (call: UpstreamCall): void => {
    const token = call.form.get("token") ?? ""
    const family = familyOf(token)
    const received = receivedAt.get(keyOf(call, token))
    if (family !== undefined && received !== undefined && now() >= received + disbelief)
      misjudged.add(family.id)
  }

  const onGrant = (call: UpstreamCall, access: string): void => {
    if (call.form.has("slt")) loggingIn.set(access, call.caller)
    const receipt = keyOf(call, access)
    receivedAt.set(receipt, receivedAt.get(receipt) ?? now())
    uncompleted.set(access, call)
  }

  const observer: Observer = {
    onSent: (call) => {
      if (call.path === "introspect") uncompleted.delete(call.form.get("token") ?? "")
    },
    onHandled: (call, reply) => {
      if (call.path === "tokens") onTokensHandled(call, reply)
      if (call.path === "introspect") onIntrospected(call)
    },
    onDelivered: (call, own) => {
      if (call.fault === faults.inactive) onVerdict(call)
      const grant = call.path === "tokens" ? readGrant(own) : undefined
      if (grant !== undefined) onGrant(call, grant.access)
    }
  }

  const excuseFor = ({ refresh_token }: StoredSession): Excuse | undefined => {
    const family = familyOf(refresh_token)
    if (family === undefined) return undefined
    if (isTooLate(spentAt.get(refresh_token))) return "too late"
    if (misjudged.has(family.id)) return "misjudged"
    return isMember(family) ? undefined : "without organisation"
  }

  return {
    observer,
    broken,
    breakWith,
    rotations: () => rotations,
    spentAt: (token: string) => spentAt.get(token),
    familyOf,
    /** This introspection is the first one of a token that this server has just been given. */
    isCompleting: ({ caller, form, path }: UpstreamCall) =>
      path === "introspect" && uncompleted.get(form.get("token") ?? "")?.caller === caller,
    /** The limit that excuses that this session cannot be used. */
    excuseFor,
    /** Without an organisation a session cannot be used, but it is not lost. */
    isLost: (session: StoredSession) => {
      const excuse = excuseFor(session)
      return excuse !== undefined && excuse !== "without organisation"
    },
    isLive: ({ refresh_token }: StoredSession) => {
      const family = familyOf(refresh_token)
      return family?.status === "active" && now() < family.expiresAt
    },
    /** A holder has a session of one of its own logins, in its plane. */
    checkStored: ({ name, sessions }: Holder, session: StoredSession) => {
      const family = familyOf(session.refresh_token)
      const isOwn = family !== undefined && family === familyOf(session.access_token)
      if (!isOwn || !sessions.has(family.session.id)) breakWith(`${name} stored a session of another login`)
      else if (session.actor.public_id !== family.actor) breakWith(`${name} stored the name of another actor`)
      else if (planeOf(family) !== (session.testing_environment_id ?? production))
        breakWith(`${name} stored a session of another plane`)
    },
    /** A pair belongs to the login whose token was sent. */
    checkGrant: (
      { refresh_token, slt = "" }: { readonly slt?: string; readonly refresh_token?: string },
      given: StoredSession
    ) => {
      loggingIn.delete(given.access_token)
      const family = familyOf(given.refresh_token)
      const minted = planes()
        .map((plane) => controls().plane(plane).slts.get(slt)?.session)
        .find((session) => session !== undefined)
      const isOwn =
        refresh_token === undefined ? minted === family?.session : familyOf(refresh_token) === family
      if (!isOwn || family !== familyOf(given.access_token))
        breakWith("an answer has a token of another login")
    }
  }
}

export type Law = ReturnType<typeof makeLaw>
