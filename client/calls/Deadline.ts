/** What one call of a program shares over all its requests and waits. */
import { present } from "../Values.ts"
import {
  type CallOptions,
  type Checks,
  deadlineMillisecondsOf,
  duration,
  findWrong,
  type MusicClientOptions,
  withMethods
} from "../Options.ts"
import type { ErrorOf, Metadata, MusicError, Result } from "../Types.ts"
import { inTime, type Time, untilAborted } from "./Time.ts"
import { clientFailure, failureOf, withKey } from "../failures/Failures.ts"

/** The end of a call on the monotonic clock, which a wrong or corrected wall clock does not affect. */
export interface Deadline {
  /** Milliseconds. */
  readonly at: number
  /** The last failure of an attempt before it. */
  last?: MusicError
  /** What is waited for, when it is no answer: the next step after the deadline. */
  hint?: string | undefined
}

/** Milliseconds on both clocks: the monotonic one may rest while the machine sleeps, and the wall clock may be stepped. */
export interface Moment {
  readonly monotonic: number
  readonly wall: number
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
    sent?: { readonly requestId: string; readonly at: Moment }
    /** The random key of requests that may have taken effect. */
    randomKey?: string | undefined
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

const callChecks: Checks = {
  signal: [withMethods("addEventListener"), "must be an AbortSignal"],
  deadlineMilliseconds: duration
}

/** `problem` is one of the client's options: every call fails with it. */
export const makeRun =
  (options: MusicClientOptions, time: Time, problem: MusicError | undefined): Run =>
  async (call, work) => {
    const refused = (error: MusicError) => ({ ok: false, error }) as Result<never, never>
    const wrong = problem ?? findWrong(Object(call), callChecks)
    if (wrong !== undefined) return refused(wrong)
    const signal = call?.signal ?? new AbortController().signal
    if (signal.aborted) return refused(clientFailure("aborted", { cause: signal.reason }))
    const milliseconds = call?.deadlineMilliseconds ?? deadlineMillisecondsOf(options)
    const deadline = { at: time.monotonic() + milliseconds }
    const noted: Scope["noted"] = { metadata: noExchange }
    const scope = { deadline, signal, headers: Object(call)[carriedHeaders], noted }
    try {
      const working = inTime(time, milliseconds + grace, work(scope), () => timedOut(deadline))
      return { ok: true, value: await untilAborted(signal, working), metadata: noted.metadata }
    } catch (cause) {
      const { randomKey, sent } = noted
      const aborted = { requestId: sent?.requestId ?? null, cause: signal.reason }
      const failure = signal.aborted ? clientFailure("aborted", aborted) : failureOf(cause)
      return refused(randomKey === undefined ? failure : withKey(failure, randomKey))
    }
  }
