/**
 * How late requests are served. A process that gets more of them than its core can serve has few in flight: they wait for a turn
 * of the event loop (`RequestQueue`), or in the sockets while a turn takes long, which the delay of a timer shows.
 */

interface EventLoopDelayOptions {
  /** Milliseconds of mean delay from which a part of the requests is refused. */
  readonly low?: number
  /** Milliseconds of mean delay from which all of them are. */
  readonly high?: number
}

export interface EventLoopDelay {
  /**
   * Whether to refuse a request, while so many are in flight or wait. The refused part grows evenly from none
   * at `low` to all at `high`, so that the load settles at what the process can serve.
   */
  readonly isOverloaded: (inFlight: number) => boolean
  /** Mean delay in milliseconds. */
  readonly mean: () => number
  readonly stop: () => void
}

/** Milliseconds between two measurements. */
export const measureEvery = 10
/** Milliseconds over which delays are averaged: one collection of garbage or one slow commit refuses nothing. */
const memory = 200

/** With fewer requests in flight, the delay comes from other load on the machine, and a refusal would not lessen it. */
export const leastInFlight = 64

/**
 * The rule without the clock: `measure` takes the milliseconds since the measurement before and those of a wait, and `decide` says whether the next
 * request is refused.
 */
export const makeDelayRule = ({ low = 100, high = 300 }: EventLoopDelayOptions = {}) => {
  let mean = 0
  /** Refusals that the requests so far have added up to, a fraction between two of them. */
  let owed = 0

  const measure = (elapsed: number, waited: number): void => {
    const delay = Math.max(0, elapsed - measureEvery, waited)
    // A long turn counts for its whole length.
    mean += (1 - Math.exp(-elapsed / memory)) * (delay - mean)
  }

  const decide = (inFlight: number): boolean => {
    const part = inFlight < leastInFlight ? 0 : Math.min(1, Math.max(0, (mean - low) / (high - low)))
    if (part === 0) {
      owed = 0
      return false
    }
    owed += part
    if (owed < 1) return false
    owed -= 1
    return true
  }

  return { measure, decide, mean: () => mean }
}

/** Measures until `stop`, also the milliseconds that `oldestWait` returns; the timer does not keep the process running. */
export const startEventLoopDelay = (oldestWait: () => number): EventLoopDelay => {
  const rule = makeDelayRule()
  let measuredAt = performance.now()
  const timer = setInterval(() => {
    const now = performance.now()
    rule.measure(now - measuredAt, oldestWait())
    measuredAt = now
  }, measureEvery)
  timer.unref()
  return { isOverloaded: rule.decide, mean: rule.mean, stop: () => clearInterval(timer) }
}
