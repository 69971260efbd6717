/** Rows of kinds that only a later version knows: they are neither leased, nor changed, nor removed, and cause no failure. */
import { assert } from "vitest"
import { it } from "../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import { Unrecognised } from "../../../src/services/Store.ts"
import { onBoth, sampleEntry, sampleReport } from "./Stores.ts"

const delivery = (id: string, kind: string, state: string, rest = "") => `
  INSERT INTO deliveries
    (id, kind, subject, state, attempts, available_at, looks, fence, created_at${rest && ", finished_at, leased_from, lease_until"})
  VALUES ('${id}', '${kind}', '${id}', '${state}', 0, 1, 0, 0, 1${rest});`

onBoth("Rows of a later version", ({ freshPath, openStore, rawQuery }) => {
  it.scoped("count in the spool's bound and its sums, and neither expire nor make room", function* () {
    const path = yield* freshPath
    const { spool } = yield* openStore(path)
    yield* rawQuery(
      path,
      `INSERT INTO spool (record_id, table_name, event_at, json, bytes, accepted_at)
           VALUES ('later', 'musicmobile', 1, '{}', 90, 1);
           INSERT INTO spool_counts
             (table_name, accepted, delivered, duplicates, expired, refused, waiting, waiting_bytes)
           VALUES ('musicmobile', 1, 0, 0, 0, 0, 1, 90);`
    )
    const offered = (id: string) => spool.offer([sampleEntry(id)], { limitBytes: 100 })
    assert.strictEqual(yield* offered("a"), "accepted")
    assert.strictEqual(yield* offered("b"), "full")
    yield* spool.expire({ acceptedBefore: 5_000, deliveredBefore: 5_000, deliveredAtMost: 1_000_000 })
    deepStrictEqual(
      (yield* spool.counts).map(({ expired, table, waitingBytes }) => [table, expired, waitingBytes]),
      [
        ["musicclidaemon", 1, 0],
        ["musicmobile", 0, 90]
      ]
    )
    deepStrictEqual(yield* rawQuery(path, "SELECT record_id FROM spool"), [{ record_id: "later" }])
  })

  it.scoped("in the deliveries are listed, and not leased, changed or removed", function* () {
    const path = yield* freshPath
    const { deliveries, retention } = yield* openStore(path)
    yield* rawQuery(
      path,
      [
        delivery("kind", "digest", "waiting"),
        delivery("state", "report", "deferred"),
        delivery("over", "digest", "delivered", ", 2, NULL, NULL"),
        delivery("lost", "digest", "failed", ", 2, NULL, NULL"),
        // Its holder died: it returns to the state from which it was leased.
        delivery("held", "report", "leased", ", NULL, 'deferred', 2")
      ].join("\n")
    )
    const lease = { kinds: ["report", "sweep"], count: 9, concurrency: 9, owner: "us" } as const
    deepStrictEqual(yield* deliveries.lease({ ...lease, now: 5_000, leaseUntil: 9_000 }), [])
    for (const id of ["kind", "state", "lost"]) {
      assert.isFalse(yield* deliveries.retry(id, 6_000))
      assert.isFalse(yield* deliveries.discard(id, 6_000, "no"))
    }
    assert.strictEqual(yield* retention.deliveries(9_000), 0)
    deepStrictEqual(
      (yield* deliveries.counts).map(({ count, kind, state }) => [kind, state, count]),
      [
        ["digest", "delivered", 1],
        ["digest", "failed", 1],
        ["digest", "waiting", 1],
        ["report", "deferred", 2]
      ]
    )
    const found = Option.getOrThrow(yield* deliveries.find("state"))
    deepStrictEqual([found.kind, found.state], ["report", "deferred"])
  })

  it.scoped("in the reports are read, and kept until their delivery is over", function* () {
    const path = yield* freshPath
    const { reports, retention } = yield* openStore(path)
    const reporter = Unrecognised({ text: "application:acme" })
    yield* reports.admit(sampleReport({ id: "rep_later", reporter }), false)
    yield* rawQuery(
      path,
      `UPDATE reports SET content = '{"message":"m","pr":null,"attachments":[],"context":null,"severity":3}', source = 'kiosk';
         ${delivery("rep_later", "report", "deferred")}`
    )
    const stored = Option.getOrThrow(yield* reports.find("rep_later"))
    deepStrictEqual([stored.reporter, stored.source, stored.content.message], [reporter, "kiosk", "m"])
    // The same key by another reporter is another report.
    assert.strictEqual((yield* reports.admit(sampleReport({ id: "rep_ours" }), false))._tag, "Stored")
    yield* TestClock.setTime(9_000)
    assert.strictEqual(yield* retention.reports(9_000), 1)
    assert.isTrue(Option.isSome(yield* reports.find("rep_later")))
  })
})
