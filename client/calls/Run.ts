/** Runs a call of the program inside its deadline, until its signal aborts it. */
import { clientFailure, failureOf, invalidInput, withKey } from "../failures/Failures.ts"
import type { CallOptions, MusicClientOptions } from "../Options.ts"
import type { MusicError, Result } from "../Types.ts"
import { isGiven } from "../Values.ts"
import { carriedHeaders, deadlineOf, noExchange, type Scope, timedOut } from "./Deadline.ts"
import { inTime, type Time, untilAborted } from "./Time.ts"

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
    const deadline = deadlineOf(options, time, call)
    if ("code" in deadline) return refused(deadline)
    const noted: Scope["noted"] = { metadata: noExchange }
    const scope = { deadline, signal, headers: Object(call)[carriedHeaders], noted }
    try {
      const left = deadline.at - time.monotonic() + grace
      const working = inTime(time, left, work(scope), () => timedOut(deadline))
      return { ok: true, value: await untilAborted(signal, working), metadata: noted.metadata }
    } catch (cause) {
      if (!signal.aborted) return refused(failureOf(cause))
      const { randomKey, requestId = null } = noted.sent ?? {}
      const failure = clientFailure("aborted", { requestId, cause: signal.reason })
      return refused(randomKey === undefined ? failure : withKey(failure, randomKey))
    }
  }
