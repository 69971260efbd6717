/**
 * Statements as values, which a database runs. The body of a write is a generator that yields them and gets their results, so
 * that a transaction costs its caller one effect. Not `SqlSchema`, which also encodes the request: the ports have types already.
 */
import type { SqlError } from "@effect/sql/SqlError"
import type { Statement } from "@effect/sql/Statement"
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as Option from "effect/Option"
import type { ParseError } from "effect/ParseResult"
import * as Schema from "effect/Schema"

/** Rows with the names of columns in camel case. */
export type Rows = ReadonlyArray<unknown>

/** What a body asks of its transaction. Only a statement whose rows are used has to be waited for. */
export type Step =
  | {
      readonly _tag: "Statement"
      readonly text: string
      readonly values: ReadonlyArray<unknown>
      readonly rowsUsed: boolean
    }
  | { readonly _tag: "Lock"; readonly name: string }
  | { readonly _tag: "Failure"; readonly error: ParseError }

/** A part of a transaction. A failed step ends it. */
export type Steps<A> = Generator<Step, A, Rows>

/** One statement with the meaning of its rows. In a body, `yield*` returns the result. */
export class Query<A> {
  constructor(
    readonly statement: Statement<object>,
    readonly decode: (rows: Rows) => Either.Either<A, ParseError>,
    readonly rowsUsed = true
  ) {}

  map<B>(change: (result: A) => B): Query<B> {
    return new Query(this.statement, (rows) => Either.map(this.decode(rows), change), this.rowsUsed)
  }

  *[Symbol.iterator](): Steps<A> {
    const [text, values] = this.statement.compile()
    const result = this.decode(yield { _tag: "Statement", text, values, rowsUsed: this.rowsUsed })
    return Either.isRight(result) ? result.right : yield* fail(result.left)
  }
}

function* fail(error: ParseError): Steps<never> {
  for (;;) yield { _tag: "Failure", error }
}

/** Takes the lock of this name, for all processes, until the transaction ends. */
export function* lock(name: string): Steps<void> {
  yield { _tag: "Lock", name }
}

const nothing = Either.right(undefined)

/** A statement without a result. */
export const run = (statement: Statement<object>): Query<void> => new Query(statement, () => nothing, false)

/** The decoded rows of a statement. */
export const all = <A, I>(schema: Schema.Schema<A, I>) => {
  const decode = Schema.decodeUnknownEither(schema)
  const decodeAll = (rows: Rows): Either.Either<ReadonlyArray<A>, ParseError> => {
    const decoded: Array<A> = []
    for (const row of rows) {
      const result = decode(row)
      if (Either.isLeft(result)) return Either.left(result.left)
      decoded.push(result.right)
    }
    return Either.right(decoded)
  }
  return (statement: Statement<object>): Query<ReadonlyArray<A>> => new Query(statement, decodeAll)
}

/** The decoded first row of a statement. */
export const first = <A, I>(schema: Schema.Schema<A, I>) => {
  const rows = all(schema)
  return (statement: Statement<object>): Query<Option.Option<A>> => rows(statement).map(Arr.head)
}

/** The number of rows that a statement returned; with `RETURNING`, that it changed. */
export const count = (statement: Statement<object>): Query<number> =>
  new Query(statement, (rows) => Either.right(rows.length))

/** Whether a statement returned a row; with `RETURNING`, whether it changed one. */
export const any = (statement: Statement<object>): Query<boolean> =>
  new Query(statement, (rows) => Either.right(rows.length > 0))

/** Items of one statement; bounds its parameters and the number of prepared statements. */
const chunk = 100

/** Runs a statement for one chunk of the items after the other, and returns all rows. */
export function* inChunks<A, B>(
  items: ReadonlyArray<A>,
  query: (some: Arr.NonEmptyReadonlyArray<A>) => Query<ReadonlyArray<B>>
): Steps<ReadonlyArray<B>> {
  const rows: Array<B> = []
  for (const some of Arr.chunksOf(items, chunk)) rows.push(...(yield* query(some)))
  return rows
}

/** Runs a statement without a result for one chunk of the items after the other. */
export function* runInChunks<A>(
  items: ReadonlyArray<A>,
  statement: (some: Arr.NonEmptyReadonlyArray<A>) => Statement<object>
): Steps<void> {
  for (const some of Arr.chunksOf(items, chunk)) yield* run(statement(some))
}

/** Runs a query by the client of its statement, for programs that open a file without a `Database`. */
export const runByClient = <A>({ decode, statement }: Query<A>): Effect.Effect<A, SqlError | ParseError> =>
  Effect.flatMap(statement, decode)
