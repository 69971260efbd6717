/** The budget of calls to IAM on a clock that only the test moves: calls are sent, answered or lost at the test's word. */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type * as Scheduler from "effect/Scheduler"
import { makeIamBudget } from "../../../../src/layers/iam/budget/IamBudget.ts"
import { makeKnownCredentials, tokenKey } from "../../../../src/layers/iam/budget/KnownCredentials.ts"
import { type Counted, introspectPath, type Purpose } from "../../../../src/layers/iam/budget/Purpose.ts"
import { makeRefusedCredentials } from "../../../../src/layers/iam/budget/RefusedCredentials.ts"
import {
  NotExecuted,
  Refused,
  Unknown,
  type UpstreamFailure
} from "../../../../src/services/UpstreamFailure.ts"
import { makeManualClock } from "../../../world/Time.ts"
import { inRequest, production } from "../Simulated.ts"

export const tokens: Counted = { plane: "production", path: "/app-auth/tokens" }
export const introspections: Counted = { plane: "production", path: introspectPath }

export type End = Effect.Effect<unknown, UpstreamFailure>
export const answered: End = Effect.void
export const unanswered: End = Effect.fail(new Unknown({ dependency: "iam", reason: "no answer" }))
export const unsent: End = Effect.fail(new NotExecuted({ dependency: "iam", reason: "connection refused" }))
export const blocked = (retryAfterSeconds: number): End =>
  Effect.fail(new Refused({ dependency: "iam", status: 429, code: "rate_limited", retryAfterSeconds }))

export interface CallOptions {
  readonly counted?: Counted
  readonly network?: string
  /** What IAM answers at once. */
  readonly end?: End
}

/** A call that was sent and has no answer yet. */
export interface Out {
  readonly end: (end: End) => void
}

let names = 0
export const fresh = (prefix = "oat"): string => `${prefix} ${++names}`

export const makeBudget = (callsPerMinute = 110, countAddresses = true) => {
  const refused = makeRefusedCredentials()
  const credentials = makeKnownCredentials(refused)
  const budget = makeIamBudget({ callsPerMinute, countAddresses }, credentials, refused)
  const clock = makeManualClock(0)
  const tasks: Array<() => void> = []
  const scheduler: Scheduler.Scheduler = {
    shouldYield: () => false,
    scheduleTask: (task) => void tasks.push(task)
  }
  const settle = () => {
    for (let task = tasks.shift(); task !== undefined; task = tasks.shift()) task()
  }

  const inNetwork = <A, E>(network: string, effect: Effect.Effect<A, E>) =>
    Effect.withClock(inRequest(true, network)(effect), clock.clock)
  const run = <A, E>(effect: Effect.Effect<A, E>, network = "203.0.113.1"): Exit.Exit<A, E> =>
    Effect.runSyncExit(inNetwork(network, effect))

  /** The call, or the seconds of its refusal by the budget. */
  const call = (purpose: Purpose, options: CallOptions = {}): Out | number => {
    const { counted = introspections, network = "203.0.113.1" } = options
    let answer: ((end: End) => void) | undefined
    const upstream = Effect.async<unknown, UpstreamFailure>((resume) => {
      answer = resume
    })
    const fiber = Effect.runFork(inNetwork(network, budget.within(counted, purpose)(upstream)), { scheduler })
    settle()
    const resume = answer
    if (resume !== undefined)
      return {
        end: (end) => {
          resume(end)
          settle()
        }
      }
    const exit = fiber.unsafePoll() ?? Exit.void
    const failure = Exit.isSuccess(exit) ? Option.none() : Cause.failureOption(exit.cause)
    return Option.isSome(failure) && failure.value._tag === "Refused"
      ? (failure.value.retryAfterSeconds ?? 0)
      : 0
  }

  /** How many of these calls are sent, each answered before the next. */
  const send = (count: number, purposeOf: (at: number) => Purpose, options: CallOptions = {}): number => {
    let sent = 0
    for (let at = 0; at < count; at += 1) {
      const one = call(purposeOf(at), options)
      if (typeof one === "number") continue
      one.end(options.end ?? answered)
      sent += 1
    }
    return sent
  }

  /** A token that IAM issued or called live. */
  const known = (credential = fresh(), owner?: string): Purpose => {
    credentials.markLive(credential, owner)
    return { credential }
  }
  /** A refresh token of a login and its actor; each refresh presents another. */
  const refreshOf = (login: string, actor?: string): Purpose => {
    const credential = fresh("ort")
    credentials.restore(credential, { login, actor })
    return { credential, use: "refresh" }
  }

  /** Reserves the place for an introspection; a later one of the token uses it. Undefined without a place. */
  const reserve = (purpose: Purpose, spend: End = answered, network?: string): Purpose | undefined => {
    const token = fresh()
    const accessToken = Redacted.make(token)
    const exit = run(
      budget.reserveIntrospection(production, purpose, (place) => {
        const grant = {
          accessToken,
          refreshToken: Redacted.make(fresh("ort")),
          expiresInSeconds: 1_800,
          scopes: [],
          actor: Option.none(),
          organisation: Option.none(),
          replayed: false
        }
        credentials.recordGrant(production, grant, Option.none(), place, clock.now())
        return spend
      }),
      network
    )
    return Exit.isSuccess(exit) ? { credential: tokenKey(production, accessToken) } : undefined
  }

  return {
    budget,
    call,
    credentials,
    known,
    now: clock.now,
    refreshOf,
    refuse: (
      credential: string,
      kind: Parameters<typeof budget.recordRefusal>[1],
      use?: Purpose["use"],
      network?: string
    ) => run(budget.recordRefusal(credential, kind, use), network),
    reserve,
    run,
    send,
    /** Moves the clock to this second. */
    at: (seconds: number) => clock.setTime(Math.round(seconds * 1_000))
  }
}
