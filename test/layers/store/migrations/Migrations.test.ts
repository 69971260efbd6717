import { existsSync, readdirSync, readFileSync } from "node:fs"
import { assert } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { UpstreamKey } from "../../../../src/services/Iam.ts"
import { productionId } from "../../../../src/services/Plane.ts"
import { LoginOutcome, type StoreService } from "../../../../src/services/Store.ts"
import { sampleEvent, sampleReport } from "../Samples.ts"
import { type Kind, onBoth, openUnmigrated } from "../Stores.ts"

/** One SQL file for each migration: a database of that version, with rows in every table. */
const fixtures = new URL("./fixtures/", import.meta.url)
const fixtureOf = (version: number) => new URL(`${String(version).padStart(4, "0")}.sql`, fixtures)

/** Of the migrations of this version, each a file. */
const versions = readdirSync(new URL("../../../../src/layers/store/migrations/", import.meta.url))
  .flatMap((file) => /^\d{4}(?=_)/.exec(file) ?? [])
  .map(Number)
  .toSorted((one, other) => one - other)
const latest = versions.at(-1) ?? 0

const comments = /^--.*$/gm

/** The same script in the dialect of PostgreSQL. */
const inPostgres = (script: string) =>
  `${script
    .replaceAll(/^CREATE TRIGGER .*$/gm, "")
    .replaceAll(/^--pg /gm, "")
    .replaceAll(comments, "")
    .replace("created_at datetime", "created_at TIMESTAMP WITH TIME ZONE")
    .replace("sequence INTEGER PRIMARY KEY", "sequence BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY")
    .replace(/(INSERT INTO spool \([^)]*\))/, "$1 OVERRIDING SYSTEM VALUE")};
  SELECT setval(pg_get_serial_sequence('spool', 'sequence'), (SELECT MAX(sequence) FROM spool));`

/** A database as an earlier version made it. */
const databaseOf = ({ emptyPath, name, rawQuery }: Kind, version: number) =>
  Effect.gen(function* () {
    const path = yield* emptyPath
    const script = readFileSync(fixtureOf(version), "utf8")
    yield* rawQuery(path, name === "SQLite" ? script.replaceAll(comments, "") : inPostgres(script))
    return path
  })

/** Tables, indices and triggers, as text whose white space is even. */
const catalogs = {
  SQLite: ["SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"],
  Postgres: [
    `SELECT table_name, column_name, data_type, is_nullable, is_identity FROM information_schema.columns
    WHERE table_schema = 'public' AND table_name <> 'migrations' ORDER BY table_name, ordinal_position`,
    "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY indexname",
    `SELECT tgname, pg_get_triggerdef(pg_trigger.oid) AS event, prosrc
    FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid WHERE NOT tgisinternal ORDER BY tgname`
  ]
}
const schemaOf = ({ name, rawQuery }: Kind, path: string) =>
  Effect.forEach(catalogs[name], (query) =>
    Effect.map(rawQuery(path, query), (rows) =>
      rows.map((row) => Object.values(row).map((value) => String(value).replaceAll(/\s+/g, " ")))
    )
  )

const appliedTo = ({ rawQuery }: Kind, path: string) =>
  Effect.map(rawQuery(path, "SELECT migration_id FROM migrations ORDER BY migration_id"), (rows) =>
    rows.map(({ migration_id }) => migration_id)
  )

const check = ({ check }: StoreService) => check

/** A message names the file, or host, port and database, but not the user. */
const assertNames = (reason: string, path: string) => {
  const { host, pathname } = path.startsWith("/") ? { host: "", pathname: path } : new URL(path)
  assert.include(reason, `${host}${pathname}`)
  assert.notInclude(reason, "postgres:")
}

/** A report, and its delivery, as versions before 9 write them. */
const insertReport = (id: string, reporter: string, content = "{}") =>
  `INSERT INTO reports (id, plane, key_digest, content_digest, reporter, content, source, request_id, created_at, marker)
  VALUES ('${id}', 'production', '${id}', 'c', '${reporter}', '${content}', 'cli', 'req', 500, 'm')`
const insertDelivery = (id: string, state = "waiting", failure = "NULL", finishedAt = "NULL") =>
  `INSERT INTO deliveries
    (id, kind, subject, state, attempts, available_at, looks, last_failure, fence, created_at, finished_at)
  VALUES ('report:${id}', 'report', '${id}', '${state}', 0, 900, 0, ${failure}, 0, 500, ${finishedAt})`
const people = ["anonymous", "unverified", "verified:c:eva"]

interface Conversion {
  readonly name: string
  readonly version: number
  readonly rows: ReadonlyArray<string>
  readonly query: string
  readonly expected: ReadonlyArray<ReadonlyArray<unknown>>
}

