/** The spool against its rules in memory, and what the law does not reach: large batches, forgetting, refusals. */
import { assert } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as fc from "effect/FastCheck"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import * as TestContext from "effect/TestContext"
import type { TableName } from "../../../../src/schema/Telemetry.ts"
import type { SpoolCounts, SpoolEntry, StoreService, TelemetrySpool } from "../../../../src/services/Store.ts"
import { sampleEntry, sampleSpoolLease } from "../Samples.ts"
import { type Kind, onBoth } from "../Stores.ts"

const none = { accepted: 0, delivered: 0, duplicates: 0, expired: 0, refused: 0, waiting: 0, waitingBytes: 0 }
const ids = (some: ReadonlyArray<SpoolEntry>) => some.map(({ recordId }) => recordId)
type Settled = Parameters<TelemetrySpool["settle"]>[0]
type Bound = Parameters<TelemetrySpool["offer"]>[1]

const tables: ReadonlyArray<TableName> = ["musicclidaemon", "musicfrontendevents"]
const leaseMillis = 50
const remembered = 100

const id = fc.integer({ min: 0, max: 11 }).map(String)
const some = fc.uniqueArray(id)
const owner = fc.constantFrom("one", "other")
const entry = fc.record({
  recordId: id,
  table: fc.constantFrom(...tables),
  bytes: fc.integer({ min: 1, max: 30 })
})
const offer = fc.record({
  entries: fc.array(entry, { minLength: 1, maxLength: 6 }),
  bound: fc.record({ limitBytes: fc.integer({ min: 20, max: 250 }) })
})
const tagged = <Tag extends string, A>(tag: Tag, model: { [K in keyof A]: fc.Arbitrary<A[K]> }) =>
  fc.record({ _tag: fc.constant(tag), ...model })
const operation = fc.oneof(
  // Several of them run concurrently.
  tagged("Offer", { offers: fc.array(offer, { minLength: 1, maxLength: 4 }) }),
  tagged("Lease", {
    owner,
    count: fc.integer({ min: 1, max: 5 }),
    bytes: fc.integer({ min: 1, max: 80 }),
    open: fc.subarray([...tables])
  }),
  tagged("Settle", { owner, delivered: some, duplicates: some, refused: some }),
  tagged("Release", { owner, some }),
  tagged("Expire", { age: fc.integer({ min: 0, max: 120 }) }),
  tagged("Restart", {})
)
type Operation = typeof operation extends fc.Arbitrary<infer A> ? A : never
type Step = { readonly wait: number; readonly operation: Operation }

interface Held {
  readonly entry: SpoolEntry
  owner: string | undefined
  until: number
}

/** The spool's rules in memory. */
class Model {
  readonly waiting = new Map<string, Held>()
  readonly delivered = new Map<string, number>()
  readonly totals = new Map<TableName, { -readonly [K in keyof typeof none]: number }>()

  private total(table: TableName) {
    const total = this.totals.get(table) ?? { ...none }
    this.totals.set(table, total)
    return total
  }

  offer(entries: ReadonlyArray<SpoolEntry>, { limitBytes }: Bound) {
    const fresh = new Map<string, SpoolEntry>()
    for (const one of entries)
      if (!this.waiting.has(one.recordId) && !this.delivered.has(one.recordId) && !fresh.has(one.recordId))
        fresh.set(one.recordId, one)
    const held = [...this.waiting.values()].map((one) => one.entry)
    const sum = [...held, ...fresh.values()].reduce((bytes, one) => bytes + one.bytes, 0)
    if (fresh.size > 0 && sum > limitBytes) return "full"
    for (const one of entries) {
      const total = this.total(one.table)
      total.accepted += 1
      if (fresh.get(one.recordId) === one) {
        total.waiting += 1
        total.waitingBytes += one.bytes
        this.waiting.set(one.recordId, { entry: one, owner: undefined, until: 0 })
      } else total.duplicates += 1
    }
    return "accepted"
  }

  lease({ bytes, count, leaseUntil, now, owner, tables }: Parameters<TelemetrySpool["lease"]>[0]) {
    const taken: Array<SpoolEntry> = []
    let sum = 0
    for (const held of this.waiting.values()) {
      if (taken.length === count) break
      const isLeased = held.owner !== undefined && held.until > now
      if (!tables.has(held.entry.table) || isLeased) continue
      sum += held.entry.bytes
      if (taken.length > 0 && sum > bytes) break
      Object.assign(held, { owner, until: leaseUntil })
      taken.push(held.entry)
    }
    return taken
  }

