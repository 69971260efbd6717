/** Repeats failed calls to other systems that are harmless to repeat. Decided from data alone: how the call failed. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { recordNow, upstreamRetries } from "../Metrics.ts"
import { monotonicMillis, unsafeMonotonicMillis } from "../MonotonicTime.ts"
import { RequestContext } from "../RequestContext.ts"
import { type Dependency, NotExecuted, type UpstreamFailure } from "../UpstreamFailure.ts"

/** Ting's refusals of a proof: each attempt has another one. */
const proofRefusals: ReadonlyArray<string> = ["invalid_proof", "proof_expired", "proof_consumed"]

const isRepeatable = (failure: UpstreamFailure): boolean =>
  failure._tag !== "Refused" ||
  failure.code === "idempotency_in_progress" ||
  (failure.dependency === "ting" && proofRefusals.includes(failure.code))

/** Milliseconds before the second and the third attempt. */
const pauses = Schedule.jittered(Schedule.fromDelays(250, 750))
/** `Schedule.jittered` makes a pause longer by a fifth at most. */
const mostJitter = 1.2

/**
 * At most 3 attempts, after 250 ms and 750 ms (jittered), none of which begins after the request's deadline.
 * `NotExecuted` and `Unknown` are repeated, and of the refusals only what ends by itself. A 429 fails at once with its seconds. For reads and
 * calls under an idempotency key only: any other may take effect twice. A passed deadline is blamed on `dependency`: of several calls in one
 * attempt, on the one that runs at that time.
 */
export const retryTransient =
  (dependency: () => Dependency) =>
  <A, R>(effect: Effect.Effect<A, UpstreamFailure, R>): Effect.Effect<A, UpstreamFailure, R> =>
    Effect.clockWith((clock) =>
      Effect.flatMap(RequestContext, ({ deadlineAt }): Effect.Effect<A, UpstreamFailure, R> => {
        if (unsafeMonotonicMillis(clock) >= deadlineAt)
          return new NotExecuted({ dependency: dependency(), reason: "deadline passed" })
        const inTime = Schedule.checkEffect(pauses, (_, pause) =>
          Effect.map(monotonicMillis, (now) => now + Duration.toMillis(pause) * mostJitter < deadlineAt)
        )
        // Most calls succeed: the schedule runs for one that failed.
        return Effect.catchAll(effect, (failure) => {
          let first: UpstreamFailure | undefined = failure
          const attempt = Effect.suspend((): Effect.Effect<A, UpstreamFailure, R> => {
            const known = first
            first = undefined
            if (known !== undefined) return known
            recordNow(upstreamRetries({ dependency: dependency() }), 1)
            return effect
          })
          return Effect.retry(attempt, { while: isRepeatable, schedule: inTime })
        })
      })
    )
