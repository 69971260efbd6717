/** The error of every store operation: one of six kinds with the driver's code, and its sentence. */
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"

/**
 * - `unanswered`: no connection, or no answer in time, because the database is away, slow or busy.
 * - `locked`: by another process.
 * - `full`: its disk or quota.
 * - `corrupt`: pages are damaged, or it is no database.
 * - `schema`: it is not of this version. When it is opened the code is `newer`, `older`, `empty`, `unreleased`, `foreign` for one of another
 *   program, or `ENOENT` for a file that is not there yet.
 * - `other`: a right, a folder, a login or a certificate is missing, its file was moved, it is closed, or a statement failed.
 */
export type StoreFailureKind = "unanswered" | "locked" | "full" | "corrupt" | "schema" | "other"

/** Of an error: the end of a sentence that begins with the database, and the fix as an instruction without a full stop. */
interface Wording {
  readonly phrase: string
  readonly fix: string
}

const wordings: Readonly<Record<StoreFailureKind, Wording>> = {
  unanswered: {
    phrase: "does not answer",
    fix: "see that the database server runs, gives connections, and has the address in MUSIC_DATABASE_URL"
  },
  locked: {
    phrase: "is locked by another process",
    fix: "stop the process that holds the lock, or try again"
  },
  full: { phrase: "is full: its disk or quota has no space left", fix: "free space on its disk" },
  corrupt: {
    phrase: "is corrupt, or not a database",
    fix: "restore a backup with music-backend restore, or set MUSIC_DATABASE_PATH to the right file"
  },
  schema: { phrase: "lacks migrations of this version", fix: "run music-backend migrate" },
  other: {
    phrase: "cannot be opened, read or written",
    fix: "set MUSIC_DATABASE_PATH to a file that this user may write, or correct MUSIC_DATABASE_URL; docs/operations.md explains the codes"
  }
}

const fixOfAnswer =
  "correct user, password and database in MUSIC_DATABASE_URL, or give this user the right; docs/operations.md explains the codes"

/** A failed operation of the database. */
export class StoreUnavailable extends Data.TaggedError("StoreUnavailable")<{
  readonly kind: StoreFailureKind
  /** Of SQLite, of the system, or a SQLSTATE. */
  readonly code?: string | undefined
  /** Like `SQLite database /var/lib/music.sqlite`; absent where the caller does not know it. */
  readonly database?: string
  /** Like `Spool.offer`. */
  readonly operation?: string
  /** Where more is known than the kind and the code say. */
  readonly details?: Wording
}> {
  /** One line for the log. Never a value, a statement or a credential. */
  get reason(): string {
    return this.operation === undefined ? this.summary : `${this.summary}, in ${this.operation}`
  }

  /** The database and its problem, for an operator who gets `fix` beside it. */
  get summary(): string {
    return `${this.database ?? "The database"} ${this.phrase}`
  }

  /** The end of the summary. */
  get phrase(): string {
    if (this.details !== undefined) return this.details.phrase
    const { phrase } = wordings[this.kind]
    return this.code === undefined ? phrase : `${phrase} (${this.code})`
  }

  /** The fix for an operator, as an instruction without a full stop. */
  get fix(): string {
    if (this.details !== undefined) return this.details.fix
    // A SQLSTATE is an answer of PostgreSQL, which has no file here.
    return this.kind === "other" && /^\d/.test(this.code ?? "") ? fixOfAnswer : wordings[this.kind].fix
  }
}

/** The result of a store operation. */
export type Stored<A> = Effect.Effect<A, StoreUnavailable>
