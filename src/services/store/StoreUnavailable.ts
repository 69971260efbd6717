/** The error of every store operation: one of six kinds with the driver's code, and its sentence. */
import type { SqlError } from "@effect/sql/SqlError"
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import * as ParseResult from "effect/ParseResult"

const kinds = ["unanswered", "locked", "full", "corrupt", "schema", "other"] as const
export type StoreFailureKind = (typeof kinds)[number]

/** Of a kind of failure. */
interface Meaning {
  /** Of SQLite, of the system, or SQLSTATEs of Postgres. */
  readonly codes?: RegExp
  /** The end of a sentence that begins with the database. */
  readonly phrase: string
  /** An instruction without a full stop. */
  readonly fix: string
}

const meanings: Readonly<Record<StoreFailureKind, Meaning>> = {
  // No connection, or no answer in time, because the database is away, slow or busy.
  unanswered: {
    codes: /^(?:08|57P)|^(?:53300|57014|25P0[34])$|^E(?:CONN|HOST|NET|PIPE|TIMEDOUT|NOTFOUND|AI_)/,
    phrase: "does not answer",
    fix: "see that the database server runs, gives connections, and has the address in MUSIC_DATABASE_URL"
  },
  locked: {
    codes: /^SQLITE_(?:BUSY|LOCKED)|^(?:55P03|40P01|40001)$/,
    phrase: "is locked by another process",
    fix: "stop the process that holds the lock, or try again"
  },
  full: {
    codes: /^SQLITE_(?:FULL|IOERR_SHMSIZE)$|^(?:ENOSPC|EDQUOT)$|^53100$/,
    phrase: "is full: its disk or quota has no space left",
    fix: "free space on its disk"
  },
  corrupt: {
    codes: /^SQLITE_(?:CORRUPT|NOTADB|FORMAT)|^XX00[12]$/,
    phrase: "is corrupt, or not a database",
    fix: "restore a backup with music-backend restore, or set MUSIC_DATABASE_PATH to the right file"
  },
  // It is not of this version. When it is opened the code is `newer`, `older`, `unreleased`, `foreign` for one of another
  // program, or `ENOENT` for a file that is not there yet.
  schema: { phrase: "lacks migrations of this version", fix: "run music-backend migrate" },
  // A right, a folder, a login or a certificate is missing, its file was moved, it is closed, or a statement failed.
  other: {
    phrase: "cannot be opened, read or written",
    fix: "set MUSIC_DATABASE_PATH to a file that this user may write, or correct the address, user and password in MUSIC_DATABASE_URL; docs/operations.md explains the codes"
  }
}

/** A failed operation of the database. */
export class StoreUnavailable extends Data.TaggedError("StoreUnavailable")<{
  readonly kind: StoreFailureKind
  readonly code?: string | undefined
  /** Like `SQLite database /var/lib/music.sqlite`; absent where the caller does not know it. */
  readonly database?: string | undefined
  /** Like `Spool.offer`. */
  readonly operation?: string | undefined
  /** Where more is known than the kind and the code say. */
  readonly phrase?: string
  readonly advice?: string
}> {
  /** One line for the log. Never a value, a statement or a credential. */
  get reason(): string {
    return this.operation === undefined ? this.summary : `${this.summary}, in ${this.operation}`
  }

  /** The database and its problem, for an operator who gets `fix` beside it. */
  get summary(): string {
    const { phrase } = meanings[this.kind]
    const known = this.code === undefined ? phrase : `${phrase} (${this.code})`
    return `${this.database ?? "The database"} ${this.phrase ?? known}`
  }

  get fix(): string {
    return this.advice ?? meanings[this.kind].fix
  }
}

/** The result of a store operation. */
export type Stored<A> = Effect.Effect<A, StoreUnavailable>

export type DatabaseFailure = SqlError | ParseResult.ParseError | StoreUnavailable

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

/** Of any error of a database, its driver or the file system. */
export const kindOf = (error: unknown): Pick<StoreUnavailable, "kind" | "code"> => {
  if (error instanceof StoreUnavailable) return error
  const causes = causesOf(error)
  const coded = causes.find(hasCode)
  if (coded === undefined) return { kind: causes.some(isUnanswered) ? "unanswered" : "other" }
  const { code } = coded
  // The socket of a server may be a file: a missing one means a server that is away, not a missing database.
  if ("syscall" in coded && coded.syscall === "connect") return { kind: "unanswered", code }
  return { kind: kinds.find((kind) => meanings[kind].codes?.test(code)) ?? "other", code }
}

/** `operation` is like `Spool.offer`. A `StoreUnavailable` that names its database is returned unchanged. */
export const toStoreUnavailable =
  (database: string, operation?: string) =>
  (error: unknown): StoreUnavailable => {
    if (error instanceof StoreUnavailable)
      return error.database === undefined ? new StoreUnavailable({ ...error, database, operation }) : error
    if (!ParseResult.isParseError(error))
      return new StoreUnavailable({ database, operation, ...kindOf(error) })
    return new StoreUnavailable({
      database,
      operation,
      kind: "other",
      phrase: "is corrupt: a row has an unexpected form",
      advice: "find who changed the row: no version of the program writes such a row"
    })
  }

/** The access had no effect, and succeeds once a lock ends or the server gives a connection. */
export const isBusy = (error: unknown): boolean => {
  const { code, kind } = kindOf(error)
  return kind === "locked" || code === "53300"
}

/** Whether it fails all writes of a transaction: a lock, or a connection that broke, so that a commit on it may have succeeded. */
export const concernsAll = (error: unknown): boolean => {
  const { code, kind } = kindOf(error)
  return kind === "locked" || (kind === "unanswered" && code !== "57014")
}
