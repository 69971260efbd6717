/** The real backend as a process for tests, with other limits, crash points, and a message channel to the parent. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Runtime from "effect/Runtime"
import { makeBackend, parts } from "../../src/Backend.ts"
import { deliveryWith } from "../../src/layers/delivery/Delivery.ts"
import { SettingsFromEnvironment } from "../../src/layers/settings/Settings.ts"
import { expectSignal, reportStartupError, runMain } from "../../src/layers/process/Process.ts"
import { Store } from "../../src/services/Store.ts"
import { options, watchDrivers, watchedTracker } from "./Crash.ts"
import type { Told } from "./Instances.ts"

const report = (message: Told): void => {
  if (process.connected) process.send?.(message)
}

interface Asked {
  readonly call?: string
  readonly id: number
  readonly parameters: ReadonlyArray<unknown>
}

/** Lets the parent call methods of the store that no request calls: an operator's, and scheduled ones. */
const control = Layer.effectDiscard(
  Effect.gen(function* () {
    const store = yield* Store
    const run = Runtime.runPromise(yield* Effect.runtime<never>())
    process.on("message", ({ call, id, parameters }: Asked) => {
      if (call === undefined) return
      const [repository = "", method = ""] = call.split(".")
      const target = Reflect.get(store, repository)
      // The parent sends the method's name; a wrong one fails its test. Nothing else checks this cast.
      const effect = Reflect.apply(Reflect.get(target, method), target, parameters) as Effect.Effect<unknown>
      run(effect).then(
        (result) => report({ id, result }),
        (error: unknown) => report({ id, error: String(error) })
      )
    })
  })
)

const watched = {
  ...parts,
  store: Layer.provideMerge(control, parts.store),
  tracker: watchedTracker(parts.tracker),
  delivery: deliveryWith(options.limits ?? {})
}

expectSignal.pipe(
  Effect.zipRight(Effect.promise(watchDrivers)),
  Effect.zipRight(Layer.launch(makeBackend(watched))),
  Effect.provide(SettingsFromEnvironment),
  reportStartupError,
  runMain
)
