/** The program of `npm run sandbox` and `music-backend sandbox`. */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as LogLevel from "effect/LogLevel"
import { guide } from "./Guide.ts"
import { startSandbox } from "./Run.ts"
import { startSandboxWithConsole } from "./RunWithConsole.ts"
import { runScenario } from "./Scenario.ts"

export interface ProgramOptions {
  /** Runs the scenario and ends. Otherwise the sandbox runs until it is interrupted. */
  readonly walk: boolean
  /** The server's log at debug level. */
  readonly debug: boolean
  readonly port: number
}

/** Returns false when the scenario failed. */
export const sandbox = ({ debug, port, walk }: ProgramOptions) => {
  // The scenario provokes refusals on purpose; their warnings would clutter its output.
  const quiet = walk ? LogLevel.Error : LogLevel.Warning
  const logLevel = debug ? LogLevel.Debug : quiet
  const program = Effect.gen(function* () {
    if (walk) {
      const { base, world } = yield* startSandbox({ port: 0, logLevel })
      return yield* runScenario(world, base)
    }
    const started = yield* startSandboxWithConsole({ port, logLevel })
    yield* Console.log(guide(started, started.consoleUrl))
    return yield* Effect.never
  })
  return program.pipe(Effect.scoped, Effect.provide(NodeFileSystem.layer))
}
