/**
 * Pages of an operator's lists. A page continues after the last record of the previous one, so that new records neither repeat nor hide
 * another. Every list follows the order of an index.
 */
import type { Fragment } from "@effect/sql/Statement"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { snakeToCamel } from "effect/String"
import * as Struct from "effect/Struct"
import type { Database } from "./Database.ts"
import { all } from "./Statements.ts"

/** `after` is no cursor of this list. */
export class CursorInvalid extends Data.TaggedError("CursorInvalid") {}

export interface PageRequest {
  /** At least 1. */
  readonly limit: number
  /** The `next` of the previous page. */
  readonly after: Option.Option<string>
}

export interface Page<A> {
  readonly items: ReadonlyArray<A>
  /** Cursor of the next page; none when this is the last one. */
  readonly next: Option.Option<string>
}

/** What a list is of. */
interface Listed<A, I, F> {
  readonly row: Schema.Schema<A, I>
  /** What follows SELECT. */
  readonly rows: Fragment
  /** Columns that are an index and identify a row. Their values are the cursor. */
  readonly order: ReadonlyArray<string>
  /** `<` begins with the newest. */
  readonly next?: "<" | ">"
  /** The condition that each filter sets. */
  readonly filters: { readonly [name in keyof F]: (value: F[name]) => Fragment }
}

/**
 * Makes a function that reads a page of the rows that fulfil the given filters. One row beyond the limit is read, which shows whether there
 * is a next page.
 */
export const makeList =
  ({ read, sql }: Database) =>
  <A extends object, I, F>(name: string, { filters, next = "<", order, row, rows }: Listed<A, I, F>) => {
    const decodeRows = all(row)
    const types = order.map((column) => (column.endsWith("_at") ? Schema.Int : Schema.String))
    const decodeCursor = Schema.decodeUnknown(
      Schema.compose(Schema.StringFromBase64Url, Schema.parseJson(Schema.Tuple(...types)))
    )
    const sorted = order.map((column) => `${column} ${next === "<" ? "DESC" : "ASC"}`).join(", ")
    const cursorOf = (item: A) => {
      const values = new Map(Object.entries(item))
      const text = JSON.stringify(order.map((column) => values.get(snakeToCamel(column))))
      return Buffer.from(text).toString("base64url")
    }

    return (given: { readonly [name in keyof F]?: Option.Option<F[name]> }, { after, limit }: PageRequest) =>
      Effect.gen(function* () {
        const from = yield* Effect.forEach(Option.toArray(after), (cursor) =>
          Effect.mapError(decodeCursor(cursor), () => new CursorInvalid())
        )
        const clauses = [
          ...Struct.keys(filters).flatMap((filter) =>
            Option.toArray(Option.map(given[filter] ?? Option.none(), filters[filter]))
          ),
          ...from.map((values) => sql`${sql.literal(`(${order.join(", ")}) ${next}`)} ${sql.in(values)}`)
        ]
        const found = yield* decodeRows(
          sql`SELECT ${rows} WHERE ${sql.and(clauses)} ORDER BY ${sql.literal(sorted)} LIMIT ${limit + 1}`
        ).pipe(read(`OperatorQueries.${name}`))
        const items = found.slice(0, limit)
        const last = found.length > limit ? items.at(-1) : undefined
        return { items, next: Option.map(Option.fromNullable(last), cursorOf) }
      })
  }
