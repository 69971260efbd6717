import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"

/**
 * Records the outcome of a request even when it is interrupted, by a stop of the process or the loss of a lease: the
 * request then has `grace` to end, and its outcome is recorded before the interruption continues.
 */
export const uninterruptedRequest =
  <A, E, B, E2>(grace: Duration.DurationInput, record: (exit: Exit.Exit<A, E>) => Effect.Effect<B, E2>) =>
  (request: Effect.Effect<A, E>): Effect.Effect<B, E2> =>
    Effect.gen(function* () {
      // A child fiber would be interrupted together with this one, before its outcome is known.
      const fiber = yield* Effect.forkDaemon(Effect.interruptible(Effect.exit(request)))
      const answer = Effect.map(Fiber.await(fiber), Exit.flatten)
      const lateAnswer = Effect.interruptible(answer).pipe(
        Effect.timeoutOption(grace),
        Effect.flatMap(
          Option.match({
            onNone: () => Effect.map(Fiber.interrupt(fiber), Exit.flatten),
            onSome: Effect.succeed
          })
        )
      )
      const exit = yield* Effect.interruptible(answer).pipe(
        // The interruption drops the error channel, so a failure is only logged.
        Effect.onInterrupt(() => Effect.ignoreLogged(Effect.flatMap(lateAnswer, record)))
      )
      return yield* record(exit)
    }).pipe(Effect.uninterruptible)
