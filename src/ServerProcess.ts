import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Backend } from "./Backend.ts"
import { reportUncaughtExceptions } from "./layers/process/UncaughtExceptions.ts"
import { LoggingLive } from "./layers/observability/Logging.ts"
import { SettingsFromEnvironment } from "./layers/settings/Settings.ts"
import { limitHeapGrowth } from "./layers/process/HeapGrowth.ts"
import { exitAfterGracePeriod, exitOnSecondSignal } from "./layers/process/ProcessSignals.ts"
import { reportStartupError } from "./layers/process/StartupErrors.ts"

// One launch builds the logging once. Provided separately, it would stay in place, and every line be written twice.
const ReportUncaughtExceptions = Layer.provide(Layer.effectDiscard(reportUncaughtExceptions), LoggingLive)

/** The server, with the settings of this process, until it is interrupted; sets the exit code when it does not start. */
export const serve: Effect.Effect<void> = limitHeapGrowth.pipe(
  Effect.zipRight(exitOnSecondSignal),
  Effect.zipRight(exitAfterGracePeriod),
  Effect.zipRight(Layer.launch(Layer.provideMerge(Backend, ReportUncaughtExceptions))),
  Effect.provide(SettingsFromEnvironment),
  reportStartupError
)
