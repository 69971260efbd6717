/** Repeats failed calls to other systems. Decided from data alone: how the call failed, and whether repeating it is harmless. */
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import { Deadlines } from "./Deadlines.ts"
import { monotonicNow, requestOf } from "./FiberContext.ts"
import * as Metrics from "./Metrics.ts"
import { monotonicMillis } from "./MonotonicTime.ts"
import {
  type Dependency,
  NotExecuted,
  type Refused,
  Unknown,
  type UpstreamFailure
} from "./UpstreamFailure.ts"

export interface RetryPolicy {
  /** The dependency that a passed deadline is blamed on; of several calls in one attempt, the one that runs at that time. */
  readonly dependency: Dependency | (() => Dependency)
  /** The call is a read, or runs under an idempotency key: it may be repeated when its outcome is unknown. */
  readonly repeatable: boolean
  /** All attempts together; 3 by default. */
  readonly attempts?: number
  /** Milliseconds for all attempts and pauses, within the request's own deadline. */
  readonly withinMillis?: number
  /** Refusals that another attempt may not meet, such as that of a proof that was used up. */
  readonly again?: (refused: Refused) => boolean
}

const defaultAttempts = 3
/** Milliseconds before the second and the third attempt; the last one holds for all further attempts. */
const retryPauses = [250, 750]
/** Milliseconds before each poll of a request that IAM still works on under the same key. */
const pollPauses = [250, 500, 1_000, 1_000, 2_000, 2_000, 4_000, 4_000]
/** Every pause is multiplied by a random factor from this range. */
const jitter = { least: 0.8, most: 1.2 }

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

const isInProgress = (failure: UpstreamFailure): boolean =>
  failure._tag === "Refused" && failure.code === "idempotency_in_progress"

interface Progress {
  readonly attempts: number
  readonly polls: number
}

/** The pause after a failure and the progress behind it; undefined when the failure is final. */
const nextStep = (
  policy: RetryPolicy,
  failure: UpstreamFailure,
  { attempts, polls }: Progress
): readonly [pause: number | undefined, next: Progress] =>
  isInProgress(failure)
    ? [pollPauses[polls], { attempts, polls: polls + 1 }]
    : attempts < (policy.attempts ?? defaultAttempts) && isRepeatable(policy, failure)
      ? [retryPauses[attempts - 1] ?? retryPauses.at(-1), { attempts: attempts + 1, polls }]
      : [undefined, { attempts, polls }]

/** Repeats failed calls to other systems. */
export class Retry extends Effect.Service<Retry>()("music/Retry", {
  effect: Effect.gen(function* () {
    const deadlines = yield* Deadlines

    /** Runs one attempt until `endsAt` (monotonic milliseconds) at most; the attempt does not begin after it. */
    const attemptUntil = <A, R>(
      dependency: RetryPolicy["dependency"],
      endsAt: number,
      now: number,
      effect: Effect.Effect<A, UpstreamFailure, R>
    ): Effect.Effect<A, UpstreamFailure, R> => {
      if (!Number.isFinite(endsAt)) return effect
      const late = () => ({
        dependency: typeof dependency === "function" ? dependency() : dependency,
        reason: "deadline passed"
      })
      return now >= endsAt
        ? new NotExecuted(late())
        : deadlines.endAt(endsAt, () => new Unknown(late()))(effect)
    }

    /**
     * At most 3 attempts, after 250 ms and 750 ms (jittered), within the request's deadline. `NotExecuted` is always repeated,
     * `Unknown` only when the policy is repeatable, and a refusal never, except that `idempotency_in_progress` is polled up to 8
     * times. A 429 fails at once with its seconds.
     */
    const retryTransient =
      (policy: RetryPolicy) =>
      <A, R>(effect: Effect.Effect<A, UpstreamFailure, R>): Effect.Effect<A, UpstreamFailure, R> =>
        Effect.withFiberRuntime((fiber) => {
          const startedAt = monotonicNow(fiber)
          const endsAt = Math.min(
            requestOf(fiber).deadlineAt,
            startedAt + (policy.withinMillis ?? Number.POSITIVE_INFINITY)
          )

          const attempt = (progress: Progress, now: number): Effect.Effect<A, UpstreamFailure, R> =>
            Effect.catchAll(attemptUntil(policy.dependency, endsAt, now, effect), (failure) =>
              pauseAfter(failure, progress)
            )

          const pauseAfter = (failure: UpstreamFailure, progress: Progress) =>
            Effect.gen(function* () {
              const [pause, next] = nextStep(policy, failure, progress)
              if (pause === undefined) return yield* failure
              const millis = Math.round(pause * (yield* Random.nextRange(jitter.least, jitter.most)))
              if ((yield* monotonicMillis) + millis >= endsAt) return yield* failure
              Metrics.recordNow(Metrics.upstreamRetries({ dependency: failure.dependency }), 1)
              yield* Effect.sleep(millis)
              return yield* attempt(next, yield* monotonicMillis)
            })

          return attempt({ attempts: 1, polls: 0 }, startedAt)
        })

    return { retryTransient } as const
  })
}) {}
