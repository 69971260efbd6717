/** The service's calls: composed, sent with retries inside a deadline, and reported. */
import type { ReportEvent } from "../Events.ts"
import { connectionFailure } from "../failures/ConnectionFailures.ts"
import { clientFailure, withFacts, withKey } from "../failures/Failures.ts"
import { attemptMillisecondsOf, type MusicClientOptions } from "../Options.ts"
import { findOptionsProblem } from "../OptionsCheck.ts"
import { type BrokenExchange, broken, type Transport, type WireAnswer } from "../transport/Transport.ts"
import type { AnswerHead, MusicError } from "../Types.ts"
import { packageVersion } from "../Version.ts"
import { decodeAnswer, unexpectedAnswer } from "./AnswerDecoder.ts"
import { readRateLimits, readRetryAfter } from "./AnswerHeaders.ts"
import { type Scope, timedOut } from "./Deadline.ts"
import { type AnswerOf, type EndpointName, endpoints } from "./Endpoints.ts"
import { newIdempotencyKey } from "./RandomKey.ts"
import { addressOf, type CallRequest, composeRequest, randomKeyOf, readHook } from "./Requests.ts"
import {
  callBackoff,
  firstAttempt,
  isConnectionRefused,
  isRetryable,
  pauseAfter,
  refusedMilliseconds,
  shortestAttempt,
  worthwhile
} from "./Retry.ts"
import { onAbort, sleep, type Time } from "./Time.ts"

/** How a call is repeated. */
interface Repetition {
  /** Also repeat an `internal` failure, under the same key. */
  readonly uncertain?: boolean
  /** One attempt only. */
  readonly once?: boolean
  /** A first attempt that hangs is given up early. */
  readonly isQuick?: boolean
}

/** What a caller of a known call gives. */
export type CallFacts = Repetition & Omit<CallRequest<never>, "call" | "endpoint">

export interface Calls {
  /** One call of the contract under one request id, with retries inside the deadline. */
  readonly run: <Name extends EndpointName>(
    name: Name,
    scope: Scope,
    facts?: CallFacts
  ) => Promise<AnswerOf<Name>>
  /** The same for any other call. */
  readonly runAny: <A>(request: CallRequest<A> & Repetition, scope: Scope) => Promise<A>
}

/** Bytes of an answer that an error carries. */
const responseCharacters = 2_048

/** The beginning of an answer; a failed answer may have the tokens of a session all the same. */
const responseOf = ({ body, headers, status }: WireAnswer): AnswerHead => ({
  status,
  headers,
  body: body.slice(0, responseCharacters).replace(/("(?:access|refresh)_token"\s*:\s*")[^"]*/g, "$1…")
})

const isBrokenExchange = (cause: unknown): cause is BrokenExchange =>
  typeof cause === "object" && cause !== null && "tooLarge" in cause

const failureOfBroken = (exchange: BrokenExchange, url: string): MusicError => {
  const { answer, cause, tooLarge } = exchange
  return answer === undefined
    ? connectionFailure(exchange, url)
    : unexpectedAnswer(answer.status, tooLarge ? "too_large" : "incomplete", cause)
}

/** Whether the service may have done what the caller asked for. */
const mayHaveTakenEffect = (failure: MusicError): boolean =>
  failure.retryable || failure.code === "internal" || failure.code === "unexpected_answer"

/** The result of an exchange, with the answer when one arrived. */
interface Outcome<A> {
  readonly answer: WireAnswer | undefined
  readonly result: { readonly value: A } | MusicError
}

