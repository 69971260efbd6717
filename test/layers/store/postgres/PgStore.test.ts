/** What a caller sees of a Postgres that fails, hangs, is locked, gives few connections or is behind a pooler. */
import { randomUUID } from "node:crypto"
import { readFileSync } from "node:fs"
import { assert, describe, inject } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { productionId } from "../../../../src/services/Plane.ts"
import type { StoreService, StoreUnavailable } from "../../../../src/services/Store.ts"
import { pooler } from "../../../support/Pooler.ts"
import {
  postgres,
  sampleEntry,
  sampleEvent,
  sampleLease,
  sampleReport,
  sampleSpoolLease,
  withPgClient
} from "../Stores.ts"
import { pgProxy } from "./PgProxy.ts"

const { emptyPath, freshPath, openStore, rawQuery } = postgres

const ana = { plane: productionId, organisation: "acme", publicId: "c:ana" }
const activate = ({ recipients }: StoreService) => recipients.activate({ ...ana, organisationUuid: "uuid" })
const isActive = ({ recipients }: StoreService) => recipients.isActive(ana)
const offer = ({ spool }: StoreService) => spool.offer([sampleEntry("a")], { limitBytes: 100 })
const many = (store: StoreService, count: number) =>
  Effect.all(
    Array.from({ length: count }, () => isActive(store)),
    { concurrency: "unbounded", discard: true }
  )
const databaseOf = (url: string) => new URL(url).pathname.slice(1)

/** The kind of the failure. Its line names the database, and nothing else of the address, a statement or a value. */
const kindOf = <A>(access: Effect.Effect<A, StoreUnavailable>, url: string) =>
  Effect.map(Effect.flip(access), ({ problem, reason }) => {
    const { host, pathname } = new URL(url)
    assert.isTrue(reason.startsWith(`Postgres database ${host}${pathname}`), reason)
    assert.notMatch(reason, /\n|postgres:|secret|SELECT|INSERT|c:ana/)
    return problem.kind
  })

/** Milliseconds. Calls of a server that answers must be done within them also on a slow machine. */
const short = {
  connect: 1_500,
  answer: 1_500,
  statement: 1_200,
  lock: 30,
  idleInTransaction: 3_000,
  close: 500
}

describe("A connection to Postgres", () => {
  const names = [
    "application_name",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "idle_in_transaction_session_timeout",
    "lock_timeout",
    "statement_timeout",
    "synchronous_commit"
  ]
  const shown = ({ sql }: Effect.Effect.Success<ReturnType<typeof openStore>>) =>
    Effect.map(
      sql<{
        readonly setting: string
      }>`SELECT setting FROM pg_settings WHERE ${sql.in("name", names)} ORDER BY name`,
      (rows) => rows.map(({ setting }) => setting)
    )
  const expected = ["music-backend", "read committed", "off", "15000", "2000", "10000", "on"]

  it.scopedLive("commits to the disk, in bounded time, whatever the server's defaults", function* () {
    const url = yield* emptyPath
    const alter = `ALTER DATABASE ${databaseOf(url)} SET`
    yield* rawQuery(
      url,
      `${alter} synchronous_commit = off;
      ${alter} default_transaction_isolation = 'serializable';
      ${alter} default_transaction_read_only = on`
    )
    deepStrictEqual(yield* shown(yield* openStore(url)), expected)
  })

  it.scopedLive("keeps that when the server changes them later, and follows stricter ones", function* () {
    const url = yield* emptyPath
    const setting = (store: Effect.Effect.Success<ReturnType<typeof openStore>>) =>
      Effect.map(shown(store), (all) => all.at(-1))
    const store = yield* openStore(url, { connections: 1 })
    yield* isActive(store)
    const system = (change: string) =>
      Effect.zipRight(rawQuery(url, `ALTER SYSTEM ${change}`), rawQuery(url, "SELECT pg_reload_conf()"))
    yield* Effect.acquireRelease(system("SET synchronous_commit = off"), () =>
      system("RESET synchronous_commit")
    )
    // Another session shows when the change has taken effect.
    yield* rawQuery(url, "SELECT current_setting('synchronous_commit') AS value").pipe(
      Effect.delay("20 millis"),
      Effect.repeat({ until: ([row]) => row?.value === "off" })
    )
    assert.strictEqual(yield* setting(store), "on")
    for (const wait of ["local", "remote_apply"]) {
      yield* rawQuery(url, `ALTER DATABASE ${databaseOf(url)} SET synchronous_commit = ${wait}`)
      assert.strictEqual(yield* setting(yield* openStore(url)), wait)
    }
  })

  it.scopedLive("behind a pooler in session mode is the same, and is woken", function* () {
    const url = yield* pooler(yield* emptyPath, "session")
    const store = yield* openStore(url)
    const other = yield* openStore(url)
    deepStrictEqual(yield* shown(store), expected)
    const woken = yield* Effect.fork(other.wakeups.spool)
    yield* offer(store)
    yield* Fiber.join(woken)
  })

  it.scopedLive("shares what a pooler or a setting gives", function* () {
    yield* many(yield* openStore(yield* pooler(yield* freshPath, "session", { room: 2 })), 30)
    const url = yield* freshPath
    yield* many(yield* openStore(url, { connections: 2 }), 20)
    const [row] = yield* rawQuery(
      url,
      `SELECT count(*) AS count FROM pg_stat_activity WHERE datname = current_database()
        AND application_name = 'music-backend' AND query NOT LIKE '%LISTEN%'`
    )
    assert.strictEqual(row?.count, 2)
  })
})

