/** The real backend as a process for tests, with other limits, crash points, and a message channel to the parent. */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Runtime from "effect/Runtime"
import { makeBackend, Listening, parts } from "../../src/Backend.ts"
import { deliveryWith } from "../../src/layers/delivery/Delivery.ts"
import { SettingsFromEnvironment } from "../../src/layers/settings/Settings.ts"
import { exitAfterGracePeriod, exitOnSecondSignal } from "../../src/layers/process/ProcessSignals.ts"
import { reportStartupError } from "../../src/layers/process/StartupErrors.ts"
import { Settings } from "../../src/services/Settings.ts"
import { Store } from "../../src/services/Store.ts"
import { type Diary, watchDrivers, watchedStore, watchedTables, watchedTracker } from "./Crash.ts"
import type { Asked, InstanceOptions, Told } from "./Fleet.ts"

/** JSON, because an environment variable is a string. */
const options: InstanceOptions = JSON.parse(process.env.DURABILITY_OPTIONS ?? "{}")

const report = (message: Told): void => {
  if (process.connected) process.send?.(message)
}

const owners = new Set<string>()
const diary: Diary = {
  owner: (owner) => {
    if (owners.has(owner)) return
    owners.add(owner)
    report({ owner })
  },
  delivered: (count) => report({ delivered: count })
}

// Ends with its parent.
process.on("disconnect", () => process.exit(1))

/** Whole seconds are too long for tests. */
const settings = Layer.map(SettingsFromEnvironment, (context) => {
  const read = Context.get(context, Settings)
  return Context.add(context, Settings, {
    ...read,
    tracker: Option.map(read.tracker, (tracker) => ({
      ...tracker,
      reconcileSeconds: options.reconcileSeconds ?? tracker.reconcileSeconds
    }))
  })
})

/** Lets the parent call methods of the store that no request calls: an operator's, and scheduled ones. */
const control = Layer.scopedDiscard(
  Effect.gen(function* () {
    const store = yield* Store
    const run = Runtime.runPromise(yield* Effect.runtime<never>())
    const onMessage = (asked: Asked) => {
      if (!("call" in asked)) return
      const { call, id, parameters } = asked
      const [repository = "", method = ""] = call.split(".")
      const target = Reflect.get(store, repository)
      // The parent sends the method's name; a wrong one fails its test. Nothing else checks this cast.
      const effect = Reflect.apply(Reflect.get(target, method), target, parameters) as Effect.Effect<unknown>
      run(effect).then(
        (result) => report({ id, result }),
        (error: unknown) => report({ id, error: String(error) })
      )
    }
    process.on("message", onMessage)
    yield* Effect.addFinalizer(() => Effect.sync(() => process.off("message", onMessage)))
  })
)

const store = watchedStore(diary)(parts.store)
const watched = {
  ...parts,
  store: Layer.provideMerge(control, store),
  tracker: watchedTracker(parts.tracker),
  tables: watchedTables(parts.tables),
  delivery: deliveryWith(options.bounds ?? {})
}

const ready = Layer.effectDiscard(Effect.map(Listening, ({ url }) => report({ ready: url })))

exitOnSecondSignal.pipe(
  Effect.zipRight(exitAfterGracePeriod),
  Effect.zipRight(Effect.promise(watchDrivers)),
  Effect.zipRight(Layer.launch(Layer.provide(ready, makeBackend(watched)))),
  Effect.provide(settings),
  reportStartupError,
  NodeRuntime.runMain({ disableErrorReporting: true, disablePrettyLogger: true })
)
