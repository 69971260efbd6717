/** What grows is reached along an index: each statement that claims or cleans is asked for its plan. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Tracer from "effect/Tracer"
import { makeStore } from "../../../src/layers/store/Repositories.ts"
import { openDatabase } from "../../../src/layers/store/SqliteStore.ts"
import type { StoreService } from "../../../src/services/Store.ts"
import { freshPath, sampleEntry, sampleEvent, sampleReport } from "./Stores.ts"

/** Remembers every statement by its text. */
const listening = Effect.map(Effect.tracer, (usual) => {
  const statements = new Set<string>()
  const tracer = Tracer.make({
    span: (...args) => {
      const span = usual.span(...args)
      const attribute = span.attribute.bind(span)
      span.attribute = (key, value) => {
        if (key === "db.query.text" && typeof value === "string") statements.add(value)
        attribute(key, value)
      }
      return span
    },
    context: (run) => run()
  })
  return { statements, tracer }
})

const everyday = ({ deliveries, recipients, reports, retention, spool, webhooks }: StoreService) =>
  Effect.gen(function* () {
    const lease = { now: 2_000, leaseUntil: 9_000, owner: "worker" }
    yield* reports.admit(sampleReport(), true)
    yield* webhooks.receive(sampleEvent(), ["c:ana"])
    const ana = { plane: "production", organisation: "acme", publicId: "c:ana" } as const
    yield* recipients.activate({ ...ana, organisationUuid: "uuid" })
    yield* recipients.deactivate(ana)
    yield* spool.offer(
      ["a", "b", "c", "d"].map((id) => sampleEntry(id)),
      { limitBytes: 1_000 }
    )
    yield* spool.lease({ ...lease, tables: new Set(["musicclidaemon"]), count: 3, bytes: 1_000 })
    yield* spool.settle({
      owner: "worker",
      now: 3_000,
      delivered: ["a"],
      duplicates: [],
      refused: [{ recordId: "b", code: "invalid" }]
    })
    yield* spool.release("worker", ["c"])
    yield* spool.expire({ acceptedBefore: 5_000, deliveredBefore: 5_000, deliveredAtMost: 1_000_000 })
    yield* deliveries.lease({ ...lease, kinds: ["report", "sweep"], count: 2, concurrency: 4 })
    yield* deliveries.nextDueAt(["report", "sweep"])
    yield* retention.reports(5_000)
    yield* retention.webhooks(5_000)
    yield* retention.deliveries(5_000)
    yield* retention.recipients(5_000)
    yield* retention.loginOutcomes(5_000)
    yield* retention.refusals(5_000)
  })

/** Tables of a few rows, whatever happens, and what a claim has chosen. */
const small = /\b(?:spool_counts|migrations|destinations|due)\b/
/** Delivered ids are bounded in number, and once in ten minutes their index is read as far as the bound. */
const bounded = "SCAN spool_delivered USING COVERING INDEX spool_delivered_by_age"

describe("Query plans", () => {
  it.scoped("no everyday statement reads all of a table that grows", () =>
    Effect.gen(function* () {
      const { statements, tracer } = yield* listening
      const { sql } = yield* Effect.gen(function* () {
        const database = yield* openDatabase(yield* freshPath)
        statements.clear()
        yield* everyday(yield* makeStore(database))
        return database
      }).pipe(Effect.withTracer(tracer))

      const asked = [...statements].filter((statement) =>
        /^\s*(?:SELECT|UPDATE|DELETE|INSERT|WITH)/.test(statement)
      )
      assert.isAtLeast(asked.length, 20)
      for (const statement of asked) {
        const values = Array.from(statement.matchAll(/\?/g), () => 1)
        const plan = yield* sql.unsafe<{ readonly detail: string }>(`EXPLAIN QUERY PLAN ${statement}`, values)
        const scans = plan.map(({ detail }) => detail).filter((detail) => /^SCAN/.test(detail))
        assert.deepStrictEqual(
          scans.filter(
            (scan) =>
              scan !== bounded && !small.test(scan) && !/^SCAN .*(?:CONSTANT ROW|VALUES CLAUSE)/.test(scan)
          ),
          [],
          statement
        )
      }
    })
  )
})