describe("A Postgres that cannot be used", () => {
  type Change = Partial<Pick<URL, "password" | "pathname" | "port" | "search">>
  const cases: ReadonlyArray<readonly [string, Change]> = [
    ["login_refused", { password: "secret" }],
    ["login_refused", { password: "" }],
    ["no_such_database", { pathname: "/missing" }],
    ["unreachable", { port: "1" }],
    ["no_tls", { search: "sslmode=require" }]
  ]
  for (const [kind, change] of cases)
    it.scopedLive(`is refused as ${kind}: ${JSON.stringify(change)}`, function* () {
      const url = Object.assign(new URL(yield* freshPath), change).href
      assert.strictEqual(yield* kindOf(Effect.scoped(openStore(url)), url), kind)
    })

  const servers = [
    ["server_too_old", "13.9", 130_009, "UTF8"],
    ["wrong_encoding", "14.0", 140_000, "LATIN1"]
  ] as const
  for (const [kind, version, number, encoding] of servers)
    it.scopedLive(`is refused as ${kind}`, function* () {
      const place = yield* emptyPath
      yield* rawQuery(
        place,
        `CREATE FUNCTION public.current_setting(name TEXT) RETURNS TEXT LANGUAGE sql AS $$
          SELECT CASE name WHEN 'server_version' THEN '${version}' WHEN 'server_version_num' THEN '${number}'
            WHEN 'server_encoding' THEN '${encoding}' END $$`
      )
      const url = `${place}?options=${encodeURIComponent("-c search_path=public,pg_catalog")}`
      assert.strictEqual(yield* kindOf(Effect.scoped(openStore(url)), url), kind)
    })

  it.scopedLive("as its address names a missing file says so without the address", function* () {
    const url = `${yield* freshPath}?sslrootcert=/secret/root.crt`
    const { problem, reason } = yield* Effect.flip(Effect.scoped(openStore(url)))
    assert.strictEqual(problem.kind, "address_unreadable")
    assert.notInclude(reason, "secret")
  })

  for (const mode of ["transaction", "statement"] as const)
    for (const size of [1, 2])
      it.scopedLive(`as a pooler in ${mode} mode moves sessions (${size}) is refused`, function* () {
        const url = yield* pooler(yield* freshPath, mode, { size })
        assert.strictEqual(yield* kindOf(Effect.scoped(openStore(url)), url), "shared_sessions")
      })

  it.scopedLive("as a pooler refuses a parameter of the address says so", function* () {
    const url = `${yield* pooler(yield* freshPath, "session")}?options=-c%20geqo%3Doff&statement_timeout=100`
    const { problem } = yield* Effect.flip(Effect.scoped(openStore(url)))
    assert.strictEqual(problem.kind, "parameter_refused")
  })
})

