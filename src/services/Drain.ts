import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Ref from "effect/Ref"

/** Whether the process has begun to shut down: readiness fails first, then requests are refused, then the server stops. */
export class Drain extends Context.Tag("music/Drain")<
  Drain,
  { readonly draining: Effect.Effect<boolean>; readonly begin: Effect.Effect<void> }
>() {
  static readonly Default: Layer.Layer<Drain> = Layer.effect(
    Drain,
    Effect.map(Ref.make(false), (state) => ({ draining: Ref.get(state), begin: Ref.set(state, true) }))
  )
}
