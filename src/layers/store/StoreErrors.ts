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
  [
    /^SQLITE_(?:READONLY|PERM|AUTH)|^(?:EROFS|EACCES|EPERM)$|^(?:25006|0A000)$/,
    "is read-only for this process"
  ],
  [/^SQLITE_(?:CORRUPT|NOTADB|FORMAT)|^XX00[12]$/, "is corrupt, or is no database"],
  [/^SQLITE_(?:CANTOPEN|IOERR)|^(?:EISDIR|ENOTDIR|EEXIST|EIO)$/, "cannot be opened, read or written"],
  [/^(?:08|57P)|^E(?:CONN|HOST|NET|PIPE|TIMEDOUT|NOTFOUND|AI_)/, "does not answer"],
  [/^28/, "refuses the login"],
  [/^3D000$/, "does not exist"],
  [/^42501$/, "does not allow this to its user"],
  [/^53300$/, "takes no more connections"],
  [/^(?:57014|25P0[34])$/, "took too long"],
  [/CERT|^(?:ERR_(?:TLS|SSL)_|ERR_OSSL_|EPROTO)/, "cannot be trusted: TLS failed"]
]

/** The disk or a right is missing: the next write of the kind fails as well. Not so a lock, or a connection that broke. */
const lasting =
  /^SQLITE_(?:FULL|IOERR|READONLY|PERM|AUTH|CORRUPT)|^(?:ENOSPC|EDQUOT|EROFS|EACCES|EPERM|EIO)$|^(?:53100|42501|XX00[12])$/

/** What the drivers say without a code. */
const speechless: ReadonlyArray<readonly [RegExp, string]> = [
  [/not open|after calling end/, "is closed"],
  [/^(?:timeout exceeded|timeout expired|Query read timeout)/, "does not answer in time"],
  [/^(?:Connection terminated|Client (?:has encountered|was closed)|Connection ended)/, "does not answer"],
  [/^The server does not support SSL/, "does not speak TLS"],
  [/^SASL|assword/, "refuses the login"]
]

/** The innermost error that has a code. */
const codedIn = (error: unknown): { readonly code: string; readonly connecting: boolean } | undefined => {
  if (typeof error !== "object" || error === null) return undefined
  const inner = "cause" in error ? codedIn(error.cause) : undefined
  if (inner !== undefined) return inner
  return "code" in error && typeof error.code === "string"
    ? { code: error.code, connecting: "syscall" in error && error.syscall === "connect" }
    : undefined
}

const codeOf = (error: unknown): string | undefined => codedIn(error)?.code

/** The innermost error's own words: only to be compared, never told. */
const wordsOf = (error: unknown): string => {
  if (typeof error !== "object" || error === null) return ""
  const inner = "cause" in error ? wordsOf(error.cause) : ""
  return inner !== "" ? inner : error instanceof Error ? error.message : ""
}

const troubleOf = (error: unknown): string => {
  const coded = codedIn(error)
  if (coded === undefined) {
    const words = wordsOf(error)
    return speechless.find(([pattern]) => pattern.test(words))?.[1] ?? "failed"
  }
  // A socket may be a file.
  if (coded.connecting) return `does not answer (${coded.code})`
  const known = troubles.find(([pattern]) => pattern.test(coded.code))
  return `${known === undefined ? "failed" : known[1]} (${coded.code})`
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
        return new StoreUnavailable({
          reason: `${database} ${troubleOf(error)}, in ${operation}`,
          ...(lasting.test(codeOf(error) ?? "") ? { lasting: true } : {})
        })
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

export const olderSchema = (database: string, found: number, known: number): StoreUnavailable =>
  new StoreUnavailable({
    reason: `${database} has an older schema than this version of the program needs (${found}, needed ${known}): run music-backend migrate, or start the backend once`
  })

export const olderServer = (database: string, found: string): StoreUnavailable =>
  new StoreUnavailable({ reason: `${database} is on PostgreSQL ${found}: 14 or newer is needed` })

export const otherEncoding = (database: string, found: string): StoreUnavailable =>
  new StoreUnavailable({
    reason: `${database} stores text as ${found}, which lacks characters: UTF8 is needed`
  })

export const unreadableAddress = (): StoreUnavailable =>
  new StoreUnavailable({
    reason: "The address of the Postgres database, or a file that it names, cannot be read"
  })

export const absentDatabase = (database: string): StoreUnavailable =>
  new StoreUnavailable({
    reason: `${database} does not exist: run music-backend migrate, or start the backend once`
  })

export const missingSchema = (database: string): StoreUnavailable =>
  new StoreUnavailable({ reason: `${database} lacks migrations of this version` })

export const foreignDatabase = (database: string): StoreUnavailable =>
  new StoreUnavailable({ reason: `${database} belongs to another program: name another file` })

export const closedDatabase = (database: string): StoreUnavailable =>
  new StoreUnavailable({ reason: `${database} is closed` })

export const failingWrites = (database: string): StoreUnavailable =>
  new StoreUnavailable({ reason: `${database} fails writes, though it takes small ones` })

export const goneDatabase = (database: string): StoreUnavailable =>
  new StoreUnavailable({ reason: `${database} is gone: its file was moved or deleted` })

/** Somebody else was in the way, and nothing has been done. */
export const isLocked = (error: DatabaseFailure): boolean =>
  error._tag === "SqlError" && locked.test(codeOf(error) ?? "")

/** SQLSTATEs have five characters and never begin like the names of system errors. */
const sqlState = /^(?!E)[0-9A-Z]{5}$/
/** A standby calls a transaction that writes a feature that it does not have (0A000). */
const ending = /^(?:08|57P|25P|25006$|0A000$)/

/**
 * The connection is of no more use: it broke, it did not answer in time, or a server that only reads now is at its other end.
 * What was being committed on it may have been committed.
 */
export const isLost = (error: DatabaseFailure): boolean => {
  if (error._tag !== "SqlError") return false
  const code = codeOf(error)
  return code === undefined || !sqlState.test(code) || ending.test(code)
}
