/** The error of every store operation: the problem as data, and its message. */
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"

/** Problems that a driver or the file system reports. `code` is its own: of SQLite, of the system, or a SQLSTATE. */
export type DriverProblem = {
  readonly kind:
    | "gone"
    | "locked"
    | "full"
    | "read_only"
    | "standby"
    | "corrupt"
    | "io_failed"
    | "not_openable"
    | "unreachable"
    | "timed_out"
    | "login_refused"
    | "no_such_database"
    | "not_permitted"
    | "too_many_connections"
    | "parameter_refused"
    | "canceled"
    | "untrusted"
    | "no_tls"
    | "closed"
    | "failed"
  readonly code?: string
}

/** A closed set: programs branch on `kind`. */
export type StoreProblem =
  | DriverProblem
  | {
      readonly kind:
        | "absent_file"
        | "address_unreadable"
        | "foreign"
        | "row_malformed"
        | "schema_incomplete"
        | "unreleased_schema"
        | "writes_failing"
    }
  | { readonly kind: "newer_schema" | "older_schema"; readonly found: number; readonly known: number }
  /** `server` names one that serves; one without a name stops. */
  | { readonly kind: "other_server"; readonly server?: string }
  | { readonly kind: "migration_failed"; readonly reason: DriverProblem }
  | { readonly kind: "addon_unusable"; readonly code?: string }
  | { readonly kind: "server_too_old"; readonly version: string }
  | { readonly kind: "wrong_encoding"; readonly encoding: string }

const unanswered: ReadonlySet<StoreProblem["kind"]> = new Set<StoreProblem["kind"]>([
  "timed_out",
  "canceled",
  "locked",
  "too_many_connections"
])

/** A failed operation of the database. */
export class StoreUnavailable extends Data.TaggedError("StoreUnavailable")<{
  readonly problem: StoreProblem
  /** Like `SQLite database /var/lib/music.sqlite`; absent where the caller does not know it. */
  readonly database?: string
  /** Like `Spool.offer`. */
  readonly operation?: string
}> {
  /** The database gave no answer in the time of the access, because it is slow, busy or silent. It refused nothing. */
  get isUnanswered(): boolean {
    return unanswered.has(this.problem.kind)
  }

  /** One line for the log, with advice where there is one. Never a value, a statement or a credential. */
  get reason(): string {
    const { advice } = wording(this.problem)
    const operation = this.operation === undefined ? "" : `, in ${this.operation}`
    return `${this.summary}${advice === undefined ? "" : `: ${advice}`}${operation}`
  }

  /** The database and its problem, for an operator who gets `fix` beside it. */
  get summary(): string {
    return `${this.database ?? "The database"} ${wording(this.problem).phrase}`
  }

  /** The fix for an operator, as an instruction without a full stop. */
  get fix(): string {
    return (
      wording(this.problem).fix ?? "set MUSIC_DATABASE_PATH or MUSIC_DATABASE_URL to a database that works"
    )
  }
}

/** The result of a store operation. */
export type Stored<A> = Effect.Effect<A, StoreUnavailable>

interface Wording {
  readonly phrase: string
  /** Part of the log line. */
  readonly advice?: string
  readonly fix?: string
}

const writableFix = "let this user write it and its folder, or set MUSIC_DATABASE_PATH to another file"
const corruptFix = "restore a backup with music-backend restore, or set MUSIC_DATABASE_PATH to the right file"
const pathFix = "set MUSIC_DATABASE_PATH to a file in a folder that this user may write"
const unreleasedFix =
  "move it away or name a new database; only the version that made it can export its reports (music-backend reports export)"
const addonFix = "run npm rebuild better-sqlite3 with this version of Node, or npm ci"
const serverFix = "start the database server, or correct host and port in MUSIC_DATABASE_URL"
const tlsFix = "set sslmode in MUSIC_DATABASE_URL to the mode that the server needs"