describe("A Postgres that becomes unavailable", () => {
  const attempts = (store: StoreService) => [
    store.check,
    activate(store),
    Effect.asVoid(isActive(store)),
    Effect.asVoid(offer(store))
  ]
  const usedAgain = (store: StoreService) =>
    Effect.gen(function* () {
      assert.isTrue(yield* isActive(store))
      yield* activate(store)
      assert.strictEqual(yield* offer(store), "accepted")
    })

  it.scopedLive("fails every call at once, and is used again when it is back", function* () {
    const proxy = yield* pgProxy(yield* freshPath)
    const store = yield* openStore(proxy.url)
    yield* activate(store)
    yield* proxy.cut
    for (const attempt of attempts(store))
      assert.strictEqual(yield* kindOf(attempt, proxy.url), "unreachable")
    yield* proxy.repair
    yield* usedAgain(store)
  })

  it.scopedLive("silently fails calls after the timeout, and is used again when it answers", function* () {
    const proxy = yield* pgProxy(yield* freshPath)
    const store = yield* openStore(proxy.url, { connections: 1, timeouts: short })
    yield* activate(store)
    yield* proxy.freeze
    for (const attempt of attempts(store))
      assert.include(["timed_out", "unreachable"], yield* kindOf(attempt, proxy.url))
    yield* proxy.repair
    yield* usedAgain(store)
  })

  it.scopedLive("in the middle of a transaction keeps none of it, and no connection is lost", function* () {
    const url = yield* emptyPath
    const store = yield* openStore(url, { connections: 1 })
    yield* rawQuery(
      url,
      `CREATE FUNCTION ends() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$;
      CREATE TRIGGER ends BEFORE INSERT ON deliveries FOR EACH ROW EXECUTE FUNCTION ends()`
    )
    for (let index = 0; index < 3; index += 1)
      assert.strictEqual(yield* kindOf(store.reports.admit(sampleReport(), true), url), "unreachable")
    deepStrictEqual(yield* store.reports.find("rep_1"), Option.none())
    yield* activate(store)
  })

  it.scopedLive(
    "after a commit but before its answer keeps it, and a repeated write is harmless",
    function* () {
      const proxy = yield* pgProxy(yield* freshPath)
      const store = yield* openStore(proxy.url)
      yield* proxy.loseNextCommit
      assert.strictEqual(yield* kindOf(store.reports.admit(sampleReport(), true), proxy.url), "unreachable")
      assert.strictEqual((yield* store.reports.admit(sampleReport(), true))._tag, "Replayed")
      yield* proxy.loseNextCommit
      yield* Effect.flip(offer(store))
      assert.strictEqual(yield* offer(store), "accepted")
      const [counts] = yield* store.spool.counts
      deepStrictEqual([counts?.accepted, counts?.duplicates, counts?.waiting], [2, 1, 1])
    }
  )
})

