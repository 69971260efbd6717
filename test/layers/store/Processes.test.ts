/** Several processes that do the same at the same moment, each on a connection of its own. */
import { assert, describe } from "vitest"
import { it } from "../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import { Effect, Option } from "effect"
import type { StoreService } from "../../../src/services/Store.ts"
import { sampleEntry, sampleLease, sampleReport, sampleSpoolLease } from "./Samples.ts"
import { pgProxy } from "./postgres/PgProxy.ts"
import { type Kind, onBoth, postgres } from "./Stores.ts"

const all = { concurrency: "unbounded" } as const
const times = (count: number) => Array.from({ length: count }, (_, index) => index)
const sorted = (some: ReadonlyArray<number>) => some.toSorted((one, other) => one - other)

/** Three processes, whose calls begin together. */
const together = ({ freshPath, openStore }: Kind) =>
  Effect.gen(function* () {
    const path = yield* freshPath
    const stores = yield* Effect.replicateEffect(openStore(path), 3)
    const [first] = stores
    if (first === undefined) return yield* Effect.dieMessage("there are three")
    const each = <A, E>(count: number, use: (store: StoreService, index: number) => Effect.Effect<A, E>) =>
      Effect.forEach(times(count), (index) => use(stores[index % 3] ?? first, index), all)
    return { first, each, restarted: openStore(path) }
  })

/** A pooler in transaction mode, which gives each transaction another session. */
const pooled: Kind = {
  ...postgres,
  freshPath: Effect.flatMap(postgres.freshPath, (url) =>
    Effect.map(pgProxy(url, { movesSessions: true }), (pooler) => pooler.url)
  )
}

const tests = (kind: Kind) => {
  // Under the real clock: one that meets the lock of another waits.
  it.scopedLive(
    "store each report and record once, lease each record once, and one delivery at a time",
    function* () {
      const { each, first } = yield* together(kind)
      const admissions = yield* each(30, ({ reports }, index) =>
        reports.admit(sampleReport({ id: `rep_${index}`, keyDigest: `key ${index % 10}` }), true)
      )
      yield* each(30, ({ spool }, index) =>
        spool.offer([sampleEntry(`${index % 10}-a`), sampleEntry(`${index % 10}-b`)], { limitBytes: 1_000 })
      )
      const leases = yield* each(12, ({ deliveries }) => deliveries.lease(sampleLease()))
      const records = yield* each(12, ({ spool }, index) =>
        spool.lease(sampleSpoolLease({ count: 2, owner: `${index}` }))
      )
      // Concurrent leases may each return fewer rows than are due.
      const rest = yield* first.spool.lease(sampleSpoolLease({ owner: "last" }))
      const ids = leases.flatMap(Option.toArray).map(({ id }) => id)
      const recordIds = [...records.flat(), ...rest].map(({ recordId }) => recordId)
      deepStrictEqual(
        [
          admissions.filter(({ _tag }) => _tag === "Stored").length,
          admissions.filter(({ _tag }) => _tag === "Replayed").length,
          ids.length,
          new Set(ids).size,
          recordIds.length,
          new Set(recordIds).size
        ],
        [10, 20, 1, 1, 20, 20]
      )
    }
  )

  it.scopedLive(
    "see each transition of a destination once, and keep its pace together, also after a restart",
    function* () {
      const { each, restarted } = yield* together(kind)
      const trouble = { now: 1_000, pausedUntil: 5_000, stopped: true, failure: "401" }
      const states = yield* each(6, ({ destinations }) => destinations.failed("tracker", trouble))
      assert.strictEqual(states.filter(({ stopped }) => !stopped).length, 1)
      deepStrictEqual(sorted(states.map(({ failures }) => failures)), [0, 1, 2, 3, 4, 5])
      const pace = { now: 1_000_000, spacing: 1_000, hourly: 450 }
      const reserve = ({ destinations }: StoreService) => destinations.reserveWrite("tracker", pace)
      const reserved = yield* each(6, reserve)
      deepStrictEqual(
        sorted([...reserved, yield* reserve(yield* restarted)]).map((at) => at - pace.now),
        [0, 1_000, 2_000, 3_000, 4_000, 5_000, 6_000]
      )
    }
  )
}

onBoth("Processes that share a store", tests)
describe("Processes that share a store, Postgres behind a pooler", () => tests(pooled))
