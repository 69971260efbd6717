import { assert, describe } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { type Delivery, DeliveryUpdate, type StoreService } from "../../../../src/services/Store.ts"
import { onBoth, sampleReport } from "../Stores.ts"

const issue = { number: 57, url: "https://github.com/harbor/music/issues/57" }
const failure = "rate limited"
const filed = (at: number, sweepAt?: number) =>
  DeliveryUpdate.Delivered({ at, issue: Option.some(issue), sweepAt: Option.fromNullable(sweepAt) })

const enqueue = ({ reports }: StoreService, ...ids: ReadonlyArray<string>) =>
  Effect.forEach(ids, (id, index) =>
    reports.admit(sampleReport({ id, keyDigest: id, createdAt: 1_000 + index }), true)
  )

const kinds = ["report", "sweep"] as const

const lease = ({ deliveries }: StoreService, now: number, count = 10, owner = "worker", concurrency = 100) =>
  deliveries.lease({ kinds, count, concurrency, now, leaseUntil: now + 60_000, owner })

const leaseOne = (store: StoreService, now: number) =>
  Effect.flatMap(lease(store, now, 1), ([delivery]) =>
    delivery === undefined ? Effect.dieMessage("nothing was due") : Effect.succeed(delivery)
  )

const found = ({ deliveries }: StoreService, { id }: Delivery) =>
  Effect.map(deliveries.find(id), Option.getOrThrow)

