import * as Effect from "effect/Effect"
import { Settings } from "../services/Settings.ts"

/** Milliseconds within which a repeated signal is taken for the same one: npm passes its own on a second time. */
const sameSignal = 1_000

/** 128 + SIGTERM's number, as a shell reports a process that a signal ended. */
const ended = 143

const onSignals = (listener: () => void): void => {
  process.on("SIGTERM", listener)
  process.on("SIGINT", listener)
}

/**
 * The first SIGTERM or SIGINT drains (the runtime interrupts the main fiber); a second one at least 1 s later ends the
 * process now. Keeps a listener installed, so that a repetition in between does not kill by default.
 */
export const endOnSecondSignal: Effect.Effect<void> = Effect.sync(() => {
  let first: number | undefined
  onSignals(() => {
    // The process clock, not ours: signals belong to the process, also when tests move time.
    const now = performance.now()
    if (first === undefined) first = now
    else if (now - first >= sameSignal) process.exit(ended)
  })
})

/**
 * Ends the process when the grace period after a signal is over, whatever still hangs: a database that is gone must not
 * keep it. Nothing acknowledged is lost by that, and what was held comes back when its lease ends, as after a crash.
 */
export const endInTime: Effect.Effect<void, never, Settings> = Effect.map(
  Settings,
  ({ shutdownGraceSeconds }) => {
    let counting = false
    onSignals(() => {
      if (counting) return
      counting = true
      setTimeout(() => {
        process.stderr.write(
          `music-backend: not everything was finished within MUSIC_SHUTDOWN_GRACE_SECONDS (${shutdownGraceSeconds}); what was held comes back when its lease ends\n`
        )
        process.exit(0)
      }, shutdownGraceSeconds * 1_000).unref()
    })
  }
)
