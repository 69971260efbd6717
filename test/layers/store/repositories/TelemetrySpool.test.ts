import { assert, describe } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import type { SpoolCounts, SpoolEntry, TelemetrySpool } from "../../../../src/services/Store.ts"
import { onBoth, sampleEntry, sampleSpoolLease } from "../Stores.ts"

const roomy = { limitBytes: 1_000_000 }
const none = {
  table: "musicclidaemon",
  accepted: 0,
  delivered: 0,
  duplicates: 0,
  expired: 0,
  refused: 0,
  waiting: 0,
  waitingBytes: 0
} as const

const entries = (...ids: ReadonlyArray<string>) => ids.map((id) => sampleEntry(id))
const ids = (some: ReadonlyArray<SpoolEntry>) => some.map(({ recordId }) => recordId)

const lease = (spool: TelemetrySpool, change: Partial<Parameters<TelemetrySpool["lease"]>[0]> = {}) =>
  spool.lease(sampleSpoolLease(change))

const settle = (spool: TelemetrySpool, change: Partial<Parameters<TelemetrySpool["settle"]>[0]>) =>
  spool.settle({ owner: "worker", now: 3_000, delivered: [], duplicates: [], refused: [], ...change })

const counted = (spool: TelemetrySpool, expected: Partial<SpoolCounts>) =>
  Effect.gen(function* () {
    const counts = yield* spool.counts
    deepStrictEqual(
      counts.find(({ table }) => table === (expected.table ?? none.table)),
      { ...none, ...expected }
    )
  })

