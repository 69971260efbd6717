import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Backend } from "./Backend.ts"
import { lastWords } from "./layers/LastWords.ts"
import { LoggingLive } from "./layers/Logging.ts"
import { SettingsFromEnvironment } from "./layers/Settings.ts"
import { endInTime, endOnSecondSignal } from "./layers/Signals.ts"
import { reportStartFailure } from "./layers/StartFailure.ts"

/** The server, with the settings of this process, until it is interrupted; sets the exit code when it does not start. */
export const serve: Effect.Effect<void> = endOnSecondSignal.pipe(
  Effect.zipRight(endInTime),
  Effect.zipRight(Effect.provide(lastWords, LoggingLive)),
  Effect.zipRight(Layer.launch(Backend)),
  Effect.provide(SettingsFromEnvironment),
  reportStartFailure
)
