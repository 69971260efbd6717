/** Temporary databases of both kinds and their stores: the one place of the tests that knows how a store is made. */
import { join } from "node:path"
import * as Reactivity from "@effect/experimental/Reactivity"
import * as SqliteClient from "@effect/sql-sqlite-node/SqliteClient"
import type { SqlClient } from "@effect/sql/SqlClient"
import { Effect, Layer, Logger, LogLevel, Option, Redacted, type Scope, TestServices } from "effect"
import pg from "pg"
import { describe, inject } from "vitest"
import type { OpenedDatabase } from "../../../src/layers/store/migrations/Migrations.ts"
import { openPostgres, type PgOptions } from "../../../src/layers/store/postgres/PgStore.ts"
import { makeOperatorQueries } from "../../../src/services/store/OperatorQueries.ts"
import { makeStore } from "../../../src/layers/store/StoreHealth.ts"
import { openDatabase } from "../../../src/layers/store/sqlite/SqliteStore.ts"
import { databaseFromSettings, StoreFromSettings } from "../../../src/layers/store/StoreFromSettings.ts"
import { Drain } from "../../../src/services/Drain.ts"
import type { OperatorQueriesService } from "../../../src/services/store/OperatorQueries.ts"
import { Settings, type SettingsValues } from "../../../src/services/Settings.ts"
import { Store, type StoreService, type StoreUnavailable } from "../../../src/services/Store.ts"
import { migratedFile, temporaryFolder } from "../../world/SqliteTemplate.ts"
import { freshDatabase } from "../../world/Postgres.ts"

type Row = Record<string, unknown>

/** Limits that a test lowers; SQLite knows the wait for a lock only. */
export type OpenOptions = Pick<PgOptions, "connections" | "lockWait" | "timeouts">

/** A store, the connection that it uses, and an operator's queries on it. */
export interface Opened extends StoreService {
  readonly sql: SqlClient
  readonly read: OpenedDatabase["read"]
  readonly write: OpenedDatabase["write"]
  readonly queries: OperatorQueriesService
}

/** One of the two databases; a place is a file path or the URL of a Postgres database. */
export interface Kind {
  readonly name: "SQLite" | "Postgres"
  /** A place without a schema. */
  readonly emptyPath: Effect.Effect<string, never, Scope.Scope>
  /** A place for a store. */
  readonly freshPath: Effect.Effect<string, never, Scope.Scope>
  /** The same when the test changes the schema or its settings. */
  readonly ownPath: Effect.Effect<string, never, Scope.Scope>
  /** Open until the scope closes. */
  readonly openStore: (
    place: string,
    options?: OpenOptions
  ) => Effect.Effect<Opened, StoreUnavailable, Scope.Scope>
  readonly freshStore: Effect.Effect<StoreService, StoreUnavailable, Scope.Scope>
  /** Opens, uses, closes. */
  readonly withStore: <A, E>(
    place: string,
    use: (store: StoreService) => Effect.Effect<A, E>
  ) => Effect.Effect<A, E | StoreUnavailable>
  /** Runs statements on a connection of another program, separated by semicolons at line ends. */
  readonly rawQuery: (place: string, statement: string) => Effect.Effect<ReadonlyArray<Row>>
}

const opened = <R>(database: Effect.Effect<OpenedDatabase, StoreUnavailable, R>) =>
  Effect.flatMap(database, (found) =>
    Effect.map(
      makeStore(found),
      (store): Opened => ({
        ...store,
        sql: found.sql,
        read: found.read,
        write: found.write,
        queries: makeOperatorQueries(found)
      })
    )
  )

const kind = (given: Omit<Kind, "freshStore" | "withStore">): Kind => ({
  ...given,
  freshStore: Effect.flatMap(given.freshPath, given.openStore),
  withStore: (place, use) => Effect.scoped(Effect.flatMap(given.openStore(place), use))
})

export const folder = temporaryFolder

/** A connection of another program: none of the store's rules apply to it. */
export const rawClient = (path: string) =>
  SqliteClient.make({ filename: path, disableWAL: true }).pipe(
    Effect.provideServiceEffect(Reactivity.Reactivity, Reactivity.make)
  )

const statementsOf = (script: string) => script.split(/;$/m).filter((statement) => statement.trim() !== "")

