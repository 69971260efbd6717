/** The shared store: a Postgres database, for several processes on several machines. Its server may go away and come back at any time. */
import { Socket } from "node:net"
import * as Reactivity from "@effect/experimental/Reactivity"
import * as PgClient from "@effect/sql-pg/PgClient"
import { TransactionConnection } from "@effect/sql/SqlClient"
import { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import pg from "pg"
import { formatAddress } from "../../../services/Addresses.ts"
import { recurWithin } from "../../../services/MonotonicTime.ts"
import { StoreUnavailable } from "../../../services/Store.ts"
import { type Driver, makeAccess } from "../Database.ts"
import { makeTransaction, rollBack } from "../GroupCommit.ts"
import { migrate, type OpenedDatabase, openSchema } from "../migrations/Migrations.ts"
import { Whole } from "../../../services/store/Rows.ts"
import { waitWithinDeadline } from "../../../services/store/Groups.ts"
import { all, first } from "../../../services/store/Statements.ts"
import { isConnectionRefused, openFailed } from "../StoreErrors.ts"

export interface PgOptions {
  /** Connections of this process; default 10. */
  readonly connections?: number
  /** Milliseconds for which an access that is blocked by a lock is retried; default 5 s. */
  readonly lockWait?: number
  /** Migrates an older schema, or refuses it; default true. */
  readonly migrate?: boolean
  /** Milliseconds; for tests. */
  readonly timeouts?: Partial<typeof defaultTimeouts>
}

/** Milliseconds. They bound every call, whatever the server does. */
const defaultTimeouts = {
  connect: 5_000,
  /** Enforced by the server. The limit of a statement includes what it waits for locks. */
  statement: 10_000,
  lock: 2_000,
  /** Frees the locks of a process that hangs, before a lease of the others ends. */
  idleInTransaction: 3_000,
  /** For a server that does not enforce its own timeout. */
  answer: 11_000,
  close: 5_000
}

/** Milliseconds. A large table may take long, and the migrations of another process are waited for. */
const migrationLimits = {
  statement_timeout: 0,
  lock_timeout: 600_000,
  idle_in_transaction_session_timeout: 15_000
}

/** Parses as the driver does. */
const nameOf = (url: Redacted.Redacted): string => {
  const { database = "", host, port } = new pg.Client({ connectionString: Redacted.value(url) })
  return `Postgres database ${formatAddress(host, port)}/${database}`
}

/** Counts and sums are no texts. */
const wide: ReadonlyArray<number> = [pg.types.builtins.INT8, pg.types.builtins.NUMERIC]
const types: pg.CustomTypesConfig = {
  getTypeParser: (id: number, format?: "text" | "binary") =>
    wide.includes(id) ? Number : pg.types.getTypeParser(id, format)
}

/** Closes with the scope, for `closeWithin` milliseconds at most. */
const openPool = (config: pg.PoolConfig, closeWithin: number): Effect.Effect<pg.Pool, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => {
        const sockets = new Set<Socket>()
        const stream = () => {
          const socket = new Socket()
          sockets.add(socket)
          return socket.once("close", () => sockets.delete(socket))
        }
        // Statements are sent before earlier ones are answered.
        const pool = new pg.Pool({
          ...config,
          application_name: "music-backend",
          keepAlive: true,
          pipeline: true,
          stream,
          types
        })
        // A connection that breaks while idle is replaced when the next one is needed.
        pool.on("error", () => undefined)
        return { pool, sockets }
      }),
      ({ pool, sockets }) =>
        Effect.promise(() => {
          // No access has begun on a connection that its server has not answered.
          for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy()
          return pool.end()
        }).pipe(Effect.interruptible, Effect.timeoutOption(closeWithin), Effect.ignore)
    ),
    ({ pool }) => pool
  )

/**
 * How a transaction begins, in one message. Everything that it relies on is set inside it, so that a pooler may give each one another
 * session. READ COMMITTED: after waiting for a lock, a statement sees the changes of its previous holder. READ WRITE: a standby
 * refuses reads too, because it lags behind the server that accepted a write.
 */
const beginWith = (limits: Readonly<Record<string, number>>): string => {
  const set = Object.entries(limits).map(([name, millis]) => `SET LOCAL ${name} = ${millis}`)
  return ["BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", ...set].join("; ")
}

/** The lock of a lane. A commit waits for the disk, also where the server's default is not to wait. One statement, because each costs time. */
const lockOf = (lane: string): string =>
  `SELECT pg_advisory_xact_lock(hashtextextended('music-backend ${lane}', 0)),
    CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END`

const isCommitted = (answer: unknown): boolean =>
  typeof answer === "object" && answer !== null && "command" in answer && answer.command === "COMMIT"

/** An access that goes on without its caller, who may leave. Its failure is the caller's: in a log it would show the driver's message. */
const detached = <A, E>(access: Effect.Effect<A, E>) =>
  Effect.flatMap(Effect.forkDaemon(Effect.exit(Effect.uninterruptible(access))), (fiber) =>
    waitWithinDeadline<A, E | StoreUnavailable>((resume) => {
      fiber.addObserver((exit) => resume(Exit.flatten(exit)))
      return () => undefined
    })
  )

/** Milliseconds. Where the server gives no further connection, an access asks again, and all share the open ones for longer. */
const refusalPause = 100
const sharingPeriod = 1_000

