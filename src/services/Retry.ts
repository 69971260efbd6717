/** Repeating what failed, decided from data alone: the outcome of the failure and whether a repetition is harmless. */
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import * as Random from "effect/Random"
import * as Metrics from "./Metrics.ts"
import { monotonicMillis } from "./MonotonicTime.ts"
import { RequestContext } from "./RequestContext.ts"
import {
  type Dependency,
  NotExecuted,
  type Refused,
  Unknown,
  type UpstreamFailure
} from "./UpstreamFailure.ts"

export interface RetryPolicy {
  readonly dependency: Dependency
  /** The call is a read, or runs under an idempotency key: what may have happened may be repeated. */
  readonly repeatable: boolean
  /** All attempts together; 3 unless told. */
  readonly attempts?: number
  /** Milliseconds for everything, inside the request's own deadline. */
  readonly withinMillis?: number
  /** Refusals that another attempt can turn, such as a proof that was used up. */
  readonly again?: (refused: Refused) => boolean
}

/** Milliseconds before the second and the third attempt. */
const pauses = [250, 750]
const pollPauses = [250, 500, 1_000, 1_000, 2_000, 2_000, 4_000, 4_000]

const isRepeatable = (policy: RetryPolicy, failure: UpstreamFailure): boolean => {
  switch (failure._tag) {
    case "NotExecuted":
      return true
    case "Unknown":
      return policy.repeatable
    case "Refused":
      return policy.again?.(failure) ?? false
  }
}

const inProgress = (failure: UpstreamFailure): boolean =>
  failure._tag === "Refused" && failure.code === "idempotency_in_progress"

const jittered = (millis: number): Effect.Effect<number> =>
  Effect.map(Random.nextRange(0.8, 1.2), (factor) => Math.round(millis * factor))

/**
 * At most 3 attempts, after 250 ms and 750 ms (jittered), inside the deadline. What surely did nothing is repeated
 * always, what may have happened only when the policy calls it repeatable, a refusal never, except that
 * `idempotency_in_progress` is polled up to 8 times. A 429 goes up at once with its seconds.
 */
export const transient =
  (policy: RetryPolicy) =>
  <A, R>(effect: Effect.Effect<A, UpstreamFailure, R>): Effect.Effect<A, UpstreamFailure, R> =>
    Effect.gen(function* () {
      const { deadlineAt } = yield* RequestContext
      const startedAt = yield* monotonicMillis
      const endsAt = Math.min(deadlineAt, startedAt + (policy.withinMillis ?? Number.POSITIVE_INFINITY))
      const { dependency } = policy
      const reason = "deadline passed"
      const within = (now: number): Effect.Effect<A, UpstreamFailure, R> => {
        if (!Number.isFinite(endsAt)) return effect
        if (now >= endsAt) return new NotExecuted({ dependency, reason })
        return Effect.timeoutFail(effect, {
          duration: endsAt - now,
          onTimeout: () => new Unknown({ dependency, reason })
        })
      }
      const step = (attempt: number, polls: number): Effect.Effect<A, UpstreamFailure, R> =>
        Effect.flatMap(monotonicMillis, within).pipe(
          Effect.catchAll((failure) =>
            Effect.gen(function* () {
              const polling = inProgress(failure)
              const pause = polling
                ? pollPauses[polls]
                : attempt < (policy.attempts ?? 3) && isRepeatable(policy, failure)
                  ? (pauses[attempt - 1] ?? pauses.at(-1))
                  : undefined
              if (pause === undefined) return yield* failure
              const millis = yield* jittered(pause)
              if ((yield* monotonicMillis) + millis >= endsAt) return yield* failure
              yield* Effect.sleep(millis)
              yield* Metric.increment(Metrics.upstreamRetries({ dependency: failure.dependency }))
              return yield* polling ? step(attempt, polls + 1) : step(attempt + 1, polls)
            })
          )
        )
      return yield* step(1, 0)
    })
