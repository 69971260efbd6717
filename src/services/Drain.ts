import * as Effect from "effect/Effect"

/** Whether the process has begun to shut down: readiness fails first, then requests are refused, then the server stops. */
export class Drain extends Effect.Service<Drain>()("music/Drain", {
  effect: Effect.map(Effect.makeLatch(), (begun) => {
    let draining = false
    return {
      isDraining: (): boolean => draining,
      begin: Effect.suspend(() => {
        draining = true
        return begun.open
      }),
      /** Completes when the shutdown begins. */
      begun: begun.await
    } as const
  })
}) {}
