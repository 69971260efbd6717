/** What a caller sees of a Postgres that fails, hangs, is locked, gives few connections or is behind a pooler. */
import { randomUUID } from "node:crypto"
import { readFileSync } from "node:fs"
import { assert, describe, inject } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import { Effect, Fiber, Option } from "effect"
import { productionId } from "../../../../src/services/Plane.ts"
import type { StoreService, StoreUnavailable } from "../../../../src/services/Store.ts"
import { sampleEntry, sampleReport } from "../Samples.ts"
import { postgres, withPgClient } from "../Stores.ts"
import { pgProxy } from "./PgProxy.ts"

const { emptyPath, freshPath, openStore, ownPath, rawQuery } = postgres

const ana = { plane: productionId, organisation: "acme", publicId: "c:ana" }
const activate = ({ recipients }: StoreService) => recipients.activate({ ...ana, organisationUuid: "uuid" })
const isActive = ({ recipients }: StoreService) => recipients.isActive({ ...ana, organisationUuid: "uuid" })
const offer = ({ spool }: StoreService) => spool.offer([sampleEntry("a")], { limitBytes: 100 })
const admit = ({ reports }: StoreService) =>
  Effect.map(reports.admit(sampleReport(), true), ({ _tag }) => _tag)
const many = (store: StoreService, count: number) =>
  Effect.all(
    Array.from({ length: count }, () => isActive(store)),
    { concurrency: "unbounded", discard: true }
  )
const databaseOf = (url: string) => new URL(url).pathname.slice(1)

/** The code of the failure, or its kind. Its line names the database, and nothing else of the address, a statement or a value. */
const kindOf = <A>(access: Effect.Effect<A, StoreUnavailable>, url: string) =>
  Effect.map(Effect.flip(access), ({ code, kind, reason }) => {
    const { host, pathname } = new URL(url)
    assert.isTrue(reason.startsWith(`Postgres database ${host}${pathname}`), reason)
    assert.notMatch(reason, /\n|postgres:|secret|SELECT|INSERT|c:ana/)
    return code ?? kind
  })

describe("A connection to Postgres", () => {
  it.scopedLive("commits to the disk, in bounded time, whatever the server's defaults", function* () {
    const url = yield* ownPath
    const alter = (setting: string) =>
      rawQuery(inject("postgres").server, `ALTER DATABASE ${databaseOf(url)} SET ${setting}`)
    const names = [
      "idle_in_transaction_session_timeout",
      "lock_timeout",
      "statement_timeout",
      "synchronous_commit",
      "transaction_isolation"
    ]
    yield* rawQuery(
      url,
      `CREATE TABLE seen (settings TEXT NOT NULL);
      CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN INSERT INTO seen VALUES (concat_ws(' ', ${names.map((name) => `current_setting('${name}')`).join()})); RETURN NEW; END $$;
      CREATE TRIGGER sees BEFORE INSERT ON reports FOR EACH ROW EXECUTE FUNCTION see()`
    )
    yield* alter("default_transaction_isolation = 'serializable'")
    yield* alter("default_transaction_read_only = on")
    const expected = { off: "on", local: "local", remote_apply: "remote_apply" }
    for (const [id, commit] of Object.entries(expected)) {
      yield* alter(`synchronous_commit = ${id}`)
      // Closed before the next default is set: a session keeps the one that it began with.
      yield* postgres.withStore(url, ({ reports }) =>
        reports.admit(sampleReport({ id, keyDigest: id }), true)
      )
      const seen = yield* rawQuery(
        url,
        "SET default_transaction_read_only = off;\nDELETE FROM seen RETURNING settings"
      )
      deepStrictEqual(seen, [{ settings: `3s 2s 10s ${commit} read committed` }])
    }
  })

  it.scopedLive("is one of as many as the setting gives; waits for one are counted", function* () {
    const place = yield* freshPath
    const store = yield* openStore(place, { connections: 2 })
    const pool = Effect.sync(() => Option.getOrThrow(store.usage.pool()))
    yield* withPgClient(place, async (client) => {
      await client.query("BEGIN; LOCK TABLE recipients IN ACCESS EXCLUSIVE MODE")
      const waiting = Effect.runPromise(many(store, 5))
      const busy = await Effect.runPromise(
        Effect.repeat(Effect.zipLeft(pool, Effect.sleep(5)), {
          until: (use) => use.used === 2 && use.waiting === 3
        })
      )
      assert.deepStrictEqual(busy, { limit: 2, used: 2, waiting: 3 })
      await client.query("COMMIT")
      await waiting
    })
    assert.deepInclude(yield* pool, { used: 0, waiting: 0 })
  })
})

