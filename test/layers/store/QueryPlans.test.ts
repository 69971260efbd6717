/**
 * The plan of every statement that the store runs, on tables with many rows: growing tables are read along an index, and no
 * statement sorts or reads more rows than it needs. Statements are recorded at the driver, so a new one is covered by itself.
 */
import { assert, describe } from "vitest"
import { it } from "../../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { roomOf } from "../../../src/services/ReportCapacity.ts"
import type { UpstreamKey } from "../../../src/services/Iam.ts"
import type { OperatorQueriesService, Page, PageRequest } from "../../../src/services/OperatorQueries.ts"
import { DeliveryUpdate, LoginOutcome, type StoreService } from "../../../src/services/Store.ts"
import { fill, type Volumes, volumesOf } from "../../support/BulkRows.ts"
import { recordStatements } from "./DriverStatements.ts"
import {
  type Kind,
  openQueries,
  postgres,
  rawQuery,
  sampleEntry,
  sampleEvent,
  sampleReport,
  sqlite,
  withPgClient
} from "./Stores.ts"

/** Enough that a scan shows. */
const rows = 10_000
const volumes: Volumes = {
  ...volumesOf(rows),
  waitingDeliveries: rows / 2,
  spool: rows,
  remembered: rows,
  recipients: rows,
  loginOutcomes: rows,
  sessionDigests: rows,
  refused: rows
}
/** Rows that a statement may read: several times the largest chunk of one. */
const readAtMost = 2_500

const hour = 3_600_000
const day = 24 * hour

const growing =
  /\b(?:reports|deliveries|webhook_inbox|spool|spool_delivered|spool_refused|recipients|login_outcomes|session_digests|known_planes|destination_writes)\b/

