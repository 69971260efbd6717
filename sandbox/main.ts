/**
 * `npm run sandbox`: the whole service on one machine, without configuration. `--walk` runs the scenario and exits 0 or 1.
 * A program of its own: the server's entry point does not import it and no setting starts it.
 */
import { parseArgs } from "node:util"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import { expectSignal, reportStartupError, runMain } from "../src/layers/process/RunMain.ts"
import { sandbox, usualPort } from "./Program.ts"

const usage = `Usage: npm run sandbox -- [--walk] [--debug] [--port N]
  --walk    run the whole scenario against the server, print one line per step, exit 0 or 1
  --debug   show the server's log at debug level
  --port N  the server's port, ${usualPort} unless given; the console and the upstreams have the next five
  --help    show this text`

const exit = (code: number, text = "") =>
  Effect.sync(() => {
    process.stderr.write(text)
    process.exitCode = code
  })

const options = {
  walk: { type: "boolean", default: false },
  debug: { type: "boolean", default: false },
  help: { type: "boolean", default: false },
  port: { type: "string", default: String(usualPort) }
} as const

/** The options, or what is wrong with them. */
const readOptions = () => {
  try {
    const { values } = parseArgs({ options })
    const port = Number(values.port)
    return Number.isInteger(port) && port >= 0 && port <= 65_530
      ? { ...values, port }
      : `--port is not a port from 0 to 65530: ${values.port}`
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

const program = () => {
  const given = readOptions()
  if (typeof given === "string") return exit(64, `sandbox: ${given}\n\n${usage}\n`)
  if (given.help) return Console.log(usage)
  const run = Effect.flatMap(sandbox(given), (passed) => (passed ? Effect.void : exit(1)))
  // An interrupted scenario has not passed.
  return given.walk ? run : Effect.zipRight(expectSignal, run)
}

Effect.suspend(program).pipe(reportStartupError, runMain)
