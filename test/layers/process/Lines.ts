/** Writes numbered lines of 1,000 bytes to standard output, and then the number of lost ones to standard error. */
import { execFileSync } from "node:child_process"
import { writeSync } from "node:fs"
import { Effect, Metric } from "effect"
import { expectSignal, runMain, withStandardOutput } from "../../../src/layers/process/Process.ts"
import { logLinesLost } from "../../../src/services/Metrics.ts"

const [count = "", mode] = process.argv.slice(2)

/** As Effect's loggers do. */
const log = (text: string) => Effect.consoleWith(({ unsafe }) => Effect.sync(() => unsafe.log(text)))

const lines = Effect.gen(function* () {
  for (let at = 0; at < Number(count); at += 1) yield* log(String(at).padEnd(999, "."))
  const { count: lost } = yield* Metric.value(logLinesLost)
  writeSync(2, `${lost}\n`)
  // The disk has room again.
  if (mode === "room") execFileSync("prlimit", ["--pid", String(process.pid), "--fsize=unlimited"])
  yield* log("last")
  // As after a start that failed; without a code Node waits for the reader.
  if (mode !== undefined) process.exitCode = 3
})

/** A server whose end breaks after its signal. */
const broken = Effect.zipRight(
  expectSignal,
  Effect.zipRight(
    Effect.sync(() => process.kill(process.pid, "SIGTERM")),
    Effect.never
  )
).pipe(Effect.ensuring(Effect.dieMessage("a mistake")))

runMain(mode === "break" ? broken : withStandardOutput(lines))
