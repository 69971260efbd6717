import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
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
      const drain = yield* Drain
      const scope = yield* Scope.make()
      const closed = yield* Deferred.make<void>()
      let closing = false
      // Closes once, in a fiber that is not interrupted. Every caller waits: the dependencies of the layer close after it.
      const close = Effect.suspend(() => {
        if (closing) return Deferred.await(closed)
        closing = true
        return Scope.close(scope, Exit.void).pipe(
          Effect.intoDeferred(closed),
          Effect.forkDaemon,
          Effect.zipRight(Deferred.await(closed))
        )
      })
      yield* Effect.addFinalizer(() => close)
      const context = yield* Layer.buildWithScope(layer, scope)
      yield* Effect.forkScoped(Effect.zipRight(drain.begun, close))
      return context
    })
  )
