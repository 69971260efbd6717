/**
 * What a repository does with a statement that `@effect/sql` composed: run it on the connection of the current transaction. Not
 * `yield* sql`, which begins a span and takes a connection for each statement, and could leave the transaction.
 */
import { type SqlClient, TransactionConnection } from "@effect/sql/SqlClient"
import { defaultTransforms, type Statement } from "@effect/sql/Statement"
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { snakeToCamel } from "effect/String"
import type { DatabaseFailure } from "./StoreUnavailable.ts"

/** One or more statements, all of one transaction. */
export type Statements<A> = Effect.Effect<A, DatabaseFailure, TransactionConnection>

/** The columns of the statements of this program, so it stays small. */
const names = new Map<string, string>()

/** Columns have snake case in both databases, and camel case in the program. */
const toCamelCase = (column: string): string => {
  const name = names.get(column) ?? snakeToCamel(column)
  names.set(column, name)
  return name
}
const transformRows = defaultTransforms(toCamelCase, false).array

/** The rows of a statement, with the columns as the database names them. */
const execute = (statement: Statement<object>): Statements<ReadonlyArray<object>> =>
  Effect.flatMap(TransactionConnection, ([connection]) => {
    const [text, values] = statement.compile()
    return connection.execute(text, values, undefined)
  })

/**
 * A statement without a result. Postgres is not waited for: it need not be asked whether one of them succeeded before it gets the next,
 * since after a failure it changes nothing more, and its COMMIT rolls back.
 */
export const run = (statement: Statement<object>): Statements<void> =>
  Effect.flatMap(TransactionConnection, ([connection]) => {
    const [text, values] = statement.compile()
    return Effect.asVoid(connection.executeRaw(text, values))
  })

/** Queries in this order, which Postgres gets in one message. All are answered before this ends, because no transaction can be interrupted. */
export const together = <const All extends ReadonlyArray<Statements<unknown>>>(
  sql: SqlClient,
  queries: All
) =>
  Effect.all(queries, {
    concurrency: sql.onDialectOrElse({ pg: () => "unbounded" as const, orElse: () => 1 as const })
  })

/** The decoded rows of a statement. Row by row: a schema of all rows would be compiled again by each call. */
export const all = <A, I>(row: Schema.Schema<A, I>) => {
  const decode = Schema.decodeUnknownEither(row)
  return (statement: Statement<object>): Statements<ReadonlyArray<A>> =>
    Effect.flatMap(execute(statement), (rows) => Either.all(transformRows(rows).map((one) => decode(one))))
}

/** The decoded first row of a statement. */
export const first = <A, I>(row: Schema.Schema<A, I>) => {
  const rows = all(row)
  return (statement: Statement<object>): Statements<Option.Option<A>> => Effect.map(rows(statement), Arr.head)
}

/** The number of rows that a statement returned; with `RETURNING`, that it changed. */
export const count = (statement: Statement<object>): Statements<number> =>
  Effect.map(execute(statement), ({ length }) => length)

/** Whether a statement returned a row; with `RETURNING`, whether it changed one. */
export const any = (statement: Statement<object>): Statements<boolean> =>
  Effect.map(execute(statement), ({ length }) => length > 0)

/** Items of one statement; bounds its parameters and the number of prepared statements. */
const chunk = 100

/** Runs a statement for one chunk of the items after the other, and returns all rows. */
export const inChunks = <A, B>(
  items: ReadonlyArray<A>,
  query: (some: Arr.NonEmptyReadonlyArray<A>) => Statements<ReadonlyArray<B>>
): Statements<ReadonlyArray<B>> => Effect.map(Effect.forEach(Arr.chunksOf(items, chunk), query), Arr.flatten)

/** Runs a statement without a result for one chunk of the items after the other. */
export const runInChunks = <A>(
  items: ReadonlyArray<A>,
  statement: (some: Arr.NonEmptyReadonlyArray<A>) => Statement<object>
): Statements<void> =>
  Effect.forEach(Arr.chunksOf(items, chunk), (some) => run(statement(some)), { discard: true })
