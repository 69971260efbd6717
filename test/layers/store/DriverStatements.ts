/** Records the statements that a database driver gets, whatever code sends them. */
import { createRequire } from "node:module"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import pg from "pg"
import type { Kind } from "./Stores.ts"

/** The values of the first execution, by text. SQLite's driver gets them apart from the text, so they are not known. */
export type Statements = Map<string, ReadonlyArray<unknown>>

type Method = (this: object, ...given: ReadonlyArray<unknown>) => unknown

/** Replaces a method of a class until the scope closes. */
const replaced = (
  prototype: object,
  name: string,
  before: (given: ReadonlyArray<unknown>) => void
): Effect.Effect<void, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const original: Method = Reflect.get(prototype, name)
      const observed: Method = function (...given) {
        before(given)
        return Reflect.apply(original, this, given)
      }
      Reflect.set(prototype, name, observed)
      return original
    }),
    (original) => Effect.sync(() => Reflect.set(prototype, name, original))
  )

/** What `pg` accepts: a text and values, or an object of both. */
const queryOf = ([first, second]: ReadonlyArray<unknown>) => {
  const text: unknown = typeof first === "string" ? first : Reflect.get(Object(first), "text")
  const values: unknown = typeof first === "string" ? second : Reflect.get(Object(first), "values")
  return { text, values: Array.isArray(values) ? values : [] }
}

/** Statements that read or write rows, from now on until the scope closes. */
export const recordStatements = ({ name }: Kind): Effect.Effect<Statements, never, Scope.Scope> =>
  Effect.gen(function* () {
    const statements: Statements = new Map()
    const record = (text: unknown, values: ReadonlyArray<unknown>) => {
      if (typeof text !== "string") return
      // Several statements may leave together.
      for (const part of text.split(/;\s*/))
        if (/^\s*(?:SELECT|UPDATE|DELETE|INSERT|WITH)/.test(part) && !statements.has(part))
          statements.set(part, values)
    }
    if (name === "SQLite") {
      const driver: { readonly prototype: object } = createRequire(import.meta.url)("better-sqlite3")
      yield* replaced(driver.prototype, "prepare", ([text]) => record(text, []))
    } else {
      yield* replaced(pg.Client.prototype, "query", (given) => {
        const { text, values } = queryOf(given)
        record(text, values)
      })
    }
    return statements
  })
