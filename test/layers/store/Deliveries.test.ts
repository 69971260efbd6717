import { assert, describe, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { type Delivery, DeliveryUpdate, type StoreService } from "../../../src/services/Store.ts"
import { freshPath, freshStore, openStore, sampleReport } from "./Stores.ts"

const issue = { number: 57, url: "https://github.com/harbor/music/issues/57" }
const failure = "rate limited"

const enqueue = ({ reports }: StoreService, ...ids: ReadonlyArray<string>) =>
  Effect.forEach(ids, (id, index) =>
    reports.admit(sampleReport({ id, keyDigest: id, createdAt: 1_000 + index }), true)
  )

const lease = ({ deliveries }: StoreService, now: number, count = 10, owner = "worker") =>
  deliveries.lease({ kind: "report", count, now, leaseUntil: now + 60_000, owner })

const leaseOne = (store: StoreService, now: number) =>
  Effect.flatMap(lease(store, now, 1), ([delivery]) =>
    delivery === undefined ? Effect.dieMessage("nothing was due") : Effect.succeed(delivery)
  )

const found = ({ deliveries }: StoreService, { id }: Delivery) =>
  Effect.map(deliveries.find(id), Option.getOrThrow)

describe("Deliveries", () => {
  it.scoped("a new delivery waits for its first attempt and is due at once", () =>
    Effect.gen(function* () {
      const store = yield* freshStore
      yield* enqueue(store, "rep_1")
      deepStrictEqual(yield* store.deliveries.nextDueAt("report"), Option.some(1_000))
      const delivery = yield* leaseOne(store, 1_000)
      const expected: Delivery = {
        id: delivery.id,
        kind: "report",
        subject: "rep_1",
        state: "waiting",
        attempts: 0,
        availableAt: 1_000,
        sentAt: Option.none(),
        looks: 0,
        lastFailure: Option.none(),
        fence: 1,
        createdAt: 1_000
      }
      deepStrictEqual(delivery, expected)
      deepStrictEqual(yield* found(store, delivery), { ...expected, state: "leased" })
    })
  )

  it.scoped("nothing is found, due or leased where there is nothing", () =>
    Effect.gen(function* () {
      const store = yield* freshStore
      deepStrictEqual(yield* lease(store, 1_000), [])
      deepStrictEqual(yield* store.deliveries.nextDueAt("report"), Option.none())
      deepStrictEqual(yield* store.deliveries.find("report:rep_1"), Option.none())
      deepStrictEqual(yield* store.deliveries.counts, [])
    })
  )

  it.scoped("leases the oldest first, at most as many as asked for, and each once", () =>
    Effect.gen(function* () {
      const store = yield* freshStore
      yield* enqueue(store, "rep_3", "rep_1", "rep_2")
      const first = yield* lease(store, 5_000, 2)
      const second = yield* lease(store, 5_000, 2, "other")
      deepStrictEqual(
        [first, second, yield* lease(store, 5_000)].map((some) => some.map(({ subject }) => subject)),
        [["rep_3", "rep_1"], ["rep_2"], []]
      )
    })
  )

  it.scoped("what is due later is not leased before", () =>
    Effect.gen(function* () {
      const store = yield* freshStore
      yield* enqueue(store, "rep_1")
      const { id, fence } = yield* leaseOne(store, 1_000)
      assert.isTrue(
        yield* store.deliveries.update(id, fence, DeliveryUpdate.Waiting({ availableAt: 9_000, failure }))
      )
      deepStrictEqual(yield* store.deliveries.nextDueAt("report"), Option.some(9_000))
      deepStrictEqual(yield* lease(store, 8_999), [])
      const again = yield* leaseOne(store, 9_000)
      deepStrictEqual(again.lastFailure, Option.some(failure))
    })
  )

  it.scoped("while leased, it falls due when the lease ends, and an extension moves that", () =>
    Effect.gen(function* () {
      const store = yield* freshStore
      yield* enqueue(store, "rep_1")
      const { id, fence } = yield* leaseOne(store, 1_000)
      deepStrictEqual(yield* store.deliveries.nextDueAt("report"), Option.some(61_000))
      assert.isTrue(yield* store.deliveries.extend(id, fence, 90_000))
      deepStrictEqual(yield* store.deliveries.nextDueAt("report"), Option.some(90_000))
      deepStrictEqual(yield* lease(store, 89_999), [])
      assert.strictEqual((yield* leaseOne(store, 90_000)).fence, 2)
      assert.isFalse(yield* store.deliveries.extend(id, fence, 120_000))
    })
  )

  it.scoped("sending is counted and noted before the call", () =>
    Effect.gen(function* () {
      const store = yield* freshStore
      yield* enqueue(store, "rep_1")
      const delivery = yield* leaseOne(store, 1_000)
      assert.isTrue(
        yield* store.deliveries.update(delivery.id, delivery.fence, DeliveryUpdate.Sending({ at: 1_500 }))
      )
      const row = yield* found(store, delivery)
      deepStrictEqual([row.state, row.attempts, row.sentAt], ["leased", 1, Option.some(1_500)])
    })
  )

  it.scoped("delivered: the issue stands on the report, and the work is over", () =>
    Effect.gen(function* () {
      const store = yield* freshStore
      yield* enqueue(store, "rep_1", "rep_2")
      const delivery = yield* leaseOne(store, 2_000)
      const { id, fence } = delivery
      yield* store.deliveries.update(id, fence, DeliveryUpdate.Sending({ at: 2_500 }))
      assert.isTrue(yield* store.deliveries.update(id, fence, DeliveryUpdate.Delivered({ at: 3_000, issue })))
      const issues = yield* Effect.forEach(["rep_1", "rep_2"], (report) =>
        Effect.map(
          store.reports.find(report),
          Option.flatMap((stored) => stored.issue)
        )
      )
      deepStrictEqual(issues, [Option.some(issue), Option.none()])
      const row = yield* found(store, delivery)
      deepStrictEqual([row.state, row.sentAt], ["delivered", Option.some(2_500)])
      assert.isFalse(yield* store.deliveries.update(id, fence, DeliveryUpdate.Failed({ at: 4_000, failure })))
      deepStrictEqual(
        (yield* lease(store, 1_000_000)).map(({ subject }) => subject),
        ["rep_2"]
      )
    })
  )

  it.scoped("failed is visible and final", () =>
    Effect.gen(function* () {
      const store = yield* freshStore
      yield* enqueue(store, "rep_1")
      const delivery = yield* leaseOne(store, 1_000)
      assert.isTrue(
        yield* store.deliveries.update(
          delivery.id,
          delivery.fence,
          DeliveryUpdate.Failed({ at: 2_000, failure })
        )
      )
      const row = yield* found(store, delivery)
      deepStrictEqual([row.state, row.lastFailure], ["failed", Option.some(failure)])
      deepStrictEqual(yield* store.deliveries.nextDueAt("report"), Option.none())
      deepStrictEqual(yield* lease(store, 1_000_000), [])
      deepStrictEqual(yield* store.deliveries.counts, [{ kind: "report", state: "failed", count: 1 }])
    })
  )

  it.scoped("an attempt that surely did nothing leaves no time of sending", () =>
    Effect.gen(function* () {
      const store = yield* freshStore
      yield* enqueue(store, "rep_1")
      const { id, fence } = yield* leaseOne(store, 1_000)
      yield* store.deliveries.update(id, fence, DeliveryUpdate.Sending({ at: 1_500 }))
      yield* store.deliveries.update(id, fence, DeliveryUpdate.Waiting({ availableAt: 2_000, failure }))
      const again = yield* leaseOne(store, 2_000)
      deepStrictEqual([again.state, again.attempts, again.sentAt], ["waiting", 1, Option.none()])
    })
  )

  it.scoped("an unknown outcome comes back as one, with its looks and the time of that sending", () =>
    Effect.gen(function* () {
      const store = yield* freshStore
      yield* enqueue(store, "rep_1")
      const first = yield* leaseOne(store, 1_000)
      yield* store.deliveries.update(first.id, first.fence, DeliveryUpdate.Sending({ at: 1_500 }))
      const unknown = DeliveryUpdate.Unknown({ availableAt: 2_000, failure: "timeout", looks: 0 })
      assert.isTrue(yield* store.deliveries.update(first.id, first.fence, unknown))
      const second = yield* leaseOne(store, 2_000)
      deepStrictEqual(
        [second.state, second.looks, second.sentAt, second.lastFailure],
        ["unknown", 0, Option.some(1_500), Option.some("timeout")]
      )
      yield* store.deliveries.update(
        second.id,
        second.fence,
        DeliveryUpdate.Unknown({ ...unknown, looks: 1 })
      )
      assert.strictEqual((yield* leaseOne(store, 2_000)).looks, 1)
    })
  )

  it.scoped("a refused second attempt keeps the time of the first, which may have happened", () =>
    Effect.gen(function* () {
      const store = yield* freshStore
      yield* enqueue(store, "rep_1")
      const first = yield* leaseOne(store, 1_000)
      yield* store.deliveries.update(first.id, first.fence, DeliveryUpdate.Sending({ at: 1_500 }))
      yield* store.deliveries.update(
        first.id,
        first.fence,
        DeliveryUpdate.Unknown({ availableAt: 2_000, failure, looks: 3 })
      )
      const second = yield* leaseOne(store, 2_000)
      yield* store.deliveries.update(second.id, second.fence, DeliveryUpdate.Sending({ at: 2_500 }))
      yield* store.deliveries.update(
        second.id,
        second.fence,
        DeliveryUpdate.Waiting({ availableAt: 3_000, failure })
      )
      const third = yield* leaseOne(store, 3_000)
      deepStrictEqual([third.state, third.attempts, third.sentAt], ["waiting", 2, Option.some(1_500)])
    })
  )

  describe("when the holder of a lease dies", () => {
    it.scoped("before sending, the work comes back as it was", () =>
      Effect.gen(function* () {
        const store = yield* freshStore
        yield* enqueue(store, "rep_1")
        yield* leaseOne(store, 1_000)
        deepStrictEqual(yield* lease(store, 60_999), [])
        const again = yield* leaseOne(store, 61_000)
        deepStrictEqual([again.state, again.attempts, again.fence], ["waiting", 0, 2])
      })
    )

    it.scoped("while sending for the first time, the outcome is unknown", () =>
      Effect.gen(function* () {
        const store = yield* freshStore
        yield* enqueue(store, "rep_1")
        const first = yield* leaseOne(store, 1_000)
        yield* store.deliveries.update(first.id, first.fence, DeliveryUpdate.Sending({ at: 1_500 }))
        const second = yield* leaseOne(store, 61_000)
        deepStrictEqual([second.state, second.attempts, second.sentAt], ["unknown", 1, Option.some(1_500)])
      })
    )

    it.scoped("while sending again, the looks at the earlier attempt no longer count", () =>
      Effect.gen(function* () {
        const store = yield* freshStore
        yield* enqueue(store, "rep_1")
        const first = yield* leaseOne(store, 1_000)
        yield* store.deliveries.update(
          first.id,
          first.fence,
          DeliveryUpdate.Unknown({ availableAt: 1_000, failure, looks: 3 })
        )
        const second = yield* leaseOne(store, 1_000)
        yield* store.deliveries.update(second.id, second.fence, DeliveryUpdate.Sending({ at: 1_500 }))
        const third = yield* leaseOne(store, 61_000)
        deepStrictEqual(
          [third.state, third.looks, third.sentAt, third.fence],
          ["unknown", 0, Option.some(1_500), 3]
        )
      })
    )

    it.scoped("while looking, the outcome is still unknown and the looks count", () =>
      Effect.gen(function* () {
        const store = yield* freshStore
        yield* enqueue(store, "rep_1")
        const first = yield* leaseOne(store, 1_000)
        yield* store.deliveries.update(first.id, first.fence, DeliveryUpdate.Sending({ at: 1_500 }))
        yield* store.deliveries.update(
          first.id,
          first.fence,
          DeliveryUpdate.Unknown({ availableAt: 2_000, failure, looks: 1 })
        )
        yield* leaseOne(store, 2_000)
        const third = yield* leaseOne(store, 62_000)
        deepStrictEqual([third.state, third.looks, third.sentAt], ["unknown", 1, Option.some(1_500)])
      })
    )
  })

  it.scoped("a write under an older fence changes nothing, whatever it says", () =>
    Effect.gen(function* () {
      const store = yield* freshStore
      yield* enqueue(store, "rep_1")
      const stale = yield* leaseOne(store, 1_000)
      const current = yield* leaseOne(store, 61_000)
      const before = yield* found(store, current)
      const updates = [
        DeliveryUpdate.Sending({ at: 1 }),
        DeliveryUpdate.Delivered({ at: 1, issue }),
        DeliveryUpdate.Waiting({ availableAt: 1, failure }),
        DeliveryUpdate.Unknown({ availableAt: 1, failure, looks: 1 }),
        DeliveryUpdate.Failed({ at: 1, failure })
      ]
      for (const update of updates)
        assert.isFalse(yield* store.deliveries.update(stale.id, stale.fence, update), update._tag)
      assert.isFalse(yield* store.deliveries.extend(stale.id, stale.fence, 1))
      deepStrictEqual(yield* found(store, current), before)
      const report = yield* store.reports.find("rep_1")
      deepStrictEqual(
        Option.flatMap(report, (stored) => stored.issue),
        Option.none()
      )
      assert.isTrue(
        yield* store.deliveries.update(current.id, current.fence, DeliveryUpdate.Delivered({ at: 1, issue }))
      )
    })
  )

  it.scoped("a lease that was handed back cannot be written under again", () =>
    Effect.gen(function* () {
      const store = yield* freshStore
      yield* enqueue(store, "rep_1")
      const { id, fence } = yield* leaseOne(store, 1_000)
      yield* store.deliveries.update(id, fence, DeliveryUpdate.Waiting({ availableAt: 1_000, failure }))
      assert.isFalse(yield* store.deliveries.update(id, fence, DeliveryUpdate.Sending({ at: 1_000 })))
      assert.isFalse(yield* store.deliveries.extend(id, fence, 90_000))
    })
  )

  it.scoped("counts by state", () =>
    Effect.gen(function* () {
      const store = yield* freshStore
      yield* enqueue(store, "rep_1", "rep_2", "rep_3")
      yield* leaseOne(store, 1_000)
      deepStrictEqual(yield* store.deliveries.counts, [
        { kind: "report", state: "leased", count: 1 },
        { kind: "report", state: "waiting", count: 2 }
      ])
    })
  )

  it.scoped("two stores on one file never lease the same work", () =>
    Effect.gen(function* () {
      const path = yield* freshPath
      const one = yield* openStore(path)
      const other = yield* openStore(path)
      yield* enqueue(one, ...Array.from({ length: 30 }, (_, index) => `rep_${index}`))
      const takeAll = (store: StoreService, owner: string) =>
        Effect.forEach(
          Array.from({ length: 10 }),
          () => Effect.zipLeft(lease(store, 5_000, 2, owner), Effect.yieldNow()),
          { concurrency: "unbounded" }
        )
      const leased = yield* Effect.all([takeAll(one, "one"), takeAll(other, "other")], {
        concurrency: "unbounded"
      })
      const subjects = leased.flat(2).map(({ subject }) => subject)
      assert.strictEqual(subjects.length, 30)
      assert.strictEqual(new Set(subjects).size, 30)
    })
  )
})
