/** Clocks, timers and chance of a client: the platform's, or those of a test. Times are milliseconds. */
import { deferred, ignore } from "../Values.ts"

export interface Time {
  /** Since the epoch; may be wrong or be stepped. */
  readonly now: () => number
  /** Since any start; never decreases. */
  readonly monotonic: () => number
  /** From 0 up to 1. */
  readonly random: () => number
  /** Runs later, unless the returned function is called before. `idle`: without keeping the process alive. */
  readonly after: (milliseconds: number, run: () => void, idle?: boolean) => () => void
}

/** The longest timer of every platform; a longer one would end at once. */
export const longestTimer = 2 ** 31 - 1

const after: Time["after"] = (milliseconds, run, idle = false) => {
  // Node's timers keep the process alive; a browser's are numbers.
  const timer: { readonly unref?: () => void } = setTimeout(run, Math.min(milliseconds, longestTimer))
  if (idle) timer.unref?.()
  return () => clearTimeout(timer as ReturnType<typeof setTimeout>)
}

export const systemTime: Time = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  random: () => Math.random(),
  after
}

const listeners = new WeakMap<AbortSignal, Set<() => void>>()

/**
 * Calls `run` once the signal is aborted, unless the returned function is called before. All waits for one signal share one listener, because
 * Node warns of more than ten.
 */
export const onAbort = (signal: AbortSignal, run: () => void): (() => void) => {
  if (signal.aborted) {
    run()
    return ignore
  }
  const waiting = listeners.get(signal) ?? new Set()
  if (!listeners.has(signal)) {
    listeners.set(signal, waiting)
    const abort = () => {
      for (const one of [...waiting]) one()
    }
    signal.addEventListener("abort", abort, { once: true })
  }
  waiting.add(run)
  return () => void waiting.delete(run)
}

/** Rejects with the reason of the signal when that aborts before the promise ends. */
export const untilAborted = <A>(signal: AbortSignal, promise: Promise<A>): Promise<A> =>
  new Promise((resolve, reject) => {
    const letGo = onAbort(signal, () => reject(signal.reason))
    promise.then(resolve, reject).finally(letGo)
  })

/** Resolves after a time, or at once when the signal is aborted. */
export const sleep = async (time: Time, milliseconds: number, signal?: AbortSignal): Promise<void> => {
  const { promise, resolve } = deferred()
  const cancel = time.after(Math.max(0, milliseconds), resolve)
  const letGo = signal === undefined ? ignore : onAbort(signal, resolve)
  await promise
  cancel()
  letGo()
}

/** Rejects with `failure()` when the promise does not end in time. */
export const inTime = <A>(
  time: Time,
  milliseconds: number,
  promise: Promise<A>,
  failure: () => unknown
): Promise<A> =>
  new Promise((resolve, reject) => {
    const cancel = time.after(Math.max(0, milliseconds), () => reject(failure()))
    promise.then(resolve, reject).finally(cancel)
  })
