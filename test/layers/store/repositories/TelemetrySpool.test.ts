/** What the law of conservation does not reach: large batches, room for clients, refusals, and clocks that were ahead. */
import { assert } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import type { SpoolCounts, SpoolEntry, TelemetrySpool } from "../../../../src/services/Store.ts"
import { onBoth, sampleEntry, sampleSpoolLease } from "../Stores.ts"

const day = 86_400_000
const roomy = { limitBytes: 1_000_000 }
const none = {
  accepted: 0,
  delivered: 0,
  duplicates: 0,
  expired: 0,
  refused: 0,
  waiting: 0,
  waitingBytes: 0
}
const entries = (...ids: ReadonlyArray<string>) => ids.map((id) => sampleEntry(id))
const own = (id: string) => sampleEntry(id, { table: "musicbackend" })
const numbered = (count: number) => Array.from({ length: count }, (_, index) => `id-${index}`)
const ids = (some: ReadonlyArray<SpoolEntry>) => some.map(({ recordId }) => recordId)

const settle = (spool: TelemetrySpool, change: Partial<Parameters<TelemetrySpool["settle"]>[0]>) =>
  spool.settle({ owner: "worker", now: 3_000, delivered: [], duplicates: [], refused: [], ...change })

const counted = (spool: TelemetrySpool, expected: Partial<SpoolCounts>) =>
  Effect.gen(function* () {
    deepStrictEqual(yield* spool.counts, [{ table: "musicclidaemon", ...none, ...expected }])
  })

onBoth("TelemetrySpool", ({ freshPath, freshStore, openStore, rawQuery }) => {
  it.scoped("takes batches larger than a statement, expires them all, and accepts them again", function* () {
    const { spool } = yield* freshStore
    const many = numbered(1_100)
    const half = many.slice(0, 550)
    yield* spool.offer(entries(...many), roomy)
    yield* spool.offer(entries(...many), roomy)
    deepStrictEqual(ids(yield* spool.lease(sampleSpoolLease({ count: 550 }))), half)
    yield* settle(spool, { delivered: half })
    const expire = (before: number) =>
      spool.expire({ acceptedBefore: before, deliveredBefore: before, deliveredAtMost: 1_000_000 })
    const shipped = { accepted: 2_200, delivered: 550, duplicates: 1_100 }
    yield* expire(1_000)
    yield* counted(spool, { ...shipped, waiting: 550, waitingBytes: 5_500 })
    yield* expire(5_000)
    yield* counted(spool, { ...shipped, expired: 550 })
    yield* spool.offer(entries(...many), roomy)
    yield* counted(spool, {
      ...shipped,
      accepted: 3_300,
      expired: 550,
      waiting: 1_100,
      waitingBytes: 11_000
    })
  })

  it.scoped("remembers the newest delivered ids, as many as it is told", function* () {
    const { spool } = yield* freshStore
    const many = numbered(1_205)
    yield* spool.offer(entries(...many), roomy)
    yield* spool.lease(sampleSpoolLease())
    yield* settle(spool, { now: 3_000, delivered: many.slice(0, 1_200) })
    for (const id of many.slice(1_200)) yield* settle(spool, { now: 4_000, delivered: [id] })
    const keep = (deliveredAtMost: number) =>
      Effect.zipRight(
        spool.expire({ acceptedBefore: 0, deliveredBefore: 0, deliveredAtMost }),
        spool.offer(entries(...many), roomy)
      )
    yield* keep(1_205)
    yield* counted(spool, { accepted: 2_410, delivered: 1_205, duplicates: 1_205 })
    yield* keep(5)
    const repeated = { accepted: 3_615, delivered: 1_205, duplicates: 1_210 }
    yield* counted(spool, { ...repeated, waiting: 1_200, waitingBytes: 12_000 })
  })

  it.scoped(
    "drops own events for a client's, oldest first, no more than needed and no leased one",
    function* () {
      const { spool } = yield* freshStore
      // On Postgres, background work of the database does not use the test's clock.
      const leaseUntil = Date.now() + 600_000
      yield* TestClock.setTime(leaseUntil - 600_000)
      yield* spool.offer([own("o1"), ...entries("a"), own("o2"), own("o3")], roomy)
      const lease = (change: object) =>
        Effect.map(spool.lease(sampleSpoolLease({ leaseUntil, ...change })), ids)
      deepStrictEqual(yield* lease({ tables: new Set(["musicbackend"]), count: 1 }), ["o1"])
      assert.strictEqual(yield* spool.offer(entries("b"), { limitBytes: 40 }), "accepted")
      deepStrictEqual(yield* lease({}), ["a", "o3", "b"])
      const [backend] = yield* spool.counts
      deepStrictEqual([backend?.expired, backend?.waiting], [1, 2])
      assert.strictEqual(yield* spool.offer(entries("c"), { limitBytes: 40 }), "full")
    }
  )

  it.scoped(
    "lists refused records with the service's code, and only the newest refusal of each",
    function* () {
      const path = yield* freshPath
      const { spool } = yield* openStore(path)
      const changed = { table: "musicbackend", eventAt: 950, bytes: 12 } as const
      for (const [change, code, now] of [
        [{}, "invalid", 3_000],
        [changed, "unauthorized", 4_000]
      ] as const) {
        yield* spool.offer([sampleEntry("a", change), sampleEntry("b")], roomy)
        yield* spool.lease(sampleSpoolLease())
        yield* settle(spool, { now, delivered: ["b"], refused: [{ recordId: "a", code }] })
      }
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

  it.scoped("leases again what a clock a day ahead leased, whose holder settles nothing", function* () {
    const { spool } = yield* freshStore
    const now = 30 * day
    const ship = (at: number, owner: string) =>
      Effect.map(spool.lease(sampleSpoolLease({ now: at, leaseUntil: at + 12_000, owner })), ids)
    yield* spool.offer(entries("a"), roomy)
    deepStrictEqual(yield* ship(now + day, "ahead"), ["a"])
    deepStrictEqual(yield* ship(now, "other"), ["a"])
    yield* settle(spool, { owner: "ahead", now, delivered: ["a"] })
    yield* counted(spool, { accepted: 1, waiting: 1, waitingBytes: 10 })
    deepStrictEqual(yield* ship(now + 11_999, "third"), [])
    deepStrictEqual(yield* ship(now + 12_000, "third"), ["a"])
  })

  it.scoped("expires what a clock a day ahead leased, and makes room with it", function* () {
    const { spool } = yield* freshStore
    const now = 30 * day
    yield* TestClock.setTime(now)
    yield* spool.offer([own("own"), ...entries("a")], roomy)
    yield* spool.lease(sampleSpoolLease({ now: now + day }))
    assert.strictEqual(yield* spool.offer(entries("b"), { limitBytes: 20 }), "accepted")
    yield* spool.expire({ acceptedBefore: now, deliveredBefore: 0, deliveredAtMost: 1_000_000 })
    deepStrictEqual(
      (yield* spool.counts).map(({ expired, waiting }) => [expired, waiting]),
      [
        [1, 0],
        [2, 0]
      ]
    )
  })
})
