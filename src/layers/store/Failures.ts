/** The one place where what a database says becomes `StoreUnavailable`. Codes are told, values and statements never. */
import type { SqlError } from "@effect/sql/SqlError"
import type { ParseError } from "effect/ParseResult"
import { StoreUnavailable } from "../../services/Store.ts"

const locked = /^SQLITE_(?:BUSY|LOCKED)|^(?:55P03|40P01|40001)$/

/** Result codes of SQLite, system error codes, SQLSTATEs of Postgres; the first that fits counts. */
const troubles: ReadonlyArray<readonly [RegExp, string]> = [
  [/^SQLITE_READONLY_DBMOVED$|^ENOENT$/, "is gone: its file was moved or deleted"],
  [locked, "is locked by another process"],
  [/^SQLITE_FULL$|^(?:ENOSPC|EDQUOT)$|^53100$/, "is full: there is no room left for it"],
  [/^SQLITE_(?:READONLY|PERM|AUTH)|^(?:EROFS|EACCES|EPERM)$|^25006$/, "is read-only for this process"],
  [/^SQLITE_(?:CORRUPT|NOTADB|FORMAT)|^XX00[12]$/, "is corrupt, or is no database"],
  [/^SQLITE_(?:CANTOPEN|IOERR)|^(?:EISDIR|ENOTDIR|EEXIST|EIO)$/, "cannot be opened, read or written"],
  [/^(?:08|57P)|^E(?:CONN|HOST|NET|PIPE|TIMEDOUT|NOTFOUND|AI_)/, "does not answer"],
  [/^28/, "refuses the login"]
]

/** The code of the innermost error that has one. */
const codeOf = (error: unknown): string | undefined => {
  if (typeof error !== "object" || error === null) return undefined
  const inner = "cause" in error ? codeOf(error.cause) : undefined
  return inner ?? ("code" in error && typeof error.code === "string" ? error.code : undefined)
}

/** better-sqlite3 has no code for it. */
const isClosed = (error: unknown): boolean =>
  typeof error === "object" &&
  error !== null &&
  "cause" in error &&
  error.cause instanceof TypeError &&
  error.cause.message.includes("not open")

const troubleOf = (error: unknown): string => {
  const code = codeOf(error)
  if (code === undefined) return isClosed(error) ? "is closed" : "failed"
  const known = troubles.find(([pattern]) => pattern.test(code))
  return `${known === undefined ? "failed" : known[1]} (${code})`
}

export type DatabaseFailure = SqlError | ParseError | StoreUnavailable

/** Names the database, the kind of trouble and the operation, like `Spool.offer`. */
export const unavailable =
  (database: string, operation: string) =>
  (error: DatabaseFailure): StoreUnavailable => {
    switch (error._tag) {
      case "StoreUnavailable":
        return error
      case "ParseError":
        return new StoreUnavailable({
          reason: `${database} is corrupt: a row is not of the expected form, in ${operation}`
        })
      case "SqlError":
        return new StoreUnavailable({ reason: `${database} ${troubleOf(error)}, in ${operation}` })
    }
  }

/** Why a database did not open; `error` is whatever the driver or the file system raised. */
export const notOpened = (database: string, error: unknown): StoreUnavailable =>
  new StoreUnavailable({ reason: `${database} ${troubleOf(error)}` })

export const notMigrated = (database: string, error: unknown): StoreUnavailable =>
  new StoreUnavailable({
    reason: `${database} could not be brought to the schema of this version: it ${troubleOf(error)}`
  })

export const newerSchema = (database: string, found: number, known: number): StoreUnavailable =>
  new StoreUnavailable({
    reason: `${database} has a newer schema than this version of the program knows (${found}, known ${known}): start the version that made it, or use another database`
  })

export const missingSchema = (database: string): StoreUnavailable =>
  new StoreUnavailable({ reason: `${database} lacks migrations of this version` })

export const goneDatabase = (database: string): StoreUnavailable =>
  new StoreUnavailable({ reason: `${database} is gone: its file was moved or deleted` })

/** Somebody else was in the way, and nothing has been done. */
export const isLocked = (error: DatabaseFailure): boolean =>
  error._tag === "SqlError" && locked.test(codeOf(error) ?? "")
