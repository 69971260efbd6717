/**
 * One HTTP request to another system: sent once, bounded in time and bytes. Every response is a success here; a failure
 * means that no complete response came. No body and no credential reaches a log or a span.
 */
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { version } from "../../schema/Release.ts"
import { clockOf } from "../../services/FiberContext.ts"
import { unsafeMonotonicMillis } from "../../services/MonotonicTime.ts"
import { type Dependency, NotExecuted, Unknown } from "../../services/UpstreamFailure.ts"
import { traceHeaders } from "./CallMetrics.ts"
import { describeConnectError } from "./ConnectErrors.ts"
import type { UpstreamResponse } from "./UpstreamResponse.ts"
import type { Delivery, OutgoingRequest, Send } from "./UpstreamTransport.ts"

export interface UpstreamTarget {
  readonly dependency: Dependency
  /** Without a trailing slash; a path prefix is kept. */
  readonly url: string
  /** For one request, up to the last byte of its response. */
  readonly timeoutSeconds: number
  /** Bytes of a response body. */
  readonly maxResponseBytes: number
  /** The `Accept` header; `application/json` if absent. */
  readonly accept?: string
  /** URL to which the same request is sent once more. Without it no redirect is followed. */
  readonly redirectTo?: (response: UpstreamResponse) => string | undefined
}

export interface RequestBody {
  readonly contentType: string
  readonly content: string | Uint8Array
}

/** A body of JSON text. */
export const jsonBody = (content: string | Uint8Array): RequestBody => ({
  contentType: "application/json",
  content
})

export interface UpstreamRequest {
  readonly method: OutgoingRequest["method"]
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
  /** Names in lower case. Holds credentials. */
  readonly headers: Readonly<Record<string, string>>
  readonly body?: RequestBody
}

/** `NotExecuted` when the connection was never made, otherwise `Unknown`. */
export type RequestOutcome = Either.Either<UpstreamResponse, NotExecuted | Unknown>

/** Calls `settle` once, unless the returned function is called before, which ends the request. */
export type StartRequest = (
  request: UpstreamRequest,
  context: { readonly clock: Clock.Clock; readonly trace: Readonly<Record<string, string>> },
  settle: (outcome: RequestOutcome) => void
) => () => void

const userAgent = `music-backend/${version}`

/** The request in plain code. */
export const makeStartRequest = (send: Send, target: UpstreamTarget): StartRequest => {
  const { accept = "application/json", dependency, maxResponseBytes, redirectTo, timeoutSeconds } = target
  const base = new URL(target.url)
  const prefix = base.pathname.replace(/\/$/, "")

  const unknown = (reason: string) => Either.left(new Unknown({ dependency, reason }))

  const outcomeOf = (delivery: Delivery): RequestOutcome => {
    switch (delivery._tag) {
      case "Answered": {
        const { body, headers, status } = delivery
        const date = Date.parse(headers.date ?? "")
        return Either.right({ status, headers, body, date: Number.isNaN(date) ? undefined : date })
      }
      case "NotSent": {
        const { reason, ...advice } = describeConnectError(delivery.code)
        return Either.left(new NotExecuted({ dependency, reason: `no connection: ${reason}`, ...advice }))
      }
      case "Lost":
        return unknown(`lost the ${delivery.withinResponse ? "answer" : "connection"}: ${delivery.code}`)
      case "TooLarge":
        return unknown(`answered more than ${maxResponseBytes} bytes`)
      case "Late":
        return unknown(`no answer within ${timeoutSeconds} seconds`)
    }
  }

  const startAt =
    (origin: string, path: string): StartRequest =>
    ({ body, headers, method, query }, { clock, trace }, settle) =>
      send(
        {
          origin,
          path: query === undefined ? path : `${path}?${new URLSearchParams(query)}`,
          method,
          headers: {
            ...trace,
            "user-agent": userAgent,
            accept,
            ...headers,
            ...(body === undefined ? {} : { "content-type": body.contentType })
          },
          body: body?.content,
          maxResponseBytes,
          deadlineAt: unsafeMonotonicMillis(clock) + timeoutSeconds * 1_000
        },
        (delivery) => settle(outcomeOf(delivery))
      )

  return (request, context, settle) => {
    const start = startAt(base.origin, `${prefix}${request.path}`)
    if (redirectTo === undefined) return start(request, context, settle)
    let cancelSecond: (() => void) | undefined
    const cancelFirst = start(request, context, (outcome) => {
      const url = Either.isRight(outcome) ? redirectTo(outcome.right) : undefined
      if (url === undefined) return settle(outcome)
      const { origin, pathname } = new URL(url)
      cancelSecond = startAt(origin, pathname)(request, context, settle)
    })
    return () => (cancelSecond ?? cancelFirst)()
  }
}

/** The request as an effect that is neither measured nor logged; its interruption ends the request. */
export const makeSendRequest = (
  send: Send,
  target: UpstreamTarget
): ((request: UpstreamRequest) => Effect.Effect<UpstreamResponse, NotExecuted | Unknown>) => {
  const start = makeStartRequest(send, target)
  return (request) =>
    Effect.withFiberRuntime((fiber) =>
      Effect.async((resume) =>
        Effect.sync(start(request, { clock: clockOf(fiber), trace: traceHeaders(fiber) }, resume))
      )
    )
}