describe("A Postgres that cannot be used", () => {
  const cases: ReadonlyArray<
    readonly [string, Partial<Pick<URL, "password" | "pathname" | "port" | "search">>]
  > = [
    ["28P01", { password: "secret" }],
    ["28P01", { password: "" }],
    ["ECONNREFUSED", { port: "1" }],
    ["other", { search: "sslmode=require" }]
  ]
  it.scopedLive.each(cases)("is refused as %s: %o", function* ([kind, change]) {
    const url = Object.assign(new URL(yield* freshPath), change).href
    assert.strictEqual(yield* kindOf(Effect.scoped(openStore(url)), url), kind)
  })

  it.scopedLive("as its address names a missing file says so without the address", function* () {
    const url = `${yield* freshPath}?sslrootcert=/secret/root.crt`
    const { reason } = yield* Effect.flip(Effect.scoped(openStore(url)))
    assert.match(reason, /MUSIC_DATABASE_URL cannot be opened, read or written \(ENOENT\)/)
    assert.notInclude(reason, "secret")
  })
})

describe("A Postgres that becomes unavailable", () => {
  it.scopedLive("in the middle of a transaction keeps none of it, and no connection is lost", function* () {
    const url = yield* ownPath
    const store = yield* openStore(url, { connections: 1 })
    yield* rawQuery(
      url,
      `CREATE FUNCTION ends() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$;
      CREATE TRIGGER ends BEFORE INSERT ON deliveries FOR EACH ROW EXECUTE FUNCTION ends()`
    )
    // Statements that are sent together learn of the end by its code or by the closed connection.
    for (let index = 0; index < 3; index += 1)
      assert.strictEqual((yield* Effect.flip(admit(store))).kind, "unanswered")
    deepStrictEqual(yield* store.reports.find("rep_1"), Option.none())
    yield* activate(store)
  })

  it.scopedLive("after a commit but before its answer keeps it; a repeated write is harmless", function* () {
    const proxy = yield* pgProxy(yield* freshPath)
    const store = yield* openStore(proxy.url)
    yield* proxy.loseNextCommit
    assert.strictEqual(yield* kindOf(admit(store), proxy.url), "unanswered")
    assert.strictEqual(yield* admit(store), "Replayed")
    yield* proxy.loseNextCommit
    yield* Effect.flip(offer(store))
    assert.strictEqual(yield* offer(store), "accepted")
    const [counts] = yield* store.spool.counts
    deepStrictEqual([counts?.accepted, counts?.duplicates, counts?.waiting], [2, 1, 1])
  })
})

describe("Accesses of Postgres", () => {
  it.scopedLive("wait for a lock until the limit; reads and writes of other tables do not", function* () {
    const url = yield* freshPath
    const store = yield* openStore(url, { lockWait: 60, timeouts: { lock: 30 } })
    yield* withPgClient(url, async (client) => {
      await client.query("BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('music-backend spool', 0))")
      assert.strictEqual(await Effect.runPromise(kindOf(offer(store), url)), "55P03")
      await Effect.runPromise(activate(store))
      await client.query("SELECT * FROM recipients FOR UPDATE")
      assert.isTrue(await Effect.runPromise(isActive(store)), "reads wait for no lock of a row")
      await client.query("LOCK TABLE recipients IN ACCESS EXCLUSIVE MODE")
      assert.strictEqual(await Effect.runPromise(kindOf(isActive(store), url)), "55P03")
    })
    assert.strictEqual(yield* offer(store), "accepted")
  })
})

