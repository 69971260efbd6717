/** Observes the drivers of both databases. */
import BetterSqlite3 from "better-sqlite3"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import pg from "pg"

/** Of all prepared statements; `source` is their text. */
const prepared: object = Object.getPrototypeOf(new BetterSqlite3(":memory:").prepare("SELECT 1"))

/** The text of each statement that is sent to either database and changes something, until the scope closes. */
export const recordStatements: Effect.Effect<ReadonlyArray<string>, never, Scope.Scope> = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => {
      const texts: Array<string> = []
      const record = (target: object, method: string, textOf: (self: unknown, first: unknown) => unknown) => {
        const original = Reflect.get(target, method)
        Reflect.set(target, method, function (this: unknown, ...given: ReadonlyArray<unknown>) {
          const text = textOf(this, given[0])
          if (typeof text === "string") texts.push(text)
          return Reflect.apply(original, this, given)
        })
        return () => Reflect.set(target, method, original)
      }
      const undo = [
        record(prepared, "run", (statement) =>
          typeof statement === "object" && statement !== null && "source" in statement ? statement.source : ""
        ),
        record(pg.Client.prototype, "query", (_, text) => text)
      ]
      return { texts, undo }
    }),
    ({ undo }) =>
      Effect.sync(() => {
        for (const restore of undo) restore()
      })
  ),
  ({ texts }) => texts
)
