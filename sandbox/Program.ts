/** What `npm run sandbox` and `music-backend sandbox` run. */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as LogLevel from "effect/LogLevel"
import { guide } from "./Guide.ts"
import { startSandbox } from "./Run.ts"
import { walk } from "./ScenarioRunner.ts"

export interface SandboxOptions {
  /** Plays the whole story and ends; without it, the sandbox stays until it is interrupted. */
  readonly walk: boolean
  /** The server's log at debug level. */
  readonly debug: boolean
}

/** False when the walk failed. */
export const sandbox = ({ debug, walk: walking }: SandboxOptions) => {
  // The walk provokes refusals on purpose: their warnings would stand between its lines.
  const quiet = walking ? LogLevel.Error : LogLevel.Warning
  const logLevel = debug ? LogLevel.Debug : quiet
  const program = Effect.gen(function* () {
    if (walking) {
      const { base, world } = yield* startSandbox({ port: 0, logLevel })
      return yield* walk(world, base)
    }
    const started = yield* startSandbox({ port: 8787, logLevel }).pipe(
      // Somebody sits on the usual port: any other will do.
      Effect.catchTag("ListenFailed", () => startSandbox({ port: 0, logLevel }))
    )
    yield* Console.log(guide(started))
    return yield* Effect.never
  })
  return program.pipe(Effect.scoped, Effect.provide(NodeFileSystem.layer))
}