/** Runs every operation of the store; with some of them the rows that the next ones need. */
const everyOperation = (store: StoreService) =>
  Effect.gen(function* () {
    const now = Date.now()
    const { deliveries, destinations, loginOutcomes, planes, recipients, reports } = store
    const { retention, sessionDigests, spool, usage, webhooks } = store

    yield* reports.admit(sampleReport({ createdAt: now }), true, roomOf(1e12))
    yield* reports.admit(sampleReport({ createdAt: now }), true, roomOf(1e12))
    yield* reports.knowsKey(sampleReport())
    yield* reports.find("rep_1")
    yield* reports.storedBytes

    yield* webhooks.receive(sampleEvent({ receivedAt: now }), ["c:ana"], ["actor"])
    yield* webhooks.receive(sampleEvent({ receivedAt: now }), ["c:ana"])

    const ana = { plane: "production", organisation: "acme", publicId: "c:ana" } as const
    yield* recipients.activate({ ...ana, organisationUuid: "uuid", subscriptionId: "sub" })
    yield* recipients.isActive(ana)
    yield* recipients.deactivate(ana)

    // The ports brand the key.
    const key = "key" as UpstreamKey
    const registered = LoginOutcome.Registration({ ting: { subscribed: true }, transient: false })
    yield* loginOutcomes.record(key, "production", registered)
    yield* loginOutcomes.find(key)

    const session = { login: "login", actor: "actor" }
    const token = { digest: "digest", kind: "access", endsAt: now + hour } as const
    for (const endsAt of [now + hour, now])
      yield* sessionDigests.remember("production", session, [
        token,
        { digest: "other", kind: "refresh", endsAt }
      ])
    yield* sessionDigests.find("digest")
    yield* sessionDigests.nameActor("login", "actor")
    yield* sessionDigests.forgetToken("digest")
    yield* sessionDigests.forgetLogin("login")
    yield* store.iamCalls.leave("process", [])
    yield* store.iamCalls.take()

    const plane = { environmentId: "env", webhookKeyDigest: "digest", now }
    yield* planes.remember(plane)
    yield* planes.remember(plane)
    yield* planes.findByKeyDigest("digest")
    yield* store.backups.last

    const entries = Array.from({ length: 150 }, (_, index) =>
      sampleEntry(`fresh${index}`, { acceptedAt: now, eventAt: now })
    )
    yield* spool.offer(entries, { limitBytes: 1e12 })
    yield* spool.offer([sampleEntry("own", { table: "musicbackend", acceptedAt: now, bytes: 1_000 })], {
      limitBytes: 1e9,
      share: "musicbackend",
      wholeBytes: 1e12
    })
    const { waiting, waitingBytes } = (yield* spool.counts).reduce(
      (sum, counts) => ({
        waiting: sum.waiting + counts.waiting,
        waitingBytes: sum.waitingBytes + counts.waitingBytes
      }),
      { waiting: 0, waitingBytes: 0 }
    )
    assert.isAbove(waiting, 1_000)
    // Takes the room of the backend's own event.
    yield* spool.offer([sampleEntry("urgent", { acceptedAt: now })], { limitBytes: waitingBytes })
    const lease = { now, leaseUntil: now + 12_000, owner: "worker" }
    const leased = yield* spool.lease({
      ...lease,
      tables: new Set(["musicclidaemon", "musicbackend"]),
      count: 120,
      bytes: 1e6
    })
    const [first, second, third, ...others] = leased.map(({ recordId }) => recordId)
    assert.isDefined(third)
    yield* spool.settle({
      owner: "worker",
      now,
      delivered: others.slice(0, 60),
      duplicates: [first ?? ""],
      refused: [{ recordId: second ?? "", code: "invalid" }]
    })
    yield* spool.release("worker", others.slice(60))
    yield* spool.expire({
      acceptedBefore: now - 11 * hour,
      deliveredBefore: now - 19 * hour,
      deliveredAtMost: 1_000
    })
    yield* spool.counts

    const worker = { kinds: ["report", "sweep"] as const, count: 2, concurrency: 4, ...lease }
    for (let step = 0; step < 3; step += 1) {
      const [one, other] = yield* deliveries.lease(worker)
      assert.isDefined(one)
      assert.isDefined(other)
      if (one === undefined || other === undefined) continue
      yield* deliveries.extend(one.id, one.fence, now + 20_000)
      yield* deliveries.update(one.id, one.fence, DeliveryUpdate.Sending({ at: now }))
      const issue = Option.some({ number: 1, url: "https://github.com/harbor/music/issues/1" })
      yield* deliveries.update(
        one.id,
        one.fence,
        step === 0
          ? DeliveryUpdate.Delivered({ at: now, issue, sweepAt: Option.some(now + hour) })
          : step === 1
            ? DeliveryUpdate.Unknown({ availableAt: now + hour, failure: "none", searches: 1 })
            : DeliveryUpdate.Failed({ at: now, failure: "none" })
      )
      yield* deliveries.update(
        other.id,
        other.fence,
        DeliveryUpdate.Waiting({ availableAt: now + hour, failure: "none" })
      )
      yield* deliveries.find(one.id)
      yield* deliveries.retry(one.id, now)
      yield* deliveries.retry(one.id, now, { onlyFailed: true })
      yield* deliveries.discard(other.id, now, "none")
    }
    yield* deliveries.nextDueAt(worker.kinds, 4)
    yield* deliveries.lease({ ...worker, ordinary: false })
    yield* deliveries.nextDueAt(worker.kinds, 4, false)
    yield* deliveries.counts
    yield* deliveries.oldestOpen

    yield* destinations.find("tracker")
    yield* destinations.pauses(now, { name: "tracker", ordinaryHourly: 350 })
    yield* destinations.writesFullUntil("tracker", { now, hourly: 350 })
    yield* usage.size
    usage.pool()
    yield* destinations.failed("tracker", { now, pausedUntil: now, stopped: false, failure: "none" })
    yield* destinations.failed("tracker", { now, pausedUntil: now + 1, stopped: true, failure: "none" })
    yield* destinations.resumeTracker(now)
    yield* destinations.answered("tracker", { now, wrote: true })
    for (let write = 0; write < 3; write += 1)
      yield* destinations.reserveWrite("tracker", { now, spacing: 1_000, hourly: 450 })

    yield* retention.reports(now - 250 * day)
    yield* retention.anonymousReports(now - 250 * day)
    yield* retention.webhooks(now - 40 * day)
    // Failed deliveries that are older stay, because their reports do.
    yield* retention.deliveries(now - 20 * day)
    yield* retention.recipients(now - 40 * day)
    yield* retention.loginOutcomes(now - 12 * hour)
    yield* retention.sessionDigests(now - day)
    yield* retention.refusals(now - 15 * day)
    yield* store.check
  })

