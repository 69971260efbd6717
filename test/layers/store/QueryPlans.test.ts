/** Growing tables are read along an index: checks the plan of each statement that leases, removes or counts. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Tracer from "effect/Tracer"
import { makeStore } from "../../../src/layers/store/repositories/Repositories.ts"
import { openDatabase } from "../../../src/layers/store/sqlite/SqliteStore.ts"
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
    yield* reports.storedBytes
    yield* deliveries.counts
    yield* deliveries.oldestOpen
    yield* spool.counts
    yield* retention.reports(5_000)
    yield* retention.webhooks(5_000)
    yield* retention.deliveries(5_000)
    yield* retention.recipients(5_000)
    yield* retention.loginOutcomes(5_000)
    yield* retention.refusals(5_000)
  })

/** Every statement that `use` runs on a fresh database, with its plan. */
const plansOf = <E>(use: (store: StoreService) => Effect.Effect<unknown, E>) =>
  Effect.gen(function* () {
    const { statements, tracer } = yield* listening
    const { sql } = yield* Effect.gen(function* () {
      const database = yield* openDatabase(yield* freshPath)
      const store = yield* makeStore(database)
      statements.clear()
      yield* use(store)
      return database
    }).pipe(Effect.withTracer(tracer))

    const asked = [...statements].filter((statement) =>
      /^\s*(?:SELECT|UPDATE|DELETE|INSERT|WITH)/.test(statement)
    )
    return yield* Effect.forEach(asked, (statement) => {
      const values = Array.from(statement.matchAll(/\?/g), () => 1)
      return Effect.map(
        sql.unsafe<{ readonly detail: string }>(`EXPLAIN QUERY PLAN ${statement}`, values),
        (plan) => ({ statement, details: plan.map(({ detail }) => detail) })
      )
    })
  })

/** Tables that always have few rows, and the rows that a lease has selected. */
const small = /\b(?:spool_counts|delivery_counts|migrations|destinations|due|heads?)\b/
/** Delivered ids are bounded; once in ten minutes their index is read up to the bound. */
const bounded = "SCAN spool_delivered USING COVERING INDEX spool_delivered_by_age"

describe("Query plans", () => {
  it.scoped("no regular statement reads a whole growing table", () =>
    Effect.gen(function* () {
      const plans = yield* plansOf(everyday)
      assert.isAtLeast(plans.length, 20)
      for (const { details, statement } of plans)
        assert.deepStrictEqual(
          details.filter(
            (detail) =>
              /^SCAN/.test(detail) &&
              detail !== bounded &&
              !small.test(detail) &&
              !/^SCAN .*(?:CONSTANT ROW|VALUES CLAUSE)/.test(detail)
          ),
          [],
          statement
        )
    })
  )

  it.scoped("a lease and a scrape cost the same for any number of waiting rows", () =>
    Effect.gen(function* () {
      const kinds = ["report", "sweep"] as const
      const plans = yield* plansOf(({ deliveries, reports, spool }) =>
        Effect.gen(function* () {
          yield* deliveries.lease({
            kinds,
            count: 2,
            concurrency: 4,
            now: 2_000,
            leaseUntil: 9_000,
            owner: "worker"
          })
          yield* deliveries.nextDueAt(kinds)
          yield* deliveries.counts
          yield* deliveries.oldestOpen
          yield* reports.storedBytes
          yield* spool.counts
        })
      )
      const ways = new Set(
        plans.flatMap(({ details, statement }) =>
          details
            .filter((detail) => /\bdeliveries\b/.test(detail))
            .map((detail) =>
              detail.replace("(kind=? AND state=?)", () => `(${/state = '\w+'/.exec(statement)})`)
            )
        )
      )
      assert.deepStrictEqual([...ways].toSorted(), [
        // Each reads a few rows: no more than can be leased at once, or the first ones of a part of the index.
        "SEARCH deliveries USING COVERING INDEX deliveries_by_turn (kind=? AND state=? AND priority=? AND available_at<?)",
        "SEARCH deliveries USING COVERING INDEX deliveries_by_turn (kind=? AND state=? AND priority=?)",
        "SEARCH deliveries USING COVERING INDEX sqlite_autoindex_deliveries_1 (id=?)",
        "SEARCH deliveries USING INDEX deliveries_by_turn (kind=? AND state=? AND priority=? AND available_at>?)",
        "SEARCH deliveries USING INDEX deliveries_by_turn (state = 'leased')",
        "SEARCH deliveries USING INDEX deliveries_open (kind=?)"
      ])
      const sorting = plans.filter(({ details }) => details.some((detail) => /TEMP B-TREE/.test(detail)))
      // Only the first rows of each part are sorted.
      assert.deepStrictEqual(
        sorting.map(({ statement }) => /AS heads/.test(statement)),
        [true]
      )
    })
  )
})
