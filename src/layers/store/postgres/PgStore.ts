/** The shared store: a Postgres database, for several processes on several machines. Its server may go away and come back at any time. */
import * as Reactivity from "@effect/experimental/Reactivity"
import * as PgClient from "@effect/sql-pg/PgClient"
import { TransactionConnection } from "@effect/sql/SqlClient"
import type { Connection } from "@effect/sql/SqlConnection"
import { SqlError } from "@effect/sql/SqlError"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Runtime from "effect/Runtime"
import type * as Scope from "effect/Scope"
import pg from "pg"
import { formatAddress } from "../../../services/Addresses.ts"
import type { StoreUnavailable } from "../../../services/Store.ts"
import { waitWithinDeadline } from "../../../services/store/Groups.ts"
import { valueOf, Whole } from "../../../services/store/Rows.ts"
import { kindOf, toStoreUnavailable } from "../../../services/store/StoreUnavailable.ts"
import type { Driver } from "../../../services/store/Database.ts"
import { type OpenedDatabase, openSchema } from "../migrations/Migrations.ts"

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
type Timeouts = typeof defaultTimeouts

/** A large table may take long, and the migrations of another process are waited for. */
const unhurried = { statement: 0, lock: 600_000, idleInTransaction: 15_000, answer: 0 }

/** Parses as the driver does. */
const nameOf = (url: Redacted.Redacted): string => {
  const { database = "", host, port } = new pg.Client({ connectionString: Redacted.value(url) })
  return `Postgres database ${formatAddress(host, port)}/${database}`
}

/** Counts and sums are no texts. */
const types = new pg.TypeOverrides()
for (const wide of [pg.types.builtins.INT8, pg.types.builtins.NUMERIC]) types.setTypeParser(wide, Number)

/** Closes with the scope. */
const openPool = (
  url: Redacted.Redacted,
  max: number,
  { answer, close, connect }: Timeouts
): Effect.Effect<pg.Pool, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const pool = new pg.Pool({
        connectionString: Redacted.value(url),
        max,
        connectionTimeoutMillis: connect,
        query_timeout: answer,
        idleTimeoutMillis: 30_000,
        application_name: "music-backend",
        keepAlive: true,
        // Statements are sent before earlier ones are answered.
        pipeline: true,
        types
      })
      // A connection that breaks while idle is replaced when the next one is needed.
      return pool.on("error", () => undefined)
    }),
    (pool) =>
      Effect.promise(() => pool.end()).pipe(Effect.interruptible, Effect.timeoutOption(close), Effect.ignore)
  )

/**
 * How a transaction begins, in one message. Everything that it relies on is set inside it, so that a pooler may give each one another
 * session. READ COMMITTED: after waiting for a lock, a statement sees the changes of its previous holder. READ WRITE: a standby
 * refuses reads too, because it lags behind the server that accepted a write.
 */
const beginWith = ({ idleInTransaction, lock, statement }: Timeouts): string =>
  `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
  SET LOCAL statement_timeout = ${statement};
  SET LOCAL lock_timeout = ${lock};
  SET LOCAL idle_in_transaction_session_timeout = ${idleInTransaction}`

/** The lock of a lane. A commit waits for the disk, also where the server's default is not to wait. One statement, because each costs time. */
const lockOf = (lane: string): string =>
  `SELECT pg_advisory_xact_lock(hashtextextended('music-backend ${lane}', 0)),
    CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END`

const isCommitted = (answer: unknown): boolean =>
  typeof answer === "object" && answer !== null && "command" in answer && answer.command === "COMMIT"

/** The answer to the COMMIT of an aborted transaction, as the error that it is. */
const rolledBack = Object.assign(new Error("Rolled back"), { code: "25P02" })

/** A server that became a standby ends the session: the next one is opened with its successor. */
const rollBack = (connection: Connection) => (cause: Cause.Cause<unknown>) => {
  const isStandby = Option.exists(Cause.failureOption(cause), (error) =>
    /^(?:25006|0A000)$/.test(kindOf(error).code ?? "")
  )
  return Effect.ignore(
    connection.executeRaw(isStandby ? "SELECT pg_terminate_backend(pg_backend_pid())" : "ROLLBACK", [])
  )
}