  private leave(recordId: string, end: "delivered" | "duplicates" | "refused" | "expired") {
    const held = this.waiting.get(recordId)
    if (held === undefined) return
    this.waiting.delete(recordId)
    const total = this.total(held.entry.table)
    total[end] += 1
    total.waiting -= 1
    total.waitingBytes -= held.entry.bytes
  }

  settle({ now, owner, ...ends }: Settled) {
    const all = { ...ends, refused: ends.refused.map(({ recordId }) => recordId) }
    for (const end of ["delivered", "duplicates", "refused"] as const)
      for (const recordId of all[end]) {
        if (this.waiting.get(recordId)?.owner !== owner) continue
        this.leave(recordId, end)
        if (end !== "refused") this.delivered.set(recordId, now)
      }
  }

  release(by: string, recordIds: ReadonlyArray<string>) {
    for (const recordId of recordIds) {
      const held = this.waiting.get(recordId)
      if (held?.owner === by) Object.assign(held, { owner: undefined, until: 0 })
    }
  }

  expire(acceptedBefore: number, deliveredBefore: number, now: number) {
    for (const [recordId, held] of [...this.waiting])
      if (held.entry.acceptedAt < acceptedBefore && held.until <= now) this.leave(recordId, "expired")
    for (const [recordId, at] of [...this.delivered])
      if (at < deliveredBefore) this.delivered.delete(recordId)
  }

  counts(): ReadonlyArray<SpoolCounts> {
    return [...this.totals].toSorted().map(([table, total]) => ({ table, ...total }))
  }
}

const apply = ({ retention, spool }: StoreService, model: Model, operation: Operation, now: number) =>
  Effect.gen(function* () {
    switch (operation._tag) {
      case "Offer": {
        const json = `{"at":${now},"text":"ä \\"quoted\\""}`
        const offers = operation.offers.map(({ bound, entries }) => ({
          bound,
          entries: entries.map((one): SpoolEntry => ({ ...one, eventAt: now, json, acceptedAt: now }))
        }))
        const admissions = yield* Effect.forEach(
          offers,
          ({ bound, entries }) => spool.offer(entries, bound),
          { concurrency: "unbounded" }
        )
        const expected = offers.map(({ bound, entries }) => model.offer(entries, bound))
        return deepStrictEqual(admissions, expected)
      }
      case "Lease": {
        const { bytes, count, open, owner } = operation
        const lease = { owner, count, bytes, tables: new Set(open), now, leaseUntil: now + leaseMillis }
        return deepStrictEqual(yield* spool.lease(lease), model.lease(lease))
      }
      case "Settle": {
        const refused = operation.refused.map((recordId) => ({ recordId, code: "invalid" }))
        const settled = { ...operation, now, refused }
        yield* spool.settle(settled)
        return model.settle(settled)
      }
      case "Release":
        yield* spool.release(operation.owner, operation.some)
        return model.release(operation.owner, operation.some)
      case "Expire": {
        const [acceptedBefore, deliveredBefore] = [now - operation.age, now - remembered]
        yield* retention.telemetry(acceptedBefore)
        yield* retention.deliveredIds(deliveredBefore)
        return model.expire(acceptedBefore, deliveredBefore, now)
      }
    }
  })

const run = (kind: Kind, steps: ReadonlyArray<Step>) =>
  Effect.gen(function* () {
    const path = yield* kind.freshPath
    const model = new Model()
    const open = Effect.gen(function* () {
      const scope = yield* Scope.make()
      return { store: yield* Scope.extend(kind.openStore(path), scope), close: Scope.close(scope, Exit.void) }
    })
    let opened = yield* open
    let now = 1_000
    for (const { operation, wait } of steps) {
      now += wait
      yield* TestClock.setTime(now)
      if (operation._tag === "Restart") {
        yield* opened.close
        opened = yield* open
      }
      yield* apply(opened.store, model, operation, now)
      const counts = yield* opened.store.spool.counts
      deepStrictEqual(counts, model.counts())
      for (const { accepted, delivered, duplicates, expired, refused, waiting } of counts)
        assert.strictEqual(accepted, delivered + duplicates + expired + refused + waiting)
    }
    yield* opened.close
    const rows = yield* kind.rawQuery(
      path,
      `SELECT table_name AS "table", COUNT(*) AS waiting, SUM(bytes) AS "waitingBytes" FROM spool GROUP BY 1 ORDER BY 1`
    )
    const expected = model.counts().filter(({ waiting }) => waiting > 0)
    assert.deepStrictEqual<unknown>(
      rows,
      expected.map(({ table, waiting, waitingBytes }) => ({ table, waiting, waitingBytes }))
    )
  }).pipe(Effect.scoped, Effect.provide(TestContext.TestContext))

