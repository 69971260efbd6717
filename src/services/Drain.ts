import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** Whether the process has begun to shut down: readiness fails first, then requests are refused, then the server stops. */
export class Drain extends Context.Tag("music/Drain")<
  Drain,
  {
    readonly isDraining: () => boolean
    readonly begin: Effect.Effect<void>
    /** Completes when the shutdown begins. */
    readonly begun: Effect.Effect<void>
    /** Requests that were in flight when the shutdown began, once the last connection is closed. The server counts them. */
    readonly requests: { finished: number; cut: number }
  }
>() {
  static readonly Default: Layer.Layer<Drain> = Layer.effect(
    Drain,
    Effect.map(Effect.makeLatch(), (begun) => {
      let draining = false
      return {
        isDraining: () => draining,
        begin: Effect.suspend(() => {
          draining = true
          return begun.open
        }),
        begun: begun.await,
        requests: { finished: 0, cut: 0 }
      }
    })
  )
}