const usageOf = (pool: pg.Pool, limit: number) => () =>
  Option.some({
    limit,
    used: pool.totalCount - pool.idleCount,
    idle: pool.idleCount,
    waiting: pool.waitingCount
  })

const Size = Schema.Struct({ data: Whole })
const Unsuitable = Schema.Struct({ phrase: Schema.String, fix: Schema.String })

/** Fails for a server that is too old, or stores text in another encoding. */
const checkServer = ({ name, read, sql }: Driver) =>
  Effect.flatMap(
    read(
      first(Unsuitable)(sql`
        SELECT 'is on PostgreSQL ' || current_setting('server_version') || ': 14 or newer is needed' AS phrase,
          'use a newer PostgreSQL' AS fix
        WHERE current_setting('server_version_num')::INTEGER < 140000
        UNION ALL
        SELECT 'stores text as ' || current_setting('server_encoding') || ', which lacks characters: UTF8 is needed',
          'create a database with ENCODING ' || quote_literal('UTF8')
        WHERE current_setting('server_encoding') <> 'UTF8'`)
    ),
    Option.match({
      onNone: () => Effect.void,
      onSome: (details) => new StoreUnavailable({ database: name, kind: "other", details })
    })
  )

/** Opens an existing database and brings it to this version's schema. */
export const openPostgres = (
  url: Redacted.Redacted,
  { connections = 10, lockWait = 5_000, migrate: migrates = true, ...options }: PgOptions = {}
): Effect.Effect<OpenedDatabase, StoreUnavailable, Scope.Scope> =>
  Effect.gen(function* () {
    const timeouts = { ...defaultTimeouts, ...options.timeouts }
    const name = yield* Effect.try({
      try: () => nameOf(url),
      catch: () =>
        new StoreUnavailable({
          database: "The address of the Postgres database, or a file that it names,",
          kind: "other",
          details: { phrase: "cannot be read", fix: "correct MUSIC_DATABASE_URL" }
        })
    })
    const access = makeAccess({ name, lockWait })
    const limits = {
      statement_timeout: timeouts.statement,
      lock_timeout: timeouts.lock,
      idle_in_transaction_session_timeout: timeouts.idleInTransaction
    }

    const makeDriver = (config: pg.PoolConfig, transactionLimits: typeof limits) =>
      Effect.gen(function* () {
        const pool = yield* openPool(
          { ...config, connectionString: Redacted.value(url), connectionTimeoutMillis: timeouts.connect },
          timeouts.close
        )
        const sql = yield* PgClient.fromPool({ acquire: Effect.succeed(pool) }).pipe(
          Effect.provideServiceEffect(Reactivity.Reactivity, Reactivity.make),
          Effect.mapError((error) => openFailed(name, error))
        )
        const { max } = pool.options
        let open = 0
        pool.on("connect", () => {
          open += 1
        })
        pool.on("remove", () => {
          open -= 1
        })
        const share = Effect.sync(() => {
          pool.options.max = Math.max(1, open)
          setTimeout(() => {
            pool.options.max = max
          }, sharingPeriod).unref()
        })
        // The driver throws when a file that the address names cannot be read any more.
        const connect = Effect.catchAllDefect(
          sql.reserve,
          (cause) => new SqlError({ cause, message: "Failed to connect" })
        )
        const reserve = Effect.catchIf(connect, isConnectionRefused, () =>
          Effect.retry(Effect.zipRight(share, Effect.delay(connect, refusalPause)), {
            while: isConnectionRefused,
            schedule: recurWithin(timeouts.connect)
          })
        )
        const begin = beginWith(transactionLimits)
        const read: Driver["read"] = (query) =>
          detached(
            Effect.flatMap(reserve, (connection) =>
              // In a transaction, for its limits. All is sent at once, in this order; a failure leaves no transaction behind.
              Effect.all(
                [
                  connection.executeRaw(begin, []),
                  Effect.provideService(query, TransactionConnection, [connection, 0]),
                  connection.executeRaw("COMMIT", [])
                ],
                { concurrency: "unbounded", mode: "either" }
              ).pipe(
                Effect.flatMap(([begun, result]) => Either.flatMap(begun, () => result)),
                Effect.tapErrorCause((cause) => rollBack(connection, cause))
              )
            ).pipe(Effect.scoped)
          )
        const driver: Driver = {
          name,
          sql,
          lockWait,
          hasOneWriter: false,
          withConnection: (use) => Effect.scoped(Effect.flatMap(reserve, use)),
          pipelines: true,
          begin: (lane) => `${begin}; ${lockOf(lane)}`,
          isCommitted,
          read,
          size: Effect.map(
            read(all(Size)(sql`SELECT pg_database_size(current_database()) AS data`)),
            ([size]) => ({ data: size?.data ?? 0, file: Option.none() })
          ),
          pool: usageOf(pool, max)
        }
        return driver
      })

    const driver = yield* makeDriver(
      { max: connections, idleTimeoutMillis: 30_000, query_timeout: timeouts.answer },
      limits
    )
    yield* access("Store.open", checkServer(driver))
    // On a connection of its own.
    const migration = makeDriver({ max: 1 }, migrationLimits).pipe(
      Effect.flatMap((unhurried) =>
        access(
          "Store.migrate",
          Effect.flatten(
            makeTransaction(unhurried, "schema")(["Store.migrate"], migrate(unhurried.sql, name))
          )
        )
      ),
      Effect.scoped
    )
    return yield* openSchema(driver, migrates ? Option.some(migration) : Option.none())
  })
