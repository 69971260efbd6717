/** Rules that concern PostgreSQL only: outages, session settings and concurrent connections. */
import { assert, describe } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { all, lock, run } from "../../../../src/layers/store/Query.ts"
import {
  defaultTimeouts,
  openPostgres,
  type PgOptions
} from "../../../../src/layers/store/postgres/PgStore.ts"
import { makeStore } from "../../../../src/layers/store/repositories/Repositories.ts"
import { productionId } from "../../../../src/services/Plane.ts"
import type { Statement } from "@effect/sql/Statement"
import { type StoreService, type StoreUnavailable, Unverified } from "../../../../src/services/Store.ts"
import { pgProxy } from "./PgProxy.ts"
import {
  postgres,
  sampleEntry,
  sampleEvent,
  sampleLease,
  sampleReport,
  sampleSpoolLease,
  withPgClient
} from "../Stores.ts"

const { freshPath, rawQuery } = postgres

const open = (url: string, options?: PgOptions) =>
  Effect.gen(function* () {
    const database = yield* openPostgres(Redacted.make(url), options)
    return { ...(yield* makeStore(database)), database }
  }).pipe(Logger.withMinimumLogLevel(LogLevel.None))

/** The column `value` of each row. */
const values = (statement: Statement<object>) =>
  all(Schema.Struct({ value: Schema.String }))(statement).map((rows) => rows.map(({ value }) => value))

const ana = { plane: productionId, organisation: "acme", publicId: "c:ana" }
const activate = ({ recipients }: StoreService) => recipients.activate({ ...ana, organisationUuid: "uuid" })
const isActive = ({ recipients }: StoreService) => recipients.isActive(ana)

const nameOf = (url: string) => {
  const { host, pathname } = new URL(url)
  return `Postgres database ${host}${pathname}`
}

/** One line that names the database and the problem, and nothing else of the address, a statement or a value. */
const assertReason = ({ reason }: StoreUnavailable, url: string, trouble: RegExp) => {
  assert.isTrue(reason.startsWith(nameOf(url)), reason)
  assert.match(reason, trouble)
  assert.notMatch(reason, /\n|postgres:|secret|SELECT|INSERT|c:ana/)
}

/** Milliseconds. Calls of a server that answers must be done within them also on a slow machine. */
const short = {
  connect: 1_500,
  answer: 1_500,
  statement: 1_200,
  lock: 30,
  idleInTransaction: 3_000,
  close: 500
}