/** A connection that does not wait for statements without a result, and what ends when all of them are answered. */
const sending = (connection: Connection) =>
  Effect.map(Effect.runtime<never>(), (runtime) => {
    const sent: Array<Promise<Exit.Exit<unknown, SqlError>>> = []
    const pipelined: Connection = Object.create(connection, {
      executeRaw: {
        value: (text: string, values: ReadonlyArray<unknown>) =>
          Effect.sync(() => {
            sent.push(Runtime.runPromiseExit(runtime)(connection.executeRaw(text, values)))
          })
      }
    })
    return { pipelined, answers: Effect.promise(() => Promise.all(sent)) }
  })

/** An access that goes on without its caller, who may leave. Its failure is the caller's: in a log it would show the driver's message. */
const detached = <A, E>(access: Effect.Effect<A, E>) =>
  Effect.flatMap(Effect.forkDaemon(Effect.exit(Effect.uninterruptible(access))), (fiber) =>
    waitWithinDeadline<A, E | StoreUnavailable>((resume) => {
      fiber.addObserver((exit) => resume(Exit.flatten(exit)))
      return () => undefined
    })
  )

const makeDriver = (
  name: string,
  url: Redacted.Redacted,
  limit: number,
  lockWait: number,
  timeouts: Timeouts
) =>
  Effect.gen(function* () {
    const pool = yield* openPool(url, limit, timeouts)
    const sql = yield* PgClient.fromPool({ acquire: Effect.succeed(pool) }).pipe(
      Effect.provideServiceEffect(Reactivity.Reactivity, Reactivity.make),
      Effect.mapError(toStoreUnavailable(name))
    )
    // The driver throws when a file that the address names cannot be read any more.
    const reserve = Effect.catchAllDefect(
      sql.reserve,
      (cause) => new SqlError({ cause, message: "Failed to connect" })
    )
    const begin = beginWith(timeouts)
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
            Effect.flatMap(([begun, result]) => Effect.zipRight(begun, result)),
            Effect.tapErrorCause(rollBack(connection))
          )
        ).pipe(Effect.scoped)
      )
    const transaction: Driver["transaction"] = (lane, operations, body) =>
      Effect.gen(function* () {
        const connection = yield* reserve
        const { answers, pipelined } = yield* sending(connection)
        return yield* connection.executeRaw(`/* ${operations} */ ${begin}; ${lockOf(lane)}`, []).pipe(
          Effect.zipRight(Effect.provideService(body, TransactionConnection, [pipelined, 0])),
          Effect.zipLeft(
            Effect.filterOrFail(
              connection.executeRaw("COMMIT", []),
              isCommitted,
              () => new SqlError({ cause: rolledBack, message: "Failed to commit" })
            )
          ),
          Effect.exit,
          // The first failure counts: what followed it failed for it.
          Effect.flatMap((ended) => Effect.zipRight(Effect.flatMap(answers, Effect.all), ended)),
          Effect.tapErrorCause(rollBack(connection))
        )
      }).pipe(Effect.scoped, Effect.uninterruptible)

    const driver: Driver = {
      name,
      sql,
      lockWait,
      hasOneWriter: false,
      read,
      transaction,
      size: Effect.map(
        read(valueOf(Whole)(sql`SELECT pg_database_size(current_database()) AS value`)),
        (size) => ({ data: Option.getOrElse(size, () => 0), file: Option.none() })
      ),
      pool: () =>
        Option.some({
          limit,
          used: pool.totalCount - pool.idleCount,
          waiting: pool.waitingCount
        })
    }
    return driver
  })

/** Opens an existing database and brings it to this version's schema. */
export const openPostgres = (
  url: Redacted.Redacted,
  { connections = 10, lockWait = 5_000, migrate: migrates = true, ...options }: PgOptions = {}
): Effect.Effect<OpenedDatabase, StoreUnavailable, Scope.Scope> =>
  Effect.gen(function* () {
    const timeouts = { ...defaultTimeouts, ...options.timeouts }
    // A file that the address names may be missing.
    const name = yield* Effect.try({
      try: () => nameOf(url),
      catch: toStoreUnavailable("The Postgres database of MUSIC_DATABASE_URL")
    })
    const driver = yield* makeDriver(name, url, connections, lockWait, timeouts)
    // On a connection of its own.
    const migrator = makeDriver(name, url, 1, lockWait, { ...timeouts, ...unhurried })
    return yield* openSchema(driver, migrates, migrator)
  })
