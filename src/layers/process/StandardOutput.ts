/**
 * Lines on standard output and standard error that never end the process. `process.stdout` is not used for them: after its first
 * error it stays destroyed, and before a reader that stalls its buffer grows without bound.
 */
import { Console as NodeConsole } from "node:console"
import { writeSync } from "node:fs"
import { Writable } from "node:stream"
import type * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schedule from "effect/Schedule"
import { errorCode } from "../../services/ErrorCode.ts"
import { logLinesLost, recordNow } from "../../services/Metrics.ts"

/** Bytes that wait for a reader that does not read. Later lines are lost, so that memory stays bounded. */
const waitingLimit = 1_048_576
/** Milliseconds before waiting lines are tried again without a new one. */
const retryMillis = 20
/** How long the end of the process waits for a reader that does not read. */
const lastWait = "500 millis"

export interface LineOutput {
  /** Writes whole lines; the last one ends with a line break. Never fails. */
  readonly write: (text: string) => void
  /** Completes when no line waits, after 500 ms at the latest. */
  readonly drain: Effect.Effect<void>
}

/** Lines that wait, or what is left of them. */
interface Waiting {
  readonly bytes: Buffer
  readonly lines: number
}

const lineBreak = 0x0a

const countLines = (bytes: Buffer): number => {
  let count = 0
  for (let at = bytes.indexOf(lineBreak); at >= 0; at = bytes.indexOf(lineBreak, at + 1)) count += 1
  return count
}

/** The target takes nothing at this moment: its pipe is full. */
const isBusy = (error: unknown): boolean => ["EAGAIN", "EINTR"].includes(errorCode(error))

/**
 * An output over `write`, which returns the number of written bytes and throws the errors of the system. Each error loses the lines
 * that were to be written, and the next line is tried again: a disk may have room by then. `lost` gets the number of lost lines.
 */
export const makeLineOutput = (
  write: (bytes: Uint8Array) => number,
  lost: (lines: number) => void
): LineOutput => {
  let waiting: ReadonlyArray<Waiting> = []
  /** The last byte at the target is not a line break: an error came within a line. */
  let torn = false
  let retry: NodeJS.Timeout | undefined

  const loseWaiting = (): void => {
    lost(waiting.reduce((sum, { lines }) => sum + lines, 0))
    waiting = []
  }

  const flush = (): void => {
    clearTimeout(retry)
    for (let [next] = waiting; next !== undefined; [next] = waiting) {
      const { bytes } = next
      const written = Either.try({ try: () => write(bytes), catch: isBusy })
      if (Either.isLeft(written) && !written.left) {
        loseWaiting()
        return
      }
      const count = Either.getOrElse(written, () => 0)
      if (count > 0) torn = bytes[count - 1] !== lineBreak
      if (count < bytes.length) {
        const rest = bytes.subarray(count)
        waiting = [{ bytes: rest, lines: countLines(rest) }, ...waiting.slice(1)]
        // A short write is followed by the error that says why.
        if (count > 0) continue
        retry = setTimeout(flush, retryMillis).unref()
        return
      }
      waiting = waiting.slice(1)
    }
  }

  return {
    write: (text) => {
      const bytes = Buffer.from(text)
      const lines = countLines(bytes)
      if (waiting.length > 0) flush()
      const size = waiting.reduce((sum, part) => sum + part.bytes.length, 0)
      if (size > 0 && size + bytes.length > waitingLimit) {
        lost(lines)
        return
      }
      const start = torn && waiting.length === 0 ? [{ bytes: Buffer.of(lineBreak), lines: 0 }] : []
      waiting = [...waiting, ...start, { bytes, lines }]
      if (size === 0) flush()
    },
    drain: Effect.sync(flush).pipe(
      Effect.repeat({ schedule: Schedule.spaced(retryMillis), until: () => waiting.length === 0 }),
      Effect.interruptible,
      Effect.timeoutOption(lastWait),
      Effect.asVoid
    )
  }
}

/** Writes to standard error, and does nothing when that fails. */
export const writeToStandardError = (text: string): void => {
  Either.try(() => writeSync(2, text))
}

/**
 * Runs a program whose console writes to standard output by `makeLineOutput`; lost lines are counted. The end of the program waits for
 * the last line.
 */
export const withStandardOutput = <A, E, R>(program: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.consoleWith((console) => {
    // Node makes a pipe non-blocking when it makes the stream of it: a reader that stalls does not stop the server.
    const { stdout } = process
    const output = makeLineOutput(
      (bytes) => writeSync(1, bytes),
      (lines) => recordNow(logLinesLost, lines)
    )
    const stream = new Writable({
      decodeStrings: false,
      write: (text: string, _, done) => {
        output.write(text)
        done()
      }
    })
    const standard: Console.Console = {
      ...console,
      unsafe: new NodeConsole({ stdout: stream, colorMode: stdout.isTTY && stdout.hasColors() })
    }
    return Effect.withConsole(Effect.ensuring(program, output.drain), standard)
  })
