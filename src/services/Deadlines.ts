/**
 * Deadlines of work in plain code. One fiber serves all of them: most work ends before its deadline, so a timer or a fiber
 * for each would cost more than the work.
 */
import * as Effect from "effect/Effect"
import { monotonicMillis } from "./MonotonicTime.ts"

interface Deadline {
  /** Monotonic milliseconds. */
  readonly at: number
  readonly onPassed: () => void
}

const makeDeadlines = Effect.gen(function* () {
  const deadlines = new Set<Deadline>()
  const earlier = yield* Effect.makeLatch(false)
  /** Monotonic milliseconds until which the fiber sleeps. A deadline before that wakes it up. */
  let sleepsUntil = Number.POSITIVE_INFINITY

  /** Calls what is due, and returns the earliest of the remaining deadlines. */
  const callDue = (now: number): number => {
    let next = Number.POSITIVE_INFINITY
    for (const deadline of deadlines)
      if (deadline.at <= now) {
        deadlines.delete(deadline)
        deadline.onPassed()
      } else next = Math.min(next, deadline.at)
    return next
  }

  const serve = Effect.flatMap(monotonicMillis, (now) => {
    sleepsUntil = callDue(now)
    earlier.unsafeClose()
    return Number.isFinite(sleepsUntil)
      ? Effect.timeoutOption(earlier.await, Math.max(1, Math.ceil(sleepsUntil - now)))
      : earlier.await
  })
  yield* Effect.forkScoped(Effect.forever(serve))

  /**
   * Calls `onPassed` once at `at` (monotonic milliseconds), unless the returned function is called before. `onPassed` must
   * not throw. It is never called before this function returns.
   */
  const add = (at: number, onPassed: () => void): (() => void) => {
    const deadline: Deadline = { at, onPassed }
    deadlines.add(deadline)
    if (at < sleepsUntil) {
      sleepsUntil = at
      earlier.unsafeOpen()
    }
    return () => void deadlines.delete(deadline)
  }

  return { add, count: () => deadlines.size }
})

export class Deadlines extends Effect.Service<Deadlines>()("music/Deadlines", { scoped: makeDeadlines }) {}