/** What of the store `use` runs, as `noun.operation`. */
const watched = (store: StoreService) => {
  const used = new Set<string>()
  const nouns = Object.entries(store).filter(([noun]) => !["check", "wakeups", "sql"].includes(noun))
  const watch = <Noun extends object>(name: string, noun: Noun): Noun =>
    new Proxy(noun, {
      get: (target, operation) => {
        used.add(`${name}.${String(operation)}`)
        return Reflect.get(target, operation)
      }
    })
  const copy: StoreService = {
    ...store,
    ...Object.fromEntries(nouns.map(([name, noun]) => [name, watch(name, noun)]))
  }
  const all = nouns.flatMap(([name, noun]) => Object.keys(noun).map((operation) => `${name}.${operation}`))
  return { store: copy, missing: () => all.filter((operation) => !used.has(operation)) }
}

/** The values of the first execution, by text: of those that read or write rows. */
type Statements = ReadonlyMap<string, ReadonlyArray<unknown>>

const rowStatement = /^\s*(?:SELECT|UPDATE|DELETE|INSERT|WITH)/

/** The operator's lists, each with its first page and the one after it. */
const everyQuery = (queries: OperatorQueriesService) =>
  Effect.gen(function* () {
    const none = Option.none()
    const first: PageRequest = { limit: 20, after: none }
    const twoPages = <A, E>(list: (page: PageRequest) => Effect.Effect<Page<A>, E>) =>
      Effect.flatMap(list(first), ({ next }) => list({ ...first, after: next }))
    const reports = { since: none, plane: none, reporter: none, filed: none, delivery: none }
    const deliveries = { since: none, state: none, kind: none }
    yield* twoPages((page) => queries.reports(reports, page))
    yield* twoPages((page) => queries.deliveries(deliveries, page))
    yield* twoPages((page) => queries.webhooks({ since: none, plane: none, eventType: none }, page))
    yield* twoPages((page) => queries.recipients({ plane: none, organisation: none, publicId: none }, page))
    yield* twoPages((page) => queries.refusals({ since: none, table: none, code: none }, page))
    yield* queries.reports({ ...reports, reporter: Option.some("unverified") }, first)
    for (const state of ["failed", "discarded"] as const) {
      yield* queries.deliveries({ ...deliveries, state: Option.some(state) }, first)
      yield* queries.reports({ ...reports, delivery: Option.some(state) }, first)
    }
    for (const anonymous of [true, false])
      yield* queries.reportSizes({ since: none, anonymous, reporter: none }, { limit: 500, after: none })
    yield* queries.reportUse
    yield* queries.report("rep_1")
    yield* queries.delivery("report:rep_1")
    yield* queries.enqueue("rep_1", Date.now())
    yield* queries.spool
    yield* queries.removeReport("rep_1", "a person asked for it", Date.now())
  })

/** The statements of every operation and of the operator's first pages, recorded on a filled database. */
const recorded = ({ emptyPath, name, openStore, withStore }: Kind) =>
  Effect.gen(function* () {
    const place = yield* emptyPath
    yield* withStore(place, () => Effect.void)
    yield* Effect.promise(() => fill(name === "SQLite" ? "sqlite" : "postgres", place, volumes, Date.now()))
    const executed = yield* Effect.gen(function* () {
      const { missing, store } = watched(yield* openStore(place))
      const queries = yield* openQueries(place)
      const found = yield* recordStatements
      yield* everyOperation(store)
      assert.deepStrictEqual(missing(), [], "operations that this test does not run")
      yield* everyQuery(queries)
      return [...found]
    }).pipe(Effect.scoped)
    const statements = new Map<string, ReadonlyArray<unknown>>()
    // Several statements may leave together.
    for (const { text, values } of executed)
      for (const part of text.split(/;\s*/))
        if (rowStatement.test(part) && !statements.has(part)) statements.set(part, values)
    assert.isAtLeast(statements.size, 60)
    return { place, statements }
  })

/** It reads and sorts many rows on purpose: the bound of the delivered ids, once in ten minutes. */
const isExpected = (statement: string) =>
  /SELECT delivered_at FROM spool_delivered\s+ORDER BY delivered_at DESC LIMIT 1 OFFSET/.test(statement)