const driverWordings: Readonly<Record<DriverProblem["kind"], Wording>> = {
  gone: {
    phrase: "is gone: its file was moved or deleted",
    fix: "move the file back, or set MUSIC_DATABASE_PATH to its new path"
  },
  locked: {
    phrase: "is locked by another process",
    fix: "stop the process that holds the lock, or try again"
  },
  full: { phrase: "is full: its disk or quota has no space left", fix: "free space on its disk" },
  read_only: { phrase: "is read-only for this process", fix: writableFix },
  standby: { phrase: "is read-only for this process", fix: writableFix },
  corrupt: { phrase: "is corrupt, or not a database", fix: corruptFix },
  io_failed: {
    phrase: "cannot be opened, read or written",
    fix: "free space on its disk and check the disk for errors; restore a backup if it lost data"
  },
  not_openable: { phrase: "cannot be opened, read or written", fix: pathFix },
  unreachable: { phrase: "does not answer", fix: serverFix },
  timed_out: { phrase: "does not answer in time", fix: serverFix },
  login_refused: { phrase: "refuses the login", fix: "correct user and password in MUSIC_DATABASE_URL" },
  no_such_database: {
    phrase: "does not exist",
    fix: "create the database, or name another one in MUSIC_DATABASE_URL"
  },
  not_permitted: {
    phrase: "does not permit this operation to its user",
    fix: "give the user of MUSIC_DATABASE_URL the rights of the database's owner"
  },
  too_many_connections: {
    phrase: "accepts no more connections",
    fix: "raise the limit of the server, role or pooler, lower MUSIC_DATABASE_CONNECTIONS, or stop other processes"
  },
  parameter_refused: {
    phrase: "is behind a pooler that refuses a parameter of its address",
    fix: "remove options and timeouts from MUSIC_DATABASE_URL, or name them in ignore_startup_parameters of pgbouncer"
  },
  canceled: { phrase: "took too long", fix: serverFix },
  untrusted: {
    phrase: "cannot be trusted: TLS failed",
    fix: `${tlsFix}, or name the certificate of its authority in NODE_EXTRA_CA_CERTS`
  },
  no_tls: { phrase: "does not support TLS", fix: tlsFix },
  closed: { phrase: "is closed" },
  failed: { phrase: "failed" }
}

const driverWording = ({ code, kind }: DriverProblem): Wording => {
  const wording = driverWordings[kind]
  return code === undefined ? wording : { ...wording, phrase: `${wording.phrase} (${code})` }
}

const wording = (problem: StoreProblem): Wording => {
  switch (problem.kind) {
    case "absent_file":
      return {
        phrase: "does not exist",
        advice: "run music-backend migrate, or start the backend once",
        fix: "set MUSIC_DATABASE_PATH to the server's file, or create one with music-backend migrate"
      }
    case "address_unreadable":
      return { phrase: "cannot be read" }
    case "foreign":
      return { phrase: "belongs to another program", fix: pathFix }
    case "row_malformed":
      return { phrase: "is corrupt: a row has an unexpected form", fix: corruptFix }
    case "writes_failing":
      return { phrase: "fails writes, although small ones succeed" }
    case "other_server":
      return {
        phrase:
          problem.server === undefined
            ? "is in use by another server, which has not stopped in time"
            : `is in use by another server (${problem.server})`,
        fix: "stop that server, or set MUSIC_DATABASE_PATH to another file; servers that run together need PostgreSQL"
      }
    case "schema_incomplete":
      return { phrase: "lacks migrations of this version", fix: "run music-backend migrate" }
    case "newer_schema":
      return {
        phrase: `has a newer schema than this version of the program knows (${problem.found}, known ${problem.known})`,
        advice: "start the version that created it, or use another database",
        fix: "use the version of music-backend that created it, or restore a backup of this version"
      }
    case "older_schema":
      return {
        phrase: `has an older schema than this version of the program needs (${problem.found}, needed ${problem.known})`,
        advice: "run music-backend migrate, or start the backend once",
        fix: "run music-backend migrate, or start the server once"
      }
    case "unreleased_schema":
      return {
        phrase: "was made by a version before the first release, and this version does not read it",
        advice: unreleasedFix,
        fix: unreleasedFix
      }
    case "migration_failed": {
      const { fix, phrase } = driverWording(problem.reason)
      return {
        phrase: `could not be migrated to the schema of this version: it ${phrase}`,
        ...(fix === undefined ? {} : { fix })
      }
    }
    case "addon_unusable":
      return {
        phrase: `cannot be opened: its driver better-sqlite3 does not load${problem.code === undefined ? "" : ` (${problem.code})`}`,
        advice: addonFix,
        fix: addonFix
      }
    case "server_too_old":
      return {
        phrase: `is on PostgreSQL ${problem.version}: 14 or newer is needed`,
        fix: "use a newer PostgreSQL"
      }
    case "wrong_encoding":
      return { phrase: `stores text as ${problem.encoding}, which lacks characters: UTF8 is needed` }
    default:
      return driverWording(problem)
  }
}
