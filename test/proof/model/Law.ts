/** What each machine may hold, and what must never happen. The ground truth is the state of IAM itself. */
import type { Family, IamControls } from "../../../sandbox/upstreams/Iam.ts"
import type { Reply } from "../../../sandbox/upstreams/Simulator.ts"
import type { StoredSession } from "../../../client/stores/SessionStore.ts"
import type { SimulatedTime } from "../../support/SimulatedTime.ts"
import type { Observer, UpstreamCall } from "./Upstreams.ts"

/** Milliseconds in which IAM replays a login or refresh. */
const replayWindow = 600_000
/** Milliseconds of a token's life in which a client refreshes early, with the time of the calls themselves. */
const early = 60_000 + 60_000
/** Milliseconds from the first receipt of a pair in which a server believes no inactive answer about it. */
const disbelief = 60_000
/** Milliseconds after a grant until the introspection that completes it has been sent. */
const completion = 1_000

/** The documented limits that excuse a lost session, each with its sentence. */
export const limits = {
  /** client.md, "Too late": An answer that is not fetched within 10 minutes is lost. */
  tooLate: (spentAt: number | undefined, now: number): boolean =>
    spentAt !== undefined && now - spentAt >= replayWindow,
  /** identity-service.md 5: a consumed token under a different key ends the whole family. An attacker did that. */
  attacked: (families: ReadonlySet<string>, family: Family): boolean => families.has(family.id),
  /** api.md, login and refresh: an inactive answer about a pair that the instance received more than a minute ago is a verdict. */
  misjudged: (families: ReadonlySet<string>, family: Family): boolean => families.has(family.id),
  /** durability.md, "Limits": a refresh without an organisation has spent its token, and the new pair is withheld. */
  withoutOrganisation: (members: ReadonlySet<string>, family: Family): boolean => !members.has(family.actor)
} as const

/** The slot of one machine in one plane. */
export interface Holder {
  readonly name: string
  readonly plane: string
  /** Parent sessions of the logins that its programs began. */
  readonly sessions: Set<string>
}

export interface Law extends Observer {
  readonly broken: ReadonlyArray<string>
  readonly breakWith: (problem: string) => void
  /** The end of this family by its owner or by the admin is intended. */
  readonly allowEnd: (token: string) => void
  /** An attacker uses this token. */
  readonly allowAttack: (token: string) => void
  /** The access token may be refused although it has not expired. */
  readonly allowRefusal: (token: string) => void
  readonly familyOf: (session: StoredSession) => Family | undefined
  /** The limit that excuses that this session cannot be used. */
  readonly excuseFor: (session: StoredSession) => keyof typeof limits | undefined
  readonly isLive: (session: StoredSession) => boolean
  /** The session that a holder may have: one of its own logins, in its plane. */
  readonly checkStored: (holder: Holder, session: StoredSession) => void
  /** A pair belongs to the login whose token was sent. */
  readonly checkGrant: (
    sent: { readonly slt?: string; readonly refresh_token?: string },
    given: StoredSession
  ) => void
  /** Every family that has ended was ended by its owner, the admin or an attacker. */
  readonly checkFamilies: () => void
  readonly rotations: () => number
  readonly spentAt: (token: string) => number | undefined
}

