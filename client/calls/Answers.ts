/**
 * Checks of the service's answers: the members that the client's types promise, and no others. Further members, and further
 * values of a text with known values, pass: a later service may send them.
 */
import type {
  Actor,
  Health,
  IamDescriptor,
  Me,
  Readiness,
  Report,
  Subscription,
  Ting,
  TingOutcome,
  Version
} from "../Types.ts"

/** Whether a parsed JSON value has a shape. */
export type Check<A> = (value: unknown) => value is A

export const isText: Check<string> = (value) => typeof value === "string"
export const isNumber: Check<number> = (value): value is number => Number.isFinite(value)
const isFlag: Check<boolean> = (value) => typeof value === "boolean"
const isTrue: Check<true> = (value) => value === true

export const isRecord: Check<Readonly<Record<string, unknown>>> = (
  value
): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const nullable =
  <A>(check: Check<A>): Check<A | null> =>
  (value): value is A | null =>
    value === null || check(value)

/** The member may be absent. */
export const optional = <A>(check: Check<A>): Check<A> & { readonly optional: true } =>
  Object.assign((value: unknown): value is A => value === undefined || check(value), {
    optional: true
  } as const)

export const listOf =
  <A>(check: Check<A>): Check<ReadonlyArray<A>> =>
  (value): value is ReadonlyArray<A> =>
    Array.isArray(value) && value.every(check)

const mapOf =
  <A>(check: Check<A>): Check<{ readonly [name: string]: A }> =>
  (value): value is { readonly [name: string]: A } =>
    isRecord(value) && Object.values(value).every(check)

type Members<A> = { readonly [Name in keyof A]-?: Check<Exclude<A[Name], undefined>> }

export const objectOf =
  <A>(members: Members<A>): Check<A> =>
  (value): value is A =>
    isRecord(value) &&
    Object.entries<Check<unknown>>(members).every(([name, check]) =>
      check(Object.hasOwn(value, name) ? value[name] : undefined)
    )

const isActor = objectOf<Actor>({ type: isText, public_id: isText })

export const isTingOutcome = objectOf<TingOutcome>({
  subscribed: isFlag,
  subscription_id: optional(isText),
  error: optional(isText)
})

/** A session with its tokens, as the service sends it. */
export interface WireSession {
  readonly access_token: string
  readonly refresh_token: string
  /** Remaining lifetime of the access token, seconds. */
  readonly expires_in: number
  readonly scope: string
  readonly actor: Actor
  readonly org_id: string
  readonly org_ids: ReadonlyArray<string>
  readonly testing_environment_id: string | null
}

export interface WireLogin extends WireSession {
  readonly ting: TingOutcome
}

/** Members of a session, on the wire and in a store, besides its tokens and their life. */
const commonMembers = {
  scope: isText,
  actor: isActor,
  org_id: isText,
  org_ids: listOf(isText),
  testing_environment_id: nullable(isText)
}

/** A store may hold what an earlier version took from the service. */
export const storedMembers = {
  ...commonMembers,
  access_token: isText,
  refresh_token: isText,
  expires_in: isNumber
}

/** What an intermediary or a log filter puts in the place of a credential: one character again and again, stars, or a word. */
const mask = /^(.)\1*$|\*{3}|redacted/i

/** Visible ASCII and no mask: any other token cannot be used, so an answer with one must not replace a session. */
const isToken: Check<string> = (value): value is string =>
  isText(value) && /^[\x21-\x7e]+$/.test(value) && !mask.test(value)
const isLifetime: Check<number> = (value): value is number => isNumber(value) && value > 0 && value < 1e9

const wireMembers = {
  ...commonMembers,
  access_token: isToken,
  refresh_token: isToken,
  expires_in: isLifetime
}

export const isSession = objectOf<WireSession>(wireMembers)
export const isLogin = objectOf<WireLogin>({ ...wireMembers, ting: isTingOutcome })

export const isMe = objectOf<Me>({
  authenticated: isTrue,
  actor: isActor,
  org_id: isText,
  membership_id: isText,
  session_id: isText,
  scopes: listOf(isText),
  ting_ready: isFlag,
  testing_environment_id: nullable(isText)
})

export const isSubscription = objectOf<Subscription>({
  id: isText,
  app_id: isText,
  for: isText,
  active: isFlag
})

export const isTing = objectOf<Ting>({
  id: isText,
  created_at: isText,
  key: isText,
  silent: isFlag,
  replayed: isFlag
})

export const isReport = objectOf<Report>({
  id: isText,
  status: isText,
  issue_url: nullable(isText),
  reporter: nullable(isText),
  created_at: isText,
  replayed: isFlag
})

export const isIamDescriptor = objectOf<IamDescriptor>({
  app_id: isText,
  org_id: isText,
  api_version: isText,
  iam_url: isText,
  ting_url: isText,
  testing_environment_id: nullable(isText),
  ting_types: listOf(isText),
  scopes: listOf(isText),
  version: isText
})

export const isVersion = objectOf<Version>({
  version: isText,
  api_versions: listOf(isText),
  min_cli: isText
})

export const isHealth = objectOf<Health>({ status: isText, service: isText, version: isText })

export const isCheckStates = mapOf(isText)
export const isReadiness = objectOf<Readiness>({ status: isText, checks: isCheckStates })
