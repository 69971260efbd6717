/** `music-backend`: the operator's command line. `dist/main.js` is the server alone, for whoever only runs it. */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { handleInterruption } from "../layers/process/ProcessSignals.ts"
import { processEnvironment } from "../layers/settings/Settings.ts"
import { runCommand, sayInterrupted } from "./Program.ts"
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
      // The server sets one of its own when it does not start.
      if (exit !== 0) process.exitCode = exit
    })
  ),
  // Said last, when all is put in order.
  Effect.onInterrupt(() =>
    Effect.flatMap(
      interruption.signal,
      Option.match({ onNone: () => Effect.void, onSome: (signal) => sayInterrupted(args, signal) })
    )
  ),
  Effect.provideService(UntilSignal, interruption.expectSignal),
  Effect.provide(Here),
  NodeRuntime.runMain({
    disableErrorReporting: true,
    disablePrettyLogger: true,
    teardown: interruption.teardown
  })
)
