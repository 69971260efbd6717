import * as Effect from "effect/Effect"
import { Settings } from "../../services/Settings.ts"

/** As a shell reports a process that a signal ended: 128 and its number. */
export const signalExits = { SIGINT: 130, SIGTERM: 143 } as const
export type EndingSignal = keyof typeof signalExits
const signals = ["SIGINT", "SIGTERM"] as const satisfies ReadonlyArray<EndingSignal>

/** Milliseconds within which a repeated signal is taken for the same one: npm passes its own on a second time. */
const sameSignal = 1_000

/**
 * Tells of the first signal, and of every one at least 1 s later. Until the function that it returns is run a repetition
 * does not kill by default.
 */
export const hearSignals = (heard: {
  readonly first?: (signal: EndingSignal) => void
  readonly again?: (signal: EndingSignal) => void
}): (() => void) => {
  let firstAt: number | undefined
  const listeners = signals.map((signal) => ({
    signal,
    listener: () => {
      // The process clock, not ours: signals belong to the process, also when tests move time.
      const now = performance.now()
      if (firstAt === undefined) {
        firstAt = now
        heard.first?.(signal)
      } else if (now - firstAt >= sameSignal) heard.again?.(signal)
    }
  }))
  for (const { listener, signal } of listeners) process.on(signal, listener)
  return () => {
    for (const { listener, signal } of listeners) process.off(signal, listener)
  }
}

/**
 * The first SIGTERM or SIGINT drains (the runtime interrupts the main fiber); a second one at least 1 s later ends the
 * process now.
 */
export const endOnSecondSignal: Effect.Effect<void> = Effect.sync(() => {
  hearSignals({ again: () => process.exit(signalExits.SIGTERM) })
})

/**
 * Ends the process when the grace period after a signal is over, whatever still hangs: a database that is gone must not
 * keep it. Nothing acknowledged is lost by that, and what was held comes back when its lease ends, as after a crash.
 */
export const endInTime: Effect.Effect<void, never, Settings> = Effect.map(
  Settings,
  ({ shutdownGraceSeconds }) => {
    const end = () => {
      process.stderr.write(
        `music-backend: not everything was finished within MUSIC_SHUTDOWN_GRACE_SECONDS (${shutdownGraceSeconds}); what was held comes back when its lease ends\n`
      )
      process.exit(0)
    }
    hearSignals({ first: () => void setTimeout(end, shutdownGraceSeconds * 1_000).unref() })
  }
)
