import { assert } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import { productionId } from "../../../../src/services/Plane.ts"
import { DeliveryUpdate } from "../../../../src/services/Store.ts"
import { sampleLease, sampleReport } from "../Samples.ts"
import { onBoth } from "../Stores.ts"

/** Rows of each table, with the column of its age; `at` is also part of the key. */
const insertions = {
  webhooks: {
    table: "webhook_inbox",
    age: "received_at",
    row: (at: number) =>
      `'production', 'event ${at}', 'type', '2026-09-25', NULL, 'type', 'id', 1, '{}', ${at}`
  },
  reports: {
    table: "reports",
    age: "created_at",
    columns:
      "id, plane, key_digest, content_digest, reporter, content, source, request_id, created_at, marker, issue_number, issue_url",
    row: (at: number) =>
      `'rep_${at}', 'production', 'key', 'digest ${at}', 'anonymous', '{}', 'cli', 'req', ${at}, 'marker', NULL, NULL`
  },
  anonymousReports: {
    table: "reports",
    age: "created_at",
    columns:
      "id, plane, key_digest, content_digest, reporter, content, source, request_id, created_at, marker",
    row: (at: number) =>
      `'rep_${at}', 'production', 'key', 'digest ${at}', '${at % 2 === 0 ? "anonymous" : "unverified"}', '{}', 'cli', 'req', ${at}, 'marker'`
  },
  recipients: {
    table: "recipients",
    age: "changed_at",
    row: (at: number) => `'production', 'acme', 'uuid', 'c:${at}', NULL, 0, ${at}`
  },
  loginOutcomes: {
    table: "login_outcomes",
    age: "recorded_at",
    row: (at: number) => `'key ${at}', 'production', 1, NULL, NULL, 0, ${at}, NULL`
  },
  deliveries: {
    table: "deliveries",
    age: "finished_at",
    columns:
      "id, kind, subject, state, attempts, available_at, looks, fence, created_at, priority, finished_at",
    row: (at: number) => `'sweep:${at}', 'sweep', '${at}', 'delivered', 1, 1, 0, 1, 1, 0, ${at}`
  },
  sessionDigests: {
    table: "session_digests",
    age: "ends_at",
    row: (at: number) => `'digest ${at}', 'production', 'access', 'login', NULL, ${at}`
  },
  refusals: {
    table: "spool_refused",
    age: "refused_at",
    row: (at: number) => `'record ${at}', 'musicclidaemon', 'invalid', 1, 1, ${at}`
  }
}

onBoth("Retention", ({ freshPath, freshStore, openStore, rawQuery }) => {
  it.scoped("keeps the delivery of an unfiled report as long as the report", function* () {
    const { reports, deliveries, retention } = yield* freshStore
    const names = ["rep_failed", "rep_discarded", "rep_filed"]
    const kept = Effect.forEach(names, (id) =>
      Effect.map(
        deliveries.find(`report:${id}`),
        Option.flatMap(({ lastFailure }) => lastFailure)
      )
    )
    for (const id of names) yield* reports.admit(sampleReport({ id, keyDigest: id }), true)
    yield* deliveries.discard("report:rep_discarded", 3_000, "spam")
    for (const { fence, id, subject } of yield* deliveries.lease(sampleLease()))
      yield* deliveries.update(
        id,
        fence,
        subject === "rep_failed"
          ? DeliveryUpdate.Failed({ at: 3_000, failure: "refused: 422" })
          : DeliveryUpdate.Delivered({ at: 3_000, issue: Option.none(), sweepAt: Option.none() })
      )
    assert.strictEqual(yield* retention.deliveries(9_000), 1)
    deepStrictEqual(yield* kept, [Option.some("refused: 422"), Option.some("spam"), Option.none()])
    assert.strictEqual(yield* retention.reports(9_000), 3)
    assert.strictEqual(yield* retention.deliveries(9_000), 2)
    deepStrictEqual(yield* kept, [Option.none(), Option.none(), Option.none()])
  })

  it.scoped("removes registrations that became inactive before the bound, never an active one", function* () {
    const { recipients, retention } = yield* freshStore
    const person = (publicId: string) => ({ plane: productionId, organisation: "acme", publicId })
    const register = (publicId: string) =>
      recipients.activate({ ...person(publicId), organisationUuid: "uuid-acme" })
    yield* Effect.forEach(["c:ana", "c:eva", "c:leo"], register)
    yield* TestClock.setTime(1_000)
    yield* recipients.deactivate(person("c:ana"))
    yield* TestClock.setTime(2_000)
    yield* recipients.deactivate(person("c:eva"))
    assert.strictEqual(yield* retention.recipients(1_000), 0)
    assert.strictEqual(yield* retention.recipients(2_000), 1)
    assert.strictEqual(yield* retention.recipients(9_000), 1)
    assert.isTrue(yield* recipients.isActive(person("c:leo")))
    assert.isFalse(yield* recipients.isActive(person("c:ana")))
  })

  for (const [name, { age, row, table, ...rest }] of Object.entries(insertions))
    it.scoped(`removes ${name} before the bound, 200 in a call, the oldest first`, function* () {
      const path = yield* freshPath
      const { retention } = yield* openStore(path)
      const rows = Array.from({ length: 202 }, (_, index) => `(${row(202 - index)})`)
      const columns = "columns" in rest ? `(${rest.columns})` : ""
      yield* rawQuery(path, `INSERT INTO ${table} ${columns} VALUES ${rows.join()}`)
      // The names are those of `insertions`.
      const remove = retention[name as keyof typeof insertions]
      const left = rawQuery(path, `SELECT ${age} AS age FROM ${table} ORDER BY ${age}`)
      assert.strictEqual(yield* remove(202), 200)
      deepStrictEqual(yield* left, [{ age: 201 }, { age: 202 }])
      assert.strictEqual(yield* remove(202), 1)
      assert.strictEqual(yield* remove(202), 0)
    })
})
