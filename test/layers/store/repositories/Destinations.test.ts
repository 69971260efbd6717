import { assert } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { onBoth } from "../Stores.ts"

const neverFailed = { failures: 0, stopped: false, pausedUntil: 0, lastFailure: Option.none() }
const trouble = { now: 1_000, pausedUntil: 5_000, stopped: false, failure: "timeout" }
const pace = { now: 1_000_000, spacing: 1_000, hourly: 450 }

onBoth("Destinations", ({ freshPath, freshStore, openStore, rawQuery }) => {
  it.scoped("an unknown destination has never failed, and an answer writes no row", function* () {
    const { destinations } = yield* freshStore
    deepStrictEqual(yield* destinations.find("tracker"), neverFailed)
    deepStrictEqual(yield* destinations.answered("tracker", { now: 1, wrote: true }), neverFailed)
    deepStrictEqual(yield* destinations.find("tracker"), neverFailed)
  })

  it.scoped("consecutive failures are counted, and a write returns the previous state", function* () {
    const { destinations } = yield* freshStore
    yield* destinations.failed("another", trouble)
    deepStrictEqual(yield* destinations.failed("tracker", trouble), neverFailed)
    const first = {
      failures: 1,
      stopped: false,
      pausedUntil: 5_000,
      lastFailure: Option.some("timeout")
    }
    deepStrictEqual(yield* destinations.failed("tracker", { ...trouble, failure: "reset" }), first)
    const second = yield* destinations.answered("tracker", { now: 2_000, wrote: false })
    deepStrictEqual(second, { ...first, failures: 2, lastFailure: Option.some("reset") })
    deepStrictEqual(yield* destinations.find("tracker"), {
      failures: 0,
      stopped: false,
      pausedUntil: 5_000,
      lastFailure: Option.none()
    })
    deepStrictEqual(yield* destinations.find("another"), first)
  })

  it.scoped("a stopped destination stays stopped until it accepts a write", function* () {
    const { destinations } = yield* freshStore
    yield* destinations.failed("tracker", trouble)
    yield* destinations.failed("tracker", { ...trouble, stopped: true, failure: "401" })
    yield* destinations.failed("tracker", trouble)
    yield* destinations.answered("tracker", { now: 2_000, wrote: false })
    const before = yield* destinations.answered("tracker", { now: 3_000, wrote: true })
    deepStrictEqual([before.stopped, before.failures], [true, 3])
    assert.isFalse((yield* destinations.find("tracker")).stopped)
  })

  it.scoped("pauses are listed while they last, with their reason; a write's own turn is none", function* () {
    const { destinations } = yield* freshStore
    const now = 1_000_000
    const at = (seconds: number) => ({ ...trouble, now, pausedUntil: now + seconds * 1_000 })
    yield* destinations.failed("tables", at(30))
    yield* destinations.failed("table musicbackend", { ...at(300), stopped: true, failure: "unauthorized" })
    yield* destinations.failed("tracker", at(-1))
    yield* destinations.failed("clock ran fast", at(5 * 3_600))
    for (let write = 0; write < 3; write += 1)
      yield* destinations.reserveWrite("tracker", { ...pace, hourly: 3, now })
    const failing = { name: "tables", reason: "failure", until: now + 30_000 } as const
    const refused = { name: "table musicbackend", reason: "settings", until: now + 300_000 } as const
    const pausesAt = (time: number) =>
      Effect.map(destinations.pauses(time, { name: "tracker", ordinaryHourly: 5 }), (pauses) =>
        pauses.toSorted((one, other) => one.name.localeCompare(other.name))
      )
    const found = [
      { ...refused, lastFailure: Option.some("unauthorized") },
      { ...failing, lastFailure: Option.some("timeout") }
    ]
    deepStrictEqual(yield* pausesAt(now), found)
    const next = yield* destinations.reserveWrite("tracker", { ...pace, hourly: 3, now })
    deepStrictEqual(yield* pausesAt(now), [
      ...found,
      { name: "tracker", reason: "pace", until: next, lastFailure: Option.none() }
    ])
    deepStrictEqual(yield* pausesAt(next), [])
  })

  it.scoped("of concurrent failures, exactly one write returns the state before the stop", function* () {
    const path = yield* freshPath
    const stores = [yield* openStore(path), yield* openStore(path)]
    const states = yield* Effect.forEach(
      [...stores, ...stores],
      ({ destinations }) => destinations.failed("tracker", { ...trouble, stopped: true }),
      { concurrency: "unbounded" }
    )
    assert.strictEqual(states.filter(({ stopped }) => !stopped).length, 1)
    deepStrictEqual(states.map(({ failures }) => failures).sort(), [0, 1, 2, 3])
  })

  it.scoped("writes of all processes are reserved a spacing apart, also across restarts", function* () {
    const path = yield* freshPath
    const stores = [yield* openStore(path), yield* openStore(path)]
    const booked = yield* Effect.forEach(
      [...stores, ...stores, ...stores],
      ({ destinations }) => destinations.reserveWrite("tracker", pace),
      { concurrency: "unbounded" }
    )
    deepStrictEqual(
      booked.sort((one, other) => one - other).map((at) => at - pace.now),
      [0, 1_000, 2_000, 3_000, 4_000, 5_000]
    )
    const later = yield* openStore(path)
    const { destinations } = later
    assert.strictEqual(yield* destinations.reserveWrite("tracker", pace), pace.now + 6_000)
    assert.strictEqual(yield* destinations.reserveWrite("another", pace), pace.now)
    const minute = { ...pace, now: pace.now + 60_000 }
    assert.strictEqual(yield* destinations.reserveWrite("tracker", minute), minute.now)
  })

  it.scoped("the number of writes in any hour is limited, and older ones are forgotten", function* () {
    const path = yield* freshPath
    const { destinations } = yield* openStore(path)
    const slow = { ...pace, hourly: 3 }
    const book = (now: number) => destinations.reserveWrite("tracker", { ...slow, now: pace.now + now })
    const booked = [yield* book(0), yield* book(5_000), yield* book(6_000), yield* book(7_000)]
    deepStrictEqual(
      booked.map((at) => at - pace.now),
      [0, 5_000, 6_000, 3_600_000]
    )
    assert.strictEqual(yield* book(3_600_001), pace.now + 3_605_000)
    deepStrictEqual(yield* rawQuery(path, "SELECT COUNT(*) AS count FROM destination_writes"), [{ count: 4 }])
  })

  it.scoped("the writes of all processes fill an hour until the oldest of them is an hour old", function* () {
    const path = yield* freshPath
    const [one, other] = [yield* openStore(path), yield* openStore(path)]
    const fullUntil = ({ destinations }: typeof one, seconds: number, hourly = 3) =>
      Effect.map(
        destinations.writesFullUntil("tracker", { now: pace.now + seconds * 1_000, hourly }),
        (until) => (until === 0 ? 0 : (until - pace.now) / 1_000)
      )
    for (const [store, seconds] of [
      [one, 0],
      [other, 60],
      [one, 90]
    ] as const) {
      assert.strictEqual(yield* fullUntil(other, seconds), 0)
      yield* store.destinations.reserveWrite("tracker", { ...pace, now: pace.now + seconds * 1_000 })
    }
    yield* one.destinations.reserveWrite("another", pace)
    const restarted = yield* openStore(path)
    for (const store of [one, other, restarted]) {
      assert.strictEqual(yield* fullUntil(store, 90), 3_600)
      assert.strictEqual(yield* fullUntil(store, 3_599), 3_600)
      assert.strictEqual(yield* fullUntil(store, 3_600), 0)
      assert.strictEqual(yield* fullUntil(store, 90, 4), 0)
    }
    // A reserved write counts, and each write more lets the next one begin later.
    yield* other.destinations.reserveWrite("tracker", { ...pace, hourly: 3, now: pace.now + 120_000 })
    assert.strictEqual(yield* fullUntil(one, 120), 3_660)
    const paced = { name: "tracker", ordinaryHourly: 3 }
    const pausesAt = (seconds: number) =>
      Effect.map(one.destinations.pauses(pace.now + seconds * 1_000, paced), (pauses) =>
        pauses.map(({ name, reason, until }) => [name, reason, (until - pace.now) / 1_000])
      )
    deepStrictEqual((yield* pausesAt(120)).sort(), [
      ["tracker", "ordinary_pace", 3_660],
      ["tracker", "pace", 3_600]
    ])
    deepStrictEqual(yield* pausesAt(3_600), [["tracker", "ordinary_pace", 3_660]])
    deepStrictEqual(yield* pausesAt(3_650), [], "the seconds between two writes are no pause")
  })

  it.scoped("a reservation by a clock that was a day ahead delays no write", function* () {
    const { destinations } = yield* freshStore
    yield* destinations.reserveWrite("tracker", { ...pace, now: pace.now + 86_400_000 })
    const full = { now: pace.now, hourly: 1 }
    assert.strictEqual(yield* destinations.writesFullUntil("tracker", full), 0)
    const paced = { name: "tracker", ordinaryHourly: 1 }
    deepStrictEqual(yield* destinations.pauses(pace.now, paced), [])
    assert.strictEqual(yield* destinations.reserveWrite("tracker", pace), pace.now)
    assert.strictEqual(yield* destinations.writesFullUntil("tracker", full), pace.now + 3_600_000)
  })
})
