/** The store behind a pooler, and where the server gives few connections. */
import { assert, describe } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { openPostgres, type PgOptions } from "../../../../src/layers/store/postgres/PgStore.ts"
import { all } from "../../../../src/layers/store/Query.ts"
import { makeStore } from "../../../../src/layers/store/repositories/Repositories.ts"
import { pooler } from "../../../support/Pooler.ts"
import { postgres, sampleEntry } from "../Stores.ts"

const open = (url: string, options?: PgOptions) =>
  Effect.gen(function* () {
    const database = yield* openPostgres(Redacted.make(url), options)
    return { ...(yield* makeStore(database)), database }
  }).pipe(Logger.withMinimumLogLevel(LogLevel.None))

const settings = all(Schema.Struct({ name: Schema.String, setting: Schema.String }))

describe("A Postgres database behind a pooler", () => {
  it.scopedLive("in session mode works: migrated, with its settings, waking other processes", function* () {
    const url = yield* pooler(yield* postgres.emptyPath, "session")
    const { database, ...store } = yield* open(url)
    const other = yield* open(url)
    const names = [
      "application_name",
      "default_transaction_isolation",
      "idle_in_transaction_session_timeout",
      "lock_timeout",
      "statement_timeout",
      "synchronous_commit"
    ]
    const shown = yield* database.read(
      "Test",
      settings(
        database.sql`SELECT name, setting FROM pg_settings WHERE ${database.sql.in("name", names)} ORDER BY name`
      )
    )
    deepStrictEqual(
      shown.map(({ setting }) => setting),
      ["music-backend", "read committed", "15000", "2000", "10000", "on"]
    )
    const woken = yield* Effect.fork(other.wakeups.spool)
    yield* store.spool.offer([sampleEntry("a")], { limitBytes: 100 })
    yield* Fiber.join(woken)
  })

  it.scopedLive("that takes no further client: accesses share the connections that there are", function* () {
    const url = yield* pooler(yield* postgres.freshPath, "session", { room: 2 })
    const { database } = yield* open(url)
    const nap = database.read(
      "Test",
      settings(database.sql`SELECT 'nap' AS name, pg_sleep(0.005)::text AS setting`)
    )
    yield* Effect.all(
      Array.from({ length: 30 }, () => nap),
      { concurrency: "unbounded" }
    )
  })

  for (const mode of ["transaction", "statement"] as const)
    for (const size of [1, 2])
      it.scopedLive(`in ${mode} mode with ${size} of its connections is refused, with the fix`, function* () {
        const url = yield* pooler(yield* postgres.freshPath, mode, { size })
        const failure = yield* Effect.flip(Effect.scoped(open(url)))
        deepStrictEqual(failure.problem, { kind: "shared_sessions" })
        assert.match(failure.fix, /pool_mode = session/)
      })

  it.scopedLive("that refuses a parameter of the address says so", function* () {
    const url = yield* pooler(yield* postgres.freshPath, "session")
    const failure = yield* Effect.flip(
      Effect.scoped(open(`${url}?options=-c%20geqo%3Doff&statement_timeout=100`))
    )
    assert.strictEqual(failure.problem.kind, "parameter_refused")
  })
})
