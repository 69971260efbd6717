/**
 * Every operation on tables with many rows: growing tables are read along an index, and no operation reads more rows than it needs.
 * In Postgres the rows that an operation reads are counted; in SQLite the plans of its statements are asked for.
 */
import type { SqlClient } from "@effect/sql/SqlClient"
import Sqlite from "better-sqlite3"
import { assert, describe, vi } from "vitest"
import { it } from "../../world/Test.ts"
import { Effect, Option } from "effect"
import { roomOf } from "../../../src/services/usecases/Reports.ts"
import type { UpstreamKey } from "../../../src/services/Iam.ts"
import type { OperatorQueriesService } from "../../../src/services/store/OperatorQueries.ts"
import type { Page, PageRequest } from "../../../src/services/store/Pages.ts"
import {
  DeliveryUpdate,
  LoginOutcome,
  type StoreService,
  type StoreUnavailable
} from "../../../src/services/Store.ts"
import { type Around, aroundCalls, aroundStore } from "../../world/Around.ts"
import { fill } from "../../world/BulkRows.ts"
import { sampleEntry, sampleEvent, sampleReport, sampleSpoolLease } from "./Samples.ts"
import { type Kind, postgres, rawQuery, sqlite, withPgClient } from "./Stores.ts"

/** Enough that a scan shows. */
const rows = 6_000
/** Rows that an operation may read: several times the largest chunk of one. The numbers of deliveries read each entry of a narrow index. */
const readAtMost = (operation: string) => (operation === "deliveries.counts" ? 2.5 * rows : 2_500)

const hour = 3_600_000
const day = 24 * hour

const growing =
  "reports deliveries webhook_inbox spool spool_delivered spool_refused recipients login_outcomes session_digests known_planes destination_writes".split(
    " "
  )

/** Runs every operation of the store; with some of them the rows that the next ones need. */
const everyOperation = (store: StoreService) =>
  Effect.gen(function* () {
    const now = Date.now()
    const { deliveries, destinations, iamCalls, loginOutcomes, planes, recipients, reports } = store
    const { retention, sessionDigests, spool, usage, webhooks } = store
    const report = sampleReport({ createdAt: now })
    const ana = { plane: "production", organisation: "acme", organisationUuid: "uuid", publicId: "c:ana" }
    // The ports brand the key.
    const key = "key" as UpstreamKey
    const registered = LoginOutcome.Registration({ ting: { subscribed: true }, transient: false })
    const login = { login: "login", actor: "actor" }
    const token = { digest: "access", endsAt: now + hour }
    const fresh = Array.from({ length: 150 }, (_, index) =>
      sampleEntry(`fresh${index}`, { acceptedAt: now, eventAt: now })
    )
    const lease = { now, leaseUntil: now + 12_000, owner: "worker" }
    const operations: ReadonlyArray<Effect.Effect<unknown, StoreUnavailable>> = [
      reports.admit(report, true, roomOf(1e12)),
      reports.knowsKey(report),
      reports.find(report.id),
      reports.storedBytes,
      webhooks.receive(sampleEvent({ receivedAt: now }), ["c:ana"], ["actor"]),
      recipients.activate({ ...ana, subscriptionId: "sub" }),
      recipients.isActive(ana),
      recipients.deactivate(ana, now),
      loginOutcomes.record(key, registered),
      loginOutcomes.find(key),
      sessionDigests.remember(login, [token]),
      sessionDigests.find("access"),
      sessionDigests.forgetToken("access"),
      sessionDigests.forgetLogin("login"),
      iamCalls.leave("process", []),
      iamCalls.take(),
      planes.remember("env", "digest"),
      planes.findByKeyDigest("digest"),
      store.backups.last,
      spool.offer(fresh, { limitBytes: 1e12 }),
      spool.counts,
      spool.newestDeliveredSince(1_000),
      deliveries.counts,
      deliveries.oldestOpen,
      destinations.find("tracker"),
      destinations.pauses(now),
      destinations.failed("tracker", { pausedUntil: now + 1, stopped: true, failure: "none" }),
      destinations.resume(now),
      destinations.answered("tracker", { wrote: true }),
      destinations.reserveWrite("tracker", { now, spacing: 1_000, hourly: 450 }),
      usage.size
    ]
    // What is known already takes another way.
    yield* Effect.all([...operations, ...operations], { discard: true })

    const leased = yield* spool.lease(sampleSpoolLease({ ...lease, count: 120, bytes: 1e6 }))
    const [first = "", second = "", ...others] = leased.map(({ recordId }) => recordId)
    const refused = [{ recordId: second, code: "invalid" }]
    const delivered = others.slice(0, 60)
    yield* spool.settle({ owner: "worker", now, delivered, duplicates: [first], refused })
    yield* spool.release("worker", others.slice(60))

    const issue = Option.some({ number: 1, url: "https://github.com/harbor/music/issues/1" })
    const later = { availableAt: now + hour, failure: "none" }
    for (const outcome of [
      DeliveryUpdate.Delivered({ at: now, issue, sweepAt: Option.some(now + hour) }),
      DeliveryUpdate.Unknown({ ...later, searches: 1 }),
      DeliveryUpdate.Failed({ at: now, failure: "none" }),
      DeliveryUpdate.Waiting(later),
      DeliveryUpdate.Released(later)
    ]) {
      const one = Option.getOrThrow(yield* deliveries.lease(lease))
      yield* deliveries.extend(one, now + 20_000)
      yield* deliveries.update(one, DeliveryUpdate.Sending({ at: now }))
      yield* deliveries.update(one, outcome)
      yield* deliveries.find(one.id)
      yield* deliveries.retry(one.id, now)
      yield* deliveries.discard(one.id, now, "none")
    }
    yield* deliveries.lease(lease)
    // Failed deliveries that are older stay, because their reports do.
    for (const remove of Object.values(retention)) yield* remove(now - 20 * day)
    yield* store.check
  })