const conversions: ReadonlyArray<Conversion> = [
  {
    name: "deliveries discarded before version 3 are recognised by their reason",
    version: 2,
    rows: [
      insertDelivery("rep_5", "failed", "'discarded by an operator'", "990"),
      insertDelivery("rep_6", "failed", "'422 validation_failed'", "990")
    ],
    query:
      "SELECT id, discarded_at FROM deliveries WHERE state = 'failed' AND id > 'report:rep_4' ORDER BY id",
    expected: [
      ["report:rep_5", 990],
      ["report:rep_6", null]
    ]
  },
  {
    name: "deliveries from before version 4 get their reporter's priority, and sweeps come first",
    version: 3,
    rows: people.flatMap((reporter) => [insertReport(reporter, reporter), insertDelivery(reporter)]),
    query: "SELECT id, priority FROM deliveries ORDER BY id",
    expected: [
      ["report:anonymous", 1],
      ["report:rep_1", 0],
      ["report:rep_2", 1],
      ["report:unverified", 1],
      ["report:verified:c:eva", 0],
      ["sweep:rep_0", 0]
    ]
  },
  {
    name: "a refusal of a login moves from the registration's error to its own column",
    version: 4,
    rows: ["login:no_organization", "dependency_unavailable"].map(
      (error) => `INSERT INTO login_outcomes (upstream_key, plane, subscribed, error, transient, recorded_at)
        VALUES ('${error}', 'production', 0, '${error}', 1, 1000)`
    ),
    query: "SELECT error, refusal FROM login_outcomes WHERE transient = 1 ORDER BY upstream_key",
    expected: [
      ["dependency_unavailable", null],
      [null, "no_organization"]
    ]
  },
  {
    name: "reports from before version 9 count to their signed-in reporter, and in no network",
    version: 7,
    rows: [insertReport("rep_old", "anonymous")],
    query: "SELECT plane, holder, bytes FROM room_holders",
    expected: [["production", "verified:c:ana", 1_203]]
  }
]

const ana = { plane: productionId, organisation: "acme", publicId: "c:ana" }
// Keys are made by hashing; any text of their form will do.
const upstreamKey = (digit: string) => digit.repeat(64) as UpstreamKey
const registered = { ting: { subscribed: true, subscription_id: "sub_1" }, transient: false } as const
const never = { failures: 0, stopped: false, pausedUntil: 0, lastFailure: Option.none() }
const failed = { failures: 2, stopped: false, pausedUntil: 61_000, lastFailure: Option.some("rate limited") }

/** Reads of the rows that each version has, what they find, and since which version; before it, the last value. */
const reads = ({ deliveries, ...store }: StoreService, version: number) => {
  const since = <A, B>(first: number, now: A, before: B) => (version < first ? before : now)
  const optional = <A>(first: number, value: A) => since(first, Option.some(value), Option.none())
  const read = <A>(use: Effect.Effect<A, unknown>, expected: unknown) => ({ use, expected })
  const { content, reporter } = sampleReport()
  const accepted = since(2, 4, 3)
  const refused = since(2, 1, 0)
  const counts = { accepted, delivered: 1, duplicates: 1, expired: 0, refused, waiting: 1, waitingBytes: 10 }
  const report = Effect.map(store.reports.find("rep_1"), Option.getOrThrow)
  return [
    read(store.recipients.isActive(ana), true),
    read(store.loginOutcomes.find(upstreamKey("a")), Option.some(LoginOutcome.Registration(registered))),
    read(
      store.loginOutcomes.find(upstreamKey("b")),
      optional(5, LoginOutcome.Refusal({ reason: "no_organization" }))
    ),
    read(
      Effect.map(report, (found) => [found.content, found.reporter]),
      [content, reporter]
    ),
    read(store.planes.findByKeyDigest("digest-1"), Option.some("env-1")),
    read(store.spool.counts, [{ table: "musicclidaemon", ...counts }]),
    read(
      Effect.map(
        deliveries.find("report:rep_1"),
        Option.map(({ state, subject }) => [state, subject])
      ),
      Option.some(["waiting", "rep_1"])
    ),
    read(
      Effect.map(
        deliveries.find("report:rep_2"),
        Option.flatMap(({ discardedAt }) => discardedAt)
      ),
      optional(3, 990)
    ),
    read(store.destinations.find("tracker"), since(2, failed, never)),
    read(store.retention.refusals(1_501), since(2, 1, 0)),
    read(
      Effect.map(store.reports.admit(sampleReport(), true), ({ _tag }) => _tag),
      "Replayed"
    ),
    read(store.webhooks.receive(sampleEvent(), []), false),
    read(store.reports.storedBytes, Buffer.byteLength(JSON.stringify(content)) + 1_000),
    read(store.backups.last, optional(7, 1_200)),
    read(store.sessionDigests.find("digest-1"), optional(8, { login: "login-1", actor: "actor-1" })),
    read(
      store.iamCalls.take(),
      since(8, [{ window: "production /oauth/introspect", share: "known", freeAt: 1_000 }], [])
    ),
    // Without the discarded one.
    read(deliveries.counts, [
      { kind: "report", state: "waiting", count: 1 },
      ...since(2, [{ kind: "sweep", state: "delivered", count: 1 }], [])
    ])
  ]
}

