/** The service's calls: composed, sent with retries inside a deadline, and reported. */
import type { ReportEvent } from "../Events.ts"
import type { MusicClientOptions } from "../Options.ts"
import type { Send, WireAnswer } from "../Transport.ts"
import type { AnswerHead, MusicError } from "../Types.ts"
import { decodeAnswer, readable, readRateLimits, readRetryAfter, withoutTokens } from "./AnswerDecoder.ts"
import { type Scope, timedOut, within } from "./Deadline.ts"
import { type AnswerOf, type EndpointName, endpoints } from "./Endpoints.ts"
import { newIdempotencyKey } from "./RandomKey.ts"
import { addressOf, type CallRequest, composeRequest, packageVersion, readHook } from "./Requests.ts"
import { onAbort, sleep, type Time } from "./Time.ts"
import { clientFailure, failWith, withFacts } from "../failures/Failures.ts"

/** Exponential backoff: the pauses double. */
export interface Backoff {
  readonly first: number
  readonly longest: number
}

const callBackoff: Backoff = { first: 250, longest: 5_000 }

/** A service that is not there after a restart of usual length is not waited for. */
const refusedMilliseconds = 5_000
/** A shorter attempt is not worth its connection. */
const shortestAttempt = 10
/** An attempt that has its answer in time. A rate limit counts each attempt, so none is made with less time after one. */
export const worthwhile = 1_000
/** The first attempt of a read or a refresh: a connection that died while the machine slept takes a request and never answers. */
const firstAttempt = 10_000

const isConnectionRefused = (failure: MusicError): boolean =>
  failure.code === "transport_failed" && failure.details.reason === "refused"

/** The pause after `count` earlier ones, never shorter than the `Retry-After` of the failure. */
export const pauseAfter = (backoff: Backoff, count: number, failure: MusicError, jitter = 1): number =>
  Math.max(
    Math.min(backoff.first * 2 ** count, backoff.longest) * jitter,
    (failure.retryAfterSeconds ?? 0) * 1_000
  )

/** Whether the same request can succeed later. `uncertain` calls also repeat an `internal` failure of the service. */
export const isRetryable = (failure: MusicError, uncertain: boolean): boolean =>
  failure.code === "internal"
    ? uncertain
    : failure.retryable && failure.code !== "store_failed" && failure.code !== "aborted"

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

export type Calls = ReturnType<typeof makeCalls>

type Read<A> = { readonly value: A } | MusicError

/** The result of an exchange, with the answer when one arrived. */
interface Outcome<A> {
  readonly answer?: WireAnswer | undefined
  readonly result: Read<A>
}

/** Characters of an answer that an error carries. */
const responseCharacters = 2_048

/** The beginning of an answer. */
const responseOf = ({ body, headers, status }: WireAnswer): AnswerHead => ({
  status,
  headers: Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, value && withoutTokens(value)])
  ),
  body: withoutTokens(body.slice(0, responseCharacters))
})

/** Whether the service may have done what the caller asked for. */
const mayHaveTakenEffect = (failure: MusicError): boolean =>
  failure.retryable || failure.code === "internal" || failure.code === "unexpected_answer"