/** The operator's lists, each with its first page and the one after it. */
const everyQuery = (queries: OperatorQueriesService) =>
  Effect.gen(function* () {
    const first: PageRequest = { limit: 20, after: Option.none() }
    const twoPages = <A, E>(list: (page: PageRequest) => Effect.Effect<Page<A>, E>) =>
      Effect.flatMap(list(first), ({ next }) => list({ ...first, after: next }))
    yield* twoPages((page) => queries.reports({}, page))
    yield* twoPages((page) => queries.deliveries({}, page))
    yield* twoPages((page) => queries.webhooks({}, page))
    yield* twoPages((page) => queries.recipients({}, page))
    yield* twoPages((page) => queries.refusals({}, page))
    yield* queries.reports({ reporter: Option.some("unverified") }, first)
    for (const state of ["failed", "discarded"] as const) {
      yield* queries.deliveries({ state: Option.some(state) }, first)
      yield* queries.reports({ delivery: Option.some(state) }, first)
    }
    for (const anonymous of [true, false])
      yield* queries.reports({ anonymous: Option.some(anonymous), removable: Option.some(true) }, first)
    yield* queries.report("rep_1")
    yield* queries.enqueue("rep_1", Date.now())
    yield* queries.removeReport("rep_1", "a person asked for it", Date.now())
  })

/** Runs everything on a filled database, with what `aroundWith` makes around each operation, such as `spool.offer`. */
const runAll = (kind: Kind, place: string, aroundWith: (sql: SqlClient) => Around) =>
  Effect.gen(function* () {
    yield* fill(kind, place, rows)
    const { queries, read: _, sql, write: __, ...store } = yield* kind.openStore(place, { connections: 1 })
    const around = aroundWith(sql)
    // It asks no database.
    const used = new Set(["usage.pool"])
    const watched = aroundStore(store, (call, operation, given) => {
      used.add(operation)
      return around(call, operation, given)
    })
    yield* everyOperation(watched)
    const { check: ___, isFailing: ____, wakeups: _____, ...nouns } = store
    const all = Object.entries(nouns).flatMap(([noun, its]) =>
      Object.keys(its).map((one) => `${noun}.${one}`)
    )
    assert.sameMembers([...used], all, "every operation runs here")
    yield* everyQuery(aroundCalls(queries, around))
  }).pipe(Effect.scoped)

describe("Query plans", () => {
  it.scopedLive("SQLite searches growing tables", function* () {
    const place = yield* sqlite.freshPath
    const prepare = vi.spyOn(Sqlite.prototype, "prepare")
    yield* runAll(sqlite, place, () => {
      // Those that fill the tables.
      prepare.mockClear()
      return (call) => call
    })
    const statements = new Set(prepare.mock.calls.map(([statement]) => statement))
    prepare.mockRestore()
    assert.isAtLeast(statements.size, 60)
    const scan = new RegExp(`^SCAN (?:${growing.join("|")})\\b|^USE TEMP B-TREE FOR GROUP BY`)
    for (const statement of statements) {
      const plan = yield* rawQuery(place, `EXPLAIN QUERY PLAN ${statement.replaceAll("?", "1")}`)
      const details = plan.map(({ detail }) => String(detail))
      const scans = details.filter((detail) => scan.test(detail))
      // A list without a filter follows an index until its page is full. Numbers by group read an index alone.
      const mayUse = /ORDER BY [\w, ]+(?: DESC)?(?:, \w+ DESC)* LIMIT/.test(statement)
        ? / USING /
        : /GROUP BY/.test(statement)
          ? / USING COVERING INDEX /
          : /^$/
      assert.deepStrictEqual(
        scans.filter((detail) => !mayUse.test(detail)),
        [],
        statement
      )
      // Each page of a list would collect all that its filter selects.
      if (/^SELECT .* LIMIT \?$/s.test(statement)) assert.notInclude(details, "LIST SUBQUERY 1", statement)
    }
  })

  it.scopedLive("Postgres reads few rows of growing tables", function* () {
    const place = yield* postgres.emptyPath
    yield* postgres.withStore(place, () => Effect.void)
    // What the planner prefers for larger tables.
    const database = new URL(place).pathname.slice(1)
    for (const way of ["seqscan", "hashjoin", "mergejoin"])
      yield* postgres.rawQuery(place, `ALTER DATABASE ${database} SET enable_${way} = off`)
    const read: Record<string, number> = {}
    yield* withPgClient(place, async (client) => {
      // Like a backup or a long query: Postgres reads entries of removed rows again for as long as it lasts.
      await client.query("SET stats_fetch_consistency = none")
      await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
      await Effect.runPromise(
        runAll(postgres, place, (sql) => {
          const count = Effect.promise(async () => {
            await Effect.runPromise(sql`SELECT pg_stat_force_next_flush()`)
            const found = await client.query<{ readonly rows: number }>(`
              SELECT (SELECT SUM(seq_tup_read) FROM pg_stat_user_tables WHERE relname IN ('${growing.join("','")}'))
                + (SELECT SUM(idx_tup_read) FROM pg_stat_user_indexes WHERE relname IN ('${growing.join("','")}')) AS rows`)
            return found.rows[0]?.rows ?? 0
          })
          return (call, operation) =>
            Effect.gen(function* () {
              const before = yield* count
              const result = yield* call
              read[operation] = Math.max(read[operation] ?? 0, (yield* count) - before)
              return result
            })
        })
      )
    })
    assert.deepStrictEqual(
      Object.entries(read).filter(([operation, count]) => count > readAtMost(operation)),
      []
    )
  })
})
