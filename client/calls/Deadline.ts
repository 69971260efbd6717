/** Deadlines on a monotonic clock, which a wrong or corrected wall clock does not affect. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { clientFailure, type MusicFailure } from "../failures/Failures.ts"

/** Milliseconds of a monotonic clock. */
export const monotonicMillis: Effect.Effect<number> = Effect.map(
  Clock.currentTimeNanos,
  (nanos) => Number(nanos / 1_000n) / 1_000
)

export interface Deadline {
  /** A moment of the monotonic clock, milliseconds. */
  readonly at: number
  /** The last failure of an attempt before it. */
  last: MusicFailure | undefined
  /** What is waited for, when it is no answer: the next step after the deadline. */
  hint?: string | undefined
}

export const deadlineAt = (at: number): Deadline => ({ at, last: undefined })

export const deadlineIn = (milliseconds: number): Effect.Effect<Deadline> =>
  Effect.map(monotonicMillis, (now) => deadlineAt(now + milliseconds))

const lastOf = ({ code, hint, message, requestId }: MusicFailure) => ({ code, message, hint, requestId })

/** The failure of a call that ends at its deadline: with the last known failure, if there is one. */
export const timedOut = (
  { hint, last }: Deadline,
  facts: { readonly requestId: string | null }
): MusicFailure<"timed_out"> =>
  last === undefined
    ? clientFailure("timed_out", hint === undefined ? facts : { ...facts, hint })
    : clientFailure("timed_out", {
        message: `No answer arrived before the deadline. The attempt before failed: ${last.message}`,
        hint: hint ?? last.hint,
        details: { last: lastOf(last) },
        requestId: facts.requestId ?? last.requestId
      })

/** Fails with `timed_out` once the deadline has passed. `waitedFor` returns the deadline of the work that is waited for. */
export const within =
  (deadline: Deadline, waitedFor: () => Deadline = () => deadline) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | MusicFailure<"timed_out">, R> =>
    Effect.flatMap(monotonicMillis, (now) =>
      Effect.timeoutFail(effect, {
        duration: Math.max(0, deadline.at - now),
        onTimeout: () => timedOut(waitedFor(), { requestId: null })
      })
    )

/** Milliseconds: work that ends at its deadline itself says more than the end of the wait for it. */
const grace = 100

/** Leaves work that does not end with its deadline, such as a save on a disk that hangs: it goes on in the background. */
export const leaveAt =
  (deadline: Deadline) =>
  <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E | MusicFailure<"timed_out">, R> =>
    within(deadlineAt(deadline.at + grace), () => deadline)(Effect.disconnect(work))
