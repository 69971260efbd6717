/** Columns as both databases return them. */
import type { SqlClient } from "@effect/sql/SqlClient"
import type { Fragment, Statement } from "@effect/sql/Statement"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Record from "effect/Record"
import * as Schema from "effect/Schema"
import { camelToSnake } from "effect/String"
import { clientTables } from "../../schema/Telemetry.ts"
import { first, type Statements } from "./Statements.ts"

export const Whole = Schema.Int

/** 0 or 1. */
export const Flag = Schema.transform(Whole, Schema.Boolean, {
  strict: true,
  decode: (stored) => stored !== 0,
  encode: (flag) => toFlag(flag)
})
export const toFlag = (flag: boolean): number => (flag ? 1 : 0)

export const OptionalWhole = Schema.OptionFromNullOr(Whole)
export const OptionalText = Schema.OptionFromNullOr(Schema.String)

export const Table = Schema.Literal(...clientTables)

/** For an upsert: what it sets of an existing row. */
export const overwritten = (sql: SqlClient, ...columns: ReadonlyArray<string>): Fragment =>
  sql.literal(columns.map((column) => `${column} = excluded.${column}`).join(", "))

/** The decoded `value` of the first row of a statement. */
export const valueOf = <A, I>(column: Schema.Schema<A, I>) => {
  const row = first(Schema.Struct({ value: column }))
  return (statement: Statement<object>): Statements<Option.Option<A>> =>
    Effect.map(
      row(statement),
      Option.map(({ value }) => value)
    )
}

const columns = new Map<string, string>()
const toColumn = (name: string): string => {
  const column = columns.get(name) ?? camelToSnake(name)
  columns.set(name, column)
  return column
}

/** For an INSERT: columns and values of one or more rows, which have the program's names. */
export const values = (
  sql: SqlClient,
  ...rows: ReadonlyArray<Readonly<Record<string, string | number | null>>>
) => sql.insert(rows.map((row) => Record.mapKeys(row, toColumn)))
