/**
 * Every operation on tables with many rows: growing tables are read along an index, and no operation reads more rows than it needs.
 * In Postgres the rows that an operation reads are counted; in SQLite the plans of its statements are asked for.
 */
import Sqlite from "better-sqlite3"
import { assert, describe, vi } from "vitest"
import { it } from "../../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { roomOf } from "../../../src/services/usecases/ReportLimits.ts"
import type { UpstreamKey } from "../../../src/services/Iam.ts"
import type { OperatorQueriesService } from "../../../src/services/store/OperatorQueries.ts"
import type { Page, PageRequest } from "../../../src/services/store/Pages.ts"
import { DeliveryUpdate, LoginOutcome, type StoreService } from "../../../src/services/Store.ts"
import { fill, volumesOf } from "../../world/BulkRows.ts"
import { sampleEntry, sampleEvent, sampleReport } from "./Samples.ts"
import { type Kind, postgres, rawQuery, sqlite, withPgClient } from "./Stores.ts"

/** Enough that a scan shows. */
const rows = 6_000
const many = ["spool", "remembered", "recipients", "loginOutcomes", "sessionDigests", "refused"] as const
const volumes = {
  ...volumesOf(rows),
  ...Object.fromEntries(many.map((name) => [name, rows])),
  waitingDeliveries: rows / 2
}
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
    const { deliveries, destinations, loginOutcomes, planes, recipients, reports } = store
    const { retention, sessionDigests, spool, usage, webhooks } = store

    const report = sampleReport({ createdAt: now })
    yield* Effect.repeatN(reports.admit(report, true, roomOf(1e12)), 1)
    yield* reports.knowsKey(report)
    yield* reports.find(report.id)
    yield* reports.storedBytes
    const event = sampleEvent({ receivedAt: now })
    yield* Effect.repeatN(webhooks.receive(event, ["c:ana"], ["actor"]), 1)
    const ana = { plane: "production", organisation: "acme", publicId: "c:ana" } as const
    yield* recipients.activate({ ...ana, organisationUuid: "uuid", subscriptionId: "sub" })
    yield* recipients.isActive({ ...ana, organisationUuid: "uuid" })
    yield* recipients.deactivate(ana, now)
    // The ports brand the key.
    const key = "key" as UpstreamKey
    const registered = LoginOutcome.Registration({ ting: { subscribed: true }, transient: false })
    yield* loginOutcomes.record(key, "production", registered)
    yield* loginOutcomes.find(key)
    const tokens = (["access", "refresh"] as const).map((kind) => ({
      digest: kind,
      kind,
      endsAt: now + hour
    }))
    yield* Effect.repeatN(
      sessionDigests.remember("production", { login: "login", actor: "actor" }, tokens),
      1
    )
    yield* sessionDigests.find("access")
    yield* sessionDigests.nameActor("login", "actor")
    yield* sessionDigests.forgetToken("access")
    yield* sessionDigests.forgetLogin("login")
    yield* store.iamCalls.leave("process", [])
    yield* store.iamCalls.take()
    yield* Effect.repeatN(planes.remember("env", "digest"), 1)
    yield* planes.findByKeyDigest("digest")
    yield* store.backups.last

    const fresh = Array.from({ length: 150 }, (_, index) =>
      sampleEntry(`fresh${index}`, { acceptedAt: now, eventAt: now })
    )
    yield* spool.offer(fresh, { limitBytes: 1e12 })
    yield* spool.counts
    const lease = { now, leaseUntil: now + 12_000, owner: "worker" }
    const tables = new Set(["musicclidaemon", "musicfrontendevents"] as const)
    const leased = yield* spool.lease({ ...lease, tables, count: 120, bytes: 1e6 })
    const [first = "", second = "", ...others] = leased.map(({ recordId }) => recordId)
    const refused = [{ recordId: second, code: "invalid" }]
    yield* spool.settle({
      owner: "worker",
      now,
      delivered: others.slice(0, 60),
      duplicates: [first],
      refused
    })
    yield* spool.release("worker", others.slice(60))
    yield* spool.newestDeliveredSince(1_000)

    const next = Effect.map(deliveries.lease(lease), Option.getOrThrow)
    // While none is leased and none is due, with all that wait.
    yield* deliveries.nextDueAt
    yield* deliveries.lease({ ...lease, now: 1 })
    const issue = Option.some({ number: 1, url: "https://github.com/harbor/music/issues/1" })
    const later = { availableAt: now + hour, failure: "none" }
    for (const outcome of [
      DeliveryUpdate.Delivered({ at: now, issue, sweepAt: Option.some(now + hour) }),
      DeliveryUpdate.Unknown({ ...later, searches: 1 }),
      DeliveryUpdate.Failed({ at: now, failure: "none" })
    ]) {
      const one = yield* next
      yield* deliveries.extend(one, now + 20_000)
      yield* deliveries.update(one, DeliveryUpdate.Sending({ at: now }))
      yield* deliveries.update(one, outcome)
      const other = yield* next
      yield* deliveries.update(other, DeliveryUpdate.Waiting(later))
      yield* deliveries.find(one.id)
      yield* deliveries.retry(one.id, now)
      yield* deliveries.retry(one.id, now, { onlyFailed: true })
      yield* deliveries.discard(other.id, now, "none")
    }
    yield* deliveries.lease(lease)
    yield* deliveries.counts
    yield* deliveries.oldestOpen

    yield* destinations.find("tracker")
    yield* destinations.pauses(now)
    yield* usage.size
    usage.pool()
    yield* destinations.failed("tracker", { now, pausedUntil: now + 1, stopped: true, failure: "none" })
    yield* destinations.resume(now)
    yield* destinations.answered("tracker", { now, wrote: true })
    yield* Effect.repeatN(destinations.reserveWrite("tracker", { now, spacing: 1_000, hourly: 450 }), 2)

    // Failed deliveries that are older stay, because their reports do.
    for (const remove of Object.values(retention)) yield* remove(now - 20 * day)
    yield* store.check
  })

