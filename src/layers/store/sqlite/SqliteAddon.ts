/** The driver of SQLite, a native addon: loaded when a SQLite file is opened, so that all else works without it. */
import type BetterSqlite3 from "better-sqlite3"
import * as Effect from "effect/Effect"
import { StoreUnavailable } from "../../../services/Store.ts"

/** Fails when the package is missing, or when its addon was built for another version of Node or another platform. */
export const loadAddon = (database: string): Effect.Effect<typeof BetterSqlite3, StoreUnavailable> =>
  Effect.tryPromise({
    try: async () => {
      const { default: Driver } = await import("better-sqlite3")
      // The package loads its addon with the first database.
      new Driver(":memory:").close()
      return Driver
    },
    catch: (error) => {
      const code =
        error instanceof Error && "code" in error && typeof error.code === "string" ? ` (${error.code})` : ""
      return new StoreUnavailable({
        database,
        kind: "other",
        details: {
          phrase: `cannot be opened: its driver better-sqlite3 does not load${code}`,
          fix: "run npm rebuild better-sqlite3 with this version of Node, or npm ci"
        }
      })
    }
  })