it("Every released migration has a fixture", () => {
  const expected = versions.map((version) => `${String(version).padStart(4, "0")}.sql`)
  deepStrictEqual(readdirSync(fixtures).toSorted(), expected)
})

onBoth("Migrations", (kind) => {
  const { emptyPath, freshPath, openStore, rawQuery, withStore } = kind
  const open = (path: string) => withStore(path, check)
  const openOnly = (path: string) => Effect.scoped(openUnmigrated(path))

  it.scoped.each(versions)(
    "version %i migrates to the current schema with all its rows",
    function* (version) {
      const path = yield* databaseOf(kind, version)
      const store = yield* openStore(path)
      for (const { expected, use } of reads(store, version))
        assert.deepStrictEqual<unknown>(yield* use, expected)
      deepStrictEqual(yield* schemaOf(kind, path), yield* schemaOf(kind, yield* freshPath))
      deepStrictEqual(yield* appliedTo(kind, path), versions)
    }
  )

  it.scoped.each(conversions)("$name", function* ({ expected, query, rows, version }) {
    const path = yield* databaseOf(kind, version)
    for (const row of rows) yield* rawQuery(path, row)
    yield* open(path)
    assert.deepStrictEqual<unknown>((yield* rawQuery(path, query)).map(Object.values), expected)
  })

  it.scoped(
    "rows that an older version writes in parallel are counted, with the lowest priority",
    function* () {
      const path = yield* emptyPath
      const { deliveries, reports } = yield* openStore(path)
      yield* rawQuery(path, insertReport("rep_old", "verified:c:eva", '{"ä":1}'))
      yield* rawQuery(path, insertDelivery("rep_old"))
      assert.strictEqual(yield* reports.storedBytes, 1_008)
      const seen = (query: string) => Effect.map(rawQuery(path, query), (rows) => rows.flatMap(Object.values))
      const holders = seen("SELECT plane, holder, bytes FROM room_holders")
      assert.deepStrictEqual<unknown>(yield* holders, ["production", "verified:c:eva", 1_008])
      assert.deepStrictEqual<unknown>(yield* seen("SELECT priority FROM deliveries"), [1])
      yield* rawQuery(path, "UPDATE deliveries SET state = 'leased', fence = 1, lease_until = 9000")
      deepStrictEqual(yield* deliveries.counts, [{ kind: "report", state: "leased", count: 1 }])
      yield* rawQuery(path, "DELETE FROM deliveries;\nDELETE FROM reports")
      const left = [yield* reports.storedBytes, yield* deliveries.counts, yield* holders]
      assert.deepStrictEqual<unknown>(left, [0, [], []])
    }
  )

  it.scoped("stores that open a new database concurrently create one schema, and none fails", function* () {
    const path = yield* emptyPath
    const stores = yield* Effect.all([openStore(path), openStore(path), openStore(path)], {
      concurrency: "unbounded"
    })
    yield* Effect.forEach(stores, check)
    deepStrictEqual(yield* appliedTo(kind, path), versions)
  })

  it.scoped(
    "without the right to migrate, an older database is refused with the command, and kept",
    function* () {
      const path = yield* databaseOf(kind, 1)
      const before = yield* schemaOf(kind, path)
      const { reason } = yield* Effect.flip(openOnly(path))
      assertNames(reason, path)
      assert.include(reason, `(1, needed ${latest}): run music-backend migrate`)
      deepStrictEqual(yield* schemaOf(kind, path), before)
      yield* open(path)
      yield* openOnly(path)
      const fresh = yield* emptyPath
      assertNames((yield* Effect.flip(openOnly(fresh))).reason, fresh)
      if (kind.name === "SQLite") assert.isFalse(existsSync(fresh))
      else deepStrictEqual(yield* rawQuery(fresh, "SELECT * FROM pg_tables WHERE schemaname = 'public'"), [])
    }
  )

  it.scoped("a failed migration changes nothing; the check fails when migrations are missing", function* () {
    const path = yield* databaseOf(kind, latest - 1)
    yield* rawQuery(path, "CREATE TABLE room_holders (something TEXT)")
    const before = yield* schemaOf(kind, path)
    const failure = yield* Effect.flip(open(path))
    assertNames(failure.reason, path)
    deepStrictEqual(yield* schemaOf(kind, path), before)
    yield* rawQuery(path, "DROP TABLE room_holders")
    const store = yield* openStore(path)
    yield* store.check
    yield* rawQuery(path, "DELETE FROM migrations")
    const missing = yield* Effect.flip(store.check)
    assertNames(missing.reason, path)
    deepStrictEqual(
      [failure, missing].map(({ problem }) => problem.kind),
      ["migration_failed", "schema_incomplete"]
    )
  })
})