describe("Accesses of Postgres", () => {
  it.scopedLive("take few round trips: statements without a result are not waited for", function* () {
    const proxy = yield* pgProxy(yield* freshPath)
    const store = yield* openStore(proxy.url, { connections: 1 })
    yield* activate(store)
    const counted = <A, E>(use: Effect.Effect<A, E>) => {
      const before = proxy.roundTrips()
      return Effect.map(use, () => proxy.roundTrips() - before)
    }
    deepStrictEqual(
      {
        isActive: yield* counted(isActive(store)),
        activate: yield* counted(activate(store)),
        receive: yield* counted(store.webhooks.receive(sampleEvent(), [])),
        admit: yield* counted(store.reports.admit(sampleReport(), true)),
        offer: yield* counted(offer(store))
      },
      { isActive: 1, activate: 1, receive: 3, admit: 4, offer: 4 }
    )
  })

  it.scopedLive("store nothing when a statement fails whose answer was not waited for", function* () {
    const url = yield* emptyPath
    const store = yield* openStore(url, { connections: 1 })
    yield* rawQuery(url, "ALTER TABLE deliveries RENAME TO elsewhere")
    assert.strictEqual(yield* kindOf(store.reports.admit(sampleReport(), true), url), "failed")
    yield* rawQuery(url, "ALTER TABLE elsewhere RENAME TO deliveries")
    assert.strictEqual((yield* store.reports.admit(sampleReport(), true))._tag, "Stored")
  })

  it.scopedLive("that deadlock are repeated", function* () {
    const url = yield* freshPath
    yield* rawQuery(url, `ALTER DATABASE ${databaseOf(url)} SET deadlock_timeout = '20ms'`)
    const store = yield* openStore(url)
    yield* activate(store)
    const receive = store.webhooks.receive(sampleEvent({ organisationUuid: "uuid" }), ["c:ana"])
    const lock =
      "hashtextextended('webhooks production organization_membership 0199a0bb-0000-7000-8000-000000000002', 0)"
    // The other program holds the person's row, and waits for the lock of the event's aggregate.
    const receiving = yield* withPgClient(url, async (client) => {
      await client.query("SET deadlock_timeout = '10s'; BEGIN; SELECT * FROM recipients FOR UPDATE")
      const fiber = Effect.runFork(receive)
      await client.query("SELECT pg_sleep(0.3)")
      await client.query(`SELECT pg_advisory_xact_lock(${lock})`)
      await client.query("COMMIT")
      return fiber
    })
    assert.isTrue(yield* Fiber.join(receiving))
  })

  it.scopedLive("wait for a lock until the limit, and for no row that another process leases", function* () {
    const url = yield* freshPath
    const store = yield* openStore(url, { lockWait: 60, timeouts: { lock: 30 } })
    yield* store.spool.offer([sampleEntry("x"), sampleEntry("y"), sampleEntry("z")], { limitBytes: 100 })
    yield* withPgClient(url, async (client) => {
      await client.query("BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('spool', 0))")
      await client.query("SELECT * FROM spool WHERE record_id = 'x' FOR UPDATE")
      assert.strictEqual(await Effect.runPromise(kindOf(offer(store), url)), "locked")
      const found = await Effect.runPromise(store.spool.lease(sampleSpoolLease({ count: 2 })))
      deepStrictEqual(
        found.map(({ recordId }) => recordId),
        ["y", "z"]
      )
      assert.isFalse(await Effect.runPromise(isActive(store)), "reads wait for no lock")
    })
    assert.strictEqual(yield* offer(store), "accepted")
  })

  it.scopedLive("lease no more deliveries than requested, whatever plan the server chooses", function* () {
    const url = yield* emptyPath
    // Only a nested loop remains, which runs the inner side once for each row of the outer one.
    const others = "hashjoin mergejoin hashagg sort material memoize bitmapscan indexscan".split(" ")
    yield* rawQuery(
      url,
      others.map((other) => `ALTER DATABASE ${databaseOf(url)} SET enable_${other} = off`).join(";\n")
    )
    const { deliveries, reports } = yield* openStore(url)
    for (let index = 0; index < 21; index += 1)
      yield* reports.admit(sampleReport({ id: `rep_${index}`, keyDigest: `${index}` }), true)
    assert.strictEqual((yield* deliveries.lease(sampleLease({ count: 1, concurrency: 1 }))).length, 1)
    assert.strictEqual((yield* deliveries.counts)[0]?.count, 1)
  })

  it.scopedLive("that wait for one of its connections are counted", function* () {
    const place = yield* freshPath
    const { destinations, usage } = yield* openStore(place)
    const pool = Effect.sync(() => Option.getOrThrow(usage.pool()))
    const { limit } = yield* pool
    yield* withPgClient(place, async (client) => {
      await client.query("BEGIN; LOCK TABLE destinations IN ACCESS EXCLUSIVE MODE")
      const finding = Array.from({ length: limit + 3 }, () => Effect.runPromise(destinations.find("tracker")))
      const busy = await Effect.runPromise(
        Effect.repeat(Effect.zipLeft(pool, Effect.sleep(5)), {
          until: ({ used, waiting }) => used === limit && waiting === 3
        })
      )
      assert.deepStrictEqual(busy, { limit, used: limit, idle: 0, waiting: 3 })
      await client.query("COMMIT")
      await Promise.all(finding)
    })
    assert.deepInclude(yield* pool, { used: 0, waiting: 0 })
  })
})

describe("A listener", () => {
  const notify = { pause: 20, checkEvery: 20, checkWithin: 100 }

  it.scopedLive("with a broken connection listens again, and wakes its workers once", function* () {
    const url = yield* freshPath
    const proxy = yield* pgProxy(url)
    const one = yield* openStore(url)
    const other = yield* openStore(proxy.url, { notify })
    yield* proxy.cut
    yield* offer(one)
    yield* proxy.repair
    yield* other.wakeups.spool
    yield* other.wakeups.deliveries
    yield* one.spool.offer([sampleEntry("b")], { limitBytes: 100 })
    yield* other.wakeups.spool
  })

  it.scopedLive("detects a silent connection", function* () {
    const proxy = yield* pgProxy(yield* freshPath)
    const other = yield* openStore(proxy.url, { notify, timeouts: short })
    const woken = yield* Effect.fork(other.wakeups.spool)
    // Silent for longer each time, until the listener has had the time to look.
    for (let wait = 150; Option.isNone(yield* Fiber.poll(woken)) && wait < 20_000; wait *= 2) {
      yield* proxy.freeze
      yield* Effect.sleep(wait)
      yield* proxy.repair
      yield* Effect.sleep(wait)
    }
    yield* Fiber.join(woken)
  })
})

