/** `Effect.acquireUseRelease` around plain code: a place in a count, an entry in a table. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"

/**
 * Acquires with plain code, runs the effect, and releases with plain code, also after an interruption. A refused
 * acquisition is the failure. None of the three functions may throw.
 */
export const bracket = <Resource, Refusal, A, E, R>(
  acquire: (fiber: Fiber.RuntimeFiber<unknown, unknown>) => Either.Either<Resource, Refusal>,
  use: (resource: Resource) => Effect.Effect<A, E, R>,
  release: (resource: Resource, exit: Exit.Exit<A, E>) => void
): Effect.Effect<A, E | Refusal, R> =>
  Effect.withFiberRuntime<A, E | Refusal, R>((fiber) =>
    Effect.uninterruptibleMask((restore): Effect.Effect<A, E | Refusal, R> => {
      const acquired = acquire(fiber)
      if (Either.isLeft(acquired)) return Effect.fail(acquired.left)
      const end = (exit: Exit.Exit<A, E>): Exit.Exit<A, E> => {
        release(acquired.right, exit)
        return exit
      }
      return Effect.matchCauseEffect(restore(use(acquired.right)), {
        onFailure: (cause) => end(Exit.failCause(cause)),
        onSuccess: (value) => end(Exit.succeed(value))
      })
    })
  )
