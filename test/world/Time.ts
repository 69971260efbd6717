/**
 * One clock for servers, clients and upstreams. Time does not move while anything runs, and goes to the next timer once all wait. Timers of
 * the platform are not used, so a busy machine changes nothing. Times are milliseconds.
 */
import { Clock, Duration, Effect, Order, RedBlackTree as Tree } from "effect"
import { MixedScheduler } from "effect/Scheduler"

/** Turns of the event loop without an event after which all wait. */
const quietTurns = 2
/** The same while immediates of the platform are pending. */
const mostQuietTurns = 50

/** Yields without a timer of the platform. */
export const scheduler = new MixedScheduler(Number.MAX_SAFE_INTEGER)

interface TimerKey {
  readonly at: number
  readonly order: number
}

/** By time, then by order of insertion. */
const byTime = Order.combine(
  Order.mapInput(Order.number, ({ at }: TimerKey) => at),
  Order.mapInput(Order.number, ({ order }: TimerKey) => order)
)

const turn = () => new Promise<void>((resolve) => void setImmediate(resolve))

const hasImmediates = () => process.getActiveResourcesInfo().includes("Immediate")

const clockOf = (
  now: () => number,
  nanos: () => bigint,
  sleep: (milliseconds: number) => Effect.Effect<void>
): Clock.Clock => ({
  [Clock.ClockTypeId]: Clock.ClockTypeId,
  unsafeCurrentTimeMillis: now,
  unsafeCurrentTimeNanos: nanos,
  currentTimeMillis: Effect.sync(now),
  currentTimeNanos: Effect.sync(nanos),
  sleep: (duration) => Effect.suspend(() => sleep(Duration.toMillis(duration)))
})

/** A wall clock that a test steps, as an operator or NTP does. Monotonic time and sleeps use the underlying clock. */
export const makeSteppedClock = Effect.clockWith((below) =>
  Effect.sync(() => {
    let offset = 0
    const now = () => below.unsafeCurrentTimeMillis() + offset
    return {
      clock: clockOf(
        now,
        () => below.unsafeCurrentTimeNanos(),
        (milliseconds) => below.sleep(Duration.millis(milliseconds))
      ),
      /** Moves the wall clock by some milliseconds. */
      step: (milliseconds: number): void => {
        offset += milliseconds
      }
    }
  })
)

export const makeSimulatedTime = (startAt: number) => {
  let timers = Tree.empty<TimerKey, () => void>(byTime)
  let at = startAt
  let order = 0
  let events = 0
  let held = 0

  /** Something began or ended that the platform continues: time waits for what follows. */
  const touch = (): void => {
    events += 1
  }

  /** Calls `run` later, unless the returned function is called before. */
  const after = (milliseconds: number, run: () => void) => {
    touch()
    order += 1
    const key: TimerKey = { at: at + Math.max(0, milliseconds), order }
    timers = Tree.insert(timers, key, run)
    return () => {
      timers = Tree.removeFirst(timers, key)
    }
  }

  /** Whether a timer was due by then. */
  const runNext = (end: number): boolean => {
    const [next] = timers
    if (next === undefined || next[0].at > end) return false
    const [key, run] = next
    timers = Tree.removeFirst(timers, key)
    touch()
    at = Math.max(at, key.at)
    run()
    return true
  }

  /** Waits until all wait for time, or the simulation is over. */
  const settle = async (isDone: () => boolean): Promise<void> => {
    let seen = events
    for (let quiet = 0; !isDone(); ) {
      await turn()
      quiet = seen === events ? quiet + 1 : 0
      seen = events
      if (held === 0 && quiet >= quietTurns && (quiet >= mostQuietTurns || !hasImmediates())) return
    }
  }

  const now = () => Math.floor(at)
  const nanos = () => BigInt(Math.round(at * 1_000)) * 1_000n

  const clock = clockOf(now, nanos, (milliseconds) =>
    Effect.async<void>((resume) => {
      if (!Number.isFinite(milliseconds)) return
      return Effect.sync(after(milliseconds, () => resume(Effect.void)))
    })
  )

  return {
    clock,
    /** Since the epoch. */
    now,
    /** Since the start. */
    elapsed: () => now() - startAt,
    after,
    sleep: (milliseconds: number) => new Promise<void>((resolve) => void after(milliseconds, resolve)),
    /** Moves the clock at once; timers that are due run late, as after a suspension. */
    jump: (milliseconds: number): void => {
      at += milliseconds
    },
    touch,
    /** Time does not move until the promise ends: it waits for the platform, as the start of a server does. */
    hold: async <A>(promise: Promise<A>): Promise<A> => {
      held += 1
      try {
        return await promise
      } finally {
        held -= 1
        touch()
      }
    },
    /** Runs the simulation until the promise ends. Rejects when all wait and no timer is left. */
    complete: async <A>(promise: Promise<A>): Promise<A> => {
      let done = false
      const ended = promise.finally(() => {
        done = true
      })
      // The caller gets a rejection from the last line.
      ended.catch(() => undefined)
      const isDone = () => done
      for (;;) {
        await settle(isDone)
        if (done) return ended
        if (!runNext(Number.POSITIVE_INFINITY)) throw new Error("all wait for ever")
      }
    },
    /** Runs all that is due until then, counted from the start. */
    runUntil: async (elapsed: number): Promise<void> => {
      const end = startAt + elapsed
      do await settle(() => false)
      while (runNext(end))
      at = Math.max(at, end)
    }
  }
}

export type SimulatedTime = ReturnType<typeof makeSimulatedTime>

const wait = (milliseconds: number) => new Promise<void>((resolve) => void setTimeout(resolve, milliseconds))

/** The time of the machine, for worlds with sockets. */
export const machineTime: SimulatedTime = {
  clock: Clock.make(),
  now: Date.now,
  elapsed: () => Math.floor(performance.now()),
  after: (milliseconds, run) => {
    const timer = setTimeout(run, milliseconds)
    return () => clearTimeout(timer)
  },
  sleep: wait,
  jump: () => undefined,
  touch: () => undefined,
  hold: (promise) => promise,
  complete: (promise) => promise,
  runUntil: (elapsed) => wait(elapsed - performance.now())
}
