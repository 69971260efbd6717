/** Lines on standard output that neither end nor block the process. What it does not take is lost, and counted. */
import { writeFileSync } from "node:fs"
import { Socket } from "node:net"
import { format } from "node:util"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { logLinesLost, recordNow } from "../../services/Metrics.ts"

/** Bytes that wait for a reader that does not read. */
const waitingLimit = 1_048_576

const lose = (text: string): void => recordNow(logLinesLost, text.split("\n").length - 1)

const makeWrite = (stdout: NodeJS.WriteStream): ((text: string) => void) => {
  // A failed write has its callback.
  stdout.on("error", () => undefined)
  if (stdout instanceof Socket)
    return (text) => {
      if (stdout.writableLength > waitingLimit) lose(text)
      else stdout.write(text, (error) => error && lose(text))
    }
  // Node's stream for a file ends with its first error; a disk may have room for the next line, which begins after a cut one.
  let start = ""
  return (text) => {
    try {
      writeFileSync(1, `${start}${text}`)
      start = ""
    } catch {
      lose(text)
      start = "\n"
    }
  }
}

/** Runs a program whose log goes to standard output. The end waits for the last line, for 500 ms at most. */
export const withStandardOutput = <A, E, R>(program: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.consoleWith((console) => {
    const { stdout } = process
    const write = makeWrite(stdout)
    const unsafe = {
      ...console.unsafe,
      log: (...parts: ReadonlyArray<unknown>) => write(`${format(...parts)}\n`)
    }
    const taken = Effect.sync(() => stdout.writableLength).pipe(
      Effect.repeat({ schedule: Schedule.spaced("20 millis"), until: (waiting) => waiting === 0 }),
      Effect.interruptible,
      Effect.timeoutOption("500 millis")
    )
    return Effect.withConsole(Effect.ensuring(program, taken), { ...console, unsafe })
  })