export const makeCalls = (
  options: MusicClientOptions,
  parts: { readonly transport: Transport; readonly report: ReportEvent; readonly time: Time }
): Calls => {
  const { report, time, transport } = parts
  // With an options problem no call is ever sent.
  const problem = findOptionsProblem(options)
  const address = problem === undefined ? addressOf(options.baseUrl) : ""
  let outdated = false

  const noteMinVersion = (minVersion: string | undefined): void => {
    if (outdated || minVersion === undefined) return
    outdated = true
    report({ type: "outdated", version: options.version ?? packageVersion, minVersion })
  }

  const runAny: Calls["runAny"] = async <A>(call: CallRequest<A> & Repetition, scope: Scope): Promise<A> => {
    if (problem !== undefined) return Promise.reject(problem)
    const { deadline, signal } = scope
    const requestId = `${options.source}-${newIdempotencyKey()}`
    const hooked = await readHook(options, address, call)
    if ("code" in hooked) return Promise.reject(hooked)
    const request = composeRequest(options, address, requestId, call, { ...hooked.headers, ...scope.headers })
    if ("code" in request) return Promise.reject(request)
    const key = randomKeyOf(call)

    /** Attaches the ids and times of the exchange to its failure, and reports it. */
    const finish = (attempt: number, begun: number, { answer, result }: Outcome<A>) => {
      const rateLimits = answer === undefined ? [] : readRateLimits(answer)
      const given = answer?.headers["x-request-id"] ?? ""
      const id = /^[\x21-\x7e]+$/.test(given) ? given : requestId
      const failure =
        "value" in result
          ? undefined
          : withFacts(result, {
              requestId: id,
              ...(rateLimits.length === 0 ? {} : { rateLimits }),
              ...(answer === undefined
                ? {}
                : { retryAfterSeconds: readRetryAfter(answer, time.now()), response: responseOf(answer) })
            })
      report({
        type: "response",
        ...{ call: call.call, requestId, attempt },
        status: answer?.status ?? null,
        milliseconds: time.monotonic() - begun,
        rateLimits,
        ...(failure === undefined ? {} : { error: failure })
      })
      noteMinVersion(answer?.headers["x-music-min-cli"])
      if (failure === undefined) scope.noted.metadata = { requestId: id, rateLimits }
      return failure ?? result
    }

    /** One exchange of at most some milliseconds. Never rejects. */
    const runAttempt = (attempt: number, milliseconds: number) =>
      new Promise<{ readonly value: A } | MusicError>((resolve) => {
        report({
          type: "request",
          ...{ call: call.call, requestId, attempt },
          method: request.method,
          path: call.endpoint.path
        })
        scope.noted.sent = { requestId, randomKey: key }
        const begun = time.monotonic()
        if (call.sent !== undefined) call.sent.at = begun
        const controller = new AbortController()
        let isOver = false
        const end = (outcome: Outcome<A>) => {
          if (isOver) return
          isOver = true
          cancel()
          letGo()
          resolve(finish(attempt, begun, outcome))
          controller.abort()
        }
        const failed = (result: MusicError) => end({ answer: undefined, result })
        const cancel = time.after(milliseconds, () => failed(timedOut(deadline, requestId)))
        const letGo = onAbort(signal, () => failed(clientFailure("aborted", { cause: signal.reason })))
        transport
          .send(request, controller.signal)
          // A `fetch` of the program's own may return anything.
          .catch((cause: unknown) => (isBrokenExchange(cause) ? cause : broken(cause, { isOwnFault: true })))
          .then(
            (arrived): Outcome<A> =>
              "tooLarge" in arrived
                ? { answer: arrived.answer, result: failureOfBroken(arrived, request.url) }
                : { answer: arrived, result: decodeAnswer(call.endpoint, arrived, request.url) }
          )
          .then(end, (cause) => failed(clientFailure("client_defect", { cause })))
      })

    const limitOf = (count: number): number => {
      const most = attemptMillisecondsOf(options)
      const isShort = count === 1 && call.isQuick === true && (options.attemptMilliseconds ?? null) === null
      return isShort ? Math.min(most, firstAttempt) : most
    }

    /** Repeats the attempt until it succeeds, cannot succeed, or the deadline leaves no room for the next pause. */
    const retried = async (): Promise<{ readonly value: A } | MusicError> => {
      const begun = time.monotonic()
      for (let count = 1; ; count += 1) {
        const left = deadline.at - time.monotonic()
        if (left < shortestAttempt) return timedOut(deadline)
        const result = await runAttempt(count, Math.min(left, limitOf(count)))
        if ("value" in result) return result
        // A timeout says less than the failure before it.
        if (result.code !== "timed_out") deadline.last = result
        if (call.once === true || !isRetryable(result, call.uncertain === true)) return result
        // Each pause lies between half and whole of the backoff's.
        const pause = pauseAfter(callBackoff, count - 1, result, 0.5 + time.random() / 2)
        const end = isConnectionRefused(result)
          ? Math.min(deadline.at, begun + refusedMilliseconds)
          : deadline.at
        const least = result.code === "rate_limited" ? worthwhile : shortestAttempt
        if (pause + least >= end - time.monotonic()) return result
        report({
          type: "retry",
          call: call.call,
          requestId,
          attempt: count,
          pauseMilliseconds: pause,
          error: result
        })
        await sleep(time, pause, signal)
        if (signal.aborted) return clientFailure("aborted", { requestId, cause: signal.reason })
      }
    }

    const result = await retried()
    if ("value" in result) return result.value
    return Promise.reject(key !== undefined && mayHaveTakenEffect(result) ? withKey(result, key) : result)
  }

  return {
    runAny,
    run: (name, scope, facts = {}) =>
      // The table of endpoints relates each name to its answer.
      runAny({ ...facts, call: name, endpoint: endpoints[name] } as never, scope) as Promise<never>
  }
}
