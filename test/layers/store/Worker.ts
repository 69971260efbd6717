/** A separate process on a store: `<what> <place> <name>`; prints one line for each operation. */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { openPostgres } from "../../../src/layers/store/postgres/PgStore.ts"
import { openDatabase } from "../../../src/layers/store/sqlite/SqliteStore.ts"
import type { StoreService } from "../../../src/services/Store.ts"
import { sampleEntry, sampleLease, sampleReport, sampleSpoolLease } from "./Samples.ts"
import { makeStore } from "../../../src/layers/store/repositories/Repositories.ts"

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
      const held = { now: 1_000, leaseUntil: 2_000, owner: name }
      const leased = yield* deliveries.lease(sampleLease({ ...held, count: 1 }))
      for (const { id } of leased) yield* print(id)
      const records = yield* spool.lease(sampleSpoolLease({ ...held, count: 2 }))
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

const database = place.startsWith("postgres:") ? openPostgres(Redacted.make(place)) : openDatabase(place)
const work = Effect.flatMap(database, makeStore).pipe(Effect.flatMap(what === "compete" ? compete : accept))
await Effect.runPromise(Effect.scoped(work))