onBoth("Deliveries", ({ freshPath, freshStore, openStore }) => {
  it.scoped("a new delivery is due at once", function* () {
    const store = yield* freshStore
    yield* enqueue(store, "rep_1")
    deepStrictEqual(yield* store.deliveries.nextDueAt(kinds), Option.some(1_000))
    const delivery = yield* leaseOne(store, 1_000)
    const expected: Delivery = {
      id: delivery.id,
      kind: "report",
      subject: "rep_1",
      state: "waiting",
      attempts: 0,
      availableAt: 1_000,
      sentAt: Option.none(),
      searches: 0,
      lastFailure: Option.none(),
      fence: 1,
      createdAt: 1_000,
      discardedAt: Option.none()
    }
    deepStrictEqual(delivery, expected)
    deepStrictEqual(yield* found(store, delivery), { ...expected, state: "leased" })
  })

  it.scoped("a leased delivery is due when its lease ends, and an extension moves that time", function* () {
    const store = yield* freshStore
    yield* enqueue(store, "rep_1")
    const { id, fence } = yield* leaseOne(store, 1_000)
    deepStrictEqual(yield* store.deliveries.nextDueAt(kinds), Option.some(61_000))
    assert.isTrue(yield* store.deliveries.extend(id, fence, 90_000))
    deepStrictEqual(yield* store.deliveries.nextDueAt(kinds), Option.some(90_000))
    deepStrictEqual(yield* lease(store, 89_999), [])
    assert.strictEqual((yield* leaseOne(store, 90_000)).fence, 2)
    assert.isFalse(yield* store.deliveries.extend(id, fence, 120_000))
  })

  it.scoped("Delivered writes the issue to the report and ends the delivery", function* () {
    const store = yield* freshStore
    yield* enqueue(store, "rep_1", "rep_2")
    const delivery = yield* leaseOne(store, 2_000)
    const { id, fence } = delivery
    yield* store.deliveries.update(id, fence, DeliveryUpdate.Sending({ at: 2_500 }))
    assert.isTrue(yield* store.deliveries.update(id, fence, filed(3_000)))
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

  it.scoped("Failed is listed and final", function* () {
    const store = yield* freshStore
    yield* enqueue(store, "rep_1")
    const delivery = yield* leaseOne(store, 1_000)
    for (const update of [
      DeliveryUpdate.Sending({ at: 1_500 }),
      DeliveryUpdate.Failed({ at: 2_000, failure })
    ])
      assert.isTrue(yield* store.deliveries.update(delivery.id, delivery.fence, update))
    const row = yield* found(store, delivery)
    deepStrictEqual([row.state, row.lastFailure, row.sentAt], ["failed", Option.some(failure), Option.none()])
    deepStrictEqual(yield* store.deliveries.nextDueAt(kinds), Option.none())
    deepStrictEqual(yield* lease(store, 1_000_000), [])
    deepStrictEqual(yield* store.deliveries.counts, [{ kind: "report", state: "failed", count: 1 }])
  })

  const sending = (at: number) => DeliveryUpdate.Sending({ at })
  const waiting = (availableAt: number) => DeliveryUpdate.Waiting({ availableAt, failure })
  const unknown = (availableAt: number, searches: number) =>
    DeliveryUpdate.Unknown({ availableAt, failure, searches })
  /** Each lease begins at `at` and makes these updates; without a final update, its holder dies. */
  const histories: ReadonlyArray<{
    readonly name: string
    readonly leases: ReadonlyArray<readonly [at: number, ...updates: ReadonlyArray<DeliveryUpdate>]>
    /** The time of the next lease, and its result: state, attempts, searches and time of the send. */
    readonly next: readonly [number, string, number, number, number | null]
  }> = [
    {
      name: "a failed attempt without effect leaves no send time",
      leases: [[1_000, sending(1_500), waiting(2_000)]],
      next: [2_000, "waiting", 1, 0, null]
    },
    {
      name: "an unknown outcome keeps its searches and its send time",
      leases: [
        [1_000, sending(1_500), unknown(2_000, 0)],
        [2_000, unknown(2_000, 1)]
      ],
      next: [2_000, "unknown", 1, 1, 1_500]
    },
    {
      name: "a refused second attempt keeps the send time of the first, whose outcome is unknown",
      leases: [
        [1_000, sending(1_500), unknown(2_000, 3)],
        [2_000, sending(2_500), waiting(3_000)]
      ],
      next: [3_000, "waiting", 2, 3, 1_500]
    },
    {
      name: "a holder that dies before it sends leaves the delivery as it was",
      leases: [[1_000]],
      next: [61_000, "waiting", 0, 0, null]
    },
    {
      name: "a holder that dies while it sends leaves an unknown outcome",
      leases: [[1_000, sending(1_500)]],
      next: [61_000, "unknown", 1, 0, 1_500]
    },
    {
      name: "a holder that dies while it sends again voids the searches for the earlier attempt",
      leases: [
        [1_000, sending(1_200), unknown(1_300, 3)],
        [1_300, sending(1_500)]
      ],
      next: [61_300, "unknown", 2, 0, 1_500]
    },
    {
      name: "a holder that dies while it searches leaves the searches counted",
      leases: [[1_000, sending(1_500), unknown(2_000, 1)], [2_000]],
      next: [62_000, "unknown", 1, 1, 1_500]
    }
  ]
  for (const { leases, name, next } of histories)
    it.scoped(name, function* () {
      const store = yield* freshStore
      yield* enqueue(store, "rep_1")
      for (const [at, ...updates] of leases) {
        const { fence, id } = yield* leaseOne(store, at)
        for (const update of updates) assert.isTrue(yield* store.deliveries.update(id, fence, update))
      }
      const [at, ...expected] = next
      if (at > 60_000) deepStrictEqual(yield* lease(store, at - 1), [])
      const { attempts, fence, searches, sentAt, state } = yield* leaseOne(store, at)
      deepStrictEqual([state, attempts, searches, Option.getOrNull(sentAt)], expected)
      assert.strictEqual(fence, leases.length + 1)
    })

  it.scoped("no write under an older fence has an effect", function* () {
    const store = yield* freshStore
    yield* enqueue(store, "rep_1")
    const stale = yield* leaseOne(store, 1_000)
    const current = yield* leaseOne(store, 61_000)
    const before = yield* found(store, current)
    const updates = [
      DeliveryUpdate.Sending({ at: 1 }),
      filed(1),
      DeliveryUpdate.Waiting({ availableAt: 1, failure }),
      DeliveryUpdate.Unknown({ availableAt: 1, failure, searches: 1 }),
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
    assert.isTrue(yield* store.deliveries.update(current.id, current.fence, filed(1)))
  })

  it.scoped("all processes together hold no more than the concurrency allows", function* () {
    const path = yield* freshPath
    const one = yield* openStore(path)
    const other = yield* openStore(path)
    yield* enqueue(one, "rep_1", "rep_2", "rep_3", "rep_4")
    assert.strictEqual((yield* lease(one, 5_000, 2, "one", 3)).length, 2)
    const [third, ...more] = yield* lease(other, 5_000, 2, "other", 3)
    deepStrictEqual(more, [])
    deepStrictEqual(yield* lease(one, 5_000, 2, "one", 3), [])
    if (third === undefined) return assert.fail("one place was free")
    yield* other.deliveries.update(third.id, third.fence, filed(6_000))
    assert.strictEqual((yield* lease(one, 6_000, 2, "one", 3)).length, 1)
    deepStrictEqual(yield* lease(one, 6_000, 2, "one", 3), [])
    assert.strictEqual((yield* lease(one, 64_999, 2, "one", 3)).length, 0)
    assert.strictEqual((yield* lease(other, 65_000, 9, "other", 3)).length, 2, "two leases have ended")
  })

  it.scoped("leases of several processes at the same time hold no more either", function* () {
    const path = yield* freshPath
    const first = yield* openStore(path)
    const others = yield* Effect.replicateEffect(openStore(path), 3)
    yield* enqueue(first, "rep_1", "rep_2", "rep_3", "rep_4")
    const leases = yield* Effect.forEach(
      [first, ...others],
      (store, at) => lease(store, 5_000, 1, `${at}`, 2),
      {
        concurrency: "unbounded"
      }
    )
    assert.strictEqual(leases.flat().length, 2)
  })

  it.scoped("at full concurrency no delivery falls due before the first lease ends", function* () {
    const store = yield* freshStore
    yield* enqueue(store, "rep_1", "rep_2")
    deepStrictEqual(yield* store.deliveries.nextDueAt(kinds, 1), Option.some(1_000))
    yield* leaseOne(store, 2_000)
    deepStrictEqual(yield* store.deliveries.nextDueAt(kinds, 1), Option.some(62_000))
    deepStrictEqual(yield* store.deliveries.nextDueAt(kinds, 2), Option.some(1_001))
    yield* leaseOne(store, 3_000)
    deepStrictEqual(yield* store.deliveries.nextDueAt(kinds, 2), Option.some(62_000))
  })

  it.scoped("a sweep is enqueued in the transaction of the delivery", function* () {
    const store = yield* freshStore
    yield* enqueue(store, "rep_1")
    const stale = yield* leaseOne(store, 1_000)
    const { id, fence } = yield* leaseOne(store, 61_000)
    assert.isFalse(yield* store.deliveries.update(stale.id, stale.fence, filed(62_000, 70_000)))
    deepStrictEqual(yield* store.deliveries.find("sweep:rep_1"), Option.none())
    assert.isTrue(yield* store.deliveries.update(id, fence, filed(62_000, 70_000)))
    deepStrictEqual(yield* lease(store, 69_999), [])
    const sweep = yield* leaseOne(store, 70_000)
    deepStrictEqual(
      [sweep.id, sweep.kind, sweep.subject, sweep.state, sweep.createdAt],
      ["sweep:rep_1", "sweep", "rep_1", "waiting", 62_000]
    )
    const original = { number: 3, url: "https://github.com/harbor/music/issues/3" }
    const found = DeliveryUpdate.Delivered({
      at: 71_000,
      issue: Option.some(original),
      sweepAt: Option.none()
    })
    assert.isTrue(yield* store.deliveries.update(sweep.id, sweep.fence, found))
    deepStrictEqual(Option.getOrThrow(yield* store.reports.find("rep_1")).issue, Option.some(original))
  })

  it.scoped("a delivery without an issue leaves the report unchanged", function* () {
    const store = yield* freshStore
    yield* enqueue(store, "rep_1")
    const { id, fence } = yield* leaseOne(store, 1_000)
    yield* store.deliveries.update(id, fence, filed(2_000, 3_000))
    const sweep = yield* leaseOne(store, 3_000)
    const nothing = DeliveryUpdate.Delivered({ at: 4_000, issue: Option.none(), sweepAt: Option.none() })
    assert.isTrue(yield* store.deliveries.update(sweep.id, sweep.fence, nothing))
    deepStrictEqual(Option.getOrThrow(yield* store.reports.find("rep_1")).issue, Option.some(issue))
  })

  describe("an operator", () => {
    const failWith = (store: StoreService, sent: boolean) =>
      Effect.gen(function* () {
        yield* enqueue(store, "rep_1")
        const { id, fence } = yield* leaseOne(store, 1_000)
        if (sent) yield* store.deliveries.update(id, fence, DeliveryUpdate.Sending({ at: 1_500 }))
        yield* store.deliveries.update(id, fence, DeliveryUpdate.Failed({ at: 2_000, failure }))
        return id
      })

    it.scoped("retries a failed delivery with a search first, also when no send is recorded", function* () {
      for (const [sent, attempts] of [
        [true, 1],
        [false, 0]
      ] as const) {
        const store = yield* freshStore
        assert.isTrue(yield* store.deliveries.retry(yield* failWith(store, sent), 9_000))
        const again = yield* leaseOne(store, 9_000)
        deepStrictEqual(
          [again.state, again.availableAt, again.searches, again.attempts],
          ["unknown", 9_000, 0, attempts]
        )
      }
    })

    it.scoped("makes a waiting delivery due now, and restarts the searches of an unknown one", function* () {
      const store = yield* freshStore
      yield* enqueue(store, "rep_1", "rep_2")
      const [first, second] = yield* lease(store, 5_000)
      if (first === undefined || second === undefined) return assert.fail("two were due")
      const later = { availableAt: 90_000, failure }
      yield* store.deliveries.update(first.id, first.fence, DeliveryUpdate.Waiting(later))
      yield* store.deliveries.update(second.id, second.fence, DeliveryUpdate.Sending({ at: 5_000 }))
      const unknown = DeliveryUpdate.Unknown({ ...later, searches: 2 })
      yield* store.deliveries.update(second.id, second.fence, unknown)
      for (const { id } of [first, second]) assert.isTrue(yield* store.deliveries.retry(id, 6_000))
      deepStrictEqual(
        (yield* lease(store, 6_000)).map(({ searches, sentAt, state }) => [state, searches, sentAt]),
        [
          ["unknown", 0, Option.some(5_000)],
          ["waiting", 0, Option.none()]
        ]
      )
    })

    it.scoped("retries a delivery whose last attempt was refused with a search first", function* () {
      const store = yield* freshStore
      yield* enqueue(store, "rep_1")
      const { id, fence } = yield* leaseOne(store, 1_000)
      for (const update of [sending(1_500), waiting(90_000)])
        yield* store.deliveries.update(id, fence, update)
      yield* store.deliveries.retry(id, 6_000)
      assert.strictEqual((yield* leaseOne(store, 6_000)).state, "unknown")
    })

    it.scoped("discards a delivery, and can retry it later", function* () {
      const store = yield* freshStore
      yield* enqueue(store, "rep_1")
      assert.isTrue(yield* store.deliveries.discard("report:rep_1", 4_000, "spam"))
      const row = Option.getOrThrow(yield* store.deliveries.find("report:rep_1"))
      deepStrictEqual([row.state, row.lastFailure], ["failed", Option.some("spam")])
      deepStrictEqual(yield* lease(store, 9_000), [])
      assert.strictEqual(yield* store.retention.reports(5_000), 1)
      assert.strictEqual(yield* store.retention.deliveries(4_001), 1, "it is over since then")
      yield* enqueue(store, "rep_2")
      yield* store.deliveries.discard("report:rep_2", 4_000, "spam")
      assert.isTrue(yield* store.deliveries.retry("report:rep_2", 5_000))
      deepStrictEqual(yield* store.deliveries.oldestOpen, Option.some(1_000), "it is not over any more")
      assert.strictEqual(yield* store.retention.deliveries(9_000), 0)
    })

    it.scoped(
      "marks a discarded delivery, which neither counts as failed nor is retried with failed ones",
      function* () {
        const store = yield* freshStore
        yield* enqueue(store, "rep_1", "rep_2")
        const [first, second] = yield* lease(store, 5_000)
        if (first === undefined || second === undefined) return assert.fail("two were due")
        for (const { fence, id } of [first, second])
          yield* store.deliveries.update(id, fence, DeliveryUpdate.Failed({ at: 6_000, failure }))
        assert.isTrue(yield* store.deliveries.discard(first.id, 7_000, "filed by hand"))
        deepStrictEqual((yield* found(store, first)).discardedAt, Option.some(7_000))
        deepStrictEqual((yield* found(store, second)).discardedAt, Option.none())
        deepStrictEqual(yield* store.deliveries.counts, [{ kind: "report", state: "failed", count: 1 }])
        assert.isFalse(yield* store.deliveries.retry(first.id, 8_000, { onlyFailed: true }))
        assert.isTrue(yield* store.deliveries.retry(second.id, 8_000, { onlyFailed: true }))
        assert.isFalse(
          yield* store.deliveries.retry(second.id, 8_000, { onlyFailed: true }),
          "it waits already"
        )
        deepStrictEqual(
          (yield* lease(store, 9_000)).map(({ id }) => id),
          [second.id]
        )
      }
    )

    it.scoped("retries a discarded delivery by id, with a search first", function* () {
      const store = yield* freshStore
      yield* enqueue(store, "rep_1")
      yield* store.deliveries.discard("report:rep_1", 4_000, "filed by hand")
      // Also after a second retry.
      for (const at of [5_000, 5_500]) assert.isTrue(yield* store.deliveries.retry("report:rep_1", at))
      const again = yield* leaseOne(store, 6_000)
      deepStrictEqual([again.state, again.discardedAt], ["unknown", Option.none()])
      // A later failure waits for an operator again.
      yield* store.deliveries.update(again.id, again.fence, DeliveryUpdate.Failed({ at: 7_000, failure }))
      deepStrictEqual((yield* found(store, again)).discardedAt, Option.none())
      deepStrictEqual(yield* store.deliveries.counts, [{ kind: "report", state: "failed", count: 1 }])
    })

    it.scoped("changes no leased, delivered or missing delivery", function* () {
      const store = yield* freshStore
      const refused = (id: string) =>
        Effect.gen(function* () {
          assert.isFalse(yield* store.deliveries.retry(id, 9_000))
          assert.isFalse(yield* store.deliveries.discard(id, 9_000, "no"))
        })
      yield* enqueue(store, "rep_1")
      const { id, fence } = yield* leaseOne(store, 1_000)
      yield* refused(id)
      assert.isTrue(yield* store.deliveries.update(id, fence, filed(2_000)))
      yield* refused(id)
      yield* refused("report:rep_9")
    })
  })

  it.scoped("the end of a lease and an operator's change wake the worker, a send does not", function* () {
    const store = yield* freshStore
    yield* enqueue(store, "rep_1")
    yield* store.wakeups.deliveries
    const { id, fence } = yield* leaseOne(store, 1_000)
    const woken = yield* Effect.fork(store.wakeups.deliveries)
    yield* store.deliveries.update(id, fence, sending(1_500))
    yield* Effect.yieldNow()
    assert.isTrue(Option.isNone(yield* Fiber.poll(woken)))
    yield* store.deliveries.update(id, fence, waiting(90_000))
    yield* Fiber.join(woken)
    yield* store.deliveries.retry(id, 2_000)
    yield* store.wakeups.deliveries
  })

  it.scoped("the oldest open delivery is a report; sweeps do not count", function* () {
    const store = yield* freshStore
    deepStrictEqual(yield* store.deliveries.oldestOpen, Option.none())
    yield* enqueue(store, "rep_1", "rep_2")
    const { id, fence } = yield* leaseOne(store, 2_000)
    deepStrictEqual(yield* store.deliveries.oldestOpen, Option.some(1_000))
    yield* store.deliveries.update(id, fence, filed(3_000, 9_000))
    deepStrictEqual(yield* store.deliveries.oldestOpen, Option.some(1_001))
    yield* store.deliveries.discard("report:rep_2", 4_000, "spam")
    deepStrictEqual(yield* store.deliveries.oldestOpen, Option.none())
  })
})
