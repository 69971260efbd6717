import { describe, expect } from "vitest"
import { it } from "../../world/Test.ts"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import { runDeliveryWorker, type WorkerOptions } from "../../../src/layers/delivery/DeliveryWorker.ts"
import type { LeasedDelivery } from "../../../src/layers/delivery/Lease.ts"
import {
  Anonymous,
  type Deliveries,
  DeliveryUpdate,
  type Reporter,
  type StoreService,
  StoreUnavailable,
  Unverified,
  Verified
} from "../../../src/services/Store.ts"
import { makeSteppedClock } from "../../support/SteppedClock.ts"
import { freshPath, openStore, sampleLease, sampleReport } from "../store/Stores.ts"
import { makeSimulatedClock, nextTurns } from "./SimulatedClock.ts"

const lease = 10_000
const away = Effect.fail(new StoreUnavailable({ problem: { kind: "unreachable" } }))

const done = (held: LeasedDelivery, number = 1) =>
  Effect.flatMap(Clock.currentTimeMillis, (at) =>
    held.write(
      DeliveryUpdate.Delivered({
        at,
        issue: Option.some({ number, url: `https://github.com/harbor/music/issues/${number}` }),
        sweepAt: Option.none()
      })
    )
  )

/** A database with so many reports, and workers that each have a connection of their own. */
const makeWorld = (reports: number) =>
  Effect.gen(function* () {
    const clock = yield* makeSimulatedClock(0)
    const path = yield* freshPath
    const store = yield* openStore(path)
    const ids = Array.from({ length: reports }, (_, index) => `rep_${index}`)
    yield* Effect.forEach(ids, (id, createdAt) =>
      store.reports.admit(sampleReport({ id, keyDigest: id, createdAt }), true)
    )
    yield* clock.setTime(1_000)
    /** Stops at each due time, so that each worker sees the writes of the other before the next step. */
    const pass = (seconds: number) =>
      Effect.suspend(() => clock.passUntil(clock.now() + seconds * 1_000, nextTurns))
    const start = (
      handle: WorkerOptions["handle"],
      options: Partial<WorkerOptions> & {
        readonly instead?: (real: Deliveries) => Partial<Deliveries>
        /** The connection of the worker's process. */
        readonly on?: StoreService
      } = {}
    ) =>
      Effect.gen(function* () {
        const { instead = () => ({}), on, ...work } = options
        const own = on ?? (yield* openStore(path))
        const deliveries = { ...own.deliveries, ...instead(own.deliveries) }
        const given = {
          kinds: ["report"],
          concurrency: 1,
          pauseMillis: Effect.succeed(0),
          ordinaryPauseMillis: Effect.succeed(0),
          handle,
          ...work
        } as const
        return yield* Effect.forkScoped(runDeliveryWorker({ ...own, deliveries }, lease, given))
      })
    const states = Effect.map(store.deliveries.counts, (counts) =>
      Object.fromEntries(counts.map(({ count, state }) => [state, count]))
    )
    return { pass, store, start, states }
  }).pipe(Effect.provide(Logger.remove(Logger.defaultLogger)))

const issueOf = (store: StoreService) =>
  Effect.map(store.reports.find("rep_0"), (found) =>
    Option.map(
      Option.flatMap(found, ({ issue }) => issue),
      ({ number }) => number
    )
  )

/** Work that checks its lease every half second, and records when it is stopped by this clock. */
const observeLease = (now = Clock.currentTimeMillis) => {
  const seen: { readonly alive: Array<boolean>; stoppedAt: number } = { alive: [], stoppedAt: 0 }
  const handle = (held: LeasedDelivery) =>
    Effect.sleep(500).pipe(
      Effect.zipRight(held.holds),
      Effect.map((holds) => seen.alive.push(holds)),
      Effect.forever,
      Effect.onInterrupt(() =>
        Effect.map(now, (at) => {
          seen.stoppedAt = at
        })
      )
    )
  return { seen, handle }
}

