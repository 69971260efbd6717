import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import { Effect } from "effect"
import type { StoreService } from "../../../../src/services/Store.ts"
import { fill } from "../../../world/BulkRows.ts"
import { onBoth } from "../Stores.ts"

/** The rows of each kind, and the column of their age. A failed delivery stays as long as its report. */
const kinds: ReadonlyArray<readonly [name: keyof StoreService["retention"], from: string, age: string]> = [
  ["deliveries", "deliveries WHERE state = 'delivered'", "finished_at"],
  ["anonymousReports", "reports WHERE reporter = 'anonymous'", "created_at"],
  ["reports", "reports", "created_at"],
  ["webhooks", "webhook_inbox", "received_at"],
  ["recipients", "recipients WHERE active = 0", "changed_at"],
  ["loginOutcomes", "login_outcomes", "recorded_at"],
  ["sessionDigests", "session_digests", "ends_at"],
  ["telemetry", "spool", "accepted_at"],
  ["deliveredIds", "spool_delivered", "delivered_at"],
  ["refusals", "spool_refused", "refused_at"]
]

// What else keeps a report, its delivery or a registration: Deliveries.test.ts and test/services.
onBoth("Retention", (database) => {
  const { freshPath, openStore, rawQuery } = database

  it.scoped("removes what is older than the bound, 200 in a call, the oldest first", function* () {
    const path = yield* freshPath
    yield* fill(database, path, 2_100)
    const { retention } = yield* openStore(path)
    for (const [kind, from, age] of kinds) {
      const ages = Effect.map(rawQuery(path, `SELECT ${age} AS age FROM ${from} ORDER BY age`), (rows) =>
        rows.map((row) => Number(row.age))
      )
      const all = yield* ages
      const remove = retention[kind](all[202] ?? 0)
      deepStrictEqual([kind, yield* remove, yield* ages], [kind, 200, all.slice(200)])
      deepStrictEqual([kind, yield* remove, yield* remove, yield* ages], [kind, 2, 0, all.slice(202)])
    }
  })
})
