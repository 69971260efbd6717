/**
 * `npm run sandbox`: the whole service on one machine, without configuration. `--walk` runs the scenario and exits 0 or 1.
 * A program of its own: the server's entry point does not import it and no setting starts it.
 */
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import { expectSignal, reportStartupError, runMain } from "../src/layers/process/RunMain.ts"
import { sandbox } from "./Program.ts"

const usage = `Usage: npm run sandbox -- [--walk] [--debug]
  --walk   run the whole scenario against the server, print one line per step, exit 0 or 1
  --debug  show the server's log at debug level
  --help   show this text`

const knownFlags = ["--walk", "--debug", "--help"]
const flags = process.argv.slice(2)

const walk = flags.includes("--walk")

const exit = (code: number, text = "") =>
  Effect.sync(() => {
    process.stderr.write(text)
    process.exitCode = code
  })

const run = Effect.flatMap(sandbox({ walk, debug: flags.includes("--debug") }), (passed) =>
  passed ? Effect.void : exit(1)
)

const program = flags.every((flag) => knownFlags.includes(flag))
  ? flags.includes("--help")
    ? Console.log(usage)
    : run
  : exit(64, `${usage}\n`)

// An interrupted scenario has not passed.
Effect.when(expectSignal, () => !walk).pipe(Effect.zipRight(program), reportStartupError, runMain)
