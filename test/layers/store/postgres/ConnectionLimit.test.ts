/** A server that gives fewer connections than the processes would take. */
import { randomUUID } from "node:crypto"
import { assert, describe } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import pg from "pg"
import { makeConnections } from "../../../../src/layers/store/postgres/PgConnections.ts"
import { openPostgres, type PgOptions } from "../../../../src/layers/store/postgres/PgStore.ts"
import { all } from "../../../../src/layers/store/Query.ts"
import { openFailed } from "../../../../src/layers/store/StoreErrors.ts"
import { makeStore } from "../../../../src/layers/store/repositories/Repositories.ts"
import { postgres, sampleEntry, withPgClient } from "../Stores.ts"

const open = (url: string, options?: PgOptions) =>
  Effect.gen(function* () {
    const database = yield* openPostgres(Redacted.make(url), { notify: { pause: 20 }, ...options })
    return { ...(yield* makeStore(database)), database }
  }).pipe(Logger.withMinimumLogLevel(LogLevel.None))

type Opened = Effect.Effect.Success<ReturnType<typeof open>>

/** A database whose owner gets so many connections. Limits do not hold for superusers. */
const limited = (connections: number) =>
  Effect.gen(function* () {
    const administrator = yield* postgres.emptyPath
    const database = new URL(administrator).pathname.slice(1)
    const role = `music_${randomUUID().replaceAll("-", "")}`
    const limit = (count: number) =>
      postgres.rawQuery(administrator, `ALTER ROLE ${role} CONNECTION LIMIT ${count}`)
    yield* postgres.rawQuery(
      administrator,
      `CREATE ROLE ${role} LOGIN PASSWORD 'music';
      ALTER DATABASE ${database} OWNER TO ${role}`
    )
    const url = Object.assign(new URL(administrator), { username: role, password: "music" }).href
    // A migration needs a second connection.
    yield* Effect.scoped(open(url))
    yield* limit(connections)
    const backends = (where: string) =>
      postgres.rawQuery(
        administrator,
        `SELECT pid, query FROM pg_stat_activity WHERE usename = '${role}' ${where}`
      )
    yield* Effect.repeat(backends(""), { until: (rows) => rows.length === 0 })
    /** Ends the sessions that a condition on pg_stat_activity names. */
    const terminate = (where: string) =>
      postgres.rawQuery(
        administrator,
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '${role}' AND ${where}`
      )
    return { url, limit, terminate, backends }
  })

const text = all(Schema.Struct({ value: Schema.String }))

/** An access that keeps its connection for some milliseconds. */
const holding = ({ database }: Opened, millis: number) =>
  database.read("Test", text(database.sql`SELECT pg_sleep(${millis / 1_000})::text AS value`))

const many = (store: Opened, count: number, millis = 5) =>
  Effect.all(
    Array.from({ length: count }, () => holding(store, millis)),
    { concurrency: "unbounded", discard: true }
  )

const refusedAs = "too_many_connections"

describe.concurrent("A Postgres server that gives few connections", () => {
  it.scopedLive("one: all accesses wait for it, and listening does not take it", function* () {
    const { terminate, url } = yield* limited(1)
    const store = yield* open(url)
    yield* store.wakeups.spool.pipe(Effect.fork)
    yield* many(store, 40)
    yield* terminate("true")
    // The first access after it may meet the broken connection.
    yield* Effect.eventually(many(store, 1))
    yield* many(store, 40)
    assert.strictEqual(yield* store.spool.offer([sampleEntry("a")], { limitBytes: 100 }), "accepted")
  })

  it.scopedLive("one, which the listening connection has: it is given up", function* () {
    const { backends, limit, terminate, url } = yield* limited(2)
    const store = yield* open(url)
    const listening = backends("AND query LIKE '%LISTEN%'")
    yield* Effect.fork(store.wakeups.spool)
    yield* Effect.repeat(listening, { until: (rows) => rows.length === 1 })
    yield* limit(1)
    yield* terminate("query NOT LIKE '%LISTEN%'")
    yield* Effect.eventually(many(store, 1))
    deepStrictEqual((yield* listening).length, 0)
  })

  it.scopedLive(
    "none for a while: an access waits until one is given, and fails after the bound",
    function* () {
      const { limit, terminate, url } = yield* limited(3)
      const hurried = yield* open(url, { timeouts: { connect: 1_500 } })
      const store = yield* open(url)
      yield* limit(0)
      yield* terminate("true")
      // The first access may meet the broken connection.
      const failure = yield* Effect.flip(many(hurried, 1))
      assert.include(["unreachable", refusedAs], failure.problem.kind)
      assert.strictEqual((yield* Effect.flip(many(hurried, 1))).problem.kind, refusedAs)
      const waiting = yield* Effect.fork(many(store, 5))
      yield* Effect.sleep(100)
      yield* limit(1)
      yield* Fiber.join(waiting)
    }
  )

  it.scopedLive("an access that gets none in time fails with a code", function* () {
    const connections = makeConnections(new pg.Pool(), { most: 0, wait: 10, onStarving: () => undefined })
    const outcome = yield* Effect.promise(connections.acquire)
    const failure = openFailed("Postgres", Option.getOrThrow(Either.getLeft(outcome)))
    deepStrictEqual(failure.problem, { kind: "timed_out", code: "POOL_TIMEOUT" })
  })

  it.scopedLive("three to two processes: the one that comes later gets one too", function* () {
    const { backends, terminate, url } = yield* limited(3)
    const one = yield* open(url)
    const other = yield* open(url)
    yield* terminate("true")
    const busy = yield* Effect.fork(Effect.forever(Effect.ignore(many(one, 20, 20))))
    yield* Effect.repeat(backends(""), { until: (rows) => rows.length === 3 })
    yield* Effect.eventually(many(other, 1))
    yield* many(other, 20)
    yield* Fiber.interrupt(busy)
  })

  it.scopedLive("as many as the setting: never more are open", function* () {
    const url = yield* postgres.freshPath
    const store = yield* open(url, { connections: 2 })
    yield* many(store, 20)
    const count = yield* withPgClient(url, async (client) => {
      const { rows } = await client.query(
        `SELECT count(*)::int AS count FROM pg_stat_activity
           WHERE datname = current_database() AND application_name = 'music-backend' AND query NOT LIKE '%LISTEN%'`
      )
      return rows[0].count
    })
    assert.strictEqual(count, 2)
  })
})