export const makeCalls = (
  options: MusicClientOptions,
  { report, send, time }: { readonly send: Send; readonly report: ReportEvent; readonly time: Time }
) => {
  let outdated = false

  const noteMinVersion = (minVersion: string | undefined): void => {
    if (outdated || minVersion === undefined) return
    outdated = true
    const version = options.version ?? packageVersion
    report({ type: "outdated", version, minVersion: readable(minVersion) })
  }

  const limitOf = (attempt: number, isQuick = false): number =>
    options.attemptMilliseconds ?? (attempt === 1 && isQuick ? firstAttempt : 28_000)

  /** One call under one request id, with retries inside the deadline. */
  const runAny = async <A>(call: CallRequest<A> & Repetition, scope: Scope): Promise<A> => {
    const { deadline, signal } = scope
    const address = addressOf(options.baseUrl)
    const requestId = `${options.source}-${newIdempotencyKey()}`
    const hooked = await within(time, deadline, readHook(options, address, call))
    if ("code" in hooked) return failWith(hooked)
    const request = composeRequest(options, address, requestId, call, { ...hooked.headers, ...scope.headers })
    if ("code" in request) return failWith(request)

    /** Attaches the ids and times of the exchange to its failure, and reports it. */
    const finish = (attempt: number, begun: number, { answer, result }: Outcome<A>): Read<A> => {
      const rateLimits = answer === undefined ? [] : readRateLimits(answer)
      const given = answer?.headers["x-request-id"] ?? ""
      const id = /^[\x21-\x7e]+$/.test(given) ? given : requestId
      const read =
        "value" in result
          ? result
          : withFacts(result, {
              requestId: id,
              rateLimits: rateLimits.length === 0 ? undefined : rateLimits,
              retryAfterSeconds: answer && readRetryAfter(answer, time.now()),
              response: answer && responseOf(answer)
            })
      report({
        type: "response",
        ...{ call: call.call, requestId, attempt },
        status: answer?.status ?? null,
        milliseconds: time.monotonic() - begun,
        rateLimits,
        ...("value" in read ? {} : { error: read })
      })
      noteMinVersion(answer?.headers["x-music-min-cli"])
      if ("value" in read) scope.noted.metadata = { requestId: id, rateLimits }
      return read
    }

    /** One exchange of at most some milliseconds. Never rejects. */
    const runAttempt = (attempt: number, milliseconds: number) =>
      new Promise<Read<A>>((resolve) => {
        const path = call.endpoint.path.replace(/\?.*$/, "")
        report({ type: "request", ...{ call: call.call, requestId, attempt }, method: request.method, path })
        const begun = time.monotonic()
        const { randomKey: before } = scope.noted
        scope.noted.sent = { requestId, at: { monotonic: begun, wall: time.now() } }
        // The caller must be given it to repeat the call.
        if (call.isKeyRandom === true) scope.noted.randomKey = call.idempotencyKey
        const controller = new AbortController()
        let isOver = false
        const end = (outcome: Outcome<A>) => {
          if (isOver) return
          isOver = true
          cancel()
          letGo()
          const read = finish(attempt, begun, outcome)
          if ("code" in read && !mayHaveTakenEffect(read)) scope.noted.randomKey = before
          resolve(read)
          controller.abort()
        }
        const fail = (result: MusicError) => end({ result })
        const cancel = time.after(milliseconds, () => fail(timedOut(deadline, requestId)))
        const letGo = onAbort(signal, () => fail(clientFailure("aborted", { cause: signal.reason })))
        const sending = send(request, controller.signal).then((arrived) =>
          end(
            "failure" in arrived
              ? { answer: arrived.answer, result: arrived.failure }
              : { answer: arrived, result: decodeAnswer(call.endpoint, arrived, request.url) }
          )
        )
        sending.catch((cause) => fail(clientFailure("client_defect", { cause })))
      })

    /** Repeats the attempt until it succeeds, cannot succeed, or the deadline leaves no room for the next pause. */
    const retried = async (): Promise<Read<A>> => {
      const begun = time.monotonic()
      for (let attempt = 1; ; attempt += 1) {
        if (signal.aborted) return clientFailure("aborted", { requestId, cause: signal.reason })
        const left = deadline.at - time.monotonic()
        if (left < shortestAttempt) return timedOut(deadline)
        const result = await runAttempt(attempt, Math.min(left, limitOf(attempt, call.isQuick)))
        if ("value" in result) return result
        // A timeout says less than the failure before it.
        if (result.code !== "timed_out") deadline.last = result
        if (call.once === true || !isRetryable(result, call.uncertain === true)) return result
        // Each pause lies between half and whole of the backoff's.
        const pause = pauseAfter(callBackoff, attempt - 1, result, 0.5 + time.random() / 2)
        const last = isConnectionRefused(result) ? begun + refusedMilliseconds : deadline.at
        const least = result.code === "rate_limited" ? worthwhile : shortestAttempt
        if (pause + least >= Math.min(last, deadline.at) - time.monotonic()) return result
        const facts = { call: call.call, requestId, attempt }
        report({ type: "retry", ...facts, pauseMilliseconds: pause, error: result })
        await sleep(time, pause, signal)
      }
    }

    const result = await retried()
    return "value" in result ? result.value : failWith(result)
  }

  return {
    runAny,
    /** The same for a call of the contract. */
    run: <Name extends EndpointName>(
      name: Name,
      scope: Scope,
      facts: CallFacts = {}
    ): Promise<AnswerOf<Name>> =>
      // The table of endpoints relates each name to its answer.
      runAny({ ...facts, call: name, endpoint: endpoints[name] } as never, scope)
  }
}
