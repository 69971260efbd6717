import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { Drain } from "../../services/Drain.ts"

/**
 * Stops the work of a layer as soon as the drain begins, concurrently with the last requests, so that both fit into one
 * grace period. The services of the layer stay usable until the end.
 */
export const stopOnDrain = <A, E, R>(layer: Layer.Layer<A, E, R>): Layer.Layer<A, E, R | Drain> =>
  Layer.scopedContext(
    Effect.gen(function* () {
      const { begun } = yield* Drain
      const scope = yield* Scope.fork(yield* Effect.scope, ExecutionStrategy.sequential)
      const context = yield* Layer.buildWithScope(layer, scope)
      // The end of this fiber is awaited: the dependencies of the layer close after it.
      yield* Effect.forkScoped(Effect.zipRight(begun, Effect.uninterruptible(Scope.close(scope, Exit.void))))
      return context
    })
  )
