/**
 * Checks of answers and of stored sessions: the members that the client's types promise, and no others. Further members, and further
 * values of a text with known values, pass: a later service may send them.
 */
import type { Session } from "../Contract.ts"
import type { Actor, TingOutcome } from "../Types.ts"
import { isNumber, isRecord, isText } from "../Values.ts"

/** Whether a parsed JSON value has a shape. */
export type Check<A> = (value: unknown) => value is A

export const isFlag: Check<boolean> = (value) => typeof value === "boolean"
export const isTrue: Check<true> = (value) => value === true

export const nullable =
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

/** One check for each member. */
export type Members<A> = { readonly [Name in keyof A]-?: Check<Exclude<A[Name], undefined>> }

export const objectOf =
  <A>(members: Members<A>): Check<A> =>
  (value): value is A =>
    isRecord(value) &&
    Object.entries<Check<unknown>>(members).every(([name, check]) =>
      check(Object.hasOwn(value, name) ? value[name] : undefined)
    )

/** Members that are texts. */
export const texts = <const Name extends string>(...names: ReadonlyArray<Name>) =>
  Object.fromEntries(names.map((name) => [name, isText])) as { readonly [Key in Name]: Check<string> }

const isActor = objectOf<Actor>(texts("type", "public_id"))

export const isTingOutcome = objectOf<TingOutcome>({
  subscribed: isFlag,
  subscription_id: optional(isText),
  error: optional(isText)
})

/** A session with its tokens, as the service sends it. */
export type WireSession = Omit<Session, "token_type">

/** Members of a session, on the wire and in a store, besides its tokens and their life. */
const commonMembers = {
  ...texts("scope", "org_id"),
  actor: isActor,
  org_ids: listOf(isText),
  testing_environment_id: nullable(isText)
}

/** A store may hold what an earlier version took from the service. */
export const storedMembers = {
  ...commonMembers,
  ...texts("access_token", "refresh_token"),
  expires_in: isNumber
}

/** What an intermediary or a log filter puts in the place of a credential: one character again and again, stars, or a word. */
const mask = /^(.)\1*$|\*{3}|redacted/i

/** Visible ASCII and no mask: any other token cannot be used, so an answer with one must not replace a session. */
const isToken: Check<string> = (value): value is string =>
  isText(value) && /^[\x21-\x7e]+$/.test(value) && !mask.test(value)
const isLifetime: Check<number> = (value): value is number => isNumber(value) && value > 0 && value < 1e9

export const wireMembers = {
  ...commonMembers,
  access_token: isToken,
  refresh_token: isToken,
  expires_in: isLifetime
}

export const isCheckStates = mapOf(isText)
