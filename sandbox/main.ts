/**
 * `npm run sandbox`: the whole service on one machine, nothing to configure. `--walk` plays the story and exits 0 or 1.
 * A program of its own: the server's entry point knows nothing of it, and no setting leads here.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { handleInterruption } from "../src/layers/process/ProcessSignals.ts"
import { reportStartupError } from "../src/layers/process/StartupErrors.ts"
import { sandbox } from "./Program.ts"

const usage = `Usage: npm run sandbox -- [--walk] [--debug]
  --walk   play the whole story against the server, print a line a step, exit 0 or 1
  --debug  show the server's log at debug level`

const known = ["--walk", "--debug"]
const flags = process.argv.slice(2)

const walking = flags.includes("--walk")
const interruption = handleInterruption()

const exit = (code: number, text = "") =>
  Effect.sync(() => {
    process.stderr.write(text)
    process.exitCode = code
  })

const program = flags.every((flag) => known.includes(flag))
  ? Effect.flatMap(sandbox({ walk: walking, debug: flags.includes("--debug") }), (passed) =>
      passed ? Effect.void : exit(1)
    )
  : exit(64, `${usage}\n`)

/** A walk that was cut short has not passed. */
const sayInterrupted = Effect.map(
  interruption.signal,
  Option.map((signal) => process.stderr.write(`The walk was interrupted by ${signal} before its end\n`))
)

Effect.when(interruption.expectSignal, () => !walking).pipe(
  Effect.zipRight(program),
  reportStartupError,
  Effect.onInterrupt(() => sayInterrupted),
  NodeRuntime.runMain({ disablePrettyLogger: true, teardown: interruption.teardown })
)
