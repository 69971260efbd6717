/** Retries inside a deadline. Every call of this API may be repeated: it is a read, or it has an idempotency key. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import { type Deadline, monotonicMillis, timedOut } from "./Deadline.ts"
import type { MusicFailure } from "../failures/Failures.ts"

/** Exponential backoff: the pauses double. Milliseconds. */
export interface Backoff {
  readonly first: number
  readonly longest: number
}

const callBackoff: Backoff = { first: 250, longest: 5_000 }

/** Milliseconds: a service that is not there after a restart of usual length is not waited for. */
const refusedMilliseconds = 5_000

const isRefused = (failure: MusicFailure): boolean =>
  failure.code === "transport_failed" && failure.details.reason === "refused"

/** Milliseconds: a shorter attempt is not worth its connection. */
const shortestAttempt = 10
/** Milliseconds of an attempt that has its answer in time. A rate limit counts each attempt, so none is made with less time after one. */
export const worthwhile = 1_000

/** The pause after `count` earlier ones, never shorter than the `Retry-After` of the failure. Milliseconds. */
export const pauseAfter = (backoff: Backoff, count: number, failure: MusicFailure, jitter = 1): number =>
  Math.max(
    Math.min(backoff.first * 2 ** count, backoff.longest) * jitter,
    (failure.retryAfterSeconds ?? 0) * 1_000
  )

/** Whether the same request can succeed later. `uncertain` calls also repeat an `internal` failure of the service. */
export const isRetryable = (failure: MusicFailure, uncertain: boolean): boolean =>
  failure.code === "internal"
    ? uncertain
    : failure.retryable && failure.code !== "store_failed" && failure.code !== "aborted"

/** From 0 up to 1: spreads the pauses, so that clients which failed together do not retry together. */
export class Jitter extends Context.Reference<Jitter>()("music/client/Jitter", {
  defaultValue: (): Effect.Effect<number> => Random.next
}) {}

export interface RetryOptions {
  readonly deadline: Deadline
  readonly attemptMilliseconds: number
  readonly uncertain?: boolean
  readonly once?: boolean
  /** Called before each pause, with the number of the failed attempt, from 1. */
  readonly onRetry?: (failure: MusicFailure, attempt: number, pauseMilliseconds: number) => void
}

/**
 * Runs `attempt` until it succeeds, cannot succeed, or the deadline leaves no room for the next pause; then the last
 * failure is the result. `attempt` is given its number, from 1, and its time limit in milliseconds.
 */
export const retryUntil = <A>(
  options: RetryOptions,
  attempt: (count: number, milliseconds: number) => Effect.Effect<A, MusicFailure>
): Effect.Effect<A, MusicFailure> => {
  const { attemptMilliseconds, deadline, onRetry, once, uncertain } = options

  const retry = (failure: MusicFailure, count: number, begun: number): Effect.Effect<A, MusicFailure> =>
    Effect.gen(function* () {
      // A timeout says less than the failure before it.
      if (failure.code !== "timed_out") deadline.last = failure
      if (once === true || !isRetryable(failure, uncertain === true)) return yield* Effect.fail(failure)
      // Each pause lies between half and whole of the backoff's.
      const jitter = 0.5 + (yield* Effect.flatten(Jitter)) / 2
      const pause = pauseAfter(callBackoff, count - 1, failure, jitter)
      const end = isRefused(failure) ? Math.min(deadline.at, begun + refusedMilliseconds) : deadline.at
      const least = failure.code === "rate_limited" ? worthwhile : shortestAttempt
      if (pause + least >= end - (yield* monotonicMillis)) return yield* Effect.fail(failure)
      onRetry?.(failure, count, pause)
      yield* Effect.sleep(pause)
      return yield* run(count + 1, begun)
    })

  const run = (count: number, begun: number): Effect.Effect<A, MusicFailure> =>
    Effect.flatMap(monotonicMillis, (now) => {
      const left = deadline.at - now
      return left < shortestAttempt
        ? Effect.fail(timedOut(deadline, { requestId: null }))
        : Effect.catchAll(attempt(count, Math.min(left, attemptMilliseconds)), (failure) =>
            retry(failure, count, begun)
          )
    })

  return Effect.flatMap(monotonicMillis, (begun) => run(1, begun))
}
