import * as Effect from "effect/Effect"

export interface DrainedRequests {
  readonly finished: number
  /** Without a complete answer. */
  readonly cut: number
}

/** Whether the process has begun to shut down: readiness fails first, then requests are refused, then the server stops. */
export class Drain extends Effect.Service<Drain>()("music/Drain", {
  effect: Effect.map(Effect.makeLatch(), (begun) => {
    let draining = false
    let count = (): DrainedRequests => ({ finished: 0, cut: 0 })
    return {
      isDraining: (): boolean => draining,
      begin: Effect.suspend(() => {
        draining = true
        return begun.open
      }),
      /** Completes when the shutdown begins. */
      begun: begun.await,
      /** How many of the requests that were in flight when the shutdown began have been answered since, and how many have not. */
      countRequests: (): DrainedRequests => count(),
      /** The server's count, from the beginning of the shutdown on. */
      countRequestsWith: (next: () => DrainedRequests): void => {
        count = next
      }
    } as const
  })
}) {}