describe("A role of Postgres", () => {
  const superuser = () => inject("postgres").server
  const makeRole = Effect.gen(function* () {
    const administrator = yield* emptyPath
    const role = `music_${randomUUID().replaceAll("-", "")}`
    yield* rawQuery(
      administrator,
      `CREATE ROLE ${role} LOGIN PASSWORD 'music';
      ALTER DATABASE ${databaseOf(administrator)} OWNER TO ${role}`
    )
    const url = Object.assign(new URL(administrator), { username: role, password: "music" }).href
    const limit = (count: number) => rawQuery(administrator, `ALTER ROLE ${role} CONNECTION LIMIT ${count}`)
    const sessions = (what: string, where: string) =>
      rawQuery(administrator, `SELECT ${what} FROM pg_stat_activity WHERE usename = '${role}' AND ${where}`)
    // A migration needs a second connection. Limits do not hold for superusers.
    yield* Effect.scoped(openStore(url))
    yield* Effect.repeat(sessions("pid", "true"), { until: (rows) => rows.length === 0 })
    const terminate = (where: string) => sessions("pg_terminate_backend(pid)", where)
    return { url, limit, sessions, terminate }
  })
  const notify = { pause: 20 }
  const listening = "query LIKE '%LISTEN%'"

  it.scopedLive("with one connection: all accesses wait for it, and listening gives it up", function* () {
    const { limit, sessions, terminate, url } = yield* makeRole
    yield* limit(2)
    const store = yield* openStore(url, { notify })
    yield* Effect.fork(store.wakeups.spool)
    yield* Effect.repeat(sessions("pid", listening), { until: (rows) => rows.length === 1 })
    yield* many(store, 40)
    yield* limit(1)
    yield* terminate(`NOT ${listening}`)
    // The first access after it may meet the broken connection.
    yield* Effect.eventually(many(store, 1))
    yield* many(store, 40)
    assert.strictEqual((yield* sessions("pid", listening)).length, 0)
    assert.strictEqual(yield* offer(store), "accepted")
  })

  it.scopedLive(
    "with none for a while: an access waits until one is given, and fails after the bound",
    function* () {
      const { limit, terminate, url } = yield* makeRole
      yield* limit(3)
      const hurried = yield* openStore(url, { notify, timeouts: { connect: 1_500 } })
      const store = yield* openStore(url, { notify })
      yield* limit(0)
      yield* terminate("true")
      // The first access may meet the broken connection.
      assert.include(["unreachable", "too_many_connections"], yield* kindOf(many(hurried, 1), url))
      assert.strictEqual(yield* kindOf(many(hurried, 1), url), "too_many_connections")
      const waiting = yield* Effect.fork(many(store, 5))
      yield* Effect.sleep(100)
      yield* limit(1)
      yield* Fiber.join(waiting)
    }
  )

  it.scopedLive(
    "made by the recipe of docs/postgresql.md can do all a server needs, and nothing else",
    function* () {
      const page = readFileSync(new URL("../../../../docs/postgresql.md", import.meta.url), "utf8")
      const section = page.split(/^##+ /m).find((text) => text.startsWith("Role and database")) ?? ""
      const name = `music_${randomUUID().replaceAll("-", "")}`
      const recipe = [...section.matchAll(/^```sql\n(.*?)^```$/gms)].map(([, script = ""]) =>
        script.replaceAll("music", name)
      )
      deepStrictEqual(recipe.length, 2)
      const inside = Object.assign(new URL(superuser()), { pathname: `/${name}` }).href
      const url = Object.assign(new URL(inside), { username: name, password: "secret" }).href
      yield* Effect.addFinalizer(() =>
        rawQuery(superuser(), `DROP DATABASE IF EXISTS ${name} WITH (FORCE);\nDROP ROLE IF EXISTS ${name}`)
      )
      // One statement each: CREATE DATABASE runs outside of transactions.
      for (const [at, script] of recipe.entries()) yield* rawQuery(at === 0 ? superuser() : inside, script)
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
    }
  )
})
