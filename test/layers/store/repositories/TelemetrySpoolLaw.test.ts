/** After any sequence of operations: accepted = delivered + duplicates + expired + refused + waiting, for every client table. */
import { assert, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as fc from "effect/FastCheck"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import * as TestContext from "effect/TestContext"
import type { TableName } from "../../../../src/schema/Telemetry.ts"
import type { SpoolCounts, SpoolEntry, StoreService } from "../../../../src/services/Store.ts"
import { type Kind, onBoth } from "../Stores.ts"

const tables: ReadonlyArray<TableName> = ["musicclidaemon", "musicfrontendevents"]
const owners = ["one", "other"]
const leaseMillis = 50
const remembered = 100

const entry = fc.record({
  id: fc.integer({ min: 0, max: 11 }),
  table: fc.constantFrom(...tables),
  bytes: fc.integer({ min: 1, max: 30 })
})
const some = fc.subarray(Array.from({ length: 12 }, (_, id) => id))
const owner = fc.constantFrom(...owners)

const offer = fc.record({
  entries: fc.array(entry, { minLength: 1, maxLength: 6 }),
  limitBytes: fc.integer({ min: 20, max: 200 }),
  share: fc.option(fc.constantFrom(...tables), { nil: undefined }),
  wholeBytes: fc.option(fc.integer({ min: 40, max: 250 }), { nil: undefined })
})

const operation = fc.oneof(
  fc.record({
    _tag: fc.constant("Offer" as const),
    // Several of them run concurrently.
    offers: fc.array(offer, { minLength: 1, maxLength: 4 })
  }),
  fc.record({
    _tag: fc.constant("Lease" as const),
    owner,
    count: fc.integer({ min: 1, max: 5 }),
    bytes: fc.integer({ min: 1, max: 80 }),
    tables: fc.subarray([...tables])
  }),
  fc.record({
    _tag: fc.constant("Settle" as const),
    owner,
    delivered: some,
    duplicates: some,
    refused: some
  }),
  fc.record({ _tag: fc.constant("Release" as const), owner, ids: some }),
  fc.record({ _tag: fc.constant("Expire" as const), age: fc.integer({ min: 0, max: 120 }) }),
  fc.record({ _tag: fc.constant("Restart" as const) })
)
type Operation = typeof operation extends fc.Arbitrary<infer A> ? A : never
const step = fc.record({ wait: fc.integer({ min: 0, max: 40 }), operation })

type Bound = Parameters<StoreService["spool"]["offer"]>[1]

interface Held {
  readonly entry: SpoolEntry
  owner: string | undefined
  until: number
}

/** The spool's rules in memory. */
class Model {
  readonly waiting = new Map<string, Held>()
  readonly delivered = new Map<string, number>()
  readonly totals = new Map<TableName, { -readonly [K in keyof Omit<SpoolCounts, "table">]: number }>()

  private total(table: TableName) {
    const known = this.totals.get(table)
    if (known !== undefined) return known
    const fresh = {
      accepted: 0,
      delivered: 0,
      duplicates: 0,
      expired: 0,
      refused: 0,
      waiting: 0,
      waitingBytes: 0
    }
    this.totals.set(table, fresh)
    return fresh
  }

  private bytes(share: TableName | undefined) {
    return [...this.waiting.values()]
      .filter(({ entry }) => share === undefined || entry.table === share)
      .reduce((sum, { entry }) => sum + entry.bytes, 0)
  }

  offer(entries: ReadonlyArray<SpoolEntry>, { limitBytes, share, wholeBytes }: Bound) {
    const fresh = new Map<string, SpoolEntry>()
    for (const one of entries)
      if (!this.waiting.has(one.recordId) && !this.delivered.has(one.recordId) && !fresh.has(one.recordId))
        fresh.set(one.recordId, one)
    const added = [...fresh.values()]
      .filter(({ table }) => share === undefined || table === share)
      .reduce((sum, { bytes }) => sum + bytes, 0)
    if (added > 0 && this.bytes(share) + added > limitBytes) return "full"
    const whole = [...fresh.values()].reduce((sum, { bytes }) => sum + bytes, this.bytes(undefined))
    if (wholeBytes !== undefined && fresh.size > 0 && whole > wholeBytes) return "full"
    for (const one of entries) {
      this.total(one.table).accepted += 1
      if (fresh.get(one.recordId) === one) {
        this.total(one.table).waiting += 1
        this.total(one.table).waitingBytes += one.bytes
        this.waiting.set(one.recordId, { entry: one, owner: undefined, until: 0 })
      } else this.total(one.table).duplicates += 1
    }
    return "accepted"
  }

  lease(by: string, count: number, bytes: number, open: ReadonlyArray<TableName>, now: number) {
    const taken: Array<SpoolEntry> = []
    let sum = 0
    for (const held of this.waiting.values()) {
      if (taken.length === count) break
      if (!open.includes(held.entry.table) || (held.owner !== undefined && held.until > now)) continue
      sum += held.entry.bytes
      if (taken.length > 0 && sum > bytes) break
      held.owner = by
      held.until = now + leaseMillis
      taken.push(held.entry)
    }
    return taken
  }

  private leave(id: string, end: "delivered" | "duplicates" | "refused" | "expired") {
    const held = this.waiting.get(id)
    if (held === undefined) return
    this.waiting.delete(id)
    const total = this.total(held.entry.table)
    total[end] += 1
    total.waiting -= 1
    total.waitingBytes -= held.entry.bytes
  }

  settle(by: string, ids: ReadonlyArray<string>, end: "delivered" | "duplicates" | "refused", now: number) {
    for (const id of ids) {
      if (this.waiting.get(id)?.owner !== by) continue
      this.leave(id, end)
      if (end !== "refused") this.delivered.set(id, now)
    }
  }

  release(by: string, ids: ReadonlyArray<string>) {
    for (const id of ids) {
      const held = this.waiting.get(id)
      if (held?.owner === by) held.owner = undefined
    }
  }

  expire(acceptedBefore: number, deliveredBefore: number, now: number) {
    for (const [id, held] of [...this.waiting])
      if (held.entry.acceptedAt < acceptedBefore && (held.owner === undefined || held.until <= now))
        this.leave(id, "expired")
    for (const [id, at] of [...this.delivered]) if (at < deliveredBefore) this.delivered.delete(id)
  }

  counts(): ReadonlyArray<SpoolCounts> {
    return [...this.totals]
      .map(([table, total]) => ({ table, ...total }))
      .toSorted((one, other) => (one.table < other.table ? -1 : 1))
  }
}

const idOf = (id: number) => `id-${id}`

const apply = ({ spool }: StoreService, model: Model, operation: Operation, now: number) =>
  Effect.gen(function* () {
    switch (operation._tag) {
      case "Offer": {
        const offers = operation.offers.map(({ entries, limitBytes, share, wholeBytes }) => ({
          entries: entries.map(
            ({ id, table, bytes }): SpoolEntry => ({
              table,
              recordId: idOf(id),
              bytes,
              eventAt: now,
              json: `{"at":${now}}`,
              acceptedAt: now
            })
          ),
          bound: {
            limitBytes,
            ...(share === undefined ? {} : { share }),
            ...(wholeBytes === undefined ? {} : { wholeBytes })
          }
        }))
        const admissions = yield* Effect.forEach(
          offers,
          ({ bound, entries }) => spool.offer(entries, bound),
          {
            concurrency: "unbounded"
          }
        )
        return deepStrictEqual(
          admissions,
          offers.map(({ bound, entries }) => model.offer(entries, bound))
        )
      }
      case "Lease": {
        const { bytes, count, owner } = operation
        const leased = yield* spool.lease({
          owner,
          count,
          bytes,
          tables: new Set(operation.tables),
          now,
          leaseUntil: now + leaseMillis
        })
        return deepStrictEqual(leased, model.lease(owner, count, bytes, operation.tables, now))
      }
      case "Settle": {
        const ends = {
          delivered: operation.delivered.map(idOf),
          duplicates: operation.duplicates.map(idOf),
          refused: operation.refused.map(idOf)
        }
        const refused = ends.refused.map((recordId) => ({ recordId, code: "invalid" }))
        yield* spool.settle({ owner: operation.owner, now, ...ends, refused })
        for (const end of ["delivered", "duplicates", "refused"] as const)
          model.settle(operation.owner, ends[end], end, now)
        return
      }
      case "Release": {
        yield* spool.release(operation.owner, operation.ids.map(idOf))
        return model.release(operation.owner, operation.ids.map(idOf))
      }
      case "Expire": {
        yield* spool.expire({
          acceptedBefore: now - operation.age,
          deliveredBefore: now - remembered,
          deliveredAtMost: 1_000_000
        })
        return model.expire(now - operation.age, now - remembered, now)
      }
      case "Restart":
        return
    }
  })

const open = ({ openStore }: Kind, path: string) =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    return { store: yield* Scope.extend(openStore(path), scope), close: Scope.close(scope, Exit.void) }
  })

const run = (kind: Kind, steps: ReadonlyArray<{ readonly wait: number; readonly operation: Operation }>) =>
  Effect.gen(function* () {
    const path = yield* kind.freshPath
    const model = new Model()
    let opened = yield* open(kind, path)
    let now = 1_000
    for (const { wait, operation } of steps) {
      now += wait
      yield* TestClock.setTime(now)
      if (operation._tag === "Restart") {
        yield* opened.close
        opened = yield* open(kind, path)
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
      `SELECT table_name, COUNT(*) AS waiting, SUM(bytes) AS bytes FROM spool GROUP BY table_name ORDER BY table_name`
    )
    deepStrictEqual(
      rows,
      model
        .counts()
        .filter(({ waiting }) => waiting > 0)
        .map(({ table, waiting, waitingBytes }) => ({ table_name: table, waiting, bytes: waitingBytes }))
    )
  }).pipe(Effect.scoped, Effect.provide(TestContext.TestContext))

onBoth("The spool's law of conservation", (kind) => {
  it("holds after every step of any sequence of operations, and the counts agree with the rows", () =>
    fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 40 }), (steps) =>
        Effect.runPromise(run(kind, steps))
      ),
      { numRuns: kind.name === "SQLite" ? 30 : 8 }
    ))
})
