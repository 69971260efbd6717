/** The log lines of the process as a whole, and the stop of its background work. */
import { setFlagsFromString } from "node:v8"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Runtime from "effect/Runtime"
import * as Scope from "effect/Scope"
import { build, version } from "../../schema/Release.ts"
import { Drain } from "../../services/Drain.ts"
import { Settings, type SettingsValues } from "../../services/Settings.ts"
import { processEnvironment, unknownVariables } from "../settings/Settings.ts"
import { firstSignal } from "./RunMain.ts"

/** What tells one instance from another; `music-backend config` shows the rest. */
const startOf = ({ tables, tracker, trustedProxies }: SettingsValues) => ({
  version,
  build,
  node: process.version,
  pid: process.pid,
  trusted_proxies: trustedProxies,
  tables: Option.toArray(tables).flatMap(({ keys }) => [...keys.keys()]),
  tracker: Option.isSome(tracker) ? `${tracker.value.owner}/${tracker.value.repository}` : "off"
})

/**
 * Logs `Starting` now, `Stopping` at the first signal, and `Stopped` with the scope, as the last line. An uncaught exception is logged with
 * its stack; Node still prints it on standard error and ends the process with 1.
 */
export const reportLifecycle = Effect.gen(function* () {
  const settings = yield* Settings
  const { countRequests } = yield* Drain
  const runSync = Runtime.runSync(yield* Effect.runtime<never>())
  // The heap grows to 1.6 times what the last full collection left, instead of up to four times (docs/performance.md).
  setFlagsFromString("--heap-growing-percent=60")
  process.on("uncaughtExceptionMonitor", (error, origin) => {
    runSync(Effect.logFatal("Uncaught exception", { origin }, Cause.die(error)))
  })
  yield* Effect.logInfo("Starting", startOf(settings))
  for (const name of unknownVariables(yield* processEnvironment))
    yield* Effect.logWarning(`${name} is not a setting`, { advice: "correct its name, or remove it" })

  let stoppingAt: number | undefined
  void firstSignal().then((signal) => {
    // The clock of the process, which tests do not move.
    stoppingAt = performance.now()
    runSync(Effect.logInfo("Stopping", { signal, grace_seconds: settings.shutdownGraceSeconds }))
  })
  yield* Effect.addFinalizer(() => {
    const { cut, finished } = countRequests()
    const duration_ms = Math.round(performance.now() - (stoppingAt ?? 0))
    const facts = { duration_ms, requests_finished: finished, requests_cut: cut }
    return stoppingAt === undefined ? Effect.void : Effect.logInfo("Stopped", facts)
  })
})

/**
 * Stops the work of a layer as soon as the drain begins, concurrently with the last requests, so that both fit into one
 * grace period. The services of the layer stay usable until the end.
 */
export const stopOnDrain = <A, E, R>(layer: Layer.Layer<A, E, R>): Layer.Layer<A, E, R | Drain> =>
  Layer.scopedContext(
    Effect.gen(function* () {
      const { begun } = yield* Drain
      const scope = yield* Effect.acquireRelease(Scope.make(), (made, exit) => Scope.close(made, exit))
      // The end of this fiber is awaited: the dependencies of the layer close after it.
      yield* Effect.forkScoped(Effect.zipRight(begun, Effect.uninterruptible(Scope.close(scope, Exit.void))))
      return yield* Layer.buildWithScope(layer, scope)
    })
  )
