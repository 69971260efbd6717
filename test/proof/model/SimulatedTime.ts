/**
 * One clock for servers, clients and upstreams. Time does not move while anything runs, and goes to the next timer once all wait. Timers of
 * the platform are not used, so a busy machine changes nothing.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { MixedScheduler } from "effect/Scheduler"
import { start } from "../../support/UseCaseLayers.ts"

/** Turns of the event loop without an event after which all wait. */
const quietTurns = 2
/** The same while immediates of the platform are pending. */
const mostQuietTurns = 50

interface Timer {
  readonly at: number
  readonly order: number
  readonly run: () => void
}

export interface SimulatedTime {
  readonly clock: Clock.Clock
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Calls `run` after some milliseconds, unless the returned function is called before. */
  readonly after: (milliseconds: number, run: () => void) => () => void
  /** Moves the clock at once; timers that are due run late, as after a suspension. */
  readonly jump: (milliseconds: number) => void
  /** Time does not move until the promise ends: it waits for the platform, as the start of a server does. */
  readonly hold: <A>(promise: Promise<A>) => Promise<A>
  /** Runs the simulation until the promise ends. Rejects when all wait and no timer is left. */
  readonly complete: <A>(promise: Promise<A>) => Promise<A>
}

/** Yields without a timer of the platform. */
export const scheduler = new MixedScheduler(Number.MAX_SAFE_INTEGER)

const turn = () => new Promise<void>((resolve) => void setImmediate(resolve))

const hasImmediates = () => process.getActiveResourcesInfo().includes("Immediate")

export const makeSimulatedTime = (): SimulatedTime => {
  const timers = new Set<Timer>()
  let at = start
  let order = 0
  let events = 0
  let held = 0

  const after: SimulatedTime["after"] = (milliseconds, run) => {
    events += 1
    order += 1
    const timer = { at: at + Math.max(0, milliseconds), order, run }
    timers.add(timer)
    return () => void timers.delete(timer)
  }

  const runNext = (): boolean => {
    let next: Timer | undefined
    for (const timer of timers)
      if (next === undefined || timer.at < next.at || (timer.at === next.at && timer.order < next.order))
        next = timer
    if (next === undefined) return false
    timers.delete(next)
    events += 1
    at = Math.max(at, next.at)
    next.run()
    return true
  }

  const runUntil = async (isDone: () => boolean): Promise<void> => {
    let seen = events
    let quiet = 0
    while (!isDone()) {
      await turn()
      quiet = seen === events ? quiet + 1 : 0
      seen = events
      if (held > 0 || quiet < quietTurns || (quiet < mostQuietTurns && hasImmediates())) continue
      quiet = 0
      if (!isDone() && !runNext()) throw new Error("all wait for ever")
    }
  }

  const clock: Clock.Clock = {
    [Clock.ClockTypeId]: Clock.ClockTypeId,
    unsafeCurrentTimeMillis: () => Math.floor(at),
    unsafeCurrentTimeNanos: () => BigInt(Math.round(at * 1_000)) * 1_000n,
    currentTimeMillis: Effect.sync(() => Math.floor(at)),
    currentTimeNanos: Effect.sync(() => BigInt(Math.round(at * 1_000)) * 1_000n),
    sleep: (duration) =>
      Effect.async<void>((resume) => {
        const milliseconds = Duration.toMillis(duration)
        if (!Number.isFinite(milliseconds)) return
        return Effect.sync(after(milliseconds, () => resume(Effect.void)))
      })
  }

  return {
    clock,
    now: () => Math.floor(at),
    after,
    jump: (milliseconds) => {
      at += milliseconds
    },
    hold: async (promise) => {
      held += 1
      try {
        return await promise
      } finally {
        held -= 1
        events += 1
      }
    },
    complete: async (promise) => {
      let done = false
      const ended = promise.finally(() => {
        done = true
      })
      // The caller gets a rejection from the last line.
      ended.catch(() => undefined)
      await runUntil(() => done)
      return ended
    }
  }
}
