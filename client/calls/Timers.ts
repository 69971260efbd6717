/** Timers outside of effects. Plain functions. */

/** The longest timer of every platform, milliseconds. */
export const longestTimer = 2 ** 31 - 1

/** Runs later, without keeping the process alive. */
export const runLater = (milliseconds: number, run: () => void): (() => void) => {
  // A longer timer would end at once.
  const timer: unknown = setTimeout(run, Math.min(milliseconds, longestTimer))
  // Node's timers keep the process alive; a browser's are numbers.
  if (typeof timer === "object" && timer !== null && "unref" in timer && typeof timer.unref === "function")
    timer.unref()
  return () => clearTimeout(timer as ReturnType<typeof setTimeout>)
}
