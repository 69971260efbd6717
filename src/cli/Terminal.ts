/** The screen over the standard streams of this process. */
import { fstatSync, writeSync } from "node:fs"
import * as Effect from "effect/Effect"
import type { Environment } from "../layers/settings/Settings.ts"
import { errorCode } from "../services/ErrorCode.ts"
import { CommandFailed, exits } from "./CommandFailed.ts"
import type { ScreenService } from "./Screen.ts"
import { truncate } from "./Text.ts"

const reasons: ReadonlyMap<string, string> = new Map([
  ["ENOSPC", "no space left"],
  ["EDQUOT", "the quota is used up"],
  ["EFBIG", "the file is too large"]
])

/** A reader that closes the pipe, such as `head`, wants no more: the command ends, and prints no error. */
const outputFailed = (error: unknown): CommandFailed => {
  const code = errorCode(error)
  return code === "EPIPE"
    ? new CommandFailed({ exit: exits.closedPipe, lines: [] })
    : new CommandFailed({
        exit: exits.output,
        lines: [`standard output cannot be written: ${reasons.get(code) ?? code}`],
        fix: "the output is incomplete: free space, or write it to another place"
      })
}

/**
 * Node's stream for a file does not repeat a write that took only a part, as the last one before the disk is full does. Pipes
 * and terminals keep what is left, and call back once it is written.
 */
const writeToFile = (descriptor: number, text: string): void => {
  const bytes = Buffer.from(text)
  let written = 0
  while (written < bytes.length) written += writeSync(descriptor, bytes, written)
}

const isStream = (descriptor: number): boolean => {
  const found = fstatSync(descriptor)
  return found.isFIFO() || found.isSocket()
}

export const terminalScreen = (environment: Environment): ScreenService => {
  const { stderr, stdout } = process
  // The failure of a write reaches its own callback. A failure of standard error has no other place to be reported.
  for (const stream of [stdout, stderr]) stream.on("error", () => undefined)
  const toFile = !stdout.isTTY && !isStream(stdout.fd)
  // https://no-color.org: present and not empty.
  const colours = stdout.isTTY && (environment.NO_COLOR ?? "") === "" && environment.TERM !== "dumb"
  const watched = stderr.isTTY && environment.TERM !== "dumb"
  let shown = 0
  const clear = (): void => {
    if (shown > 0) stderr.write(`\r${" ".repeat(shown)}\r`)
    shown = 0
  }
  return {
    colours,
    columns: stdout.isTTY ? stdout.columns : undefined,
    watched,
    out: (text) =>
      Effect.suspend(() => {
        clear()
        return toFile
          ? Effect.try({ try: () => writeToFile(stdout.fd, `${text}\n`), catch: outputFailed })
          : Effect.async<void, CommandFailed>((resume) => {
              stdout.write(`${text}\n`, (error) =>
                resume(error ? Effect.fail(outputFailed(error)) : Effect.void)
              )
            })
      }),
    err: (text) =>
      Effect.sync(() => {
        clear()
        stderr.write(`${text}\n`)
      }),
    progress: (text) =>
      Effect.sync(() => {
        if (!watched) return
        clear()
        const cut = truncate(text, Math.max(10, stderr.columns - 1))
        stderr.write(cut)
        shown = cut.length
      })
  }
}
