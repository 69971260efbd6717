/** `music-backend`: the operator's command line. `dist/main.js` is the server alone, for machines that only run it. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { handleInterruption, runMain } from "../layers/process/ProcessSignals.ts"
import { processEnvironment } from "../layers/settings/Settings.ts"
import { runCommand, reportInterruption } from "./Program.ts"
import { Screen } from "./Screen.ts"
import { CliEnvironment } from "./Environment.ts"
import { terminalScreen } from "./Terminal.ts"
import { UntilSignal } from "./UntilSignal.ts"

const Here = Layer.effect(
  Screen,
  Effect.map(processEnvironment, (environment) => terminalScreen(environment))
).pipe(Layer.merge(Layer.effect(CliEnvironment, processEnvironment)))

const args = process.argv.slice(2)
const interruption = handleInterruption()

runCommand(args).pipe(
  Effect.tap((exit) =>
    Effect.sync(() => {
      // `serve` sets its own exit code when it does not start.
      if (exit !== 0) process.exitCode = exit
    })
  ),
  // Last, after every finalizer.
  Effect.onInterrupt(() =>
    Effect.flatMap(
      interruption.signal,
      Option.match({ onNone: () => Effect.void, onSome: (signal) => reportInterruption(args, signal) })
    )
  ),
  Effect.provideService(UntilSignal, interruption.expectSignal),
  Effect.provide(Here),
  runMain({
    disableErrorReporting: true,
    disablePrettyLogger: true,
    teardown: interruption.teardown
  })
)
