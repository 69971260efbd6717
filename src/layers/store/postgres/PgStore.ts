/** The shared store: a Postgres database, for several processes on several machines. */
import * as Reactivity from "@effect/experimental/Reactivity"
import { SqlClient } from "@effect/sql/SqlClient"
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import pg from "pg"
import { Store, StoreUnavailable } from "../../../services/Store.ts"
import type { StoreProblem } from "../../../services/store/StoreUnavailable.ts"
import { type Database, makeDatabase } from "../Database.ts"
import { migrationFailed, openFailed } from "../StoreErrors.ts"
import { checkReadable, migrate, prepareSchema } from "../migrations/Migrations.ts"
import { pgDialect } from "./PgDialect.ts"
import { type Listening, pgNotify } from "./PgNotify.ts"
import { makeStore } from "../repositories/Repositories.ts"
import { first, Whole } from "../repositories/Rows.ts"

export interface PgOptions {
  /** Connections of this process besides the one that listens; 10 when not given. */
  readonly connections?: number
  /** Milliseconds for which an access that found a lock in its way is tried again; 5 s when not given. */
  readonly lockWait?: number
  /** Without it, an older schema is refused; it is done when not told. */
  readonly migrate?: boolean
  /** An older schema is taken as it is; for what every version's schema allows. */
  readonly older?: boolean
  /** Milliseconds; for tests. */
  readonly timeouts?: Partial<typeof defaultTimeouts>
  readonly signs?: Pick<Listening, "proofEvery" | "proofWithin" | "pause">
}

/** Milliseconds. Whatever the server does, no call waits for ever. */
const defaultTimeouts = {
  connect: 5_000,
  /** Told to the server. */
  statement: 10_000,
  lock: 2_000,
  /** Frees what a process that stands still has locked. */
  idleInTransaction: 15_000,
  /** For a server that does not even say that it took too long. */
  answer: 11_000,
  close: 5_000
}

/** Milliseconds for which the migrations of another process are waited for. */
const migrationWait = 600_000

/** PostgreSQL 14, in the form of `server_version_num`. */
const oldestServer = 140_000

/** Parsed as the driver will do it; what the address itself sets, such as `sslmode` or `application_name`, counts. */
const parsed = (url: Redacted.Redacted): pg.Client => new pg.Client({ connectionString: Redacted.value(url) })

const nameOf = ({ database = "", host, port }: pg.Client): string =>
  `Postgres database ${host.includes(":") ? `[${host}]` : host}:${port}/${database}`

const clientOf = (
  config: pg.PoolConfig,
  closeWithin: number,
  opening: (error: unknown) => StoreUnavailable
) =>
  PgClient.fromPool({
    acquire: Effect.acquireRelease(
      Effect.sync(() => {
        const pool = new pg.Pool(config)
        // A connection that breaks while nobody uses it is replaced when it is needed.
        pool.on("error", () => undefined)
        return pool
      }),
      (pool) =>
        Effect.promise(() => pool.end()).pipe(
          Effect.interruptible,
          Effect.timeoutOption(closeWithin),
          Effect.ignore
        )
    )
  }).pipe(Effect.provideServiceEffect(Reactivity.Reactivity, Reactivity.make), Effect.mapError(opening))

/**
 * An answered request is on the disk, also where the server's default is not to wait for it. Set in the session whatever the
 * default is: a session that only inherits it would follow a change while it lasts.
 */
const waitForDisk = (client: pg.ClientBase): Promise<unknown> =>
  client.query(
    "SELECT set_config('synchronous_commit', CASE now WHEN 'off' THEN 'on' ELSE now END, false) FROM current_setting('synchronous_commit') AS now"
  )

const Server = Schema.Struct({ version: Schema.String, number: Whole, encoding: Schema.String })

/** Fails for a server on which something would go wrong later. */
const checkServer = ({ name, read, sql }: Database): Effect.Effect<void, StoreUnavailable> =>
  Effect.flatMap(
    read(
      "Store.open",
      first(Server)(sql`
        SELECT current_setting('server_version') AS version,
          current_setting('server_version_num') AS number,
          current_setting('server_encoding') AS encoding`)
    ),
    Option.match({
      onNone: () => Effect.void,
      onSome: ({ encoding, number, version }) => {
        const refuse = (problem: StoreProblem) => new StoreUnavailable({ database: name, problem })
        if (number < oldestServer) return refuse({ kind: "server_too_old", version })
        return encoding === "UTF8" ? Effect.void : refuse({ kind: "wrong_encoding", encoding })
      }
    })
  )

/** Opens an existing database and brings it to this version's schema. */
export const openPostgres = (
  url: Redacted.Redacted,
  {
    connections = 10,
    lockWait = 5_000,
    migrate: migrating = true,
    older = false,
    signs = {},
    ...options
  }: PgOptions = {}
): Effect.Effect<Database, StoreUnavailable, Scope.Scope> =>
  Effect.gen(function* () {
    const timeouts = { ...defaultTimeouts, ...options.timeouts }
    const name = yield* Effect.try({
      try: () => nameOf(parsed(url)),
      catch: () =>
        new StoreUnavailable({
          database: "The address of the Postgres database, or a file that it names,",
          problem: { kind: "address_unreadable" }
        })
    })
    const opening = (error: unknown) => openFailed(name, error)

    const reached: pg.PoolConfig = {
      connectionString: Redacted.value(url),
      application_name: "music-backend",
      connectionTimeoutMillis: timeouts.connect,
      keepAlive: true,
      onConnect: waitForDisk
    }
    const sql = yield* clientOf(
      {
        ...reached,
        max: connections,
        idleTimeoutMillis: 30_000,
        statement_timeout: timeouts.statement,
        lock_timeout: timeouts.lock,
        idle_in_transaction_session_timeout: timeouts.idleInTransaction,
        query_timeout: timeouts.answer
      },
      timeouts.close,
      opening
    )
    const dialect = pgDialect(sql, pgNotify(sql, { name, client: reached, ...signs }))
    const database = makeDatabase(sql, { name, lockWait, dialect })

    yield* checkServer(database)

    /** On a connection of its own: what a large table needs takes longer than any request may. */
    const migration = Effect.gen(function* () {
      const patient = yield* clientOf(
        { ...reached, max: 1, lock_timeout: migrationWait },
        timeouts.close,
        opening
      )
      const { alone, write } = makeDatabase(patient, {
        name,
        lockWait,
        dialect: pgDialect(patient, dialect)
      })
      yield* write(
        "Store.migrate",
        Effect.zipRight(alone("music_backend migrations"), migrate).pipe(
          Effect.provideService(SqlClient, patient),
          Effect.catchTag("MigrationError", (error) => Effect.fail(migrationFailed(name, error))),
          Effect.catchAllDefect((defect) => Effect.fail(migrationFailed(name, defect)))
        )
      )
    }).pipe(Effect.scoped)

    if (older) yield* checkReadable(database)
    else yield* prepareSchema(database, migrating ? Option.some(migration) : Option.none())
    return database
  })

/** A store on one Postgres database. */
export const postgresStoreAt = (
  url: Redacted.Redacted,
  options?: PgOptions
): Layer.Layer<Store, StoreUnavailable> =>
  Layer.scoped(Store, Effect.flatMap(openPostgres(url, options), makeStore))
