/** Columns as both databases return them. */
import type { SqlClient } from "@effect/sql/SqlClient"
import type { Fragment } from "@effect/sql/Statement"
import * as Schema from "effect/Schema"
import { clientTables } from "../../schema/Telemetry.ts"

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
