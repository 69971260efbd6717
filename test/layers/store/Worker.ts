/** A separate process on a store: `<what> <place> <name>`; prints one line for each operation. */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { postgresStoreAt } from "../../../src/layers/store/postgres/PgStore.ts"
import { storeAt } from "../../../src/layers/store/sqlite/SqliteStore.ts"
import { Store, type StoreService } from "../../../src/services/Store.ts"
import { sampleEntry, sampleReport } from "./Samples.ts"

const [, , what = "", place = "", name = ""] = process.argv
const print = (line: string) => Effect.sync(() => process.stdout.write(`${line}\n`))

/** Every process stores the same reports and records, and leases due rows in between. */
const compete = ({ deliveries, reports, spool }: StoreService) =>
  Effect.gen(function* () {
    for (let index = 0; index < 25; index += 1) {
      const admission = yield* reports.admit(
        sampleReport({ id: `rep_${name}_${index}`, keyDigest: `key ${index}`, createdAt: index }),
        true
      )
      yield* print(admission._tag)
      yield* spool.offer([sampleEntry(`record-${index}-a`), sampleEntry(`record-${index}-b`)], {
        limitBytes: 1_000_000
      })
      const lease = { now: 1_000, leaseUntil: 2_000, owner: name }
      const leased = yield* deliveries.lease({ ...lease, kinds: ["report"], count: 1, concurrency: 100 })
      for (const { id } of leased) yield* print(id)
      const records = yield* spool.lease({
        ...lease,
        tables: new Set(["musicclidaemon"]),
        count: 2,
        bytes: 1_000_000
      })
      for (const { recordId } of records) yield* print(recordId)
    }
  })

/** Accepts until it is killed; a line is an acknowledgement. */
const accept = ({ reports, spool }: StoreService) =>
  Effect.gen(function* () {
    for (let index = 0; ; index += 1) {
      yield* reports.admit(sampleReport({ id: `rep_${index}`, keyDigest: `key ${index}` }), true)
      yield* spool.offer([sampleEntry(`a${index}`), sampleEntry(`b${index}`), sampleEntry(`a${index}`)], {
        limitBytes: 1_000_000_000
      })
      yield* print(`${index}`)
      // Lets the pipe flush the output.
      yield* Effect.promise(() => new Promise(setImmediate))
    }
  })

const store = place.startsWith("postgres:") ? postgresStoreAt(Redacted.make(place)) : storeAt(place)
const work = Effect.flatMap(Store, (store) => (what === "compete" ? compete(store) : accept(store)))
await Effect.runPromise(Effect.provide(work, store))
