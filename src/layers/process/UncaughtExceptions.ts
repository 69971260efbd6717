import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Runtime from "effect/Runtime"

/**
 * Logs an uncaught exception with its stack. Node still prints it on standard error and ends the process with exit code 1,
 * because the state of the process after it is unknown.
 */
export const reportUncaughtExceptions: Effect.Effect<void> = Effect.map(
  Effect.runtime<never>(),
  (runtime) => {
    const runSync = Runtime.runSync(runtime)
    process.on("uncaughtExceptionMonitor", (error, origin) => {
      runSync(Effect.logFatal("Uncaught exception", { origin }, Cause.die(error)))
    })
  }
)
