/** The real backend as a process for tests, with other limits and crash points. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { makeBackend, parts } from "../../src/Backend.ts"
import { deliveryWith } from "../../src/layers/delivery/Delivery.ts"
import { SettingsFromEnvironment } from "../../src/layers/settings/Settings.ts"
import { expectSignal, reportStartupError, runMain } from "../../src/layers/process/Process.ts"
import { options, watchDrivers, watchedTracker } from "./Crash.ts"

const watched = {
  ...parts,
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
