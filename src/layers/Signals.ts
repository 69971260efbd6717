import * as Effect from "effect/Effect"

/** Milliseconds within which a repeated signal is taken for the same one: npm passes its own on a second time. */
const sameSignal = 1_000

/** 128 + SIGTERM's number, as a shell reports a process that a signal ended. */
const ended = 143

/**
 * The first SIGTERM or SIGINT drains (the runtime interrupts the main fiber); a second one at least 1 s later ends the
 * process now. Keeps a listener installed, so that a repetition in between does not kill by default.
 */
export const endOnSecondSignal: Effect.Effect<void> = Effect.sync(() => {
  let first: number | undefined
  const onSignal = () => {
    // The process clock, not ours: signals belong to the process, also when tests move time.
    const now = performance.now()
    if (first === undefined) first = now
    else if (now - first >= sameSignal) process.exit(ended)
  }
  process.on("SIGTERM", onSignal)
  process.on("SIGINT", onSignal)
})
