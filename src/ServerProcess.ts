import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Backend } from "./Backend.ts"
import {
  expectSignal,
  reportLifecycle,
  reportStartupError,
  withStandardOutput
} from "./layers/process/Process.ts"
import { LoggingLive } from "./layers/observability/Logging.ts"
import { SettingsFromEnvironment } from "./layers/settings/Settings.ts"

// One launch builds the logging once. Logging that is provided separately would stay in place, and every line be written twice.
const ProcessReports = Layer.scopedDiscard(reportLifecycle).pipe(Layer.provide(LoggingLive))

/** The server, with the settings of this process, until it is interrupted; sets the exit code when it does not start. */
export const serve: Effect.Effect<unknown> = expectSignal.pipe(
  Effect.zipRight(Layer.launch(Layer.provideMerge(Backend, ProcessReports))),
  Effect.provide(SettingsFromEnvironment),
  withStandardOutput,
  reportStartupError
)