export const makeLaw = (
  time: SimulatedTime,
  controls: () => IamControls,
  planes: () => ReadonlyArray<string>
): Law => {
  const broken: Array<string> = []
  const ended = new Set<string>()
  const attacked = new Set<string>()
  const refusable = new Set<string>()
  /** Families whose login, or its replay, met an actor without an organisation. */
  const refusedLogins = new Set<string>()
  /** Access tokens of logins that a server has not answered, with that server. */
  const loggingIn = new Map<string, UpstreamCall["caller"]>()
  /** By refresh token or short-lived token: when IAM spent it. */
  const spentAt = new Map<string, number>()
  /** By refresh token: the access token of its pair. */
  const accessOf = new Map<string, string>()
  /** By server: the planes whose last introspection failed. */
  const failing = new Map<string, Set<string>>()
  /** Access tokens that a server got and has not introspected yet, with the call. */
  const uncompleted = new Map<string, UpstreamCall>()
  /** By server and access token: when it first got the token. */
  const receivedAt = new Map<string, number>()
  /** Families about which IAM gave a false inactive answer that a server may believe. */
  const misjudged = new Set<string>()
  /** When a login or refresh was sent. */
  const sentAt = new WeakMap<UpstreamCall, number>()
  /** By server and plane: when IAM last refused an introspection with 429. */
  const pausedAt = new Map<string, number>()
  let rotated = 0

  const breakWith = (problem: string) => {
    if (!broken.includes(problem)) broken.push(problem)
  }
  const planeOf = ({ seen }: UpstreamCall) => seen.headers.get("x-testing-application")?.[0] ?? "production"
  const failingOf = ({ caller }: UpstreamCall) => {
    const known = failing.get(caller.name) ?? new Set<string>()
    failing.set(caller.name, known)
    return known
  }
  const pauseOf = (call: UpstreamCall) => `${call.caller.name} ${planeOf(call)}`
  /** The 429 came while IAM executed the call: the server could not know it before, and must wait before the next introspection. */
  const isPausedSince = (call: UpstreamCall): boolean =>
    (pausedAt.get(pauseOf(call)) ?? 0) >= (sentAt.get(call) ?? time.now())
  const receiptOf = ({ caller }: UpstreamCall, access: string) => `${caller.name} ${access}`
  const recordFalseVerdict = (call: UpstreamCall, access: string): void => {
    const family = controls().familyOf(access)
    const received = receivedAt.get(receiptOf(call, access))
    if (family !== undefined && received !== undefined && time.now() >= received + disbelief)
      misjudged.add(family.id)
  }
  const isMember = (plane: string, family: Family): boolean => {
    const { memberships } = controls().plane(plane)
    return [...family.session.organizations].some(
      (org) => memberships.get(`${family.actor}[${org}]`)?.status === "active"
    )
  }
  const planeOfFamily = (family: Family) =>
    planes().find((id) => controls().plane(id).families.has(family.id)) ?? "production"

  const readGrant = (reply: Reply): { readonly access: string; readonly refresh: string } | undefined => {
    if (reply.status !== 200) return undefined
    const body: Readonly<Record<string, unknown>> = Object(reply.body)
    return { access: String(body.access_token), refresh: String(body.refresh_token) }
  }
  const isReplay = (reply: Reply) => reply.headers?.["idempotency-replayed"] === "true"

  const onTokensHandled = (call: UpstreamCall, reply: Reply): void => {
    const presented = call.form.get("refresh_token")
    const family = presented === null ? undefined : controls().familyOf(presented)
    if (presented !== null && family?.status === "compromised" && !ended.has(family.id)) {
      ended.add(family.id)
      if (!attacked.has(family.id) && !limits.tooLate(spentAt.get(presented), time.now()))
        breakWith(`IAM ended a login of ${family.actor}: its refresh token was used again under another key`)
    }
    const grant = readGrant(reply)
    if (grant === undefined || isReplay(reply)) return
    accessOf.set(grant.refresh, grant.access)
    spentAt.set(presented ?? call.form.get("slt") ?? "", time.now())
    if (presented === null || family === undefined) return
    rotated += 1
    const access = accessOf.get(presented)
    const token =
      access === undefined ? undefined : controls().plane(planeOfFamily(family)).accessTokens.get(access)
    const isNeeded =
      token === undefined ||
      token.revoked ||
      token.expiresAt - time.now() <= early ||
      refusable.has(presented) ||
      attacked.has(family.id) ||
      misjudged.has(family.id)
    if (!isNeeded) breakWith(`a session of ${family.actor} was rotated without need`)
  }

  return {
    broken,
    breakWith,
    isCompleting: (caller, path, form) =>
      path === "introspect" && uncompleted.get(form.get("token") ?? "")?.caller === caller,
    onSent: (call) => {
      if (call.path === "tokens" && failingOf(call).has(planeOf(call)))
        breakWith(`${call.caller.name} spends a token although its last introspection failed`)
      if (call.path === "tokens") sentAt.set(call, time.now())
      if (call.path === "introspect") uncompleted.delete(call.form.get("token") ?? "")
    },
    onHandled: (call, reply) => {
      if (call.path === "tokens") onTokensHandled(call, reply)
      if (call.path !== "introspect") return
      const token = call.form.get("token") ?? ""
      const family = controls().familyOf(token)
      if (family === undefined || loggingIn.get(token) !== call.caller) return
      if (!isMember(planeOfFamily(family), family)) refusedLogins.add(family.id)
    },
    onDelivered: (call, reply) => {
      if (call.path === "introspect") {
        if (reply?.status === 200) failingOf(call).delete(planeOf(call))
        else if (call.fault !== "inactive") failingOf(call).add(planeOf(call))
        if (call.fault === "inactive") recordFalseVerdict(call, call.form.get("token") ?? "")
        if (call.fault === "429 before") pausedAt.set(pauseOf(call), time.now())
      }
      if (call.path !== "tokens" || reply === undefined) return
      const grant = readGrant(reply)
      if (grant === undefined) return
      if (call.form.has("slt")) loggingIn.set(grant.access, call.caller)
      const receipt = receiptOf(call, grant.access)
      receivedAt.set(receipt, receivedAt.get(receipt) ?? time.now())
      if (!isPausedSince(call)) uncompleted.set(grant.access, call)
      time.after(completion, () => {
        if (uncompleted.has(grant.access) && call.caller.isAlive())
          breakWith(`${call.caller.name} spent a token and could not introspect the new one`)
        uncompleted.delete(grant.access)
      })
    },
    allowEnd: (token) => {
      const family = controls().familyOf(token)
      if (family !== undefined) ended.add(family.id)
    },
    allowAttack: (token) => {
      const family = controls().familyOf(token)
      if (family !== undefined) attacked.add(family.id)
    },
    allowRefusal: (token) => void refusable.add(token),
    familyOf: (session) => controls().familyOf(session.refresh_token),
    excuseFor: (session) => {
      const family = controls().familyOf(session.refresh_token)
      if (family === undefined) return undefined
      if (limits.tooLate(spentAt.get(session.refresh_token), time.now())) return "tooLate"
      if (limits.attacked(attacked, family)) return "attacked"
      if (limits.misjudged(misjudged, family)) return "misjudged"
      const members = new Set(isMember(planeOfFamily(family), family) ? [family.actor] : [])
      return limits.withoutOrganisation(members, family) ? "withoutOrganisation" : undefined
    },
    isLive: (session) => {
      const family = controls().familyOf(session.refresh_token)
      return family?.status === "active" && time.now() < family.expiresAt
    },
    checkStored: (holder, session) => {
      const family = controls().familyOf(session.refresh_token)
      const other = controls().familyOf(session.access_token)
      if (family === undefined || family !== other) breakWith(`${holder.name} stored a pair of two logins`)
      else if (!holder.sessions.has(family.session.id))
        breakWith(`${holder.name} stored a session of another login`)
      else if (session.actor.public_id !== family.actor)
        breakWith(`${holder.name} stored the name of another actor`)
      else if (planeOfFamily(family) !== (session.testing_environment_id ?? "production"))
        breakWith(`${holder.name} stored a session of another plane`)
    },
    checkGrant: ({ refresh_token, slt = "" }, given) => {
      loggingIn.delete(given.access_token)
      const family = controls().familyOf(given.refresh_token)
      const presented = refresh_token === undefined ? undefined : controls().familyOf(refresh_token)
      const minted = planes()
        .map((plane) => controls().plane(plane).slts.get(slt)?.session)
        .find((session) => session !== undefined)
      const isOwn =
        refresh_token !== undefined
          ? presented === family
          : minted !== undefined
            ? minted === family?.session
            : slt === family?.actor
      if (!isOwn || family !== controls().familyOf(given.access_token))
        breakWith("an answer has a token of another login")
    },
    checkFamilies: () => {
      for (const plane of planes())
        for (const family of controls().plane(plane).families.values()) {
          if (family.status === "active" || ended.has(family.id) || attacked.has(family.id)) continue
          // A login without an organisation is refused, and its grant revoked (api.md, login).
          if (family.status === "revoked" && refusedLogins.has(family.id)) continue
          breakWith(
            `a login of ${family.actor} is ${family.status}, and neither its owner nor the admin ended it`
          )
        }
    },
    rotations: () => rotated,
    spentAt: (token) => spentAt.get(token)
  }
}
