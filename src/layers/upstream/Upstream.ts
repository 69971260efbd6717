/**
 * Calls to another system over HTTP. Each call is one request, bounded in time and bytes and never repeated, and each way in which
 * it can fail is typed by outcome (services/UpstreamFailure.ts). Calls are logged, measured and traced without bodies and credentials.
 */
import type * as HttpBody from "@effect/platform/HttpBody"
import * as HttpClient from "@effect/platform/HttpClient"
import type { HttpClientError } from "@effect/platform/HttpClientError"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import * as HttpTraceContext from "@effect/platform/HttpTraceContext"
import * as Cause from "effect/Cause"
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as FiberRef from "effect/FiberRef"
import { constTrue } from "effect/Function"
import type { Span } from "effect/Tracer"
import { version } from "../../schema/Release.ts"
import { errorCode } from "../../services/ErrorCode.ts"
import { recordNow, upstreamRequestDuration, upstreamRequests } from "../../services/Metrics.ts"
import { unsafeMonotonicMillis } from "../../services/MonotonicTime.ts"
import { RequestContext } from "../../services/RequestContext.ts"
import {
  type Dependency,
  failureOf,
  NotExecuted,
  Unknown,
  type UpstreamFailure
} from "../../services/UpstreamFailure.ts"
import { neverSent } from "./Connections.ts"
import { type ResponseReader, readBody, type UpstreamResponse } from "./UpstreamResponse.ts"

export interface UpstreamTarget {
  readonly dependency: Dependency
  /** Without a trailing slash; a path prefix is kept. */
  readonly url: string
  /** For one request, up to the last byte of its response; the deadline of the caller's request may be earlier. */
  readonly timeoutSeconds: number
  /** Bytes of a response body. */
  readonly maxResponseBytes: number
}

export interface UpstreamRequest {
  readonly method: "GET" | "POST" | "PATCH"
  readonly path: string
  readonly query?: Readonly<Record<string, string>> | undefined
  /** Names in lower case. Holds credentials. */
  readonly headers: Readonly<Record<string, string>>
  readonly body?: HttpBody.HttpBody | undefined
}

/** Milliseconds in which an upstream that works answers. */
const answerMillis = 1_000

/** Makes the function that sends one request. Every response is a success; a failure means that no complete response came. */
export const makeSend = (
  client: HttpClient.HttpClient,
  { dependency, maxResponseBytes, timeoutSeconds, url }: UpstreamTarget
) => {
  const unknown = (reason: string) => new Unknown({ dependency, reason })
  const tooLarge = () => unknown(`answered more than ${maxResponseBytes} bytes`)

  const failureOfError = (error: HttpClientError): NotExecuted | Unknown => {
    const code = errorCode(error.cause)
    if (error._tag === "ResponseError") return unknown(`lost the answer: ${code}`)
    return neverSent(error)
      ? new NotExecuted({ dependency, reason: `no connection: ${code}` })
      : unknown(`lost the connection: ${code}`)
  }

  const send = ({ body, headers, method, path, query }: UpstreamRequest, clock: Clock.Clock) => {
    const request = HttpClientRequest.make(method)(`${url}${path}`, {
      urlParams: query,
      headers: { "user-agent": `music-backend/${version}`, accept: "application/json", ...headers },
      body
    })
    return client.execute(request).pipe(
      Effect.flatMap((response) =>
        Effect.map(readBody(response, maxResponseBytes, tooLarge), (bytes): UpstreamResponse => {
          const { headers, status } = response
          const date = Date.parse(headers.date ?? "")
          const now = clock.unsafeCurrentTimeMillis()
          return { status, headers, body: bytes, date: Number.isNaN(date) ? now : date }
        })
      ),
      Effect.mapError((error) => (error._tag === "Unknown" ? error : failureOfError(error))),
      // The deadline also ends a call of work that cannot be interrupted.
      Effect.interruptible
    )
  }

  return (request: UpstreamRequest): Effect.Effect<UpstreamResponse, NotExecuted | Unknown> =>
    Effect.clockWith((clock) =>
      Effect.flatMap(
        RequestContext,
        ({ deadlineAt }): Effect.Effect<UpstreamResponse, NotExecuted | Unknown> => {
          const left = deadlineAt - unsafeMonotonicMillis(clock)
          const reason = "deadline passed"
          if (left <= 0) return new NotExecuted({ dependency, reason, isLate: true })
          return Effect.timeoutFail(send(request, clock), {
            duration: Math.min(left, timeoutSeconds * 1_000),
            onTimeout: () =>
              left < timeoutSeconds * 1_000
                ? new Unknown({ dependency, reason, isLate: left < answerMillis })
                : unknown(`no answer within ${timeoutSeconds} seconds`)
          })
        }
      )
    )
}

