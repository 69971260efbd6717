import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Backend } from "./Backend.ts"
import { SettingsFromEnvironment } from "./layers/Settings.ts"
import { endOnSecondSignal } from "./layers/Signals.ts"
import { reportStartFailure } from "./layers/StartFailure.ts"

endOnSecondSignal.pipe(
  Effect.zipRight(Layer.launch(Backend)),
  Effect.provide(SettingsFromEnvironment),
  reportStartFailure,
  NodeRuntime.runMain({ disableErrorReporting: true, disablePrettyLogger: true })
)