/** The operator's lists, each with its first page and the one after it. */
const everyQuery = (queries: OperatorQueriesService) =>
  Effect.gen(function* () {
    const none = Option.none()
    const first: PageRequest = { limit: 20, after: none }
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
      yield* queries.reportSizes({ anonymous }, { limit: 500, after: none })
    yield* queries.reportUse
    yield* queries.report("rep_1")
    yield* queries.enqueue("rep_1", Date.now())
    yield* queries.spool
    yield* queries.removeReport("rep_1", "a person asked for it", Date.now())
  })

type Measure = (operation: string) => <A, E, R>(use: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/** Runs everything on a filled database, and measures each operation, such as `spool.offer`. */
const measured = (
  { name, openStore }: Kind,
  place: string,
  measureWith: (run: (statement: string) => Effect.Effect<unknown, unknown>) => Measure
) =>
  Effect.gen(function* () {
    yield* Effect.promise(() => fill(name === "SQLite" ? "sqlite" : "postgres", place, volumes, Date.now()))
    const { queries, sql, write: _, ...store } = yield* openStore(place, { connections: 1 })
    const measure = measureWith((statement) => sql.unsafe(statement))
    const used = new Set<string>()
    const watch = <Noun extends object>(name: string, noun: Noun): Noun =>
      new Proxy(noun, {
        get: (target, operation) => {
          const path = `${name}.${String(operation)}`
          used.add(path)
          const member: unknown = Reflect.get(target, operation)
          const measuring = (result: unknown) =>
            Effect.isEffect(result) ? measure(path)(result as Effect.Effect<unknown, unknown>) : result
          return typeof member === "function"
            ? (...given: ReadonlyArray<unknown>) => measuring(Reflect.apply(member, target, given))
            : measuring(member)
        }
      })
    const nouns = Object.entries(store).filter(([noun]) => !["check", "isFailing", "wakeups"].includes(noun))
    yield* everyOperation({
      ...store,
      ...Object.fromEntries(nouns.map(([name, noun]) => [name, watch(name, noun)]))
    })
    const all = nouns.flatMap(([name, noun]) => Object.keys(noun).map((operation) => `${name}.${operation}`))
    assert.deepStrictEqual(
      all.filter((operation) => !used.has(operation)),
      [],
      "operations that do not run here"
    )
    yield* everyQuery(watch("queries", queries))
  }).pipe(Effect.scoped)

describe("Query plans", () => {
  it.scopedLive("SQLite searches growing tables", function* () {
    const place = yield* sqlite.freshPath
    const prepare = vi.spyOn(Sqlite.prototype, "prepare")
    yield* measured(sqlite, place, () => {
      // Those that fill the tables.
      prepare.mockClear()
      return () => (use) => use
    })
    const statements = new Set(prepare.mock.calls.map(([statement]) => statement))
    prepare.mockRestore()
    assert.isAtLeast(statements.size, 60)
    // Most deliveries are of one kind.
    const ofKind = String.raw`SEARCH deliveries USING .*deliveries_by_state \(kind=\?\)`
    const scan = new RegExp(`^(?:SCAN (?:${growing.join("|")})\\b|${ofKind})`)
    for (const statement of statements) {
      const plan = yield* rawQuery(place, `EXPLAIN QUERY PLAN ${statement.replaceAll("?", "1")}`)
      const scans = plan.map(({ detail }) => String(detail)).filter((detail) => scan.test(detail))
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
        measured(postgres, place, (run) => {
          const count = Effect.promise(async () => {
            await Effect.runPromise(run("SELECT pg_stat_force_next_flush()"))
            const found = await client.query<{ readonly rows: number }>(`
              SELECT (SELECT SUM(seq_tup_read) FROM pg_stat_user_tables WHERE relname IN ('${growing.join("','")}'))
                + (SELECT SUM(idx_tup_read) FROM pg_stat_user_indexes WHERE relname IN ('${growing.join("','")}')) AS rows`)
            return found.rows[0]?.rows ?? 0
          })
          return (operation) => (use) =>
            Effect.gen(function* () {
              const before = yield* count
              const result = yield* use
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
