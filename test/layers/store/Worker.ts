/** A process of its own on a store file: `<what> <file> <name>`; prints one line for each thing done. */
import * as Effect from "effect/Effect"
import { storeAt } from "../../../src/layers/store/SqliteStore.ts"
import { Store, type StoreService } from "../../../src/services/Store.ts"
import { sampleEntry, sampleReport } from "./Stores.ts"

const [, , what = "", path = "", name = ""] = process.argv
const print = (line: string) => Effect.sync(() => process.stdout.write(`${line}\n`))

/** Every process stores the same reports, and leases what it can in between. */
const compete = ({ deliveries, reports }: StoreService) =>
  Effect.gen(function* () {
    for (let index = 0; index < 25; index += 1) {
      const admission = yield* reports.admit(
        sampleReport({ id: `rep_${name}_${index}`, keyDigest: `key ${index}`, createdAt: index }),
        true
      )
      yield* print(admission._tag)
      const leased = yield* deliveries.lease({
        kind: "report",
        count: 1,
        now: 1_000,
        leaseUntil: 2_000,
        owner: name
      })
      for (const { id } of leased) yield* print(id)
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
      // Only now may the pipe take what was printed.
      yield* Effect.promise(() => new Promise(setImmediate))
    }
  })

const work = Effect.flatMap(Store, (store) => (what === "compete" ? compete(store) : accept(store)))
await Effect.runPromise(Effect.provide(work, storeAt(path)))
