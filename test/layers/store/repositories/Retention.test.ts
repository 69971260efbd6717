import { assert } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import type { StoreService } from "../../../../src/services/Store.ts"
import { onBoth } from "../Stores.ts"

const ofReports =
  "id, plane, key_digest, content_digest, reporter, content, source, request_id, created_at, marker, bytes"
const ofDeliveries =
  "id, kind, subject, state, attempts, available_at, looks, fence, created_at, priority, finished_at"
const report = (at: number, reporter: string) =>
  `'rep_${at}', 'production', 'key', 'digest ${at}', '${reporter}', '{}', 'cli', 'req', ${at}, 'marker', 1000`

/** Rows by their age, which is also a part of the key: the table with its columns, that of the age, and the values. */
const insertions: ReadonlyArray<
  readonly [name: keyof StoreService["retention"], into: string, age: string, row: (at: number) => string]
> = [
  [
    "webhooks",
    "webhook_inbox",
    "received_at",
    (at) => `'production', 'event ${at}', 'type', '2026-09-25', NULL, 'type', 'id', 1, '{}', ${at}`
  ],
  ["reports", `reports (${ofReports})`, "created_at", (at) => report(at, "verified:c:ana")],
  [
    "anonymousReports",
    `reports (${ofReports})`,
    "created_at",
    (at) => report(at, at % 2 === 0 ? "anonymous" : "unverified")
  ],
  [
    "recipients",
    "recipients",
    "changed_at",
    (at) => `'production', 'acme', 'uuid', 'c:${at}', NULL, 0, ${at}`
  ],
  ["loginOutcomes", "login_outcomes", "recorded_at", (at) => `'key ${at}', 'production', '{}', 0, ${at}`],
  [
    "deliveries",
    `deliveries (${ofDeliveries})`,
    "finished_at",
    (at) => `'sweep:${at}', 'sweep', '${at}', 'delivered', 1, 1, 0, 1, 1, 0, ${at}`
  ],
  [
    "sessionDigests",
    "session_digests",
    "ends_at",
    (at) => `'digest ${at}', 'production', 'access', 'login', NULL, ${at}`
  ],
  [
    "refusals",
    "spool_refused",
    "refused_at",
    (at) => `'record ${at}', 'musicclidaemon', 'invalid', 1, 1, ${at}`
  ]
]

// What else keeps a report, its delivery or a registration: Deliveries.test.ts and Registrations.test.ts.
onBoth("Retention", ({ freshPath, openStore, rawQuery }) => {
  it.scoped("removes what is older than the bound, 200 in a call, the oldest first", function* () {
    const path = yield* freshPath
    const { retention } = yield* openStore(path)
    for (const [name, into, age, row] of insertions) {
      const [table] = into.split(" ")
      const rows = Array.from({ length: 202 }, (_, index) => `(${row(202 - index)})`)
      yield* rawQuery(path, `DELETE FROM ${table};\nINSERT INTO ${into} VALUES ${rows.join()}`)
      const remove = retention[name]
      const left = rawQuery(path, `SELECT ${age} AS age FROM ${table} ORDER BY ${age}`)
      assert.strictEqual(yield* remove(202), 200, name)
      deepStrictEqual(yield* left, [{ age: 201 }, { age: 202 }], name)
      deepStrictEqual([yield* remove(202), yield* remove(202)], [1, 0], name)
    }
  })
})
