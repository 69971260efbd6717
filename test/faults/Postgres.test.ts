import { randomUUID } from "node:crypto"
import { assert, describe } from "vitest"
import { it } from "../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import pg from "pg"
import { openPostgres } from "../../src/layers/store/postgres/PgStore.ts"
import { pgProxy } from "../layers/store/postgres/PgProxy.ts"
import { postgres } from "../layers/store/Stores.ts"
import { readFromPostgres, restartablePostgres } from "./Databases.ts"
import {
  away,
  everyCall,
  expectRecovery,
  healthy,
  issues,
  keptWhole,
  outage,
  report,
  signIn,
  startServer,
  unwritable
} from "./Server.ts"
import { awaited, eventually, settle } from "../support/Waiting.ts"
import { makeStore } from "../../src/layers/store/repositories/Repositories.ts"

/** Milliseconds; up to 11 s in production. Calls of a database that answers must be done within them also on a slow machine. */
const timeouts = { connect: 5_000, statement: 5_000, lock: 1_000, answer: 5_500, close: 500 }
const lockWait = 2_000
/** Milliseconds: below the deadline of a request, 25 s. A login makes two writes that may time out. */
const promptly = 20_000

/** Seconds: a deadline that calls of a database that answers keep also on a slow machine. */
const requestDeadlineSeconds = 12

const serving = (url: string) =>
  startServer(
    Effect.flatMap(
      openPostgres(Redacted.make(url), { timeouts, lockWait, notify: { pause: 100 } }),
      makeStore
    )
  )

/** Another program's transaction, open until the scope closes. */
const transaction = (url: string, text: string) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const client = new pg.Client({ connectionString: url })
      await client.connect()
      await client.query("BEGIN")
      await client.query(text)
      return client
    }),
    (client) => Effect.promise(() => client.end())
  )

const written = [
  "recipients",
  "login_outcomes",
  "session_digests",
  "reports",
  "webhook_inbox",
  "spool",
  "deliveries",
  "migrations"
]

describe.concurrent("A PostgreSQL database that fails under a running server:", () => {
  it.scopedLive(
    "stopped and started again: refuses calls that need it, and recovers without a restart",
    function* () {
      const { start, stop, url } = yield* restartablePostgres
      const server = yield* serving(url)
      yield* outage(server, {
        begin: stop,
        end: start,
        says: away,
        reason: /Postgres database 127\.0\.0\.1:\d+\/postgres does not answer/,
        promptly,
        readNumber: readFromPostgres(url)
      })
    }
  )

  it.scopedLive("read-only as a standby: refuses writes, serves reads, and recovers", function* () {
    const { promote, standBy, url } = yield* restartablePostgres
    const server = yield* serving(url)
    yield* outage(server, {
      begin: standBy,
      end: promote,
      says: unwritable,
      reason: /is read-only for this process/,
      promptly,
      readNumber: readFromPostgres(url)
    })
  })

  it.scopedLive("silent: answers within the timeouts, and recovers when it answers again", function* () {
    const url = yield* postgres.emptyPath
    const proxy = yield* pgProxy(url)
    const server = yield* serving(proxy.url)
    yield* outage(server, {
      begin: proxy.freeze,
      end: proxy.repair,
      says: away,
      reason: /Postgres database \S+ does not answer/,
      promptly,
      readNumber: readFromPostgres(url)
    })
  })

  it.scopedLive("silent for longer than a request may last: answers at the request's deadline", function* () {
    const url = yield* postgres.emptyPath
    const proxy = yield* pgProxy(url)
    // Only the deadline can end a call before the test ends.
    const endless = 600_000
    const patient = { connect: endless, statement: endless, lock: endless, answer: endless, close: 500 }
    const server = yield* startServer(
      Effect.flatMap(
        openPostgres(Redacted.make(proxy.url), { timeouts: patient, lockWait: endless, connections: 2 }),
        makeStore
      ),
      { requestDeadlineSeconds }
    )
    const signed = yield* signIn(server)
    const key = { "idempotency-key": randomUUID() }
    deepStrictEqual((yield* everyCall(server, signed)).round, healthy)
    yield* proxy.freeze
    // The second half waits for connections, and for the transaction of earlier telemetry.
    const [first, kept] = yield* Effect.all([everyCall(server, signed), report(server, key)], {
      concurrency: "unbounded"
    })
    deepStrictEqual(first.round, away)
    deepStrictEqual([kept.status, kept.headers.get("retry-after")], [503, "2"])
    deepStrictEqual((yield* everyCall(server, signed)).round, away)
    yield* proxy.repair
    yield* expectRecovery(server, signed)
    assert.strictEqual((yield* report(server, key)).status, 200)
    // What went on without its request is done once; a report that waited for the read of its key was never begun.
    yield* eventually("every report is filed", () => issues(server) === 3)
    // Telemetry that waited for the transaction of others at its deadline was never begun.
    const readNumber = readFromPostgres(url)
    const events = yield* readNumber("SELECT accepted FROM spool_counts WHERE table_name = 'musicclidaemon'")
    assert.include([2, 3], events)
    yield* keptWhole(readNumber, { reports: 3, events })
  })

  it.scopedLive("locked for longer than a request may last: answers at the request's deadline", function* () {
    const url = yield* postgres.emptyPath
    const server = yield* startServer(
      Effect.flatMap(
        openPostgres(Redacted.make(url), { timeouts: { lock: 50 }, lockWait: 600_000 }),
        makeStore
      ),
      { requestDeadlineSeconds }
    )
    const signed = yield* signIn(server)
    yield* Effect.scoped(
      Effect.gen(function* () {
        yield* transaction(url, `LOCK TABLE ${written.join(", ")} IN ACCESS EXCLUSIVE MODE`)
        deepStrictEqual((yield* everyCall(server, signed)).round, away)
      })
    )
    yield* expectRecovery(server, signed)
  })

  it.scopedLive("with cut connections: fails only the requests in flight", function* () {
    const url = yield* postgres.emptyPath
    const server = yield* serving(url)
    const signed = yield* signIn(server)
    for (let round = 0; round < 2; round += 1) {
      deepStrictEqual((yield* everyCall(server, signed)).round, healthy)
      const cut = yield* postgres.rawQuery(
        url,
        `SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity
           WHERE datname = current_database() AND pid <> pg_backend_pid()`
      )
      // The disconnect must reach this process first.
      yield* awaited(
        "the end of all sessions",
        readFromPostgres(url)(
          `SELECT COUNT(*) FROM pg_stat_activity WHERE pid = ANY ('{${cut.map(({ pid }) => pid).join()}}')`
        ),
        (left) => left === 0
      )
      yield* settle
    }
    deepStrictEqual((yield* everyCall(server, signed)).round, healthy)
  })

  it.scopedLive("locked by another program: refuses after the lock timeout, and recovers", function* () {
    const url = yield* postgres.emptyPath
    const server = yield* serving(url)
    const signed = yield* signIn(server)
    yield* Effect.scoped(
      Effect.gen(function* () {
        yield* transaction(url, `LOCK TABLE ${written.join(", ")} IN ACCESS EXCLUSIVE MODE`)
        const { round, slowest } = yield* everyCall(server, signed)
        deepStrictEqual(round, away)
        assert.isBelow(slowest, promptly)
        assert.isTrue(server.log.some((line) => /is locked by another process/.test(line)))
      })
    )
    yield* expectRecovery(server, signed)
  })
})
