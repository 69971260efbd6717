/**
 * Columns as both databases return them (Postgres gives 64-bit integers as text), and statements with decoded rows. Not
 * `SqlSchema`, which also encodes the request: the ports have types already.
 */
import type { SqlClient } from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import type { Fragment } from "@effect/sql/Statement"
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type { ParseError } from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { backendTable, clientTables } from "../../../schema/Telemetry.ts"

export const Whole = Schema.Union(Schema.Int, Schema.NumberFromString.pipe(Schema.int()))

/** 0 or 1. */
export const Flag = Schema.transform(Whole, Schema.Boolean, {
  strict: true,
  decode: (stored) => stored !== 0,
  encode: (flag) => toFlag(flag)
})
export const toFlag = (flag: boolean): number => (flag ? 1 : 0)

export const OptionalWhole = Schema.OptionFromNullOr(Whole)
export const OptionalText = Schema.OptionFromNullOr(Schema.String)

/** The tables of this version. The spool may hold records of others, which belong to a later version. */
export const knownTables = [...clientTables, backendTable] as const
export const Table = Schema.Literal(...knownTables)

/**
 * A condition that no index answers. SQLite prefers an index by equal values to one in the order of the result, and would then read and
 * sort all rows.
 */
export const isOneOf = (sql: SqlClient, column: string, values: ReadonlyArray<string>): Fragment =>
  sql`${sql(column)} || '' IN ${sql.in(values)}`

type Rows = Effect.Effect<ReadonlyArray<unknown>, SqlError>

/** Runs a statement and decodes its rows. */
export const all = <A, I>(schema: Schema.Schema<A, I>) => {
  const decode = Schema.decodeUnknown(Schema.Array(schema))
  return (rows: Rows): Effect.Effect<ReadonlyArray<A>, SqlError | ParseError> => Effect.flatMap(rows, decode)
}

/** Runs a statement and decodes its first row. */
export const first = <A, I>(schema: Schema.Schema<A, I>) => {
  const decode = Schema.decodeUnknown(schema)
  return (rows: Rows): Effect.Effect<Option.Option<A>, SqlError | ParseError> =>
    Effect.flatMap(rows, ([row]) => (row === undefined ? Effect.succeedNone : Effect.asSome(decode(row))))
}

/** Whether a statement returned a row; with `RETURNING`, whether it changed one. */
export const any = (rows: Rows): Effect.Effect<boolean, SqlError> =>
  Effect.map(rows, ({ length }) => length > 0)

/** Items of one statement; bounds its parameters and the number of prepared statements. */
const chunk = 100

/** Runs a statement for one chunk of the items after the other, and returns all rows. */
export const inChunks = <A, B, E>(
  items: ReadonlyArray<A>,
  run: (some: Arr.NonEmptyReadonlyArray<A>) => Effect.Effect<ReadonlyArray<B>, E>
): Effect.Effect<ReadonlyArray<B>, E> =>
  Effect.map(Effect.forEach(Arr.chunksOf(items, chunk), run), Arr.flatten)
