import { existsSync, readdirSync, readFileSync } from "node:fs"
import { assert } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { UpstreamKey } from "../../../../src/services/Iam.ts"
import { productionId } from "../../../../src/services/Plane.ts"
import { Anonymous, LoginOutcome, type StoreService } from "../../../../src/services/Store.ts"
import { type Kind, onBoth, openUnmigrated, sampleEvent, sampleReport } from "../Stores.ts"

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

const schemaOf = ({ name, rawQuery }: Kind, path: string) =>
  name === "SQLite"
    ? Effect.map(
        rawQuery(path, "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"),
        (rows) => rows.map(({ sql, ...row }) => ({ ...row, sql: String(sql).replaceAll(/\s+/g, " ") }))
      )
    : Effect.all([
        rawQuery(
          path,
          `SELECT table_name, column_name, data_type, is_nullable, is_identity FROM information_schema.columns
          WHERE table_schema = 'public' AND table_name <> 'migrations' ORDER BY table_name, ordinal_position`
        ),
        rawQuery(
          path,
          "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY indexname"
        ),
        rawQuery(
          path,
          `SELECT tgname, pg_get_triggerdef(pg_trigger.oid) AS event, regexp_replace(prosrc, '\\s+', ' ', 'g') AS body
          FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid WHERE NOT tgisinternal ORDER BY tgname`
        )
      ])

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

/** Reads a database of any version through the current repositories. */
const readEverything = (store: StoreService) =>
  Effect.gen(function* () {
    const report = yield* store.reports.find("rep_1")
    return {
      active: yield* store.recipients.isActive({
        plane: productionId,
        organisation: "acme",
        publicId: "c:ana"
      }),
      // Keys are made by hashing; any text of their form will do.
      outcome: yield* store.loginOutcomes.find("a".repeat(64) as UpstreamKey),
      refusal: yield* store.loginOutcomes.find("b".repeat(64) as UpstreamKey),
      content: Option.map(report, ({ content }) => content),
      reporter: Option.map(report, ({ reporter }) => reporter),
      plane: yield* store.planes.findByKeyDigest("digest-1"),
      counts: yield* store.spool.counts,
      delivery: Option.map(yield* store.deliveries.find("report:rep_1"), ({ state, subject }) => ({
        state,
        subject
      })),
      discarded: Option.flatMap(
        yield* store.deliveries.find("report:rep_2"),
        ({ discardedAt }) => discardedAt
      ),
      destination: yield* store.destinations.find("tracker"),
      refusals: yield* store.retention.refusals(1_501),
      replayed: (yield* store.reports.admit(sampleReport(), true))._tag,
      receivedAgain: yield* store.webhooks.receive(sampleEvent(), []),
      storedBytes: yield* store.reports.storedBytes,
      lastBackup: yield* store.backups.last,
      session: yield* store.sessionDigests.find("digest-1"),
      iamCalls: yield* store.iamCalls.take(),
      deliveries: yield* store.deliveries.counts
    }
  })

/** Without the discarded one. */
const deliveriesOf = (version: number) => [
  { kind: "report", state: "waiting", count: 1 },
  ...(version === 1 ? [] : [{ kind: "sweep", state: "delivered", count: 1 }])
]

const everything = (version: number) => ({
  active: true,
  outcome: Option.some(
    LoginOutcome.Registration({ ting: { subscribed: true, subscription_id: "sub_1" }, transient: false })
  ),
  refusal: version < 5 ? Option.none() : Option.some(LoginOutcome.Refusal({ reason: "no_organization" })),
  content: Option.some(sampleReport().content),
  reporter: Option.some(sampleReport().reporter),
  plane: Option.some("env-1"),
  counts: [
    {
      table: "musicclidaemon",
      accepted: version === 1 ? 3 : 4,
      delivered: 1,
      duplicates: 1,
      expired: 0,
      refused: version === 1 ? 0 : 1,
      waiting: 1,
      waitingBytes: 10
    }
  ],
  delivery: Option.some({ state: "waiting", subject: "rep_1" }),
  discarded: version < 3 ? Option.none() : Option.some(990),
  destination:
    version === 1
      ? { failures: 0, stopped: false, pausedUntil: 0, lastFailure: Option.none() }
      : { failures: 2, stopped: false, pausedUntil: 61_000, lastFailure: Option.some("rate limited") },
  refusals: version === 1 ? 0 : 1,
  replayed: "Replayed",
  receivedAgain: false,
  storedBytes: Buffer.byteLength(JSON.stringify(sampleReport().content)) + 1_000,
  lastBackup: version < 7 ? Option.none() : Option.some(1_200),
  iamCalls: version < 8 ? [] : [{ window: "production /oauth/introspect", share: "known", freeAt: 1_000 }],
  session: version < 8 ? Option.none() : Option.some({ login: "login-1", actor: "actor-1" }),
  deliveries: deliveriesOf(version)
})