describe("Two workers on one database", () => {
  it.scoped.each([1, 3])("handle each delivery once, and %i at a time in all", function* (concurrency) {
    const { pass, start, states } = yield* makeWorld(7)
    const handled: Array<string> = []
    let running = 0
    let most = 0
    const handle = (held: LeasedDelivery) =>
      Effect.gen(function* () {
        handled.push(held.delivery.subject)
        running += 1
        most = Math.max(most, running)
        yield* Effect.sleep(2_000)
        running -= 1
        yield* done(held)
      })
    yield* start(handle, { concurrency })
    yield* start(handle, { concurrency })
    yield* pass(concurrency === 1 ? 16 : 14)
    expect(yield* states).toEqual({ delivered: 7 })
    expect(new Set(handled).size).toBe(7)
    expect(handled.length).toBe(7)
    expect(most).toBe(concurrency)
  })

  it.scoped("take over the delivery of a dead worker when its lease ends, not earlier", function* () {
    const { pass, start, states } = yield* makeWorld(1)
    let dead = false
    const mortal = (real: Deliveries): Partial<Deliveries> => ({
      extend: (...values) => Effect.suspend(() => (dead ? Effect.die("gone") : real.extend(...values))),
      update: (...values) => Effect.suspend(() => (dead ? Effect.die("gone") : real.update(...values)))
    })
    yield* start(() => Effect.never, { instead: mortal })
    yield* pass(9)
    let takenAt = 0
    yield* start((held) =>
      Effect.gen(function* () {
        takenAt = yield* Clock.currentTimeMillis
        yield* done(held)
      })
    )
    yield* pass(4)
    expect(takenAt).toBe(0)
    dead = true
    const diedAt = yield* Clock.currentTimeMillis
    yield* pass(15)
    expect(yield* states).toEqual({ delivered: 1 })
    expect(takenAt - diedAt).toBeGreaterThan(5_000)
    expect(takenAt - diedAt).toBeLessThanOrEqual(10_000)
  })

  it.scoped("refuse the writes of a slow worker whose lease has ended", function* () {
    const { pass, start, states, store } = yield* makeWorld(1)
    let written: boolean | undefined
    // Uninterruptible, like a suspended process.
    const slow = (held: LeasedDelivery) =>
      Effect.gen(function* () {
        yield* Effect.sleep(20_000)
        written = yield* done(held, 1)
      }).pipe(Effect.uninterruptible)
    yield* start(slow, { instead: () => ({ extend: () => away }) })
    yield* pass(1)
    yield* start((held) => Effect.zipRight(Effect.sleep(15_000), done(held, 2)))
    yield* pass(20)
    expect(written).toBe(false)
    expect(yield* states).toEqual({ leased: 1 })
    yield* pass(6)
    expect(yield* issueOf(store)).toEqual(Option.some(2))
    expect(yield* states).toEqual({ delivered: 1 })
  })
})

describe("A heartbeat", () => {
  it.scoped("that cannot be written does not end work whose lease is still valid", function* () {
    const { pass, start, states } = yield* makeWorld(1)
    let broken = true
    yield* start((held) => Effect.zipRight(Effect.sleep(25_000), done(held)), {
      instead: (real) => ({
        extend: (...values) => Effect.suspend(() => (broken ? away : real.extend(...values)))
      })
    })
    yield* pass(9)
    broken = false
    yield* pass(18)
    expect(yield* states).toEqual({ delivered: 1 })
  })

  it.scoped.each([
    ["fails", away],
    ["does not answer", Effect.never]
  ] as ReadonlyArray<readonly [string, Effect.Effect<never, StoreUnavailable>]>)(
    "over a database that %s ends the work with the lease",
    function* ([, extend]) {
      const { pass, start } = yield* makeWorld(1)
      const { handle, seen } = observeLease()
      yield* start(handle, { instead: () => ({ extend: () => extend }) })
      yield* pass(12)
      expect(seen.stoppedAt).toBeGreaterThan(10_000)
      expect(seen.stoppedAt).toBeLessThanOrEqual(12_000)
      expect(seen.alive.slice(0, 19)).toEqual(Array.from({ length: 19 }, () => true))
    }
  )

  it.scoped("that finds the lease lost stops the work", function* () {
    const { pass, start, store } = yield* makeWorld(1)
    const { handle, seen } = observeLease()
    yield* start(handle)
    yield* pass(1)
    yield* store.deliveries.lease(sampleLease({ now: 60_000, owner: "otherHolder" }))
    yield* pass(3)
    expect(seen.stoppedAt).toBeGreaterThan(1_000)
  })
})

