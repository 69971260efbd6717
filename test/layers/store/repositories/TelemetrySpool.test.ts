/** The spool: what it takes, who holds what of it, and how each record is counted that leaves it. */
import { assert } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import { Effect, Option, TestClock } from "effect"
import type { SpoolCounts, SpoolEntry, TelemetrySpool } from "../../../../src/services/Store.ts"
import { sampleEntry, sampleSpoolLease } from "../Samples.ts"
import { onBoth } from "../Stores.ts"

const none = { accepted: 0, delivered: 0, duplicates: 0, expired: 0, refused: 0, waiting: 0, waitingBytes: 0 }
const ids = (some: ReadonlyArray<SpoolEntry>) => some.map(({ recordId }) => recordId)
type Settled = Parameters<TelemetrySpool["settle"]>[0]

const other = "musicfrontendevents"
const roomy = { limitBytes: 1_000_000 }
const entries = (...recordIds: ReadonlyArray<string>) => recordIds.map((recordId) => sampleEntry(recordId))
const settle = (spool: TelemetrySpool, change: Partial<Settled>) =>
  spool.settle({ owner: "worker", now: 3_000, delivered: [], duplicates: [], refused: [], ...change })
const counted = (spool: TelemetrySpool, expected: Partial<SpoolCounts>) =>
  Effect.map(spool.counts, (counts) =>
    deepStrictEqual(counts, [{ table: "musicclidaemon", ...none, ...expected }])
  )

