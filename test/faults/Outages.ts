/** Databases that fail under a running server: what each call answers meanwhile, and that nothing acknowledged is lost or done twice. A slice is played by every test run. */
import { Effect, Layer, Redacted, type Scope } from "effect"
import { describe } from "vitest"
import { openPostgres } from "../../src/layers/store/postgres/PgStore.ts"
import { makeStore } from "../../src/layers/store/StoreHealth.ts"
import { openDatabase } from "../../src/layers/store/sqlite/SqliteStore.ts"
import { Store } from "../../src/services/Store.ts"
import { newPath, postgres, rawClient, sqlite } from "../layers/store/Stores.ts"
import { pgProxy } from "../layers/store/postgres/PgProxy.ts"
import { startServer } from "../world/Sandbox.ts"
import { awaited } from "../world/Waiting.ts"
import { it } from "../world/Test.ts"
import { numbersOf, scalar, standbyPostgres } from "./Databases.ts"
import * as Server from "./Server.ts"

const { away, healthy, unwritable } = Server
type Fault = Server.Fault

/** Milliseconds; up to 11 s in production. Calls of a database that answers must be done within them also on a slow machine. */
const timeouts = { connect: 5_000, statement: 5_000, lock: 1_000, answer: 5_500, close: 500 }

export const sqliteAt = (path: string) =>
  Effect.gen(function* () {
    // A lock timeout in milliseconds, shorter than production's 5 s.
    const database = yield* openDatabase(path, { lockWait: 200 })
    const server = yield* startServer({}, Layer.scoped(Store, makeStore(database)))
    return { server, sql: database.sql, path, readNumber: numbersOf(sqlite, path) }
  })
const onSqlite = Effect.flatMap(newPath, sqliteAt)

export const postgresAt = (url: string, change: Parameters<typeof openPostgres>[1] = {}, settings = {}) =>
  startServer(
    settings,
    Layer.scoped(
      Store,
      Effect.flatMap(openPostgres(Redacted.make(url), { timeouts, lockWait: 2_000, ...change }), makeStore)
    )
  )

/** A server on a PostgreSQL, and how a row of the table ends it. */
const onPostgres = (url: string, rest: Omit<Fault, "readNumber">, through = url) =>
  Effect.map(postgresAt(through), (server) => ({ server, readNumber: numbersOf(postgres, url), ...rest }))

type Proxy = Effect.Effect.Success<ReturnType<typeof pgProxy>>

/** From this effect of its proxy on, the database does not answer. */
const unanswered = (begin: (proxy: Proxy) => Effect.Effect<void>) =>
  Effect.gen(function* () {
    const url = yield* postgres.freshPath
    const proxy = yield* pgProxy(url)
    const fault = { begin: begin(proxy), end: proxy.repair }
    const reason = /Postgres database \S+ does not answer/
    return yield* onPostgres(url, { ...fault, says: away, reason }, proxy.url)
  })

type Outages = Readonly<
  Record<string, Effect.Effect<Fault & { readonly server: Server.Server }, unknown, Scope.Scope>>
>

const ofSqlite: Outages = {
  "full: refuses large writes, accepts small ones": Effect.map(onSqlite, ({ path, sql, ...opened }) => ({
    ...opened,
    begin: Effect.gen(function* () {
      // Removed rows free space in the file.
      const waiting = scalar(path, "SELECT COUNT(*) FROM spool WHERE table_name = 'musicclidaemon'")
      yield* awaited("an empty spool", waiting, (count) => count === 0)
      yield* sql.unsafe("VACUUM")
      yield* sql.unsafe("PRAGMA max_page_count = 1")
    }),
    end: sql.unsafe("PRAGMA max_page_count = 1000000"),
    says: { ...healthy, report: unwritable.report, telemetry: unwritable.telemetry },
    reason: /is full: its disk or quota has no space left/
  })),
  "locked by another program": Effect.gen(function* () {
    const { path, ...opened } = yield* onSqlite
    const other = yield* rawClient(path)
    return {
      ...opened,
      begin: other.unsafe("BEGIN EXCLUSIVE"),
      end: other.unsafe("ROLLBACK"),
      says: unwritable,
      reason: /is locked by another process/
    }
  })
}

const ofPostgres: Outages = {
  "read-only as a standby": Effect.flatMap(standbyPostgres, ({ promote, standBy, url }) =>
    onPostgres(url, {
      begin: standBy,
      end: promote,
      says: away,
      reason: /cannot be opened, read or written \((?:25006|0A000)\)/
    })
  ),
  "refusing connections": unanswered(({ cut }) => cut),
  silent: unanswered(({ freeze }) => freeze)
}

/** Each is broken and repaired under a running server; these are played by every test run, the others by the slow one. */
const slice = ["full: refuses large writes, accepts small ones", "refusing connections"]

export const playOutages = (isSlice: boolean) => {
  const played = (outages: Outages) => {
    const names = Object.keys(outages).filter((name) => slice.includes(name) === isSlice)
    it.scopedLive.each(names)("%s", function* (name) {
      const { server, ...fault } = yield* outages[name] ?? Effect.dieMessage(name)
      yield* Server.outage(server, fault)
    })
  }
  describe("A SQLite database that fails under a running server, and recovers without its restart:", () =>
    played(ofSqlite))
  // These wait for timeouts.
  describe.concurrent("A PostgreSQL database that fails under a running server, and recovers without its restart:", () =>
    played(ofPostgres))
}