onBoth("TelemetrySpool", ({ freshPath, freshStore, rawQuery, withStore }) => {
  it.scoped("accepts batches larger than one statement", function* () {
    const { spool } = yield* freshStore
    const many = Array.from({ length: 450 }, (_, index) => `id-${index}`)
    yield* spool.offer(entries(...many), roomy)
    yield* spool.offer(entries(...many), roomy)
    deepStrictEqual(ids(yield* lease(spool, { count: 1_000 })), many)
    yield* settle(spool, { delivered: many })
    yield* counted(spool, { accepted: 900, delivered: 450, duplicates: 450 })
  })

  describe("a repeated record is counted as a duplicate and stored once", () => {
    it.scoped("after delivery, while it is among the newest remembered ids", function* () {
      const { spool } = yield* freshStore
      const many = Array.from({ length: 1_205 }, (_, index) => `id-${index}`)
      yield* spool.offer(entries(...many), roomy)
      yield* lease(spool, { count: 2_000 })
      yield* settle(spool, { now: 3_000, delivered: many.slice(0, 1_200) })
      for (const id of many.slice(1_200)) yield* settle(spool, { now: 4_000, delivered: [id] })
      const keep = (deliveredAtMost: number) =>
        spool.expire({ acceptedBefore: 0, deliveredBefore: 0, deliveredAtMost })
      yield* keep(1_205)
      yield* spool.offer(entries(...many), roomy)
      yield* counted(spool, { accepted: 2_410, delivered: 1_205, duplicates: 1_205 })
      yield* keep(5)
      yield* spool.offer(entries(...many), roomy)
      yield* counted(spool, {
        accepted: 3_615,
        delivered: 1_205,
        duplicates: 1_210,
        waiting: 1_200,
        waitingBytes: 12_000
      })
    })
  })

  describe("at its bound", () => {
    it.scoped("still accepts records that are waiting already", function* () {
      const { spool } = yield* freshStore
      yield* spool.offer(entries("a", "b"), roomy)
      assert.strictEqual(yield* spool.offer(entries("a", "b"), { limitBytes: 5 }), "accepted")
      assert.strictEqual(yield* spool.offer(entries("a", "c"), { limitBytes: 29 }), "full")
      yield* counted(spool, { accepted: 4, duplicates: 2, waiting: 2, waitingBytes: 20 })
    })

    it.scoped("a share counts only its own table; without one all tables count", function* () {
      const { spool } = yield* freshStore
      const own = (id: string) => [sampleEntry(id, { table: "musicbackend" })]
      yield* spool.offer(entries("a", "b", "c"), roomy)
      const share = { limitBytes: 20, share: "musicbackend" } as const
      assert.strictEqual(yield* spool.offer(own("o1"), share), "accepted")
      assert.strictEqual(yield* spool.offer(own("o2"), share), "accepted")
      assert.strictEqual(yield* spool.offer(own("o3"), share), "full")
      const other = [sampleEntry("d", { table: "musicfrontendevents" })]
      assert.strictEqual(yield* spool.offer(other, { limitBytes: 39 }), "full")
      assert.strictEqual(yield* spool.offer(other, { limitBytes: 40 }), "accepted")
    })

    it.scoped("a share may have a second bound, which all tables count for", function* () {
      const { spool } = yield* freshStore
      const own = (id: string) => [sampleEntry(id, { table: "musicbackend" })]
      yield* spool.offer(entries("a", "b", "c"), roomy)
      const share = { limitBytes: 1_000, share: "musicbackend", wholeBytes: 40 } as const
      assert.strictEqual(yield* spool.offer(own("o1"), share), "accepted")
      assert.strictEqual(yield* spool.offer(own("o2"), share), "full")
      assert.strictEqual(yield* spool.offer(own("o1"), { ...share, wholeBytes: 5 }), "accepted")
    })

    it.scoped(
      "drops the backend's own events for a client's, oldest first and no more than needed",
      function* () {
        const { spool } = yield* freshStore
        // On Postgres, background work of the database does not use the test's clock.
        const leaseUntil = Date.now() + 600_000
        yield* TestClock.setTime(leaseUntil - 600_000)
        const own = (id: string) => sampleEntry(id, { table: "musicbackend" })
        yield* spool.offer([own("o1"), ...entries("a"), own("o2"), own("o3")], roomy)
        // Leased records stay.
        deepStrictEqual(
          ids(
            yield* lease(spool, {
              tables: new Set(["musicbackend"]),
              count: 1,
              leaseUntil
            })
          ),
          ["o1"]
        )
        assert.strictEqual(yield* spool.offer(entries("b"), { limitBytes: 40 }), "accepted")
        deepStrictEqual(ids(yield* lease(spool, { leaseUntil })), ["a", "o3", "b"])
        const [backend] = yield* spool.counts
        assert.strictEqual(backend?.expired, 1)
        assert.strictEqual(backend?.waiting, 2)
        assert.strictEqual(yield* spool.offer(entries("c"), { limitBytes: 40 }), "full")
      }
    )
  })

  describe("leasing", () => {
    it.scoped("is not blocked by records of a closed table, and keeps the order across tables", function* () {
      const { spool } = yield* freshStore
      const other = (id: string) => sampleEntry(id, { table: "musicbackend" })
      const shut = (id: string) => sampleEntry(id, { table: "musicfrontendevents" })
      yield* spool.offer(
        [shut("s1"), other("o1"), other("o2"), ...entries("a"), shut("s2"), other("o3")],
        roomy
      )
      deepStrictEqual(ids(yield* lease(spool, { count: 2 })), ["o1", "o2"])
      deepStrictEqual(ids(yield* lease(spool)), ["a", "o3"])
    })
  })

  it.scoped("leases up to the given bytes, and at least one entry", function* () {
    const { spool } = yield* freshStore
    yield* spool.offer(entries("a", "b", "c", "d"), roomy)
    deepStrictEqual(ids(yield* lease(spool, { bytes: 20 })), ["a", "b"])
    deepStrictEqual(ids(yield* lease(spool, { bytes: 5 })), ["c"])
  })

  it.scoped("only the owner of a lease releases it", function* () {
    const { spool } = yield* freshStore
    yield* spool.offer(entries("a"), roomy)
    yield* lease(spool)
    yield* spool.release("other", ["a"])
    deepStrictEqual(yield* lease(spool), [])
    yield* spool.release("worker", ["a"])
    deepStrictEqual(ids(yield* lease(spool)), ["a"])
  })

  describe("settling", () => {
    it.scoped("counts and remembers records that the service had already", function* () {
      const { spool } = yield* freshStore
      yield* spool.offer(entries("a"), roomy)
      yield* lease(spool)
      yield* settle(spool, { duplicates: ["a"] })
      yield* counted(spool, { accepted: 1, duplicates: 1 })
      yield* spool.offer(entries("a"), roomy)
      yield* counted(spool, { accepted: 2, duplicates: 2 })
    })

    it.scoped(
      "lists refused records with the service's code, and only the newest refusal of each",
      function* () {
        const path = yield* freshPath
        yield* withStore(path, ({ spool }) =>
          Effect.gen(function* () {
            for (const { change, code, now } of [
              { change: {}, code: "invalid", now: 3_000 },
              {
                change: { table: "musicbackend", eventAt: 950, bytes: 12 },
                code: "unauthorized",
                now: 4_000
              }
            ] as const) {
              yield* spool.offer([sampleEntry("a", change), sampleEntry("b")], roomy)
              yield* lease(spool)
              yield* settle(spool, { now, delivered: ["b"], refused: [{ recordId: "a", code }] })
            }
          })
        )
        deepStrictEqual(yield* rawQuery(path, "SELECT * FROM spool_refused"), [
          {
            record_id: "a",
            table_name: "musicbackend",
            code: "unauthorized",
            event_at: 950,
            bytes: 12,
            refused_at: 4_000
          }
        ])
      }
    )
  })

  describe("expiring", () => {
    it.scoped("continues until all old entries are dropped", function* () {
      const { spool } = yield* freshStore
      const many = Array.from({ length: 1_100 }, (_, index) => `id-${index}`)
      yield* spool.offer(entries(...many), roomy)
      yield* lease(spool, { count: 550 })
      yield* settle(spool, { delivered: many.slice(0, 550) })
      yield* spool.expire({ acceptedBefore: 1_000, deliveredBefore: 0, deliveredAtMost: 1_000_000 })
      yield* counted(spool, { accepted: 1_100, delivered: 550, waiting: 550, waitingBytes: 5_500 })
      yield* spool.expire({ acceptedBefore: 5_000, deliveredBefore: 5_000, deliveredAtMost: 1_000_000 })
      yield* counted(spool, { accepted: 1_100, delivered: 550, expired: 550 })
      yield* spool.offer(entries(...many), roomy)
      yield* counted(spool, {
        accepted: 2_200,
        delivered: 550,
        expired: 550,
        waiting: 1_100,
        waitingBytes: 11_000
      })
    })
  })

  it.scoped("an accepted batch wakes the worker, a refused one does not", function* () {
    const { spool, wakeups } = yield* freshStore
    const woken = yield* Effect.fork(wakeups.spool)
    yield* spool.offer(entries("a"), { limitBytes: 5 })
    yield* Effect.yieldNow()
    assert.isTrue(Option.isNone(yield* Fiber.poll(woken)))
    yield* spool.offer(entries("a"), roomy)
    yield* Fiber.join(woken)
  })
})
