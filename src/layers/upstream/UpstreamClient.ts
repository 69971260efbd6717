/**
 * Calls to another system over HTTP. Each call is one request, and each way in which it can fail is typed by outcome
 * (services/UpstreamFailure.ts). Calls are logged, measured and traced without bodies and credentials.
 */
import type * as Headers from "@effect/platform/Headers"
import type * as HttpClient from "@effect/platform/HttpClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { type Dependency, Unknown, type UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { observeCall, peerOf } from "./CallMetrics.ts"
import { makeSendRequest, type UpstreamRequest, type UpstreamTarget } from "./UpstreamRequest.ts"
import type { ResponseReader, UpstreamResponse } from "./UpstreamResponse.ts"

/** The outcome of a response other than 2xx; `now` in milliseconds. */
export type FailureReader = (
  dependency: Dependency,
  response: UpstreamResponse,
  now: number
) => UpstreamFailure

export interface UpstreamOptions extends UpstreamTarget {
  readonly failureOf: FailureReader
  /** Reason to distrust a response of any status because of its headers. */
  readonly rejectHeaders?: (headers: Headers.Headers) => string | undefined
}

export interface UpstreamCall<A> extends UpstreamRequest {
  /** Name of the operation in metrics and spans, from a small set. */
  readonly operation: string
  /** The path with `{name}` in place of what varies, for spans and logs; the path itself if absent. */
  readonly template?: string
  /** Reads a 2xx response. */
  readonly read: ResponseReader<A>
}

/** Sends one request, never a second one after a failure. */
export type Upstream = <A>(call: UpstreamCall<A>) => Effect.Effect<A, UpstreamFailure>

export const makeUpstream = (client: HttpClient.HttpClient, options: UpstreamOptions): Upstream => {
  const { dependency, failureOf, rejectHeaders } = options
  const peer = peerOf(dependency, options.url)
  const send = makeSendRequest(client, options)

  const outcomeOf = <A>(
    response: UpstreamResponse,
    read: ResponseReader<A>,
    now: number
  ): Either.Either<A, UpstreamFailure> => {
    const { headers, status } = response
    const rejected = rejectHeaders?.(headers)
    if (rejected !== undefined) return Either.left(new Unknown({ dependency, reason: rejected }))
    if (status < 200 || status > 299) return Either.left(failureOf(dependency, response, now))
    return Either.mapLeft(
      read(response),
      (reason) => new Unknown({ dependency, reason: `answered ${status}, but the answer ${reason}` })
    )
  }

  return ({ operation, read, template, ...request }) => {
    const path = template ?? request.path
    return Effect.zipWith(send(request), Clock.currentTimeMillis, (response, now) =>
      outcomeOf(response, read, now)
    ).pipe(
      Effect.flatten,
      Effect.tapError((failure) =>
        failure._tag === "Refused"
          ? Effect.logDebug(`${dependency} refused`, { path, status: failure.status, code: failure.code })
          : Effect.logWarning(`${dependency} gave no usable answer`, { path, reason: failure.reason })
      ),
      observeCall({ peer, operation, method: request.method, template: path })
    )
  }
}
