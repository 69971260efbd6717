/** Repeats failed calls to other systems. Decided from data alone: how the call failed, and whether repeating it is harmless. */
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Schedule from "effect/Schedule"
import * as ScheduleDecision from "effect/ScheduleDecision"
import * as ScheduleInterval from "effect/ScheduleInterval"
import * as Metrics from "../Metrics.ts"
import { monotonicMillis, unsafeMonotonicMillis } from "../MonotonicTime.ts"
import { RequestContext } from "../RequestContext.ts"
import {
  type Dependency,
  NotExecuted,
  type Refused,
  Unknown,
  type UpstreamFailure
} from "../UpstreamFailure.ts"

export interface RetryPolicy {
  /** The dependency that a passed deadline is blamed on; of several calls in one attempt, the one that runs at that time. */
  readonly dependency: Dependency | (() => Dependency)
  /** The call is a read, or runs under an idempotency key: it may be repeated when its outcome is unknown. */
  readonly repeatable: boolean
  /** All attempts together; 3 by default. */
  readonly attempts?: number
  /** Milliseconds for all attempts and pauses, within the request's own deadline. The last attempt is interrupted then. */
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

/** The pauses of a policy; none that ends at `endsAt` (monotonic milliseconds) or later. */
const pausesOf = (policy: RetryPolicy, endsAt: number): Schedule.Schedule<void, UpstreamFailure> =>
  Schedule.makeWithState<Progress, UpstreamFailure, void>(
    { attempts: 1, polls: 0 },
    (wall, failure, progress) =>
      Effect.gen(function* () {
        const [pause, next] = nextStep(policy, failure, progress)
        if (pause === undefined) return [next, undefined, ScheduleDecision.done]
        const millis = Math.round(pause * (yield* Random.nextRange(jitter.least, jitter.most)))
        if ((yield* monotonicMillis) + millis >= endsAt) return [next, undefined, ScheduleDecision.done]
        Metrics.recordNow(Metrics.upstreamRetries({ dependency: failure.dependency }), 1)
        return [next, undefined, ScheduleDecision.continueWith(ScheduleInterval.after(wall + millis))]
      })
  )

/**
 * At most 3 attempts, after 250 ms and 750 ms (jittered), none of which begins after the request's deadline.
 * `NotExecuted` is always repeated, `Unknown` only when the policy is repeatable, and a refusal never, except that
 * `idempotency_in_progress` is polled up to 8 times. A 429 fails at once with its seconds.
 */
export const retryTransient =
  (policy: RetryPolicy) =>
  <A, R>(effect: Effect.Effect<A, UpstreamFailure, R>): Effect.Effect<A, UpstreamFailure, R> =>
    Effect.clockWith((clock) =>
      Effect.flatMap(RequestContext, ({ deadlineAt }): Effect.Effect<A, UpstreamFailure, R> => {
        const now = unsafeMonotonicMillis(clock)
        const endsAt = Math.min(deadlineAt, now + (policy.withinMillis ?? Number.POSITIVE_INFINITY))
        const late = () => ({
          dependency: typeof policy.dependency === "function" ? policy.dependency() : policy.dependency,
          reason: "deadline passed"
        })
        if (now >= endsAt) return new NotExecuted(late())
        // Most calls succeed: the schedule is made for one that failed.
        const retried = Effect.catchAll(effect, (first) => {
          let attempt: Effect.Effect<A, UpstreamFailure, R> = first
          const next = Effect.suspend(() => {
            const current = attempt
            attempt = effect
            return current
          })
          return Effect.retry(next, pausesOf(policy, endsAt))
        })
        // A call ends at the deadline of its request by itself (`Upstream`).
        return policy.withinMillis === undefined
          ? retried
          : Effect.timeoutFail(retried, { duration: endsAt - now, onTimeout: () => new Unknown(late()) })
      })
    )