onBoth("TelemetrySpool", ({ freshPath, freshStore, openStore, rawQuery }) => {
  it.scoped("takes a batch that fits, or none of it, and what is known at any time", function* () {
    const path = yield* freshPath
    const { spool } = yield* openStore(path)
    const offer = (limitBytes: number, ...recordIds: ReadonlyArray<string>) =>
      spool.offer(entries(...recordIds), { limitBytes })
    // Together, each is decided as if it came alone.
    const answers = yield* Effect.all(
      [offer(30, "a", "b", "a"), offer(30, "b", "c", "d"), offer(30, "c", "a"), offer(29, "d")],
      { concurrency: "unbounded" }
    )
    deepStrictEqual(answers, ["accepted", "full", "accepted", "full"])
    deepStrictEqual([yield* offer(0, "a", "b"), yield* offer(0)], ["accepted", "accepted"])
    yield* counted(spool, { accepted: 7, duplicates: 4, waiting: 3, waitingBytes: 30 })
    // The bound is one of all tables.
    const elsewhere = [sampleEntry("e", { table: other })]
    deepStrictEqual(yield* spool.offer(elsewhere, { limitBytes: 39 }), "full")
    deepStrictEqual(yield* spool.offer(elsewhere, { limitBytes: 40 }), "accepted")
    const rows = yield* rawQuery(path, "SELECT record_id FROM spool ORDER BY sequence")
    deepStrictEqual(rows.flatMap(Object.values), ["a", "b", "c", "e"])
  })

  it.scoped(
    "leases the oldest of some tables, by number and bytes, to one owner until the end",
    function* () {
      const { retention, spool } = yield* freshStore
      const whole = sampleEntry("a", { json: '{"text":"ä \\"quoted\\""}', bytes: 30, eventAt: 950 })
      yield* spool.offer([whole, ...entries("b"), sampleEntry("c", { table: other }), ...entries("d")], roomy)
      const lease = (change: Parameters<typeof sampleSpoolLease>[0] = {}) =>
        spool.lease(sampleSpoolLease(change))
      const until = 2_100
      // At least one, however large.
      deepStrictEqual(yield* lease({ bytes: 29, leaseUntil: until }), [whole])
      const only = (table: typeof other | "musicclidaemon") => ({ tables: new Set([table]) })
      deepStrictEqual(ids(yield* lease({ ...only(other), leaseUntil: until })), ["c"])
      deepStrictEqual(ids(yield* lease({ count: 1, leaseUntil: until })), ["b"])
      deepStrictEqual(ids(yield* lease({ tables: new Set(), now: until })), [])
      yield* spool.release("other", ["a"])
      deepStrictEqual(ids(yield* lease({ leaseUntil: until })), ["d"])
      yield* spool.release("worker", ["b", "d"])
      deepStrictEqual(ids(yield* lease({ bytes: 20, owner: "other", leaseUntil: until })), ["b", "d"])
      // Neither expired nor settled by one who holds them no longer.
      yield* TestClock.setTime(until - 1)
      assert.strictEqual(yield* retention.telemetry(1_001), 0)
      yield* settle(spool, {
        delivered: ["b"],
        duplicates: ["d"],
        refused: [{ recordId: "x", code: "invalid" }]
      })
      deepStrictEqual(ids(yield* lease({ now: until - 1 })), [])
      // A clock that was ahead wrote a lease of more than an hour and a minute.
      const ahead = until + 3_660_000
      for (const leaseUntil of [ahead + 1, ahead])
        deepStrictEqual(ids(yield* lease({ now: until, leaseUntil })), ["a", "b", "c", "d"])
      deepStrictEqual(ids(yield* lease({ now: until })), [])
      assert.strictEqual(yield* retention.telemetry(1_001), 4)
    }
  )

  it.scoped("counts each record that leaves it once, with its table", function* () {
    const { queries, retention, spool } = yield* openStore(yield* freshPath)
    yield* spool.offer([...entries("a", "b", "c", "d"), sampleEntry("e", { table: other })], roomy)
    yield* spool.lease(sampleSpoolLease({ leaseUntil: 2_100 }))
    const refused = [{ recordId: "c", code: "invalid" }]
    const outcomes = { delivered: ["a", "e"], duplicates: ["b"], refused }
    for (let twice = 0; twice < 2; twice += 1) yield* settle(spool, outcomes)
    yield* TestClock.setTime(2_100)
    deepStrictEqual([yield* retention.telemetry(1_000), yield* retention.telemetry(1_001)], [0, 1])
    const left = { accepted: 4, delivered: 1, duplicates: 1, expired: 1, refused: 1 }
    deepStrictEqual(yield* spool.counts, [
      { table: "musicclidaemon", ...none, ...left },
      { table: other, ...none, accepted: 1, delivered: 1 }
    ])
    // Delivered ones and duplicates are known; others are taken again, and listed once when they are refused again.
    yield* spool.offer(entries("a", "b", "c", "d"), roomy)
    deepStrictEqual(ids(yield* spool.lease(sampleSpoolLease())), ["c", "d"])
    yield* settle(spool, { now: 4_000, refused: [{ recordId: "c", code: "unauthorized" }] })
    const { items } = yield* queries.refusals({}, { limit: 2, after: Option.none() })
    const listed = { recordId: "c", tableName: "musicclidaemon", eventAt: 900, bytes: 10 }
    deepStrictEqual(items, [{ ...listed, code: "unauthorized", refusedAt: 4_000 }])
  })

  it.scoped("takes batches larger than a statement, and forgets ids that are removed", function* () {
    const { retention, spool } = yield* freshStore
    const many = Array.from({ length: 250 }, (_, index) => `id-${index}`)
    yield* spool.offer(entries(...many), roomy)
    const half = ids(yield* spool.lease(sampleSpoolLease({ count: 125 })))
    deepStrictEqual(half, many.slice(0, 125))
    yield* settle(spool, { delivered: half })
    // The newest of them.
    deepStrictEqual(yield* spool.newestDeliveredSince(125), Option.some(3_000))
    deepStrictEqual(yield* spool.newestDeliveredSince(126), Option.none())
    yield* spool.offer(entries(...many), roomy)
    const waiting = { waiting: 125, waitingBytes: 1_250 }
    yield* counted(spool, { accepted: 500, delivered: 125, duplicates: 250, ...waiting })
    assert.strictEqual(yield* retention.deliveredIds(5_000), 125)
    yield* spool.offer(entries(...half), roomy)
    const taken = { waiting: 250, waitingBytes: 2_500 }
    yield* counted(spool, { accepted: 625, delivered: 125, duplicates: 250, ...taken })
  })
})
