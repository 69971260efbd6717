/** Timestamps that a host wrote while its clock was a day ahead: no process waits a day because of them. */
import { assert } from "vitest"
import { it } from "../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import { latestDueTime, latestLeaseEnd, remainingPause } from "../../../src/services/ClockSkew.ts"
import { DeliveryUpdate, type StoreService } from "../../../src/services/Store.ts"
import { onBoth, sampleEntry, sampleLease, sampleReport, sampleSpoolLease } from "./Stores.ts"

const day = 24 * 3_600_000
const now = 30 * day
const ahead = now + day
const roomy = { limitBytes: 1_000_000 }

const admit = ({ reports }: StoreService, createdAt = now - 60_000) =>
  reports.admit(sampleReport({ createdAt }), true)

const lease = ({ deliveries }: StoreService, at: number, owner = "worker") =>
  deliveries.lease(sampleLease({ concurrency: 1, now: at, owner }))

const leaseOne = (store: StoreService, at: number, owner?: string) =>
  Effect.flatMap(lease(store, at, owner), ([delivery]) =>
    delivery === undefined ? Effect.dieMessage("nothing was due") : Effect.succeed(delivery)
  )

const ship = ({ spool }: StoreService, at: number, owner: string) =>
  Effect.map(spool.lease(sampleSpoolLease({ now: at, leaseUntil: at + 12_000, owner })), (entries) =>
    entries.map(({ recordId }) => recordId)
  )

it("The latest plausible due time and pause are two hours ahead, the latest lease ends after five lengths", () => {
  const limit = now + 2 * 3_600_000
  assert.strictEqual(latestDueTime(now), limit)
  deepStrictEqual(
    [limit, limit + 1].map((pausedUntil) => remainingPause(pausedUntil, now)),
    [2 * 3_600_000, 0]
  )
  assert.strictEqual(latestLeaseEnd(now, now + 12_000), now + 60_000)
})

onBoth("A clock that was ahead", ({ freshStore }) => {
  it.scoped("its lease is taken over, and its holder can write nothing", function* () {
    const store = yield* freshStore
    yield* admit(store)
    const old = yield* leaseOne(store, ahead, "ahead")
    const delivery = yield* leaseOne(store, now)
    assert.isTrue(delivery.fence > old.fence)
    for (const update of [
      DeliveryUpdate.Sending({ at: ahead }),
      DeliveryUpdate.Failed({ at: ahead, failure: "no" })
    ])
      assert.isFalse(yield* store.deliveries.update(old.id, old.fence, update))
    assert.isFalse(yield* store.deliveries.extend(old.id, old.fence, ahead + 20_000))
    assert.isTrue(yield* store.deliveries.extend(delivery.id, delivery.fence, now + 20_000))
  })

  it.scoped("a lease whose clock is only some seconds ahead is kept until it ends", function* () {
    const store = yield* freshStore
    yield* admit(store)
    yield* leaseOne(store, now + 20_000)
    deepStrictEqual(yield* lease(store, now), [])
    yield* leaseOne(store, now + 30_000)
  })

  it.scoped("a send of its dead holder is searched for from the report's creation", function* () {
    const store = yield* freshStore
    yield* admit(store)
    const { fence, id } = yield* leaseOne(store, ahead)
    yield* store.deliveries.update(id, fence, DeliveryUpdate.Sending({ at: ahead }))
    const { attempts, sentAt, state } = yield* leaseOne(store, now)
    deepStrictEqual([attempts, sentAt, state], [1, Option.some(now - 60_000), "unknown"])
  })

  it.scoped("when it stored the report as well, the search starts a day earlier", function* () {
    const store = yield* freshStore
    yield* admit(store, ahead - 60_000)
    const { fence, id } = yield* leaseOne(store, ahead)
    yield* store.deliveries.update(id, fence, DeliveryUpdate.Sending({ at: ahead }))
    deepStrictEqual((yield* leaseOne(store, now)).sentAt, Option.some(now - day))
  })

  it.scoped("its delayed deliveries are due now, and its unknown outcomes are searched for", function* () {
    const store = yield* freshStore
    yield* admit(store)
    const first = yield* leaseOne(store, ahead)
    const failure = "no answer"
    yield* store.deliveries.update(first.id, first.fence, DeliveryUpdate.Sending({ at: ahead }))
    yield* store.deliveries.update(
      first.id,
      first.fence,
      DeliveryUpdate.Unknown({ availableAt: ahead + 5_000, failure, searches: 0 })
    )
    const again = yield* leaseOne(store, now)
    deepStrictEqual(
      [again.state, again.availableAt, again.sentAt],
      ["unknown", now, Option.some(now - 60_000)]
    )
    yield* store.deliveries.update(
      again.id,
      again.fence,
      DeliveryUpdate.Waiting({ availableAt: ahead, failure })
    )
    assert.strictEqual((yield* leaseOne(store, now)).state, "waiting")
  })

  it.scoped("a delay of an hour is kept", function* () {
    const store = yield* freshStore
    yield* admit(store)
    const { fence, id } = yield* leaseOne(store, now)
    const later = now + 3_600_000
    yield* store.deliveries.update(
      id,
      fence,
      DeliveryUpdate.Waiting({ availableAt: later, failure: "later" })
    )
    deepStrictEqual(yield* lease(store, later - 1), [])
    yield* leaseOne(store, later)
  })

  it.scoped(
    "telemetry that it leased is shipped by another process, and its holder settles nothing",
    function* () {
      const store = yield* freshStore
      yield* store.spool.offer([sampleEntry("a")], roomy)
      deepStrictEqual(yield* ship(store, ahead, "ahead"), ["a"])
      deepStrictEqual(yield* ship(store, now, "other"), ["a"])
      yield* store.spool.settle({ owner: "ahead", now, delivered: ["a"], duplicates: [], refused: [] })
      assert.strictEqual((yield* store.spool.counts)[0]?.waiting, 1)
      deepStrictEqual(yield* ship(store, now + 11_999, "third"), [])
      deepStrictEqual(yield* ship(store, now + 12_000, "third"), ["a"])
    }
  )

  it.scoped("telemetry that it leased expires and makes room like any other", function* () {
    const store = yield* freshStore
    yield* TestClock.setTime(now)
    yield* store.spool.offer([sampleEntry("own", { table: "musicbackend" }), sampleEntry("a")], roomy)
    yield* ship(store, ahead, "ahead")
    assert.strictEqual(yield* store.spool.offer([sampleEntry("b")], { limitBytes: 20 }), "accepted")
    yield* store.spool.expire({ acceptedBefore: now, deliveredBefore: 0, deliveredAtMost: 1_000_000 })
    deepStrictEqual(
      (yield* store.spool.counts).map(({ expired, waiting }) => [expired, waiting]),
      [
        [1, 0],
        [2, 0]
      ]
    )
  })

  it.scoped("its pause is replaced by the next one, which is not shortened", function* () {
    const { destinations } = yield* freshStore
    const fail = (at: number, pausedUntil: number) =>
      destinations.failed("tracker", { now: at, pausedUntil, stopped: false, failure: "timeout" })
    const until = Effect.map(destinations.find("tracker"), ({ pausedUntil }) => pausedUntil)
    yield* fail(ahead, ahead + 60_000)
    yield* fail(now, now + 60_000)
    assert.strictEqual(yield* until, now + 60_000)
    yield* fail(now, now + 1_000)
    assert.strictEqual(yield* until, now + 60_000)
  })
})