describe("A Postgres database", () => {
  it.scopedLive("has limited connections under the program's name", function* () {
    const { database } = yield* open(yield* freshPath)
    const shown = yield* Effect.forEach(
      ["application_name", "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"],
      (name) => database.read("Test", values(database.sql`SELECT current_setting(${name}) AS value`))
    )
    deepStrictEqual(shown.flat(), ["music-backend", "10s", "2s", "15s"])
    // What the server does not enforce: 5 s for a connection, and 11 s for an answer.
    deepStrictEqual([defaultTimeouts.connect, defaultTimeouts.answer], [5_000, 11_000])
  })

  it.scopedLive("uses synchronous commits and read committed, whatever the server's defaults", function* () {
    const url = yield* postgres.emptyPath
    const name = new URL(url).pathname.slice(1)
    yield* rawQuery(
      url,
      `ALTER DATABASE ${name} SET synchronous_commit = off;
        ALTER DATABASE ${name} SET default_transaction_isolation = 'serializable';
        ALTER DATABASE ${name} SET default_transaction_read_only = on`
    )
    const { database, ...store } = yield* open(url)
    yield* activate(store)
    const settings = values(database.sql`
        SELECT concat_ws(', ', current_setting('synchronous_commit'), current_setting('transaction_isolation'),
          current_setting('transaction_read_only')) AS value`)
    const expected = ["on, read committed, off"]
    deepStrictEqual(yield* database.write("Test", () => settings), expected)
    const inTransaction = database.write("Test", function* () {
      return yield* settings
    })
    deepStrictEqual(yield* inTransaction, expected)
  })

  it.scopedLive(
    "keeps synchronous commits when the server turns them off, and follows stricter settings",
    function* () {
      const url = yield* postgres.emptyPath
      const name = new URL(url).pathname.slice(1)
      const showing = "SELECT current_setting('synchronous_commit') AS value"
      const { database } = yield* open(url, { connections: 1 })
      const shown = database.read("Test", values(database.sql.unsafe(showing)))
      deepStrictEqual(yield* shown, ["on"])

      const system = (change: string) =>
        Effect.zipRight(rawQuery(url, `ALTER SYSTEM ${change}`), rawQuery(url, "SELECT pg_reload_conf()"))
      yield* Effect.acquireRelease(system("SET synchronous_commit = off"), () =>
        system("RESET synchronous_commit")
      )
      // Another session shows when the change has taken effect.
      yield* rawQuery(url, showing).pipe(
        Effect.delay("20 millis"),
        Effect.repeat({ until: ([row]) => row?.value === "off" })
      )
      deepStrictEqual(yield* shown, ["on"])

      for (const wait of ["local", "remote_apply"]) {
        yield* rawQuery(url, `ALTER DATABASE ${name} SET synchronous_commit = ${wait}`)
        const later = yield* open(url)
        const found = yield* later.database.read("Test", values(later.database.sql.unsafe(showing)))
        deepStrictEqual(found, [wait])
      }
    }
  )

  describe("refuses to start, and names database and problem:", () => {
    type Change = Partial<Pick<URL, "password" | "pathname" | "port" | "search">>
    const changed = (change: Change) =>
      Effect.map(freshPath, (place) => Object.assign(new URL(place), change).href)
    const cases: ReadonlyArray<readonly [string, Change, RegExp]> = [
      ["a wrong password", { password: "secret" }, /refuses the login \(28P01\)/],
      ["no password", { password: "" }, /refuses the login/],
      ["a database that does not exist", { pathname: "/missing" }, /does not exist \(3D000\)/],
      ["a closed port", { port: "1" }, /does not answer \(ECONNREFUSED\)/],
      ["a server without TLS", { search: "sslmode=require" }, /does not support TLS/]
    ]
    for (const [name, change, trouble] of cases)
      it.scopedLive(name, function* () {
        const url = yield* changed(change)
        assertReason(yield* Effect.flip(Effect.scoped(open(url))), url, trouble)
      })

    it.scopedLive("an address that names a missing file", function* () {
      const url = yield* changed({ search: "sslrootcert=/secret/root.crt" })
      const { reason } = yield* Effect.flip(Effect.scoped(openPostgres(Redacted.make(url))))
      assert.strictEqual(
        reason,
        "The address of the Postgres database, or a file that it names, cannot be read"
      )
    })

    /** A server that reports other properties. */
    const pretending = (version: string, number: number, encoding: string) =>
      Effect.gen(function* () {
        const place = yield* postgres.emptyPath
        yield* rawQuery(
          place,
          `CREATE FUNCTION public.current_setting(name TEXT) RETURNS TEXT LANGUAGE sql AS $$
            SELECT CASE name WHEN 'server_version' THEN '${version}' WHEN 'server_version_num' THEN '${number}'
              WHEN 'server_encoding' THEN '${encoding}' END $$`
        )
        const url = `${place}?options=${encodeURIComponent("-c search_path=public,pg_catalog")}`
        return { place, failure: yield* Effect.flip(Effect.scoped(openPostgres(Redacted.make(url)))) }
      })

    it.scopedLive("a server older than 14", function* () {
      const { failure, place } = yield* pretending("13.9", 130_009, "UTF8")
      assertReason(failure, place, /is on PostgreSQL 13\.9: 14 or newer is needed$/)
    })

    it.scopedLive("a database that cannot store every character", function* () {
      const { failure, place } = yield* pretending("14.0", 140_000, "LATIN1")
      assertReason(failure, place, /stores text as LATIN1, which lacks characters: UTF8 is needed$/)
    })
  })

  describe("that becomes unavailable", () => {
    it.scopedLive("fails every call at once, and is used again when it is back", function* () {
      const proxy = yield* pgProxy(yield* freshPath)
      const store = yield* open(proxy.url)
      yield* activate(store)
      yield* proxy.cut
      for (const attempt of [store.check, activate(store), Effect.asVoid(isActive(store))])
        assertReason(yield* Effect.flip(attempt), proxy.url, /does not answer/)
      const offered = store.spool.offer([sampleEntry("a")], { limitBytes: 100 })
      assertReason(yield* Effect.flip(offered), proxy.url, /does not answer/)
      yield* proxy.repair
      assert.isTrue(yield* isActive(store))
      yield* activate(store)
      assert.strictEqual(yield* offered, "accepted")
    })

    it.scopedLive("silently: fails calls after the timeout, and is used again when it answers", function* () {
      const proxy = yield* pgProxy(yield* freshPath)
      const store = yield* open(proxy.url, { connections: 1, timeouts: short })
      yield* activate(store)
      yield* proxy.freeze
      for (const attempt of [activate(store), store.check, Effect.asVoid(isActive(store))])
        assertReason(yield* Effect.flip(attempt), proxy.url, /does not answer/)
      yield* proxy.repair
      assert.isTrue(yield* isActive(store))
      yield* activate(store)
    })

    it.scopedLive("in the middle of a transaction keeps none of it, and no connection is lost", function* () {
      const url = yield* freshPath
      const { database, ...store } = yield* open(url, { connections: 1 })
      const { sql, write } = database
      for (let index = 0; index < 3; index += 1) {
        const failure = yield* Effect.flip(
          write("Test.end", function* () {
            yield* run(sql`INSERT INTO spool_delivered (record_id, delivered_at) VALUES ('a', 1)`)
            yield* run(sql`SELECT pg_terminate_backend(pg_backend_pid())`)
          })
        )
        assertReason(failure, url, /does not answer( \(57P01\))?, in Test\.end$/)
      }
      deepStrictEqual(yield* rawQuery(url, "SELECT * FROM spool_delivered"), [])
      yield* activate(store)
    })

    it.scopedLive(
      "after a commit but before its answer keeps it, and a repeated write is harmless",
      function* () {
        const proxy = yield* pgProxy(yield* freshPath)
        const store = yield* open(proxy.url)
        yield* proxy.loseNextCommit
        const failure = yield* Effect.flip(store.reports.admit(sampleReport(), true))
        assertReason(failure, proxy.url, /does not answer.*, in Reports\.admit$/)
        assert.strictEqual((yield* store.reports.admit(sampleReport(), true))._tag, "Replayed")
        yield* proxy.loseNextCommit
        const offer = store.spool.offer([sampleEntry("a")], { limitBytes: 100 })
        yield* Effect.flip(offer)
        assert.strictEqual(yield* offer, "accepted")
        const [counts] = yield* store.spool.counts
        deepStrictEqual([counts?.accepted, counts?.duplicates, counts?.waiting], [2, 1, 1])
      }
    )
  })

  describe("transactions", () => {
    it.scopedLive("take few round trips: statements without a result are not waited for", function* () {
      const proxy = yield* pgProxy(yield* freshPath)
      const store = yield* open(proxy.url, { connections: 1 })
      yield* activate(store)
      const counted = <A, E>(use: Effect.Effect<A, E>) => {
        const before = proxy.roundTrips()
        return Effect.map(use, () => proxy.roundTrips() - before)
      }
      const entries = Array.from({ length: 10 }, (_, index) => sampleEntry(`${index}`))
      deepStrictEqual(
        {
          isActive: yield* counted(isActive(store)),
          activate: yield* counted(activate(store)),
          receive: yield* counted(store.webhooks.receive(sampleEvent(), [])),
          admit: yield* counted(store.reports.admit(sampleReport(), true)),
          offer: yield* counted(store.spool.offer(entries, { limitBytes: 1_000 }))
        },
        { isActive: 1, activate: 1, receive: 3, admit: 4, offer: 4 }
      )
    })

    it.scopedLive(
      "a failed statement fails the transaction, also when its answer was not waited for",
      function* () {
        const url = yield* freshPath
        const { database } = yield* open(url, { connections: 1 })
        const { sql, write } = database
        const insert = sql`INSERT INTO spool_delivered (record_id, delivered_at) VALUES ('a', 1)`
        const failing = write("Test.fail", function* () {
          yield* run(insert)
          yield* run(sql`SELECT 1 / 0`)
          yield* run(sql`UPDATE spool_delivered SET delivered_at = 2`)
        })
        assertReason(yield* Effect.flip(failing), url, /failed \(22012\), in Test\.fail$/)
        deepStrictEqual(yield* rawQuery(url, "SELECT * FROM spool_delivered"), [])
        yield* write("Test.pass", () => run(insert))
      }
    )

    it.scopedLive("that deadlock are retried", function* () {
      const url = yield* freshPath
      const { pathname } = new URL(url)
      yield* rawQuery(url, `ALTER DATABASE ${pathname.slice(1)} SET deadlock_timeout = '20ms'`)
      const { sql, write } = (yield* open(url)).database
      let attempts = 0
      const both = (first: string, second: string) =>
        write("Test.both", function* () {
          attempts += 1
          yield* lock(first)
          yield* values(sql`SELECT pg_sleep(0.2)::text AS value`)
          yield* lock(second)
        })
      // A slow machine may begin the second one when the first is over, and needs another round.
      for (let round = 0; round < 20 && attempts === 2 * round; round += 1)
        yield* Effect.all([both("one", "other"), both("other", "one")], { concurrency: "unbounded" })
      assert.isAbove(attempts, 2)
      assert.notStrictEqual(attempts, 40)
    })

    it.scopedLive("a lock that is not released is waited for until the limit", function* () {
      const url = yield* freshPath
      const store = yield* open(url, { lockWait: 60, timeouts: { lock: 30 } })
      yield* withPgClient(url, async (client) => {
        await client.query("SELECT pg_advisory_lock(hashtextextended('spool', 0))")
        const offer = store.spool.offer([sampleEntry("a")], { limitBytes: 100 })
        const failure = await Effect.runPromise(Effect.flip(offer))
        assertReason(failure, url, /is locked by another process \(55P03\)/)
      })
      assert.strictEqual(yield* store.spool.offer([sampleEntry("a")], { limitBytes: 100 }), "accepted")
    })
  })

  it.scopedLive("leases no more deliveries than requested, whatever plan the server chooses", function* () {
    const url = yield* postgres.emptyPath
    const name = new URL(url).pathname.slice(1)
    // Only a nested loop remains, which runs the inner side once for each row of the outer one.
    const others = [
      "hashjoin",
      "mergejoin",
      "hashagg",
      "sort",
      "material",
      "memoize",
      "bitmapscan",
      "indexscan"
    ]
    yield* rawQuery(
      url,
      others.map((other) => `ALTER DATABASE ${name} SET enable_${other} = off`).join(";\n")
    )
    const { deliveries, reports } = yield* open(url)
    yield* Effect.forEach(
      Array.from({ length: 21 }, (_, index) => `rep_${index}`),
      (id) => reports.admit(sampleReport({ id, keyDigest: id }), true)
    )
    const leased = yield* deliveries.lease(sampleLease({ count: 1, concurrency: 1 }))
    deepStrictEqual(
      [leased.length, yield* deliveries.counts],
      [
        1,
        [
          { kind: "report", state: "leased", count: 1 },
          { kind: "report", state: "waiting", count: 20 }
        ]
      ]
    )
  })

  describe("shared by processes", () => {
    it.scopedLive("leases concurrently: without waiting, and never the same entry", function* () {
      const url = yield* freshPath
      const { spool } = yield* open(url)
      yield* spool.offer(
        ["a", "b", "c"].map((id) => sampleEntry(id)),
        { limitBytes: 100 }
      )
      const found = yield* withPgClient(url, async (client) => {
        await client.query("BEGIN")
        await client.query("SELECT * FROM spool WHERE record_id = 'a' FOR UPDATE")
        return Effect.runPromise(spool.lease(sampleSpoolLease({ count: 2 })))
      })
      deepStrictEqual(
        found.map(({ recordId }) => recordId),
        ["b", "c"]
      )
    })

    it.scopedLive("keeps the spool's bound for all processes", function* () {
      const url = yield* freshPath
      const stores = [yield* open(url), yield* open(url)]
      const admissions = yield* Effect.forEach(
        Array.from({ length: 40 }, (_, index) => index),
        (index) => {
          const spool = stores[index % 2]?.spool
          return spool === undefined
            ? Effect.dieMessage("no store")
            : spool.offer([sampleEntry(`record-${index}`)], { limitBytes: 250 })
        },
        { concurrency: "unbounded" }
      )
      assert.strictEqual(admissions.filter((admission) => admission === "accepted").length, 25)
    })

    it.scopedLive("a commit wakes the workers of the other process, a refusal does not", function* () {
      const url = yield* freshPath
      const one = yield* open(url)
      const other = yield* open(url)
      const spool = yield* Effect.fork(other.wakeups.spool)
      const deliveries = yield* Effect.fork(other.wakeups.deliveries)
      yield* one.spool.offer([sampleEntry("large", { bytes: 200 })], { limitBytes: 100 })
      yield* one.reports.admit(sampleReport({ id: "rep_0", keyDigest: "other" }), false)
      // Announcements arrive in commit order, so this one comes after all earlier ones.
      yield* one.reports.admit(sampleReport(), true)
      yield* Fiber.join(deliveries)
      assert.isTrue(Option.isNone(yield* Fiber.poll(spool)))
      yield* one.spool.offer([sampleEntry("a")], { limitBytes: 100 })
      yield* Fiber.join(spool)
      const key = { id: "rep_2", keyDigest: "moves up" }
      yield* one.reports.admit(sampleReport({ ...key, reporter: Unverified() }), true)
      yield* other.wakeups.deliveries
      yield* one.reports.admit(sampleReport(key), true)
      yield* other.wakeups.deliveries
    })

    const notify = { pause: 20, checkEvery: 20, checkWithin: 100 }

    it.scopedLive(
      "a listener with a broken connection listens again, and wakes its workers once",
      function* () {
        const url = yield* freshPath
        const proxy = yield* pgProxy(url)
        const one = yield* open(url)
        const other = yield* open(proxy.url, { notify })
        yield* proxy.cut
        yield* one.spool.offer([sampleEntry("missed")], { limitBytes: 100 })
        yield* proxy.repair
        yield* other.wakeups.spool
        yield* other.wakeups.deliveries
        yield* one.spool.offer([sampleEntry("a")], { limitBytes: 100 })
        yield* other.wakeups.spool
      }
    )

    it.scopedLive("a listener detects a silent connection", function* () {
      const url = yield* freshPath
      const proxy = yield* pgProxy(url)
      const other = yield* open(proxy.url, { notify, timeouts: short })
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
})
