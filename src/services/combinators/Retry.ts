/** Repeats failed calls to other systems that are harmless to repeat. Decided from data alone: how the call failed. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { recordNow, upstreamRetries } from "../Metrics.ts"
import { unsafeMonotonicMillis } from "../MonotonicTime.ts"
import { RequestContext } from "../RequestContext.ts"
import { NotExecuted, type UpstreamFailure } from "../UpstreamFailure.ts"

/** Ting's refusals of a proof: each attempt has another one. */
const proofRefusals: ReadonlyArray<string> = ["invalid_proof", "proof_expired", "proof_consumed"]

const isRepeatable = (failure: UpstreamFailure): boolean =>
  failure._tag !== "Refused" ||
  failure.code === "idempotency_in_progress" ||
  (failure.dependency === "ting" && proofRefusals.includes(failure.code))

/** Milliseconds before the second and the third attempt. */
const pauses: Schedule.Schedule<Duration.Duration, UpstreamFailure> = Schedule.jittered(
  Schedule.fromDelays(250, 750)
)
/** `Schedule.jittered` makes a pause longer by a fifth at most. */
const mostJitter = 1.2

/**
 * At most 3 attempts, after 250 ms and 750 ms (jittered), none of which begins after the request's deadline.
 * `NotExecuted` and `Unknown` are repeated, and of the refusals only what ends by itself. A 429 fails at once with its seconds. For reads and
 * calls under an idempotency key only: any other may take effect twice. A passed deadline is blamed on IAM, which every attempt calls first.
 */
export const retryTransient = <A, R>(
  effect: Effect.Effect<A, UpstreamFailure, R>
): Effect.Effect<A, UpstreamFailure, R> =>
  Effect.clockWith((clock) =>
    Effect.flatMap(RequestContext, ({ deadlineAt }): Effect.Effect<A, UpstreamFailure, R> => {
      if (unsafeMonotonicMillis(clock) >= deadlineAt)
        return new NotExecuted({ dependency: "iam", reason: "deadline passed" })
      const again = Schedule.checkEffect(pauses, (failure, pause) =>
        Effect.sync(() => {
          const nextAt = unsafeMonotonicMillis(clock) + Duration.toMillis(pause) * mostJitter
          const isRepeated = isRepeatable(failure) && nextAt < deadlineAt
          if (isRepeated) recordNow(upstreamRetries({ dependency: failure.dependency }), 1)
          return isRepeated
        })
      )
      // Most calls succeed: the schedule runs for one that failed.
      return Effect.catchAll(effect, (failure) => {
        let known: UpstreamFailure | undefined = failure
        const attempt = Effect.suspend((): Effect.Effect<A, UpstreamFailure, R> => {
          const failed = known
          known = undefined
          return failed ?? effect
        })
        return Effect.retry(attempt, again)
      })
    })
  )
