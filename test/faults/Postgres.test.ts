import { assert, describe, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import pg from "pg"
import { vi } from "vitest"
import { postgresStoreAt } from "../../src/layers/store/postgres/PgStore.ts"
import {
  cutConnections,
  freshPostgres,
  readFromPostgres,
  restartablePostgres,
  statement,
  wayTo
} from "./Databases.ts"
import {
  away,
  everyCall,
  expectRecovery,
  healthy,
  outage,
  signIn,
  startServer,
  unwritable
} from "./Server.ts"

// Long enough for a busy machine: the tests start processes and wait for outages.
vi.setConfig({ testTimeout: 90_000 })

/** Milliseconds; 5 to 11 s in production. */
const timeouts = { connect: 1_500, statement: 1_500, lock: 200, answer: 2_000, close: 500 }
const lockWait = 300
/** Milliseconds; a login makes two writes that may time out. */
const promptly = 6_000

const serving = (url: string) =>
  startServer(postgresStoreAt(Redacted.make(url), { timeouts, lockWait, notify: { pause: 100 } }))

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
  "reports",
  "webhook_inbox",
  "spool",
  "deliveries",
  "migrations"
]

describe.concurrent("A PostgreSQL database that fails under a running server:", () => {
  it.scopedLive("stopped and started again: refuses calls that need it, and recovers without a restart", () =>
    Effect.gen(function* () {
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
    })
  )

  it.scopedLive("read-only as a standby: refuses writes, serves reads, and recovers", () =>
    Effect.gen(function* () {
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
  )

  it.scopedLive("silent: answers within the timeouts, and recovers when it answers again", () =>
    Effect.gen(function* () {
      const url = yield* freshPostgres
      const way = yield* wayTo(url)
      const server = yield* serving(way.url)
      yield* outage(server, {
        begin: way.silence,
        end: way.speak,
        says: away,
        reason: /Postgres database \S+ does not answer/,
        promptly,
        readNumber: readFromPostgres(url)
      })
    })
  )

  it.scopedLive("with cut connections: fails only the requests in flight", () =>
    Effect.gen(function* () {
      const url = yield* freshPostgres
      const server = yield* serving(url)
      const signed = yield* signIn(server)
      for (let round = 0; round < 2; round += 1) {
        deepStrictEqual((yield* everyCall(server, signed)).round, healthy)
        yield* cutConnections(url)
        // The disconnect must reach this process first.
        yield* Effect.sleep(50)
      }
      deepStrictEqual((yield* everyCall(server, signed)).round, healthy)
    })
  )

  it.scopedLive("full: refuses writes, serves reads, and recovers", () =>
    Effect.gen(function* () {
      const url = yield* freshPostgres
      const server = yield* serving(url)
      yield* outage(server, {
        begin: statement(
          url,
          `CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$;
           ${written.map((table) => `CREATE TRIGGER no_room BEFORE INSERT OR UPDATE ON ${table} EXECUTE FUNCTION no_room();`).join("")}`
        ),
        end: statement(url, "DROP FUNCTION no_room CASCADE"),
        says: unwritable,
        reason: /is full: its disk or quota has no space left \(53100\)/,
        promptly,
        readNumber: readFromPostgres(url)
      })
    })
  )

  it.scopedLive("locked by another program: refuses after the lock timeout, and recovers", () =>
    Effect.gen(function* () {
      const url = yield* freshPostgres
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
  )
})
