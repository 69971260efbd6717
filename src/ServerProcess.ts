import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Backend } from "./Backend.ts"
import { reportUncaughtExceptions } from "./layers/process/UncaughtExceptions.ts"
import { LoggingLive } from "./layers/observability/Logging.ts"
import { SettingsFromEnvironment } from "./layers/settings/Settings.ts"
import { endInTime, endOnSecondSignal } from "./layers/process/ProcessSignals.ts"
import { reportStartupError } from "./layers/process/StartupErrors.ts"

/** Runs the server with the settings of this process until it is interrupted; sets the exit code when it cannot start. */
export const serve: Effect.Effect<void> = endOnSecondSignal.pipe(
  Effect.zipRight(endInTime),
  Effect.zipRight(Effect.provide(reportUncaughtExceptions, LoggingLive)),
  Effect.zipRight(Layer.launch(Backend)),
  Effect.provide(SettingsFromEnvironment),
  reportStartupError
)
