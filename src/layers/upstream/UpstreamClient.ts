/**
 * Calls to another system over HTTP. Each call is one request and one asynchronous operation, and each way in which it can
 * fail is typed by outcome (services/UpstreamFailure.ts). Calls are logged, measured and traced without bodies and
 * credentials.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as Fiber from "effect/Fiber"
import { clockOf } from "../../services/FiberContext.ts"
import { isTracing } from "../../services/Tracing.ts"
import {
  type Dependency,
  type Refused,
  Unknown,
  type UpstreamFailure
} from "../../services/UpstreamFailure.ts"
import { measureCall, peerOf, recordResponseStatus, spanAttributes, traceHeaders } from "./CallMetrics.ts"
import {
  makeStartRequest,
  type RequestOutcome,
  type UpstreamRequest,
  type UpstreamTarget
} from "./UpstreamRequest.ts"
import type { ResponseReader, UpstreamResponse } from "./UpstreamResponse.ts"
import type { Send } from "./UpstreamTransport.ts"

/** The outcome of a response other than 2xx; `now` in milliseconds. */
export type FailureReader = (
  dependency: Dependency,
  response: UpstreamResponse,
  now: number
) => UpstreamFailure

export interface UpstreamOptions extends UpstreamTarget {
  readonly failureOf: FailureReader
  /** Reason to distrust a response of any status because of its headers. */
  readonly rejectHeaders?: (headers: UpstreamResponse["headers"]) => string | undefined
}

export interface UpstreamCall<A> extends UpstreamRequest {
  /** Name of the operation in metrics and spans, from a small set. */
  readonly operation: string
  /** The path with `{name}` in place of what varies, for spans and logs; the path itself if absent. */
  readonly template?: string
  /** Reads a 2xx response. */
  readonly read: ResponseReader<A>
  /** Runs after a refusal, before the call fails. */
  readonly onRefused?: ((refusal: Refused) => Effect.Effect<void>) | undefined
}

/** Sends one request, never a second one after a failure. Its interruption ends the request. */
export type Upstream = <A>(call: UpstreamCall<A>) => Effect.Effect<A, UpstreamFailure>

export const makeUpstream = (send: Send, options: UpstreamOptions): Upstream => {
  const { dependency, failureOf, rejectHeaders } = options
  const peer = peerOf(dependency, options.url)
  const start = makeStartRequest(send, options)

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

  const logFailure = (
    path: string,
    failure: UpstreamFailure,
    { onRefused }: Pick<UpstreamCall<unknown>, "onRefused">
  ): Effect.Effect<void> =>
    failure._tag === "Refused"
      ? Effect.zipRight(
          Effect.logDebug(`${dependency} refused`, { path, status: failure.status, code: failure.code }),
          onRefused === undefined ? Effect.void : onRefused(failure)
        )
      : Effect.logWarning(`${dependency} gave no usable answer`, {
          path,
          reason: failure.reason,
          ...(failure._tag === "NotExecuted" && failure.advice !== undefined
            ? { advice: failure.advice }
            : {})
        })

  const perform = <A>(
    call: UpstreamCall<A>,
    template: string,
    fiber: Fiber.RuntimeFiber<unknown, unknown>
  ): Effect.Effect<A, UpstreamFailure> => {
    const clock = clockOf(fiber)
    const measure = measureCall(dependency, call.operation, clock)
    const conclude = (sent: RequestOutcome): Effect.Effect<A, UpstreamFailure> => {
      if (Either.isRight(sent)) recordResponseStatus(fiber, sent.right.status)
      const outcome = Either.flatMap(sent, (response) =>
        outcomeOf(response, call.read, clock.unsafeCurrentTimeMillis())
      )
      if (Either.isRight(outcome)) {
        measure("Success")
        return Effect.succeed(outcome.right)
      }
      measure(outcome.left._tag)
      return Effect.zipRight(logFailure(template, outcome.left, call), Effect.fail(outcome.left))
    }
    return Effect.async<A, UpstreamFailure>((resume) => {
      const cancel = start(call, { clock, trace: traceHeaders(fiber) }, (sent) =>
        // In the fiber, so that a reader's defect is one of the call.
        resume(Effect.suspend(() => conclude(sent)))
      )
      return Effect.sync(() => {
        cancel()
        measure("Interrupted")
      })
    })
  }

  return <A>(call: UpstreamCall<A>) => {
    const template = call.template ?? call.path
    const run = (fiber: Fiber.RuntimeFiber<A, UpstreamFailure>) => perform(call, template, fiber)
    return Effect.withFiberRuntime<A, UpstreamFailure>((fiber) =>
      isTracing(fiber)
        ? Effect.withSpan(Effect.withFiberRuntime(run), `${call.method} ${template}`, {
            kind: "client",
            attributes: spanAttributes(peer, { ...call, template }),
            captureStackTrace: false
          })
        : run(fiber)
    )
  }
}