it("Every released migration has a fixture", () => {
  deepStrictEqual(
    readdirSync(fixtures).toSorted(),
    versions.map((version) => `${String(version).padStart(4, "0")}.sql`)
  )
})

onBoth("Migrations", (kind) => {
  const { emptyPath, openStore, rawQuery, withStore } = kind
  const open = (path: string) => withStore(path, check)

  for (const version of versions)
    it.scoped(`version ${version} migrates to the current schema with all its rows`, function* () {
      const fresh = yield* emptyPath
      yield* open(fresh)
      const path = yield* databaseOf(kind, version)
      assert.deepStrictEqual<unknown>(yield* withStore(path, readEverything), everything(version))
      assert.deepStrictEqual<unknown>(yield* schemaOf(kind, path), yield* schemaOf(kind, fresh))
      deepStrictEqual(yield* appliedTo(kind, path), versions)
    })

  it.scoped("deliveries discarded before version 3 are recognised by their reason", function* () {
    const path = yield* databaseOf(kind, 2)
    for (const [id, reason] of [
      ["rep_5", "discarded by an operator"],
      ["rep_6", "422 validation_failed"]
    ])
      yield* rawQuery(
        path,
        `INSERT INTO deliveries
            (id, kind, subject, state, attempts, available_at, looks, last_failure, fence, created_at, finished_at)
          VALUES ('report:${id}', 'report', '${id}', 'failed', 0, 900, 0, '${reason}', 1, 800, 990)`
      )
    const { deliveries } = yield* openStore(path)
    const marks = yield* Effect.forEach(["report:rep_5", "report:rep_6", "report:rep_1"], (id) =>
      Effect.map(
        deliveries.find(id),
        Option.flatMap(({ discardedAt }) => discardedAt)
      )
    )
    deepStrictEqual(marks, [Option.some(990), Option.none(), Option.none()])
  })

  it.scoped(
    "deliveries from before version 4 get their priority from their reporter, and sweeps come first",
    function* () {
      const path = yield* databaseOf(kind, 3)
      for (const reporter of ["anonymous", "unverified", "verified:c:eva"])
        yield* rawQuery(
          path,
          `INSERT INTO reports (id, plane, key_digest, content_digest, reporter, content, source, request_id, created_at, marker)
          VALUES ('${reporter}', 'production', '${reporter}', 'c', '${reporter}', '{}', 'cli', 'req', 500, 'm');
          INSERT INTO deliveries (id, kind, subject, state, attempts, available_at, looks, fence, created_at)
          VALUES ('report:${reporter}', 'report', '${reporter}', 'waiting', 0, 500, 0, 0, 500)`
        )
      yield* open(path)
      deepStrictEqual(yield* rawQuery(path, "SELECT id, priority FROM deliveries ORDER BY id"), [
        { id: "report:anonymous", priority: 1 },
        { id: "report:rep_1", priority: 0 },
        { id: "report:rep_2", priority: 1 },
        { id: "report:unverified", priority: 1 },
        { id: "report:verified:c:eva", priority: 0 },
        { id: "sweep:rep_0", priority: 0 }
      ])
    }
  )

  it.scoped("a refusal of a login moves from the registration's error to its own column", function* () {
    const path = yield* databaseOf(kind, 4)
    const ting = { subscribed: false, error: "dependency_unavailable" }
    const outcomes: ReadonlyArray<readonly [string, string, LoginOutcome]> = [
      ["b", "login:no_organization", LoginOutcome.Refusal({ reason: "no_organization" })],
      ["c", "dependency_unavailable", LoginOutcome.Registration({ ting, transient: true })]
    ]
    for (const [digit, error] of outcomes)
      yield* rawQuery(
        path,
        `INSERT INTO login_outcomes (upstream_key, plane, subscribed, error, transient, recorded_at)
          VALUES ('${digit.repeat(64)}', 'production', 0, '${error}', 1, 1000)`
      )
    const { loginOutcomes } = yield* openStore(path)
    for (const [digit, , outcome] of outcomes)
      deepStrictEqual(yield* loginOutcomes.find(digit.repeat(64) as UpstreamKey), Option.some(outcome))
  })

  it.scoped(
    "rows that an older version writes in parallel are counted, and have the lowest priority",
    function* () {
      const path = yield* emptyPath
      const { deliveries, reports } = yield* openStore(path)
      // The statement of version 3.
      yield* rawQuery(
        path,
        `INSERT INTO reports (id, plane, key_digest, content_digest, reporter, content, source, request_id, created_at, marker)
        VALUES ('rep_old', 'production', 'old', 'c', 'verified:c:eva', '{"ä":1}', 'cli', 'req', 500, 'm');
        INSERT INTO deliveries (id, kind, subject, state, attempts, available_at, looks, fence, created_at)
        VALUES ('report:rep_old', 'report', 'rep_old', 'waiting', 0, 500, 0, 0, 500)`
      )
      assert.strictEqual(yield* reports.storedBytes, 1_008)
      yield* rawQuery(path, "UPDATE deliveries SET state = 'leased', fence = 1, lease_until = 9000")
      deepStrictEqual(yield* deliveries.counts, [{ kind: "report", state: "leased", count: 1 }])
      yield* rawQuery(path, "DELETE FROM deliveries;\nDELETE FROM reports")
      assert.strictEqual(yield* reports.storedBytes, 0)
      deepStrictEqual(yield* deliveries.counts, [])
    }
  )

  it.scoped(
    "reports from before version 9 count to their signed-in reporter, and in no network",
    function* () {
      const path = yield* databaseOf(kind, 7)
      const anonymous = `INSERT INTO reports (id, plane, key_digest, content_digest, reporter, content, source, request_id, created_at, marker)
        VALUES ('rep_old', 'production', 'old', 'c', 'anonymous', '{}', 'cli', 'req', 500, 'm')`
      yield* rawQuery(path, anonymous)
      const { reports } = yield* openStore(path)
      const holders = rawQuery(path, "SELECT plane, holder, bytes FROM room_holders ORDER BY plane")
      const ana = { plane: "production", holder: "verified:c:ana", bytes: 1_203 }
      deepStrictEqual(yield* holders, [ana])
      // The statements of an older version beside this one.
      yield* rawQuery(
        path,
        anonymous.replace("rep_old", "rep_2").replace("'old'", "'new'").replace("anonymous", "verified:c:ana")
      )
      deepStrictEqual(yield* holders, [{ ...ana, bytes: 2_205 }])
      yield* reports.admit(
        sampleReport({ id: "rep_3", keyDigest: "3", reporter: Anonymous(), network: "a" }),
        true
      )
      assert.strictEqual((yield* holders).length, 2)
      yield* rawQuery(path, "DELETE FROM reports")
      deepStrictEqual(yield* holders, [])
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
    "a database of a newer version is refused with its name and a fix, and is not changed",
    function* () {
      const path = yield* emptyPath
      yield* open(path)
      yield* rawQuery(path, "INSERT INTO migrations (migration_id, name) VALUES (9999, 'future')")
      const before = yield* schemaOf(kind, path)
      for (const attempt of [open(path), Effect.scoped(openUnmigrated(path))]) {
        const { reason } = yield* Effect.flip(attempt)
        assertNames(reason, path)
        assert.include(reason, `9999, known ${latest}`)
      }
      assert.deepStrictEqual<unknown>(yield* schemaOf(kind, path), before)
    }
  )

  it.scoped(
    "without the right to migrate, an older database is refused with the command, and kept",
    function* () {
      const path = yield* databaseOf(kind, 1)
      const before = yield* schemaOf(kind, path)
      const { reason } = yield* Effect.flip(Effect.scoped(openUnmigrated(path)))
      assertNames(reason, path)
      assert.include(reason, `(1, needed ${latest}): run music-backend migrate`)
      assert.deepStrictEqual<unknown>(yield* schemaOf(kind, path), before)
      yield* open(path)
      yield* Effect.scoped(openUnmigrated(path))
      const fresh = yield* emptyPath
      assertNames((yield* Effect.flip(Effect.scoped(openUnmigrated(fresh)))).reason, fresh)
      if (kind.name === "SQLite") assert.isFalse(existsSync(fresh))
      else deepStrictEqual(yield* rawQuery(fresh, "SELECT * FROM pg_tables WHERE schemaname = 'public'"), [])
    }
  )

  it.scoped("the check fails when migrations are missing", function* () {
    const path = yield* emptyPath
    const { check } = yield* openStore(path)
    yield* check
    yield* rawQuery(path, "DELETE FROM migrations")
    const { problem, reason } = yield* Effect.flip(check)
    assertNames(reason, path)
    assert.strictEqual(problem.kind, "schema_incomplete")
  })

  it.scoped("a failed migration changes nothing, and names the database", function* () {
    const path = yield* databaseOf(kind, latest - 1)
    yield* rawQuery(path, "CREATE TABLE room_holders (something TEXT)")
    const before = yield* schemaOf(kind, path)
    const { problem, reason } = yield* Effect.flip(open(path))
    assertNames(reason, path)
    assert.strictEqual(problem.kind, "migration_failed")
    assert.deepStrictEqual<unknown>(yield* schemaOf(kind, path), before)
  })
})
