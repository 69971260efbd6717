/** `music-backend`: the operator's command line. `dist/main.js` is the server alone, for whoever only runs it. */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { processEnvironment } from "../layers/Settings.ts"
import { runCommand } from "./Program.ts"
import { Screen } from "./Screen.ts"
import { Surroundings } from "./Surroundings.ts"
import { terminalScreen } from "./Terminal.ts"

const Here = Layer.effect(
  Screen,
  Effect.map(processEnvironment, (environment) => terminalScreen(environment))
).pipe(Layer.merge(Layer.effect(Surroundings, processEnvironment)))

runCommand(process.argv.slice(2)).pipe(
  Effect.tap((exit) =>
    Effect.sync(() => {
      // The server sets one of its own when it does not start.
      if (exit !== 0) process.exitCode = exit
    })
  ),
  Effect.provide(Here),
  NodeRuntime.runMain({ disableErrorReporting: true, disablePrettyLogger: true })
)
