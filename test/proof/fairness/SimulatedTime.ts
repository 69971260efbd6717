/**
 * Time that only the simulation moves: one queue of what is due, and after each due thing everything runs that follows from it. Effect's
 * clock and the upstreams use it too, so a run is the same on a fast and on a slow machine.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"

interface Due {
  readonly at: number
  readonly order: number
  readonly run: () => void
  isCancelled: boolean
}

export interface SimulatedTime {
  readonly clock: Clock.Clock
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Milliseconds since the start. */
  readonly elapsed: () => number
  /** Runs at a time; the returned function cancels it. */
  readonly schedule: (millis: number, run: () => void) => () => void
  readonly sleep: (millis: number) => Promise<void>
  /** Something happened that others may follow. */
  readonly touch: () => void
  /** Runs all that is due until then, in milliseconds since the start. */
  readonly runUntil: (elapsed: number) => Promise<void>
}

/** Turns of the event loop without an event after which everything waits for time. A commit of the database takes several. */
const idleTurns = 24

const nextTurn = () => new Promise<void>((resume) => setImmediate(resume))

/** A binary heap by time, then by order of insertion. */
const makeQueue = () => {
  const heap: Array<Due> = []
  const isBefore = (one: Due, other: Due): boolean =>
    one.at < other.at || (one.at === other.at && one.order < other.order)
  const at = (index: number): Due | undefined => heap[index]

  const swap = (one: number, other: number): void => {
    const [first, second] = [at(one), at(other)]
    if (first === undefined || second === undefined) return
    heap[one] = second
    heap[other] = first
  }
  const precedes = (one: number, other: number): boolean => {
    const [first, second] = [at(one), at(other)]
    return first !== undefined && second !== undefined && isBefore(first, second)
  }

  const push = (due: Due): void => {
    heap.push(due)
    for (let index = heap.length - 1; index > 0; ) {
      const parent = (index - 1) >> 1
      if (!precedes(index, parent)) return
      swap(index, parent)
      index = parent
    }
  }

  const pop = (): Due | undefined => {
    swap(0, heap.length - 1)
    const first = heap.pop()
    for (let index = 0; ; ) {
      const left = 2 * index + 1
      const least = precedes(left + 1, left) ? left + 1 : left
      if (!precedes(least, index)) return first
      swap(least, index)
      index = least
    }
  }

  return { push, pop, first: () => at(0) }
}

export const makeSimulatedTime = (startAt: number): SimulatedTime => {
  const queue = makeQueue()
  let now = startAt
  let order = 0
  let events = 0

  const touch = (): void => {
    events += 1
  }

  const schedule = (millis: number, run: () => void): (() => void) => {
    touch()
    // A wall clock has whole milliseconds.
    const due: Due = { at: now + Math.max(0, Math.round(millis)), order: ++order, run, isCancelled: false }
    queue.push(due)
    return () => {
      due.isCancelled = true
    }
  }

  const settle = async (): Promise<void> => {
    let seen = events
    for (let idle = 0; idle < idleTurns; idle += 1) {
      await nextTurn()
      if (events !== seen) idle = 0
      seen = events
    }
  }

  const clock: Clock.Clock = {
    [Clock.ClockTypeId]: Clock.ClockTypeId,
    unsafeCurrentTimeMillis: () => now,
    unsafeCurrentTimeNanos: () => BigInt(now) * 1_000_000n,
    currentTimeMillis: Effect.sync(() => now),
    currentTimeNanos: Effect.sync(() => BigInt(now) * 1_000_000n),
    sleep: (duration) =>
      Effect.async<void>((resume) => {
        const millis = Duration.toMillis(duration)
        if (millis <= 0) return resume(Effect.void)
        if (!Number.isFinite(millis)) return
        const cancel = schedule(millis, () => resume(Effect.void))
        return Effect.sync(cancel)
      })
  }

  return {
    clock,
    now: () => now,
    elapsed: () => now - startAt,
    schedule,
    sleep: (millis) => new Promise((resume) => schedule(millis, resume)),
    touch,
    runUntil: async (elapsed) => {
      const end = startAt + elapsed
      await settle()
      for (;;) {
        const due = queue.first()
        if (due === undefined || due.at > end) break
        queue.pop()
        if (due.isCancelled) continue
        now = due.at
        due.run()
        await settle()
      }
      now = end
    }
  }
}
