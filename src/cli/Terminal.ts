/** The screen over the standard streams of this process. */
import * as Effect from "effect/Effect"
import type { Environment } from "../layers/settings/Settings.ts"
import type { ScreenService } from "./Screen.ts"
import { truncate } from "./Text.ts"

/** A reader that closes the pipe, such as `head`, is no failure: the process ends. */
const endQuietly = (stream: NodeJS.WriteStream): void => {
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit()
  })
}

export const terminalScreen = (environment: Environment): ScreenService => {
  const { stderr, stdout } = process
  endQuietly(stdout)
  endQuietly(stderr)
  // https://no-color.org: present and not empty.
  const colours = stdout.isTTY && (environment.NO_COLOR ?? "") === "" && environment.TERM !== "dumb"
  const watched = stderr.isTTY && environment.TERM !== "dumb"
  let shown = 0
  const clear = (): void => {
    if (shown > 0) stderr.write(`\r${" ".repeat(shown)}\r`)
    shown = 0
  }
  const line = (stream: NodeJS.WriteStream) => (text: string) =>
    Effect.sync(() => {
      clear()
      stream.write(`${text}\n`)
    })
  return {
    colours,
    columns: stdout.isTTY ? stdout.columns : undefined,
    watched,
    out: line(stdout),
    err: line(stderr),
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
