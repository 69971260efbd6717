import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

export interface DrainedRequests {
  readonly finished: number
  /** Without a complete answer. */
  readonly cut: number
}

/** Whether the process has begun to shut down: readiness fails first, then requests are refused, then the server stops. */
export class Drain extends Context.Tag("music/Drain")<
  Drain,
  {
    readonly isDraining: () => boolean
    readonly begin: Effect.Effect<void>
    /** Completes when the shutdown begins. */
    readonly begun: Effect.Effect<void>
    /** How many of the requests that were in flight when the shutdown began have been answered since, and how many have not. */
    readonly countRequests: () => DrainedRequests
    /** The server's count, from the beginning of the shutdown on. */
    readonly countRequestsWith: (count: () => DrainedRequests) => void
  }
>() {
  static readonly Default: Layer.Layer<Drain> = Layer.effect(
    Drain,
    Effect.map(Effect.makeLatch(), (begun) => {
      let draining = false
      let count = (): DrainedRequests => ({ finished: 0, cut: 0 })
      return {
        isDraining: () => draining,
        begin: Effect.suspend(() => {
          draining = true
          return begun.open
        }),
        begun: begun.await,
        countRequests: () => count(),
        countRequestsWith: (next) => {
          count = next
        }
      }
    })
  )
}
