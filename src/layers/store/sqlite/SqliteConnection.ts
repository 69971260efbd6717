/** A connection whose statements run at once, with `@effect/sql` over it to compose them and to migrate. */
import * as Reactivity from "@effect/experimental/Reactivity"
import * as SqlClient from "@effect/sql/SqlClient"
import type { Connection } from "@effect/sql/SqlConnection"
import { SqlError } from "@effect/sql/SqlError"
import { defaultTransforms, makeCompilerSqlite } from "@effect/sql/Statement"
import type BetterSqlite3 from "better-sqlite3"
import type { Prepared } from "better-sqlite3"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { snakeToCamel } from "effect/String"

type Row = Readonly<Record<string, unknown>>

export interface SqliteConnection {
  readonly sql: SqlClient.SqlClient
  readonly execute: (
    text: string,
    values?: ReadonlyArray<unknown>
  ) => Either.Either<ReadonlyArray<Row>, SqlError>
  /** False after an error for which SQLite itself has rolled back. */
  readonly isInTransaction: () => boolean
}

/** Prepared statements that are kept. More than the program has, except for numbers of parameters. */
const preparedAtMost = 500

const noRows: ReadonlyArray<Row> = []

/** Opens the file, and closes it with the scope. `opening` translates its failure. */
export const openConnection = <E>(
  Driver: typeof BetterSqlite3,
  file: string,
  opening: (error: unknown) => E
): Effect.Effect<SqliteConnection, E, Scope.Scope> =>
  Effect.gen(function* () {
    const database = yield* Effect.acquireRelease(
      Effect.try({ try: () => new Driver(file), catch: opening }),
      (opened) => Effect.sync(() => opened.close())
    )

    /** The most recently used one is the last. SQLite prepares a statement again by itself after a change of the schema. */
    const prepared = new Map<string, Prepared>()
    const prepare = (text: string): Prepared => {
      const known = prepared.get(text)
      const statement = known ?? database.prepare(text)
      if (known !== undefined) prepared.delete(text)
      prepared.set(text, statement)
      if (prepared.size > preparedAtMost) {
        const [oldest] = prepared.keys()
        if (oldest !== undefined) prepared.delete(oldest)
      }
      return statement
    }

    const execute: SqliteConnection["execute"] = (text, values = []) => {
      try {
        const statement = prepare(text)
        if (statement.reader) return Either.right(statement.all(...values))
        statement.run(...values)
        return Either.right(noRows)
      } catch (cause) {
        return Either.left(new SqlError({ cause, message: "Failed to execute statement" }))
      }
    }

    const executeLater: Connection["execute"] = (text, values, transform) =>
      Effect.suspend(() =>
        Either.map(execute(text, values), (rows) => (transform === undefined ? rows : transform(rows)))
      )
    const connection: Connection = {
      execute: executeLater,
      executeUnprepared: executeLater,
      executeRaw: (text, values) => executeLater(text, values, undefined),
      executeValues: (text, values) =>
        Effect.map(executeLater(text, values, undefined), (rows) => rows.map((row) => Object.values(row))),
      executeStream: () => Stream.dieMessage("The store reads no streams")
    }
    const sql = yield* SqlClient.make({
      acquirer: Effect.succeed(connection),
      compiler: makeCompilerSqlite(),
      spanAttributes: [],
      transformRows: defaultTransforms(snakeToCamel).array
    }).pipe(Effect.provideServiceEffect(Reactivity.Reactivity, Reactivity.make))

    return { sql, execute, isInTransaction: () => database.inTransaction }
  })
