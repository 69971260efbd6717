/** The shared store: a Postgres database, for several processes on several machines. */
import * as Reactivity from "@effect/experimental/Reactivity"
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { snakeToCamel } from "effect/String"
import pg from "pg"
import { StoreUnavailable } from "../../../services/Store.ts"
import { type Database, makeAccess, makeDatabase } from "../Database.ts"
import { first } from "../Query.ts"
import { openFailed } from "../StoreErrors.ts"
import { migrate, type OpenedDatabase, prepareSchema } from "../migrations/Migrations.ts"
import { migrateInTransaction, pgDialect } from "./PgDialect.ts"
import { makeConnections, openPool } from "./PgPool.ts"
import { beginOf } from "./PgTransactions.ts"
import { Whole } from "../repositories/Rows.ts"

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
export const defaultTimeouts = {
  connect: 5_000,
  /** Enforced by the server. */
  statement: 10_000,
  lock: 2_000,
  /** Frees the locks of a process that hangs. */
  idleInTransaction: 15_000,
  /** For a server that does not enforce its own timeout. */
  answer: 11_000,
  close: 5_000
}

/** Milliseconds. A migration of a large table may take long, and waits for the migrations of another process. */
const unhurriedLimits = { statement_timeout: 0, lock_timeout: 600_000 }

/** PostgreSQL 14, in the form of `server_version_num`. */
const oldestServer = 140_000

/** Parses as the driver does; parameters of the address, such as `sslmode` or `application_name`, take precedence. */
const parse = (url: Redacted.Redacted): pg.Client => new pg.Client({ connectionString: Redacted.value(url) })

const nameOf = ({ database = "", host, port }: pg.Client): string =>
  `Postgres database ${host.includes(":") ? `[${host}]` : host}:${port}/${database}`

const clientOf = (pool: pg.Pool, opening: (error: unknown) => StoreUnavailable) =>
  PgClient.fromPool({ transformResultNames: snakeToCamel, acquire: Effect.succeed(pool) }).pipe(
    Effect.provideServiceEffect(Reactivity.Reactivity, Reactivity.make),
    Effect.mapError(opening)
  )

const Server = Schema.Struct({ version: Schema.String, number: Whole, encoding: Schema.String })

/** Fails for a server that is too old, or stores text in another encoding. */
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
        const refuse = (phrase: string, fix: string) =>
          new StoreUnavailable({ database: name, kind: "other", details: { phrase, fix } })
        if (number < oldestServer)
          return refuse(`is on PostgreSQL ${version}: 14 or newer is needed`, "use a newer PostgreSQL")
        return encoding === "UTF8"
          ? Effect.void
          : refuse(
              `stores text as ${encoding}, which lacks characters: UTF8 is needed`,
              "create a database with ENCODING 'UTF8'"
            )
      }
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
      try: () => nameOf(parse(url)),
      catch: () =>
        new StoreUnavailable({
          database: "The address of the Postgres database, or a file that it names,",
          kind: "other",
          details: { phrase: "cannot be read", fix: "correct MUSIC_DATABASE_URL" }
        })
    })
    const opening = (error: unknown) => openFailed(name, error)

    const address = Redacted.value(url)
    const limits = {
      statement_timeout: timeouts.statement,
      lock_timeout: timeouts.lock,
      idle_in_transaction_session_timeout: timeouts.idleInTransaction
    }
    /** Poolers know `application_name`. */
    const client: pg.ClientConfig = {
      connectionString: address,
      application_name: "music-backend",
      connectionTimeoutMillis: timeouts.connect,
      keepAlive: true
    }
    const pool = yield* openPool(
      { ...client, max: connections, idleTimeoutMillis: 30_000, query_timeout: timeouts.answer },
      timeouts.close
    )
    const sql = yield* clientOf(pool, opening)
    const dialect = pgDialect(makeConnections(pool, timeouts.connect), sql, beginOf(address, limits))
    const database = makeDatabase(sql, { name, lockWait, dialect })

    yield* checkServer(database)

    /** On a connection of its own, whose answers may take long. */
    const migration = Effect.gen(function* () {
      const unhurried = yield* openPool({ ...client, max: 1 }, timeouts.close)
      const migrating = yield* clientOf(unhurried, opening)
      yield* makeAccess({ name, lockWait })("Store.migrate", () =>
        migrateInTransaction(
          migrating,
          beginOf(address, { ...limits, ...unhurriedLimits }),
          "music_backend migrations",
          migrate(migrating, name)
        )
      )
    }).pipe(Effect.scoped)

    const schema = yield* prepareSchema(database, migrates ? Option.some(migration) : Option.none())
    return { ...database, schema }
  })
