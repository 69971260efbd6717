/** What one call of a program shares over all its requests and waits. */
import { isGiven, present } from "../Values.ts"
import {
  type CallOptions,
  deadlineMillisecondsOf,
  duration,
  findWrong,
  type MusicClientOptions
} from "../Options.ts"
import type { ErrorOf, Metadata, MusicError, Result } from "../Types.ts"
import { inTime, type Time, untilAborted } from "./Time.ts"
import { clientFailure, failureOf, invalidInput, withKey } from "../failures/Failures.ts"

/** The end of a call on the monotonic clock, which a wrong or corrected wall clock does not affect. */
export interface Deadline {
  /** Milliseconds. */
  readonly at: number
  /** The last failure of an attempt before it. */
  last?: MusicError
  /** What is waited for, when it is no answer: the next step after the deadline. */
  hint?: string | undefined
}

/** One call of a program. */
export interface Scope {
  readonly deadline: Deadline
  /** Aborted when the caller leaves. */
  readonly signal: AbortSignal
  /** Further headers of each request, with names in lower case. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Of the call's exchanges: that of the success, and the latest request that was sent. */
  readonly noted: {
    metadata: Metadata
    sent?: { readonly requestId: string; readonly randomKey?: string }
  }
}

/** Nothing was sent. */
export const noExchange: Metadata = { requestId: null, rateLimits: [] }

/** The same call until an earlier moment. */
export const until = (scope: Scope, at: number): Scope => ({
  ...scope,
  deadline: { at: Math.min(at, scope.deadline.at) }
})

/** A scope of its own, for work that the caller's end does not end. */
export const ownScope = (deadline: Deadline): Scope => ({
  deadline,
  signal: new AbortController().signal,
  noted: { metadata: noExchange }
})

/** The failure of a call that ends at its deadline: with the last known failure, if there is one. */
export const timedOut = ({ hint, last }: Deadline, requestId: string | null = null): ErrorOf<"timed_out"> => {
  if (last === undefined) return clientFailure("timed_out", { requestId, ...present({ hint }) })
  const { code, hint: next, message, requestId: id } = last
  return clientFailure("timed_out", {
    message: `No answer arrived before the deadline. The attempt before failed: ${message}`,
    hint: hint ?? next,
    details: { last: { code, message, hint: next, requestId: id } },
    requestId: requestId ?? id
  })
}

/** Rejects with `timed_out` once the deadline has passed. `waitedFor` returns the deadline of the work that is waited for. */
export const within = <A>(
  time: Time,
  deadline: Deadline,
  work: Promise<A>,
  waitedFor: () => Deadline = () => deadline
): Promise<A> => inTime(time, deadline.at - time.monotonic(), work, () => timedOut(waitedFor()))

/** The member of a call's options with which the Effect face adds headers to its requests. */
export const carriedHeaders = Symbol("music-client/headers")

/** Resolves to a result, and never rejects. The result's errors are those of the method. */
export type Run = <A>(
  call: CallOptions | undefined,
  work: (scope: Scope) => Promise<A>
) => Promise<Result<A, never>>

/** Milliseconds: work that ends at its deadline itself says more than the end of the wait for it. */
const grace = 100

/** Programs without a type checker may pass any value. */
const isSignal = (signal: unknown): signal is AbortSignal =>
  typeof signal === "object" &&
  signal !== null &&
  "addEventListener" in signal &&
  typeof signal.addEventListener === "function"

/** `problem` is one of the client's options: every call fails with it. */
export const makeRun =
  (options: MusicClientOptions, time: Time, problem: MusicError | undefined): Run =>
  async (call, work) => {
    const given: unknown = call?.signal
    const refused = (error: MusicError) => ({ ok: false, error }) as Result<never, never>
    const signal = isSignal(given) ? given : new AbortController().signal
    if (signal.aborted) return refused(clientFailure("aborted", { cause: signal.reason }))
    if (problem !== undefined) return refused(problem)
    if (isGiven(given) && !isSignal(given)) return refused(invalidInput("signal", "must be an AbortSignal"))
    const milliseconds = call?.deadlineMilliseconds ?? deadlineMillisecondsOf(options)
    const wrong = findWrong({ deadlineMilliseconds: milliseconds }, { deadlineMilliseconds: duration })
    if (wrong !== undefined) return refused(wrong)
    const deadline = { at: time.monotonic() + milliseconds }
    const noted: Scope["noted"] = { metadata: noExchange }
    const scope = { deadline, signal, headers: Object(call)[carriedHeaders], noted }
    try {
      const working = inTime(time, milliseconds + grace, work(scope), () => timedOut(deadline))
      return { ok: true, value: await untilAborted(signal, working), metadata: noted.metadata }
    } catch (cause) {
      if (!signal.aborted) return refused(failureOf(cause))
      const { randomKey, requestId = null } = noted.sent ?? {}
      const failure = clientFailure("aborted", { requestId, cause: signal.reason })
      return refused(randomKey === undefined ? failure : withKey(failure, randomKey))
    }
  }
