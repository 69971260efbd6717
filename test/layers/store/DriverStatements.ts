/** Records the statements that the database drivers execute, whatever code sends them. */
import BetterSqlite3 from "better-sqlite3"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import pg from "pg"

export interface Executed {
  readonly text: string
  readonly values: ReadonlyArray<unknown>
}

/** Of all prepared statements of SQLite; `source` is their text. */
const prepared: object = Object.getPrototypeOf(new BetterSqlite3(":memory:").prepare("SELECT 1"))

/** What `pg` accepts: a text and values, or an object of both. */
const ofPostgres = (_: unknown, [first, second]: ReadonlyArray<unknown>) =>
  typeof first === "string"
    ? { text: first, values: second }
    : { text: Reflect.get(Object(first), "text"), values: Reflect.get(Object(first), "values") }

const ofSqlite = (statement: unknown, values: ReadonlyArray<unknown>) => ({
  text: Reflect.get(Object(statement), "source"),
  values
})

const methods = [
  ...(["run", "all"] as const).map((name) => [prepared, name, ofSqlite] as const),
  [pg.Client.prototype, "query", ofPostgres] as const
]

/** In order of execution, from now on until the scope closes. */
export const recordStatements: Effect.Effect<ReadonlyArray<Executed>, never, Scope.Scope> = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => {
      const executed: Array<Executed> = []
      const restore = methods.map(([target, name, statementOf]) => {
        const original = Reflect.get(target, name)
        Reflect.set(target, name, function (this: unknown, ...given: ReadonlyArray<unknown>) {
          const { text, values } = statementOf(this, given)
          if (typeof text === "string") executed.push({ text, values: Array.isArray(values) ? values : [] })
          return Reflect.apply(original, this, given)
        })
        return () => Reflect.set(target, name, original)
      })
      return { executed, restore }
    }),
    ({ restore }) =>
      Effect.sync(() => {
        for (const undo of restore) undo()
      })
  ),
  ({ executed }) => executed
)

/** Several statements may leave together. */
export const commitsIn = (executed: ReadonlyArray<Executed>): number =>
  executed.filter(({ text }) => text.endsWith("COMMIT")).length
