import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"

/**
 * A request whose outcome is recorded whatever happens. When it is interrupted, by a stop of the process or the loss of a
 * lease, the request goes on for `grace`, and what came of it by then is recorded before the interruption goes on.
 */
export const uninterruptedRequest =
  <A, E, B, E2>(grace: Duration.DurationInput, record: (exit: Exit.Exit<A, E>) => Effect.Effect<B, E2>) =>
  (request: Effect.Effect<A, E>): Effect.Effect<B, E2> =>
    Effect.gen(function* () {
      // A child would be interrupted together with us, before its outcome is known.
      const fiber = yield* Effect.forkDaemon(Effect.interruptible(Effect.exit(request)))
      const answer = Effect.map(Fiber.await(fiber), Exit.flatten)
      const late = Effect.interruptible(answer).pipe(
        Effect.timeoutOption(grace),
        Effect.flatMap(
          Option.match({
            onNone: () => Effect.map(Fiber.interrupt(fiber), Exit.flatten),
            onSome: Effect.succeed
          })
        )
      )
      const exit = yield* Effect.interruptible(answer).pipe(
        // Whoever is stopping has nobody left to hear of a failure.
        Effect.onInterrupt(() => Effect.ignoreLogged(Effect.flatMap(late, record)))
      )
      return yield* record(exit)
    }).pipe(Effect.uninterruptible)