/** The path of a file that is not there yet. */
export const newPath = Effect.map(folder, (path) => join(path, "music.sqlite"))

export const sqlite: Kind = kind({
  name: "SQLite",
  emptyPath: newPath,
  freshPath: migratedFile,
  ownPath: migratedFile,
  openStore: (path, { lockWait = 5_000 } = {}) => opened(openDatabase(path, { lockWait })),
  rawQuery: (path, script) =>
    Effect.scoped(
      Effect.gen(function* () {
        const sql = yield* rawClient(path)
        const results = yield* Effect.forEach(statementsOf(script), (statement) => sql.unsafe<Row>(statement))
        return results.at(-1) ?? []
      })
    ).pipe(Effect.orDie)
})

const ownPlace = (template?: string) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(() => freshDatabase(inject("postgres").server, template)),
      ({ drop }) => Effect.promise(drop)
    ),
    ({ url }) => url
  )

/** Databases that are no longer in use. They are removed with their server. */
const free: Array<string> = []

const clean = (url: string) =>
  withPgClient(url, async (client) => {
    const { rows } = await client.query<{ readonly clean: string }>(`
      SELECT string_agg('DELETE FROM ' || tablename, ';') AS clean FROM pg_tables
      WHERE schemaname = 'public' AND tablename <> 'migrations'`)
    await client.query(rows[0]?.clean ?? "")
  })

/** A used database is emptied, which is faster than creating one. A test that changes the schema takes `ownPath`. */
const cleanPlace = Effect.acquireRelease(
  Effect.suspend(() => {
    const used = free.pop()
    if (used !== undefined) return Effect.as(clean(used), used)
    const { server, template } = inject("postgres")
    return Effect.map(
      Effect.promise(() => freshDatabase(server, template)),
      ({ url }) => url
    )
  }),
  (url) => Effect.sync(() => free.push(url))
)

/** BIGINT and its sums as numbers, so that both kinds return the same rows. */
const wide: ReadonlyArray<number> = [pg.types.builtins.INT8, pg.types.builtins.NUMERIC]
const types: pg.CustomTypesConfig = {
  getTypeParser: (id: number, format?: "text" | "binary") =>
    wide.includes(id) ? Number : pg.types.getTypeParser(id, format)
}

export const withPgClient = <A>(url: string, use: (client: pg.Client) => Promise<A>): Effect.Effect<A> =>
  Effect.acquireUseRelease(
    Effect.promise(async () => {
      const client = new pg.Client({ connectionString: url, types })
      client.on("error", () => undefined)
      await client.connect()
      return client
    }),
    (client) => Effect.promise(() => use(client)),
    (client) => Effect.promise(() => client.end())
  )

export const postgres: Kind = kind({
  name: "Postgres",
  emptyPath: ownPlace(),
  ownPath: Effect.suspend(() => ownPlace(inject("postgres").template)),
  freshPath: cleanPlace,
  // Background work of the store uses the real clock.
  openStore: (url, options) =>
    TestServices.provideLive(
      Logger.withMinimumLogLevel(opened(openPostgres(Redacted.make(url), options)), LogLevel.None)
    ),
  rawQuery: (url, script) =>
    withPgClient(url, async (client) => {
      const rows: Array<Row> = []
      for (const statement of statementsOf(script))
        rows.splice(0, rows.length, ...(await client.query<Row>(statement)).rows)
      return rows
    })
})

/** Opens a database of either kind without migrations, like a command that only reads. */
export const openUnmigrated = (place: string) =>
  databaseFromSettings(
    place.startsWith("postgres:")
      ? { databasePath: "", databaseUrl: Option.some(Redacted.make(place)) }
      : { databasePath: place, databaseUrl: Option.none() },
    { migrate: false }
  )

/** The store of a server. */
export const storeOf = (settings: SettingsValues) =>
  Effect.flatMap(
    Layer.build(StoreFromSettings.pipe(Layer.provide([Layer.succeed(Settings, settings), Drain.Default]))),
    (context) => Effect.provide(Store, context)
  )

/** The same tests on both databases. */
export const onBoth = (subject: string, tests: (kind: Kind) => void): void => {
  for (const one of [sqlite, postgres]) describe(`${subject}, ${one.name}`, () => tests(one))
}

/** For tests that need only one of the databases. */
export const { freshPath, freshStore, openStore, rawQuery, withStore } = sqlite