describe("A check of Postgres", () => {
  it.scopedLive("without an answer shows nothing while other writes succeed", function* () {
    const url = yield* freshPath
    const store = yield* openStore(url, { lockWait: 500, timeouts: { lock: 400 } })
    const failedCheck = Effect.zipRight(kindOf(store.check, url), Effect.sync(store.isFailing))
    yield* withPgClient(url, async (client) => {
      await client.query("BEGIN; LOCK TABLE migrations IN EXCLUSIVE MODE")
      const checking = Effect.runPromise(failedCheck)
      await client.query("SELECT pg_sleep(0.1)")
      await Effect.runPromise(activate(store))
      assert.isFalse(await checking)
      assert.isTrue(await Effect.runPromise(failedCheck))
    })
  })
})

describe("A role of Postgres", () => {
  const superuser = () => inject("postgres").server

  it.scopedLive("with few connections: accesses share them, and wait for one", function* () {
    const administrator = yield* emptyPath
    const role = `music_${randomUUID().replaceAll("-", "")}`
    const say = (statement: string) => rawQuery(administrator, statement)
    yield* say(`CREATE ROLE ${role} LOGIN PASSWORD 'music'`)
    yield* say(`ALTER DATABASE ${databaseOf(administrator)} OWNER TO ${role}`)
    const url = Object.assign(new URL(administrator), { username: role, password: "music" }).href
    const limit = (count: number) => say(`ALTER ROLE ${role} CONNECTION LIMIT ${count}`)
    const sessions = `FROM pg_stat_activity WHERE usename = '${role}'`
    // A migration needs a second connection.
    yield* Effect.scoped(openStore(url))
    yield* Effect.repeat(say(`SELECT pid ${sessions}`), { until: (rows) => rows.length === 0 })
    yield* limit(1)
    const store = yield* openStore(url, { timeouts: { connect: 3_000 } })
    yield* many(store, 20)
    yield* limit(0)
    yield* say(`SELECT pg_terminate_backend(pid) ${sessions}`)
    // The first access after it may meet the broken connection.
    assert.include(["57P01", "unanswered", "53300"], yield* kindOf(many(store, 1), url))
    assert.strictEqual(yield* kindOf(many(store, 1), url), "53300")
    const waiting = yield* Effect.fork(many(store, 5))
    yield* Effect.sleep(100)
    yield* limit(1)
    yield* Fiber.join(waiting)
  })

  it.scopedLive("made by docs/operations.md can do all a server needs, and nothing else", function* () {
    const page = readFileSync(new URL("../../../../docs/operations.md", import.meta.url), "utf8")
    const section = page.split(/^##+ /m).find((text) => text.startsWith("Role and database")) ?? ""
    const name = `music_${randomUUID().replaceAll("-", "")}`
    const [outside = "", inside = ""] = [...section.matchAll(/^```sql\n(.*?)^```$/gms)].map(
      ([, script = ""]) => script.replaceAll("music", name)
    )
    const place = Object.assign(new URL(superuser()), { pathname: `/${name}` }).href
    const url = Object.assign(new URL(place), { username: name, password: "secret" }).href
    yield* Effect.addFinalizer(() =>
      rawQuery(superuser(), `DROP DATABASE IF EXISTS ${name} WITH (FORCE);\nDROP ROLE IF EXISTS ${name}`)
    )
    yield* rawQuery(superuser(), outside)
    yield* rawQuery(place, inside)
    yield* (yield* openStore(url)).check
    const [rights] = yield* rawQuery(
      superuser(),
      `SELECT rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls,
        has_database_privilege('public', '${name}', 'CONNECT') AS others
      FROM pg_roles WHERE rolname = '${name}'`
    )
    deepStrictEqual(new Set(Object.values(rights ?? {})), new Set([false]))
    // The way of a restore.
    yield* rawQuery(url, "DROP SCHEMA public CASCADE;\nCREATE SCHEMA public")
    yield* openStore(url)
  })
})
