/** Repeats failed calls to other systems that are harmless to repeat. Decided from data alone: how the call failed. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { constFalse } from "effect/Function"
import * as Schedule from "effect/Schedule"
import { recordNow, upstreamRetries } from "../Metrics.ts"
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
  readonly dependency: () => Dependency
  /** All attempts together, at most 3, which is the default. */
  readonly attempts?: number
  /** Milliseconds for all attempts and pauses, within the request's own deadline. The last attempt is interrupted then. */
  readonly withinMillis?: number
  /** Refusals that another attempt may not meet, such as that of a proof that was used up. */
  readonly again?: (refused: Refused) => boolean
}

/** Milliseconds before the second and the third attempt. */
const attemptPauses = Schedule.fromDelays(250, 750)
/** Milliseconds before each poll of a request that IAM still works on under the same key. */
const pollPauses = Schedule.fromDelays(250, 500, 1_000, 1_000, 2_000, 2_000, 4_000, 4_000)
/** `Schedule.jittered` makes a pause longer by a fifth at most. */
const mostJitter = 1.2

const isInProgress = (failure: UpstreamFailure): boolean =>
  failure._tag === "Refused" && failure.code === "idempotency_in_progress"

/**
 * At most 3 attempts, after 250 ms and 750 ms (jittered), none of which begins after the request's deadline.
 * `NotExecuted` and `Unknown` are repeated, and a refusal never, except that `idempotency_in_progress` is polled up to 8 times. A 429 fails
 * at once with its seconds. For reads and calls under an idempotency key only: any other may take effect twice.
 */
export const retryTransient = ({
  again = constFalse,
  attempts = 3,
  dependency,
  withinMillis
}: RetryPolicy) => {
  const isRepeatable = (failure: UpstreamFailure): boolean => failure._tag !== "Refused" || again(failure)

  return <A, R>(effect: Effect.Effect<A, UpstreamFailure, R>): Effect.Effect<A, UpstreamFailure, R> =>
    Effect.clockWith((clock) =>
      Effect.flatMap(RequestContext, ({ deadlineAt }): Effect.Effect<A, UpstreamFailure, R> => {
        const now = unsafeMonotonicMillis(clock)
        const endsAt = Math.min(deadlineAt, now + (withinMillis ?? Number.POSITIVE_INFINITY))
        const late = () => ({ dependency: dependency(), reason: "deadline passed" })
        if (now >= endsAt) return new NotExecuted(late())
        const inTime = <I>(pauses: Schedule.Schedule<Duration.Duration, I>) =>
          Schedule.checkEffect(Schedule.jittered(pauses), (_, pause) =>
            Effect.map(monotonicMillis, (at) => at + Duration.toMillis(pause) * mostJitter < endsAt)
          )
        // Most calls succeed: the schedules are made for one that failed.
        const retried = Effect.catchAll(effect, (failure) => {
          let first: UpstreamFailure | undefined = failure
          const attempt = Effect.suspend((): Effect.Effect<A, UpstreamFailure, R> => {
            const known = first
            first = undefined
            if (known !== undefined) return known
            recordNow(upstreamRetries({ dependency: dependency() }), 1)
            return effect
          })
          return attempt.pipe(
            Effect.retry({ while: isInProgress, schedule: inTime(pollPauses) }),
            Effect.retry({ while: isRepeatable, schedule: inTime(attemptPauses), times: attempts - 1 })
          )
        })
        // A call ends at the deadline of its request by itself (`Upstream`).
        return withinMillis === undefined
          ? retried
          : Effect.timeoutFail(retried, { duration: endsAt - now, onTimeout: () => new Unknown(late()) })
      })
    )
}
