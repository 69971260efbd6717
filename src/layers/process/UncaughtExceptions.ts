import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Runtime from "effect/Runtime"

/**
 * Tells of a defect that nobody caught as a line of the log, with its stack. It changes nothing else: Node prints it on
 * standard error and ends the process with 1, for nobody knows what such a defect left half done.
 */
export const reportUncaughtExceptions: Effect.Effect<void> = Effect.map(
  Effect.runtime<never>(),
  (runtime) => {
    const runSync = Runtime.runSync(runtime)
    process.on("uncaughtExceptionMonitor", (error, origin) => {
      runSync(Effect.logFatal("Ended by a defect that nobody caught", { origin }, Cause.die(error)))
    })
  }
)
