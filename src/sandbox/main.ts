/**
 * `npm run sandbox`: the whole service on one machine, nothing to configure. `--walk` plays the story and exits 0 or 1.
 * A program of its own: the server's entry point knows nothing of it, and no setting leads here.
 */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as LogLevel from "effect/LogLevel"
import { endOnSecondSignal } from "../layers/Signals.ts"
import { reportStartFailure } from "../layers/StartFailure.ts"
import { guide } from "./Guide.ts"
import { startSandbox } from "./Run.ts"
import { walk } from "./Walk.ts"

const usage = `Usage: npm run sandbox -- [--walk] [--debug]
  --walk   play the whole story against the server, print a line a step, exit 0 or 1
  --debug  show the server's log at debug level`

const known = ["--walk", "--debug"]
const flags = process.argv.slice(2)
// The walk provokes refusals on purpose: their warnings would stand between its lines.
const quiet = flags.includes("--walk") ? LogLevel.Error : LogLevel.Warning
const logLevel = flags.includes("--debug") ? LogLevel.Debug : quiet

const play = Effect.gen(function* () {
  const { world, base } = yield* startSandbox({ port: 0, logLevel })
  if (!(yield* walk(world, base))) process.exitCode = 1
})

const stay = Effect.gen(function* () {
  const sandbox = yield* startSandbox({ port: 8787, logLevel }).pipe(
    // Somebody sits on the usual port: any other will do.
    Effect.catchTag("ListenFailed", () => startSandbox({ port: 0, logLevel }))
  )
  yield* Console.log(guide(sandbox))
  return yield* Effect.never
})

const program = flags.every((flag) => known.includes(flag))
  ? Effect.scoped(flags.includes("--walk") ? play : stay)
  : Effect.sync(() => {
      process.stderr.write(`${usage}\n`)
      process.exitCode = 64
    })

endOnSecondSignal.pipe(
  Effect.zipRight(program),
  Effect.provide(NodeFileSystem.layer),
  reportStartFailure,
  NodeRuntime.runMain({ disablePrettyLogger: true })
)
