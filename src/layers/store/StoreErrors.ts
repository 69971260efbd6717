/** Maps errors of a database, its driver or the file system to the kinds of `StoreUnavailable`. */
import type { SqlError } from "@effect/sql/SqlError"
import type { ParseError } from "effect/ParseResult"
import { type StoreFailureKind, StoreUnavailable } from "../../services/store/StoreUnavailable.ts"

/** Result codes of SQLite, system error codes and SQLSTATEs of Postgres; the first that fits counts. */
const codes: ReadonlyArray<readonly [RegExp, StoreFailureKind]> = [
  [/^(?:08|57P)|^(?:53300|57014|25P0[34])$|^E(?:CONN|HOST|NET|PIPE|TIMEDOUT|NOTFOUND|AI_)/, "unanswered"],
  [/^SQLITE_(?:BUSY|LOCKED)|^(?:55P03|40P01|40001)$/, "locked"],
  [/^SQLITE_(?:FULL|IOERR_SHMSIZE)$|^(?:ENOSPC|EDQUOT)$|^53100$/, "full"],
  [/^SQLITE_(?:CORRUPT|NOTADB|FORMAT)|^XX00[12]$/, "corrupt"]
]

/** The driver's messages of errors to which it gives no code: no connection, or no answer in time. */
const unanswered =
  /^(?:timeout exceeded|timeout expired|Query read timeout|Connection terminated|Connection ended|Client (?:has encountered|was closed))/

/** An error with its causes, the innermost first. */
const causesOf = (error: unknown): ReadonlyArray<object> =>
  typeof error === "object" && error !== null
    ? [...("cause" in error ? causesOf(error.cause) : []), error]
    : []

const hasCode = (error: object): error is { readonly code: string } =>
  "code" in error && typeof error.code === "string"

/** Whether the driver says so. A message is compared and never repeated: it may hold a value. */
const isUnanswered = (error: object): boolean => error instanceof Error && unanswered.test(error.message)

/** `error` is any error of a driver or the file system. */
const kindOf = (error: unknown): Pick<StoreUnavailable, "kind" | "code"> => {
  const causes = causesOf(error)
  const coded = causes.find(hasCode)
  if (coded === undefined) return { kind: causes.some(isUnanswered) ? "unanswered" : "other" }
  const { code } = coded
  // The socket of a server may be a file: a missing one means a server that is away, not a missing database.
  if ("syscall" in coded && coded.syscall === "connect") return { kind: "unanswered", code }
  return { kind: codes.find(([pattern]) => pattern.test(code))?.[1] ?? "other", code }
}

/** The server gives no further connection. */
export const isConnectionRefused = (error: unknown): boolean => kindOf(error).code === "53300"

export type DatabaseFailure = SqlError | ParseError | StoreUnavailable

/** `operation` is like `Spool.offer`. A `StoreUnavailable` that names its database is returned unchanged. */
export const toStoreUnavailable =
  (database: string, operation: string) =>
  (error: DatabaseFailure): StoreUnavailable => {
    switch (error._tag) {
      case "StoreUnavailable":
        return error.database === undefined ? new StoreUnavailable({ ...error, database, operation }) : error
      case "ParseError":
        return new StoreUnavailable({
          database,
          operation,
          kind: "other",
          details: {
            phrase: "is corrupt: a row has an unexpected form",
            fix: "find who changed the row: no version of the program writes such a row"
          }
        })
      case "SqlError":
        return new StoreUnavailable({ database, operation, ...kindOf(error) })
    }
  }

/** A database did not open. */
export const openFailed = (database: string, error: unknown): StoreUnavailable =>
  new StoreUnavailable({ database, ...kindOf(error) })

export const migrationFailed = (database: string, error: unknown): StoreUnavailable => {
  const { code, fix, kind, phrase } = openFailed(database, error)
  const details = { phrase: `could not be migrated to the schema of this version: it ${phrase}`, fix }
  return new StoreUnavailable({ database, kind, code, details })
}

/** A lock of another transaction prevented the access, which had no effect. */
export const isLocked = (error: DatabaseFailure): boolean =>
  error._tag === "SqlError" && kindOf(error).kind === "locked"

/** A result code of SQLite or a SQLSTATE, none of which begins with an E like the codes of the system. */
const answered = /^(?:SQLITE_\w+|(?!E)[\dA-Z]{5})$/

/**
 * The connection broke, or did not answer in time, or the error is not the database's own. A commit that was under way on it may have
 * succeeded.
 */
export const isConnectionLost = (error: DatabaseFailure): boolean => {
  if (error._tag !== "SqlError") return false
  const { code = "", kind } = kindOf(error)
  return !answered.test(code) || (kind === "unanswered" && code !== "57014")
}

/** The server accepts no writes any more: another one does. */
export const isStandby = (error: DatabaseFailure): boolean =>
  error._tag === "SqlError" && /^(?:25006|0A000)$/.test(kindOf(error).code ?? "")
