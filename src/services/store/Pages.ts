/**
 * Pages of an operator's lists. A page continues after the last record of the previous one, so that new records neither repeat nor hide
 * another. Every list follows the order of an index.
 */
import type { Fragment } from "@effect/sql/Statement"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { snakeToCamel } from "effect/String"
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

/**
 * A page of rows. The columns `order` are an index and identify a row: their values are the cursor of the next page. One row
 * beyond the limit is read, which shows whether there is one.
 */
export const makeList =
  ({ read, sql }: Database) =>
  <A extends object, I>(
    name: string,
    row: Schema.Schema<A, I>,
    rows: Fragment,
    order: ReadonlyArray<string>,
    { after, limit }: PageRequest,
    conditions: ReadonlyArray<Fragment>,
    direction: "ASC" | "DESC" = "DESC"
  ) => {
    const types = order.map((column) => (column.endsWith("_at") ? Schema.Int : Schema.String))
    const decodeCursor = Schema.decodeUnknownEither(Schema.parseJson(Schema.Tuple(...types)))
    const beyond = sql.literal(`(${order.join(", ")}) ${direction === "ASC" ? ">" : "<"}`)
    const sorted = sql.literal(order.map((column) => `${column} ${direction}`).join(", "))
    const cursorOf = (item: A) => {
      const values = new Map(Object.entries(item))
      return Buffer.from(JSON.stringify(order.map((column) => values.get(snakeToCamel(column))))).toString(
        "base64url"
      )
    }
    return Effect.gen(function* () {
      const from = yield* Effect.forEach(Option.toArray(after), (cursor) =>
        Either.mapLeft(
          decodeCursor(Buffer.from(cursor, "base64url").toString("utf8")),
          () => new CursorInvalid()
        )
      )
      const clauses = [...conditions, ...from.map((values) => sql`${beyond} ${sql.in(values)}`)]
      const found = yield* read(
        `OperatorQueries.${name}`,
        all(row)(sql`SELECT ${rows} WHERE ${sql.and(clauses)} ORDER BY ${sorted} LIMIT ${limit + 1}`)
      )
      const items = found.slice(0, limit)
      const last = found.length > limit ? items.at(-1) : undefined
      return { items, next: Option.map(Option.fromNullable(last), cursorOf) }
    })
  }
