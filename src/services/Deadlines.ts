/**
 * Deadlines of work in plain code. One fiber serves all of them: most work ends before its deadline, so a timer or a fiber
 * for each would cost more than the work.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import * as Runtime from "effect/Runtime"
import { monotonicMillis } from "./MonotonicTime.ts"

interface Deadline {
  /** Monotonic milliseconds. */
  readonly at: number
  readonly onPassed: () => void
}

const makeDeadlines = Effect.gen(function* () {
  const deadlines = new Set<Deadline>()
  const defects: Array<unknown> = []
  const earlier = yield* Effect.makeLatch(false)
  /** Monotonic milliseconds until which the fiber sleeps. A deadline before that wakes it up. */
  let sleepsUntil = Number.POSITIVE_INFINITY

  /** Calls what is due, and returns the earliest of the remaining deadlines. */
  const callDue = (now: number): number => {
    let next = Number.POSITIVE_INFINITY
    for (const deadline of deadlines)
      if (deadline.at <= now) {
        deadlines.delete(deadline)
        // One that throws must not end the deadlines of all others.
        const called = Either.try(deadline.onPassed)
        if (Either.isLeft(called)) defects.push(called.left)
      } else next = Math.min(next, deadline.at)
    return next
  }

  const serve = Effect.flatMap(monotonicMillis, (now) => {
    sleepsUntil = callDue(now)
    earlier.unsafeClose()
    const sleep = Number.isFinite(sleepsUntil)
      ? Effect.timeoutOption(earlier.await, Math.max(1, Math.ceil(sleepsUntil - now)))
      : earlier.await
    const failed = defects.splice(0)
    return failed.length === 0
      ? sleep
      : Effect.zipRight(Effect.logError("Work at its deadline failed", Cause.die(failed)), sleep)
  })
  yield* Effect.forkScoped(Effect.forever(serve))

  /**
   * Calls `onPassed` once at `at` (monotonic milliseconds), unless the returned function is called before. It is never called before this function returns.
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

  /**
   * Runs the effect until `at` (monotonic milliseconds); then interrupts it, waits for its end, and fails with `onPassed()`.
   * The effect runs in a fiber of its own, which is cheaper than a race against a sleeping one.
   */
  const endAt =
    <E2>(at: number, onPassed: () => E2) =>
    <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | E2, R> =>
      Effect.flatMap(Effect.runtime<R>(), (runtime) =>
        Effect.async<A, E | E2>((resume) => {
          let passed = false
          const fiber = Runtime.runFork(runtime)(effect)
          const remove = add(at, () => {
            passed = true
            fiber.unsafeInterruptAsFork(FiberId.none)
          })
          fiber.addObserver((exit) => {
            remove()
            const cut = passed && Exit.isFailure(exit) && Cause.isInterruptedOnly(exit.cause)
            resume(cut ? Effect.fail(onPassed()) : exit)
          })
          return Effect.suspend(() => {
            remove()
            return Fiber.interrupt(fiber)
          })
        })
      )

  return { add, endAt, count: () => deadlines.size }
})

export class Deadlines extends Effect.Service<Deadlines>()("music/Deadlines", { scoped: makeDeadlines }) {}
