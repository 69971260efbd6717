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

/** What a list is of. The columns `order` are an index and identify a row. */
interface Listed<A, I> {
  readonly name: string
  readonly row: Schema.Schema<A, I>
  /** What follows SELECT. */
  readonly rows: Fragment
  readonly order: ReadonlyArray<string>
  /** `<` begins with the newest. */
  readonly next?: "<" | ">"
}

type Filter<A> = Option.Option<A> | undefined

/** Filters of a query, each of which may be missing. */
export type Filters<Name extends string, A = string> = { readonly [name in Name]?: Filter<A> }

/** A condition for a filter that is set. */
export const when = <A>(value: Filter<A>, clause: (value: A) => Fragment): ReadonlyArray<Fragment> =>
  value === undefined || Option.isNone(value) ? [] : [clause(value.value)]

interface Conditions {
  /** Milliseconds since the epoch, compared with the first column of the order. */
  readonly since?: Filter<number>
  /** Values of columns. */
  readonly equal?: Filters<string>
  readonly others?: ReadonlyArray<Fragment>
}

/**
 * A page of rows that fulfil all conditions. The values of the order are the cursor of the next page. One row beyond the limit is read, which
 * shows whether there is one.
 */
export const makeList =
  ({ read, sql }: Database) =>
  <A extends object, I>(
    { name, next = "<", order, row, rows }: Listed<A, I>,
    { after, limit }: PageRequest,
    { equal = {}, others = [], since }: Conditions
  ) => {
    const types = order.map((column) => (column.endsWith("_at") ? Schema.Int : Schema.String))
    const decodeCursor = Schema.decodeUnknown(
      Schema.compose(Schema.StringFromBase64Url, Schema.parseJson(Schema.Tuple(...types)))
    )
    const [oldest = ""] = order
    const sorted = order.map((column) => `${column} ${next === "<" ? "DESC" : "ASC"}`).join(", ")
    const cursorOf = (item: A) => {
      const values = new Map(Object.entries(item))
      const text = JSON.stringify(order.map((column) => values.get(snakeToCamel(column))))
      return Buffer.from(text).toString("base64url")
    }
    return Effect.gen(function* () {
      const from = yield* Effect.forEach(Option.toArray(after), (cursor) =>
        Effect.mapError(decodeCursor(cursor), () => new CursorInvalid())
      )
      const clauses = [
        ...others,
        ...Object.entries(equal).flatMap(([column, value]) =>
          when(value, (one) => sql`${sql(column)} = ${one}`)
        ),
        ...when(since, (time) => sql`${sql(oldest)} >= ${time}`),
        ...from.map((values) => sql`${sql.literal(`(${order.join(", ")}) ${next}`)} ${sql.in(values)}`)
      ]
      const found = yield* read(
        `OperatorQueries.${name}`,
        all(row)(
          sql`SELECT ${rows} WHERE ${sql.and(clauses)} ORDER BY ${sql.literal(sorted)} LIMIT ${limit + 1}`
        )
      )
      const items = found.slice(0, limit)
      const last = found.length > limit ? items.at(-1) : undefined
      return { items, next: Option.map(Option.fromNullable(last), cursorOf) }
    })
  }
