/** `music-backend`: the operator's command line. `dist/main.js` is the server alone, for machines that only run it. */
import { createWriteStream, fstatSync } from "node:fs"
import * as Effect from "effect/Effect"
import { runMain } from "../layers/process/Process.ts"
import { processEnvironment } from "../layers/settings/Settings.ts"
import { errorCode } from "../services/ErrorCode.ts"
import { CommandFailed, failed, Host } from "./Host.ts"
import { runCommand } from "./Program.ts"

const { stderr } = process
const standard = fstatSync(1)
// Node's own stream for a file does not repeat a write that took only a part, as the last one before the disk is full does.
const stdout: NodeJS.WritableStream =
  process.stdout.isTTY || standard.isFIFO() || standard.isSocket()
    ? process.stdout
    : createWriteStream("", { fd: 1, autoClose: false })
// The failure of a write reaches its own callback. A failure of standard error has no other place to be reported.
for (const stream of [stdout, stderr]) stream.on("error", () => undefined)

/** A reader that closes the pipe, such as `head`, wants no more: the command ends, and prints no error. */
const outputFailed = (error: unknown): CommandFailed => {
  const code = errorCode(error)
  return code === "EPIPE"
    ? new CommandFailed({ exit: 141 })
    : failed(
        74,
        `standard output cannot be written: ${code}`,
        "the output is incomplete: free space, or write it to another place"
      )
}

const out = (text: string): Effect.Effect<void, CommandFailed> =>
  Effect.async((resume) => {
    stdout.write(`${text}\n`, (error) => resume(error ? Effect.fail(outputFailed(error)) : Effect.void))
  })

const err = (text: string): Effect.Effect<void> => Effect.sync(() => void stderr.write(`${text}\n`))

runCommand(process.argv.slice(2)).pipe(
  Effect.tap((exit) =>
    Effect.sync(() => {
      // `serve` sets its own exit code when it does not start.
      if (exit !== 0) process.exitCode = exit
    })
  ),
  Effect.provideService(Host, { environment: processEnvironment, out, err }),
  runMain
)