describe("A lease under a wall clock that is stepped by an hour", () => {
  const hour = 3_600_000

  /** A holder on the stepped clock that checks its lease every half second, and the monotonic time at which it was stopped. */
  const makeHolder = (instead: (real: Deliveries) => Partial<Deliveries> = () => ({})) =>
    Effect.gen(function* () {
      const { pass, start, store } = yield* makeWorld(1)
      const below = yield* Effect.clock
      const { clock, step } = yield* makeSteppedClock
      const { handle, seen } = observeLease(below.currentTimeMillis)
      yield* Effect.withClock(start(handle, { instead }), clock)
      yield* pass(2)
      return { pass, seen, step, store, now: () => below.unsafeCurrentTimeMillis() }
    })

  for (const [direction, by] of [
    ["back", -hour],
    ["ahead", hour]
  ] as const) {
    it.scoped(`${direction} stays valid`, function* () {
      const { pass, seen, step } = yield* makeHolder()
      step(by)
      yield* pass(60)
      expect(seen.stoppedAt).toBe(0)
      expect(seen.alive.length).toBeGreaterThan(100)
      expect(seen.alive).not.toContain(false)
    })

    it.scoped(`${direction} ends in time without a database`, function* () {
      const { pass, seen, step } = yield* makeHolder(() => ({ extend: () => away }))
      step(by)
      yield* pass(5)
      expect(seen.stoppedAt).toBe(0)
      yield* pass(6)
      expect(seen.stoppedAt).toBeGreaterThan(10_000)
      expect(seen.stoppedAt).toBeLessThanOrEqual(12_000)
    })

    it.scoped(`${direction} is lost when another process has taken it`, function* () {
      const { now, pass, seen, step, store } = yield* makeHolder()
      const theirs = now() + hour
      step(by)
      const leased = yield* store.deliveries.lease(sampleLease({ now: theirs, owner: "otherHolder" }))
      expect(leased).toHaveLength(1)
      const before = seen.alive.length
      yield* pass(0.5)
      expect(seen.alive.slice(before)).toEqual([false])
    })
  }
})