/** The outcome of a response other than 2xx. */
export type FailureReader = (dependency: Dependency, response: UpstreamResponse) => UpstreamFailure

interface UpstreamOptions extends UpstreamTarget {
  readonly failureOf: FailureReader
  /** Reason to distrust a response of any status because of its headers. */
  readonly rejectHeaders?: (headers: UpstreamResponse["headers"]) => string | undefined
}

export interface UpstreamCall<A> extends UpstreamRequest {
  /** Name of the operation in metrics and spans, from a small set. */
  readonly operation: string
  /** Reads a 2xx response. */
  readonly read: ResponseReader<A>
}

const outcomes = { Refused: "refused", NotExecuted: "not_executed", Unknown: "unknown" } as const

/** `interrupted`: the caller went away, and the outcome is unknown. */
const outcomeOf = (exit: Exit.Exit<unknown, UpstreamFailure>): string => {
  if (Exit.isSuccess(exit)) return "ok"
  const failure = failureOf(exit)
  if (failure !== undefined) return outcomes[failure._tag]
  return Cause.isInterruptedOnly(exit.cause) ? "interrupted" : "unknown"
}

/** With `traceparent` the other side's spans join this trace (W3C Trace Context). */
const traceHeaders = (span: Span): Readonly<Record<string, string>> => {
  const { traceparent } = HttpTraceContext.toHeaders(span)
  return traceparent === undefined ? {} : { traceparent }
}

const logFailure = (path: string, failure: UpstreamFailure): Effect.Effect<void> =>
  failure._tag === "Refused"
    ? Effect.logDebug(`${failure.dependency} refused`, { path, status: failure.status, code: failure.code })
    : Effect.logWarning(`${failure.dependency} gave no usable answer`, { path, reason: failure.reason })

/** Makes the function that sends one request, never a second one after a failure. Its interruption ends the request. */
export const makeUpstream = (client: HttpClient.HttpClient, options: UpstreamOptions) => {
  const { dependency, rejectHeaders } = options
  const send = makeSend(client, options)

  const resultOf = <A>(
    response: UpstreamResponse,
    read: ResponseReader<A>
  ): Either.Either<A, UpstreamFailure> => {
    const { headers, status } = response
    const rejected = rejectHeaders?.(headers)
    if (rejected !== undefined) return Either.left(new Unknown({ dependency, reason: rejected }))
    if (status < 200 || status > 299) return Either.left(options.failureOf(dependency, response))
    return Either.mapLeft(
      read(response),
      (reason) => new Unknown({ dependency, reason: `answered ${status}, but the answer ${reason}` })
    )
  }

  /** Counts, times and logs a call. */
  const exchange = <A>(
    { operation, read, ...request }: UpstreamCall<A>,
    span?: Span
  ): Effect.Effect<A, UpstreamFailure> =>
    Effect.clockWith((clock) => {
      const startedAt = unsafeMonotonicMillis(clock)
      const headers = span === undefined ? request.headers : { ...traceHeaders(span), ...request.headers }
      return send({ ...request, headers }).pipe(
        Effect.flatMap((response) => {
          span?.attribute("http.response.status_code", response.status)
          return resultOf(response, read)
        }),
        Effect.onExit((exit) => {
          const seconds = (unsafeMonotonicMillis(clock) - startedAt) / 1_000
          recordNow(upstreamRequests({ dependency, operation, outcome: outcomeOf(exit) }), 1)
          recordNow(upstreamRequestDuration({ dependency, operation }), seconds)
          const failure = failureOf(exit)
          return failure === undefined ? Effect.void : logFailure(request.path, failure)
        })
      )
    })

  return <A>(call: UpstreamCall<A>): Effect.Effect<A, UpstreamFailure> =>
    Effect.flatMap(FiberRef.get(FiberRef.currentTracerEnabled), (isTracing) => {
      if (!isTracing) return exchange(call)
      const { method, operation, path } = call
      const attributes = {
        "peer.service": dependency,
        "http.request.method": method,
        "url.path": path,
        "music.operation": operation
      }
      // The client's own span would hold query and headers.
      return Effect.useSpan(
        `${method} ${path}`,
        { kind: "client", attributes, captureStackTrace: false },
        (span) => Effect.locally(exchange(call, span), HttpClient.currentTracerDisabledWhen, constTrue)
      )
    })
}
