/** One HTTP exchange within its time limit, reported to the program, and the failures that it maps to. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FiberRef from "effect/FiberRef"
import { globalValue } from "effect/GlobalValue"
import { decodeAnswer, unexpectedAnswer } from "./AnswerDecoder.ts"
import { readRateLimits, readRetryAfter } from "./AnswerHeaders.ts"
import { describeConnectionFailure } from "../failures/ConnectionFailures.ts"
import { type Deadline, monotonicMillis, timedOut } from "./Deadline.ts"
import type { ReportEvent } from "../Events.ts"
import { clientFailure, type MusicFailure, toError, withFacts } from "../failures/Failures.ts"
import { type CallRequest, randomKeyOf } from "./Requests.ts"
import type { BrokenExchange, Transport, WireAnswer, WireHead, WireRequest } from "../transport/Transport.ts"
import type { Metadata, RateLimit } from "../Types.ts"

/** Where the exchange of a call is noted, for a caller that wants it. */
export interface MetadataHolder {
  /** Of the success. */
  metadata: Metadata
  /** The latest request that was sent. */
  sent?: { readonly requestId: string; readonly randomKey: string | undefined }
}

export const currentMetadata = globalValue("music/client/currentMetadata", () =>
  FiberRef.unsafeMake<MetadataHolder | undefined>(undefined)
)

/** Nothing was sent. */
export const noExchange: Metadata = { requestId: null, rateLimits: [] }

/** What all attempts of one call share. */
export interface Attempts<A> {
  readonly call: CallRequest<A>
  readonly request: WireRequest
  readonly requestId: string
  readonly deadline: Deadline
}

const failureOfBroken = (broken: BrokenExchange, { url }: WireRequest): MusicFailure => {
  if (broken.head !== undefined)
    return unexpectedAnswer(broken.head.status, broken.tooLarge ? "too_large" : "incomplete")
  const { reason, ...more } = describeConnectionFailure(broken, new URL(url).host)
  return clientFailure("transport_failed", { ...more, details: { reason }, cause: broken.cause })
}

/** The result of an exchange, with the head of its answer when one arrived. */
interface Outcome<A> {
  readonly head: WireHead | undefined
  readonly result: { readonly value: A } | MusicFailure
}

const decodeOutcome = <A>({ call, request }: Attempts<A>, answer: WireAnswer | BrokenExchange): Outcome<A> =>
  "body" in answer
    ? { head: answer, result: decodeAnswer(call.endpoint, answer, request.url) }
    : { head: answer.head, result: failureOfBroken(answer, request) }

const requestIdOf = (head: WireHead | undefined, sent: string): string =>
  head?.headers["x-request-id"] ?? sent

/** Attaches the ids and times of the exchange to its failure. */
const complete = (
  failure: MusicFailure,
  {
    head,
    now,
    rateLimits,
    requestId
  }: {
    readonly head: WireHead | undefined
    readonly now: number
    readonly rateLimits: ReadonlyArray<RateLimit>
    readonly requestId: string
  }
) => {
  const retryAfterSeconds = head === undefined ? undefined : readRetryAfter(head, now)
  return withFacts(failure, {
    requestId: requestIdOf(head, requestId),
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    ...(rateLimits.length === 0 ? {} : { rateLimits })
  })
}

/** What all exchanges of one client share. */
export interface Connection {
  readonly transport: Transport
  readonly report: ReportEvent
  /** Notes that the service supports no version below this one. */
  readonly noteMinVersion: (minVersion: string) => void
}

/** Runs the exchange number `attempt` of a call for at most `milliseconds`. */
export const runAttempt = <A>(
  { noteMinVersion, report, transport }: Connection,
  attempts: Attempts<A>,
  { attempt, milliseconds }: { readonly attempt: number; readonly milliseconds: number }
): Effect.Effect<A, MusicFailure> =>
  Effect.gen(function* () {
    const { call, deadline, request, requestId } = attempts
    const facts = { call: call.call, requestId, attempt }
    report({ type: "request", ...facts, method: request.method, path: call.endpoint.path })
    const holder = yield* FiberRef.get(currentMetadata)
    if (holder !== undefined) holder.sent = { requestId, randomKey: randomKeyOf(call) }
    const begun = yield* monotonicMillis
    if (call.sent !== undefined) call.sent.at = begun
    const reportResponse = (
      head: WireHead | undefined,
      rateLimits: ReadonlyArray<RateLimit>,
      failure: MusicFailure | undefined
    ) =>
      Effect.map(monotonicMillis, (now) =>
        report({
          type: "response",
          ...facts,
          status: head?.status ?? null,
          milliseconds: now - begun,
          rateLimits,
          ...(failure === undefined ? {} : { error: toError(failure) })
        })
      )
    const { head, result } = yield* transport.send(request).pipe(
      Effect.merge,
      Effect.map((answer) => decodeOutcome(attempts, answer)),
      Effect.timeoutTo({
        duration: milliseconds,
        onSuccess: (outcome) => outcome,
        onTimeout: (): Outcome<A> => ({ head: undefined, result: timedOut(deadline, { requestId }) })
      }),
      Effect.onInterrupt(() => reportResponse(undefined, [], clientFailure("aborted", { requestId })))
    )
    const rateLimits = head === undefined ? [] : readRateLimits(head)
    const failure =
      "value" in result
        ? undefined
        : complete(result, { head, rateLimits, requestId, now: yield* Clock.currentTimeMillis })
    yield* reportResponse(head, rateLimits, failure)
    const minVersion = head?.headers["x-music-min-cli"]
    if (minVersion !== undefined) noteMinVersion(minVersion)
    if (!("value" in result)) return yield* Effect.fail(failure ?? result)
    if (holder !== undefined) holder.metadata = { requestId: requestIdOf(head, requestId), rateLimits }
    return result.value
  })