describe("A worker", () => {
  it.scoped("releases its leases when it is stopped", function* () {
    const { pass, start, states, store } = yield* makeWorld(4)
    const engine = yield* start(() => Effect.never, { concurrency: 3 })
    yield* pass(1)
    expect(yield* states).toEqual({ leased: 3, waiting: 1 })
    yield* Fiber.interrupt(engine)
    expect(yield* states).toEqual({ waiting: 4 })
    const handed = Option.getOrThrow(yield* store.deliveries.find("report:rep_0"))
    expect(handed).toMatchObject({ attempts: 0, availableAt: 0 })
  })

  it.scoped("continues after a defect of a handler, and retries that delivery later", function* () {
    const { pass, start, states, store } = yield* makeWorld(2)
    yield* start((held) => (held.delivery.subject === "rep_0" ? Effect.die("a mistake") : done(held)))
    yield* pass(2)
    expect(yield* states).toEqual({ delivered: 1, waiting: 1 })
    const broken = Option.getOrThrow(yield* store.deliveries.find("report:rep_0"))
    expect(broken.availableAt).toBeGreaterThan(300_000)
  })

  it.scoped("keeps its deliveries and continues to lease after an outage of the database", function* () {
    const { pass, start, states } = yield* makeWorld(3)
    let broken = false
    const started: Array<string> = []
    const handle = (held: LeasedDelivery) =>
      Effect.gen(function* () {
        started.push(held.delivery.subject)
        yield* Effect.sleep(4_000)
        yield* done(held)
      })
    yield* start(handle, {
      concurrency: 2,
      instead: (real) => ({
        lease: (request) => Effect.suspend(() => (broken ? away : real.lease(request))),
        nextDueAt: (...values) => Effect.suspend(() => (broken ? away : real.nextDueAt(...values)))
      })
    })
    yield* pass(1)
    broken = true
    yield* pass(10)
    expect(yield* states).toEqual({ delivered: 2, waiting: 1 })
    broken = false
    yield* pass(10)
    expect(yield* states).toEqual({ delivered: 3 })
    expect(started.length).toBe(3)
  })

  it.scoped("sleeps until something falls due, and does not poll", function* () {
    const { pass, start, states, store } = yield* makeWorld(1)
    const [held] = yield* store.deliveries.lease(sampleLease({ now: 1_000, leaseUntil: 2_000 }))
    if (held === undefined) return expect.fail("nothing was due")
    const later = DeliveryUpdate.Waiting({ availableAt: 33_700, failure: "limit" })
    yield* store.deliveries.update(held.id, held.fence, later)
    let leases = 0
    let handledAt = 0
    yield* start(
      (one) =>
        Effect.gen(function* () {
          handledAt = yield* Clock.currentTimeMillis
          yield* done(one)
        }),
      {
        instead: (real) => ({
          lease: (request) => {
            leases += 1
            return real.lease(request)
          }
        })
      }
    )
    yield* pass(32.699)
    expect(handledAt).toBe(0)
    expect(leases).toBeLessThanOrEqual(8)
    yield* pass(0.001)
    expect(handledAt).toBe(33_700)
    expect(yield* states).toEqual({ delivered: 1 })
  })

  it.scoped(
    "finds within 30 s what another process made due on SQLite, which wakes no other process",
    function* () {
      const { pass, start, states, store } = yield* makeWorld(0)
      yield* start((held) => done(held))
      yield* pass(60)
      yield* store.reports.admit(sampleReport({ createdAt: 61_000 }), true)
      yield* pass(30)
      expect(yield* states).toEqual({ delivered: 1 })
    }
  )

  it.scoped(
    "during a pause of ordinary deliveries leases only others, is woken by them, and does not poll",
    function* () {
      const { pass, start, states, store } = yield* makeWorld(0)
      const admit = (id: string, ordinary: boolean) =>
        Effect.flatMap(Clock.currentTimeMillis, (createdAt) =>
          store.reports.admit(
            sampleReport({ id, keyDigest: id, createdAt, ...(ordinary ? { reporter: Anonymous() } : {}) }),
            true
          )
        )
      const pausedUntil = 33_700
      const handled: Array<readonly [string, number]> = []
      let leases = 0
      yield* admit("early", true)
      yield* admit("next", true)
      yield* start(
        (held) =>
          Effect.gen(function* () {
            handled.push([held.delivery.subject, yield* Clock.currentTimeMillis])
            yield* done(held)
          }),
        {
          on: store,
          ordinaryPauseMillis: Effect.map(Clock.currentTimeMillis, (now) => Math.max(0, pausedUntil - now)),
          instead: (real) => ({
            lease: (request) => {
              leases += 1
              return real.lease(request)
            }
          })
        }
      )
      yield* pass(20.5)
      expect(yield* states).toEqual({ waiting: 2 })
      // Every five seconds, and after the admission of the two.
      expect(leases).toBeLessThanOrEqual(6)
      yield* admit("verified", false)
      yield* pass(0.001)
      expect(handled).toEqual([["verified", 21_500]])
      yield* pass(12.198)
      expect(yield* states).toEqual({ delivered: 1, waiting: 2 })
      expect(leases).toBeLessThanOrEqual(12)
      yield* pass(0.001)
      expect(handled.slice(1)).toEqual([
        ["early", pausedUntil],
        ["next", pausedUntil]
      ])
    }
  )

  it.scoped(
    "during a pause of ordinary deliveries leases four times a second at most, however many arrive",
    function* () {
      const { pass, start, states, store } = yield* makeWorld(0)
      const admit = (id: string, reporter: Reporter) =>
        store.reports.admit(sampleReport({ id, keyDigest: id, createdAt: 1_000, reporter }), true)
      let leases = 0
      yield* start((held) => done(held), {
        on: store,
        ordinaryPauseMillis: Effect.succeed(60_000),
        instead: (real) => ({
          lease: (request) => {
            leases += 1
            return real.lease(request)
          }
        })
      })
      yield* pass(1)
      leases = 0
      for (let index = 0; index < 50; index += 1) {
        yield* admit(`${index}`, index === 0 ? Unverified() : Anonymous())
        yield* pass(0.02)
      }
      expect(leases).toBeGreaterThan(0)
      expect(leases).toBeLessThanOrEqual(5)
      expect(yield* states).toEqual({ waiting: 50 })
      // A replay that moves a report up wakes the worker as well.
      yield* pass(1)
      yield* admit("0", Verified({ publicId: "c:ana" }))
      yield* pass(0.001)
      expect(yield* states).toEqual({ delivered: 1, waiting: 49 })
    }
  )

  it.scoped(
    "handles nothing for a paused destination, also when the pause begins during the lease",
    function* () {
      const { pass, start, states, store } = yield* makeWorld(1)
      let pausedUntil = 0
      let handled = 0
      yield* start(
        (held) => {
          handled += 1
          return done(held)
        },
        {
          pauseMillis: Effect.map(Clock.currentTimeMillis, (now) => Math.max(0, pausedUntil - now)),
          instead: (real) => ({
            // Another process reaches a limit at this moment.
            lease: (request) =>
              Effect.tap(real.lease(request), (leased) =>
                Effect.sync(() => {
                  if (leased.length > 0 && pausedUntil === 0) pausedUntil = 21_000
                })
              )
          })
        }
      )
      yield* pass(19)
      expect(handled).toBe(0)
      expect(yield* states).toEqual({ waiting: 1 })
      expect(Option.getOrThrow(yield* store.deliveries.find("report:rep_0"))).toMatchObject({
        availableAt: 0
      })
      yield* pass(2)
      expect(yield* states).toEqual({ delivered: 1 })
    }
  )
})
