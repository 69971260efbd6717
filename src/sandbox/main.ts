/**
 * `npm run sandbox`: the whole service on one machine, nothing to configure. `--walk` plays the story and exits 0 or 1.
 * A program of its own: the server's entry point knows nothing of it, and no setting leads here.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Effect from "effect/Effect"
import { endOnSecondSignal } from "../layers/Signals.ts"
import { reportStartFailure } from "../layers/StartFailure.ts"
import { sandbox } from "./Program.ts"

const usage = `Usage: npm run sandbox -- [--walk] [--debug]
  --walk   play the whole story against the server, print a line a step, exit 0 or 1
  --debug  show the server's log at debug level`

const known = ["--walk", "--debug"]
const flags = process.argv.slice(2)

const exit = (code: number, text = "") =>
  Effect.sync(() => {
    process.stderr.write(text)
    process.exitCode = code
  })

const program = flags.every((flag) => known.includes(flag))
  ? Effect.flatMap(sandbox({ walk: flags.includes("--walk"), debug: flags.includes("--debug") }), (passed) =>
      passed ? Effect.void : exit(1)
    )
  : exit(64, `${usage}\n`)

endOnSecondSignal.pipe(
  Effect.zipRight(program),
  reportStartFailure,
  NodeRuntime.runMain({ disablePrettyLogger: true })
)