const inSqlite = (place: string, statements: Statements) =>
  Effect.forEach([...statements.keys()], (statement) => {
    const values = statement.replaceAll("?", "1")
    return Effect.map(rawQuery(place, `EXPLAIN QUERY PLAN ${values}`), (plan) => ({
      statement,
      details: plan.map(({ detail }) => String(detail))
    }))
  })

/** A sort of the rows that share a key, of the first rows of each part of an index, or of the reports of a filter by state. */
const sortsFew = /AS heads|key_digest = |id IN \(\s*SELECT subject/

interface PlanNode {
  readonly "Node Type": string
  readonly "Relation Name"?: string
  readonly "Actual Rows"?: number
  readonly "Actual Loops"?: number
  readonly "Rows Removed by Filter"?: number
  readonly "Rows Removed by Index Recheck"?: number
  readonly Plans?: ReadonlyArray<PlanNode>
}

const nodesOf = (node: PlanNode): ReadonlyArray<PlanNode> => [node, ...(node.Plans ?? []).flatMap(nodesOf)]

/** Rows that a part of the plan read. */
const readBy = (node: PlanNode): number =>
  ((node["Actual Rows"] ?? 0) +
    (node["Rows Removed by Filter"] ?? 0) +
    (node["Rows Removed by Index Recheck"] ?? 0)) *
  (node["Actual Loops"] ?? 1)

/** Executes each statement, without its effect, and gives the parts of its plan. */
const inPostgres = (place: string, statements: Statements) =>
  withPgClient(place, async (client) => {
    // What the planner prefers for larger tables.
    for (const way of ["seqscan", "hashjoin", "mergejoin"]) await client.query(`SET enable_${way} = off`)
    const plans: Array<{ readonly statement: string; readonly nodes: ReadonlyArray<PlanNode> }> = []
    for (const [statement, values] of statements) {
      // A second insertion of the same rows fails, and a first one reads no other rows.
      if (/^\s*INSERT/.test(statement)) continue
      await client.query("BEGIN")
      try {
        const { rows: found } = await client.query<{
          readonly "QUERY PLAN": ReadonlyArray<{ readonly Plan: PlanNode }>
        }>(`EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) ${statement}`, [...values])
        plans.push({
          statement,
          nodes: found.flatMap((row) => row["QUERY PLAN"].flatMap(({ Plan }) => nodesOf(Plan)))
        })
      } finally {
        await client.query("ROLLBACK")
      }
    }
    return plans
  })

describe("Query plans", () => {
  it.scopedLive("SQLite searches growing tables, and sorts few rows", function* () {
    const { place, statements } = yield* recorded(sqlite)
    const bad = (yield* inSqlite(place, statements))
      .filter(({ statement }) => !isExpected(statement))
      .flatMap(({ details, statement }) => {
        // A list without a filter follows an index until its page is full.
        const isPage = /ORDER BY [\w, ]+(?: DESC)? LIMIT/.test(statement)
        return details
          .filter(
            (detail) =>
              (/^SCAN/.test(detail) && growing.test(detail) && !(isPage && / USING /.test(detail))) ||
              (/TEMP B-TREE/.test(detail) && !sortsFew.test(statement)) ||
              // For each row of another table it would read all of a state.
              (/CORRELATED/.test(details.join()) && /\(kind=\? AND state=\?\)/.test(detail)) ||
              // Few are leased at once; of the other states there may be many.
              (/deliveries_by_turn \(kind=\?(?: AND state=\?)?\)/.test(detail) &&
                !/state = 'leased'|SELECT subject/.test(statement))
          )
          .map((detail) => ({ detail, statement }))
      })
    assert.deepStrictEqual(bad, [])
  })

  it.scopedLive("Postgres reads few rows of growing tables", function* () {
    const { place, statements } = yield* recorded(postgres)
    const bad = (yield* inPostgres(place, statements))
      .filter(({ statement }) => !isExpected(statement))
      .flatMap(({ nodes, statement }) =>
        nodes
          .filter((node) => growing.test(node["Relation Name"] ?? "") && readBy(node) > readAtMost)
          .map((node) => ({ part: `${node["Node Type"]} of ${readBy(node)} rows`, statement }))
      )
    assert.deepStrictEqual(bad, [])
  })
})
