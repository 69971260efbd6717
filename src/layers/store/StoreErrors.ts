/** Maps errors of a database, its driver or the file system to the problems of `StoreUnavailable`. */
import type { SqlError } from "@effect/sql/SqlError"
import type { ParseError } from "effect/ParseResult"
import {
  type DriverProblem,
  type StoreProblem,
  StoreUnavailable
} from "../../services/store/StoreUnavailable.ts"

type Kind = DriverProblem["kind"]

/** The code of an access that waited in vain for one of this process's connections. */
export const waitExceeded = "POOL_TIMEOUT"

/** Result codes of SQLite, system error codes, SQLSTATEs of Postgres, and our own; the first that fits counts. */
const codes: ReadonlyArray<readonly [RegExp, Kind]> = [
  [/^SQLITE_READONLY_DBMOVED$|^ENOENT$/, "gone"],
  [/^SQLITE_(?:BUSY|LOCKED)|^(?:55P03|40P01|40001)$/, "locked"],
  [/^SQLITE_FULL$|^(?:ENOSPC|EDQUOT)$|^53100$/, "full"],
  [/^SQLITE_(?:READONLY|PERM|AUTH)|^(?:EROFS|EACCES|EPERM)$/, "read_only"],
  // A standby refuses a transaction that writes as an unsupported feature (0A000).
  [/^(?:25006|0A000)$/, "standby"],
  [/^SQLITE_(?:CORRUPT|NOTADB|FORMAT)|^XX00[12]$/, "corrupt"],
  [/^SQLITE_IOERR|^EIO$/, "io_failed"],
  [/^SQLITE_CANTOPEN|^(?:EISDIR|ENOTDIR|EEXIST|ELOOP|ENAMETOOLONG)$/, "not_openable"],
  [/^(?:08|57P)|^E(?:CONN|HOST|NET|PIPE|TIMEDOUT|NOTFOUND|AI_)/, "unreachable"],
  [/^28/, "login_refused"],
  [/^3D000$/, "no_such_database"],
  [/^42501$/, "not_permitted"],
  [/^53300$/, "too_many_connections"],
  [/^(?:57014|25P0[34])$/, "canceled"],
  [new RegExp(`^${waitExceeded}$`), "timed_out"],
  [/CERT|^(?:ERR_(?:TLS|SSL)_|ERR_OSSL_|EPROTO)/, "untrusted"]
]

/** pgbouncer gives one code, of a broken protocol, to all errors of its own. */
const poolerCode = "08P01"
const poolerMessages: ReadonlyArray<readonly [RegExp, Kind]> = [
  [/^no more connections|too many (?:clients|connections)/, "too_many_connections"],
  [/^unsupported startup parameter/, "parameter_refused"]
]

/** Errors to which the drivers give no code, by the drivers' messages. */
const messages: ReadonlyArray<readonly [RegExp, Kind]> = [
  [/not open|after calling end/, "closed"],
  [/^(?:timeout exceeded|timeout expired|Query read timeout)/, "timed_out"],
  [/^(?:Connection terminated|Client (?:has encountered|was closed)|Connection ended)/, "unreachable"],
  [/^The server does not support SSL/, "no_tls"],
  [/^SASL|assword/, "login_refused"]
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

/** The innermost error's message, which is compared and never repeated: it may hold a value. */
const messageIn = (error: unknown): string => {
  if (typeof error !== "object" || error === null) return ""
  const inner = "cause" in error ? messageIn(error.cause) : ""
  return inner !== "" ? inner : error instanceof Error ? error.message : ""
}

const kindIn = (
  table: ReadonlyArray<readonly [RegExp, Kind]>,
  text: string,
  otherwise: Kind = "failed"
): Kind => table.find(([pattern]) => pattern.test(text))?.[1] ?? otherwise

/** `error` is any error of a driver or the file system. */
const driverProblem = (error: unknown): DriverProblem => {
  const coded = codedIn(error)
  if (coded === undefined) return { kind: kindIn(messages, messageIn(error)) }
  if (coded.code === poolerCode)
    return { kind: kindIn(poolerMessages, messageIn(error), "unreachable"), code: coded.code }
  // The socket of a server may be a file: a missing one means an unreachable server, not a missing database.
  const kind = coded.connecting ? "unreachable" : kindIn(codes, coded.code)
  return { kind, code: coded.code }
}

/** The server, or a pooler in front of it, gives no further connection. */
export const isConnectionRefused = (error: unknown): boolean =>
  driverProblem(error).kind === "too_many_connections"

export type DatabaseFailure = SqlError | ParseError | StoreUnavailable

/** `operation` is like `Spool.offer`. A `StoreUnavailable` that names its database is returned unchanged. */
export const toStoreUnavailable =
  (database: string, operation: string) =>
  (error: DatabaseFailure): StoreUnavailable => {
    switch (error._tag) {
      case "StoreUnavailable":
        return error.database === undefined
          ? new StoreUnavailable({ database, operation, problem: error.problem })
          : error
      case "ParseError":
        return new StoreUnavailable({ database, operation, problem: { kind: "row_malformed" } })
      case "SqlError":
        return new StoreUnavailable({ database, operation, problem: driverProblem(error) })
    }
  }

/** A database did not open. What is missing then cannot be made: nothing that was open is gone. */
export const openFailed = (database: string, error: unknown): StoreUnavailable => {
  const problem = driverProblem(error)
  return new StoreUnavailable({
    database,
    problem: problem.kind === "gone" ? { ...problem, kind: "not_openable" } : problem
  })
}

export const migrationFailed = (database: string, error: unknown): StoreUnavailable =>
  new StoreUnavailable({ database, problem: { kind: "migration_failed", reason: driverProblem(error) } })

/** A lock of another transaction prevented the access, which had no effect. */
export const isLocked = (error: DatabaseFailure): boolean =>
  error._tag === "SqlError" && driverProblem(error).kind === "locked"

const lasting: ReadonlySet<StoreProblem["kind"]> = new Set<Kind>([
  "full",
  "read_only",
  "io_failed",
  "corrupt",
  "not_permitted"
])

/** The disk or a right is missing, so that the next write fails as well. */
export const isLasting = ({ problem }: StoreUnavailable): boolean => lasting.has(problem.kind)

/** SQLSTATEs have five characters and never begin like the names of system errors. */
const sqlState = /^(?!E)[0-9A-Z]{5}$/
const connectionStates = /^(?:08|57P|25P|25006$|0A000$)/

/**
 * The connection is lost: it broke, it did not answer in time, or its server accepts no writes any more.
 * A commit that was under way on it may have succeeded.
 */
export const isConnectionLost = (error: DatabaseFailure): boolean => {
  if (error._tag !== "SqlError") return false
  const code = codedIn(error)?.code
  return code === undefined || !sqlState.test(code) || connectionStates.test(code)
}