const roomy = { limitBytes: 1_000_000 }
const entries = (...recordIds: ReadonlyArray<string>) => recordIds.map((recordId) => sampleEntry(recordId))
const numbered = (count: number) => Array.from({ length: count }, (_, index) => `id-${index}`)
const settle = (spool: TelemetrySpool, change: Partial<Settled>) =>
  spool.settle({ owner: "worker", now: 3_000, delivered: [], duplicates: [], refused: [], ...change })
const counted = (spool: TelemetrySpool, expected: Partial<SpoolCounts>) =>
  Effect.map(spool.counts, (counts) =>
    deepStrictEqual(counts, [{ table: "musicclidaemon", ...none, ...expected }])
  )

onBoth("TelemetrySpool", (kind) => {
  const { freshPath, freshStore, openStore, rawQuery } = kind

  it("accepted = delivered + duplicates + expired + refused + waiting, after any sequence", () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ wait: fc.nat(40), operation }), { minLength: 1, maxLength: 40 }),
        (steps) => Effect.runPromise(run(kind, steps))
      ),
      { numRuns: kind.name === "SQLite" ? 15 : 4 }
    ))

  it.scoped(
    "takes batches larger than a statement, expires 200 in a call, and accepts them again",
    function* () {
      const { retention, spool } = yield* freshStore
      const many = numbered(250)
      const half = many.slice(0, 125)
      yield* Effect.repeatN(spool.offer(entries(...many), roomy), 1)
      deepStrictEqual(ids(yield* spool.lease(sampleSpoolLease({ count: 125 }))), half)
      yield* settle(spool, { delivered: half })
      // The newest of them.
      deepStrictEqual(yield* spool.newestDeliveredSince(125), Option.some({ deliveredAt: 3_000 }))
      deepStrictEqual(yield* spool.newestDeliveredSince(126), Option.none())
      // What was delivered is recognised until its id is removed.
      yield* spool.offer(entries(...half), roomy)
      const shipped = { accepted: 625, delivered: 125, duplicates: 375 }
      assert.strictEqual(yield* retention.telemetry(1_000), 0)
      yield* counted(spool, { ...shipped, waiting: 125, waitingBytes: 1_250 })
      deepStrictEqual([yield* retention.telemetry(5_000), yield* retention.deliveredIds(5_000)], [125, 125])
      yield* counted(spool, { ...shipped, expired: 125 })
      yield* spool.offer(entries(...many), roomy)
      yield* counted(spool, { ...shipped, accepted: 875, expired: 125, waiting: 250, waitingBytes: 2_500 })
      assert.strictEqual(yield* retention.telemetry(5_000), 200)
    }
  )

  it.scoped("lists the newest refusal of each refused record, with the service's code", function* () {
    const path = yield* freshPath
    const { spool } = yield* openStore(path)
    const changed = { table: "musicfrontendevents", eventAt: 950, bytes: 12 } as const
    for (const [change, code, now] of [
      [{}, "invalid", 3_000],
      [changed, "unauthorized", 4_000]
    ] as const) {
      yield* spool.offer([sampleEntry("a", change), sampleEntry("b")], roomy)
      yield* spool.lease(sampleSpoolLease())
      yield* settle(spool, { now, delivered: ["b"], refused: [{ recordId: "a", code }] })
    }
    const found = yield* rawQuery(
      path,
      "SELECT record_id, table_name, code, bytes, refused_at FROM spool_refused"
    )
    deepStrictEqual(found.map(Object.values), [["a", "musicfrontendevents", "unauthorized", 12, 4_000]])
  })
})
