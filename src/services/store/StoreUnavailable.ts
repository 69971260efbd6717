/** The error of every store operation: the problem as data, and the one place that puts it into words. */
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
    | "canceled"
    | "untrusted"
    | "no_tls"
    | "closed"
    | "failed"
  readonly code?: string
}

/** A closed set: whoever reacts to a problem branches on `kind`. */
export type StoreProblem =
  | DriverProblem
  | {
      readonly kind:
        | "absent_file"
        | "address_unreadable"
        | "foreign"
        | "row_malformed"
        | "schema_incomplete"
        | "writes_failing"
    }
  | { readonly kind: "newer_schema" | "older_schema"; readonly found: number; readonly known: number }
  | { readonly kind: "migration_failed"; readonly reason: DriverProblem }
  | { readonly kind: "server_too_old"; readonly version: string }
  | { readonly kind: "wrong_encoding"; readonly encoding: string }

/** The database did not do what was asked. */
export class StoreUnavailable extends Data.TaggedError("StoreUnavailable")<{
  readonly problem: StoreProblem
  /** Like `SQLite database /var/lib/music.sqlite`; absent where the caller does not know it. */
  readonly database?: string
  /** Like `Spool.offer`. */
  readonly operation?: string
}> {
  /** One line for the log, with advice where there is one. Never a value, a statement or a credential. */
  get reason(): string {
    const { advice } = wording(this.problem)
    const operation = this.operation === undefined ? "" : `, in ${this.operation}`
    return `${this.summary}${advice === undefined ? "" : `: ${advice}`}${operation}`
  }

  /** The database and its problem, for an operator who gets `fix` beside it. */
  get summary(): string {
    return `${this.database ?? "The database"} ${wording(this.problem).says}`
  }

  /** What an operator does about it, as an instruction without a full stop. */
  get fix(): string {
    return (
      wording(this.problem).fix ?? "set MUSIC_DATABASE_PATH or MUSIC_DATABASE_URL to a database that works"
    )
  }
}

/** The result of a store operation. */
export type Stored<A> = Effect.Effect<A, StoreUnavailable>

interface Wording {
  readonly says: string
  /** Part of the log line. */
  readonly advice?: string
  readonly fix?: string
}

const writableFix = "let this user write it and its folder, or set MUSIC_DATABASE_PATH to another file"
const corruptFix = "restore a backup with music-backend restore, or set MUSIC_DATABASE_PATH to the right file"
const pathFix = "set MUSIC_DATABASE_PATH to a file in a folder that this user may write"
const serverFix = "start the database server, or set host and port in MUSIC_DATABASE_URL right"
const tlsFix = "set sslmode in MUSIC_DATABASE_URL as the server needs it"

const driverWordings: Readonly<Record<DriverProblem["kind"], Wording>> = {
  gone: {
    says: "is gone: its file was moved or deleted",
    fix: "put the file back, or set MUSIC_DATABASE_PATH to where it is now"
  },
  locked: { says: "is locked by another process", fix: "end what holds it, or try again" },
  full: { says: "is full: there is no room left for it", fix: "make room on its disk" },
  read_only: { says: "is read-only for this process", fix: writableFix },
  standby: { says: "is read-only for this process", fix: writableFix },
  corrupt: { says: "is corrupt, or is no database", fix: corruptFix },
  io_failed: { says: "cannot be opened, read or written", fix: pathFix },
  not_openable: { says: "cannot be opened, read or written", fix: pathFix },
  unreachable: { says: "does not answer", fix: serverFix },
  timed_out: { says: "does not answer in time", fix: serverFix },
  login_refused: { says: "refuses the login", fix: "set user and password in MUSIC_DATABASE_URL right" },
  no_such_database: {
    says: "does not exist",
    fix: "create the database, or name another one in MUSIC_DATABASE_URL"
  },
  not_permitted: {
    says: "does not allow this to its user",
    fix: "give the user of MUSIC_DATABASE_URL the rights of the database's owner"
  },
  too_many_connections: {
    says: "takes no more connections",
    fix: "raise max_connections of the server, or end other processes"
  },
  canceled: { says: "took too long", fix: serverFix },
  untrusted: { says: "cannot be trusted: TLS failed", fix: tlsFix },
  no_tls: { says: "does not speak TLS", fix: tlsFix },
  closed: { says: "is closed" },
  failed: { says: "failed" }
}

const driverWording = ({ code, kind }: DriverProblem): Wording => {
  const wording = driverWordings[kind]
  return code === undefined ? wording : { ...wording, says: `${wording.says} (${code})` }
}

const wording = (problem: StoreProblem): Wording => {
  switch (problem.kind) {
    case "absent_file":
      return {
        says: "does not exist",
        advice: "run music-backend migrate, or start the backend once",
        fix: "set MUSIC_DATABASE_PATH to the server's file, or make one with music-backend migrate"
      }
    case "address_unreadable":
      return { says: "cannot be read" }
    case "foreign":
      return { says: "belongs to another program: name another file" }
    case "row_malformed":
      return { says: "is corrupt: a row is not of the expected form", fix: corruptFix }
    case "writes_failing":
      return { says: "fails writes, though it takes small ones" }
    case "schema_incomplete":
      return { says: "lacks migrations of this version", fix: "run music-backend migrate" }
    case "newer_schema":
      return {
        says: `has a newer schema than this version of the program knows (${problem.found}, known ${problem.known})`,
        advice: "start the version that made it, or use another database",
        fix: "use the version of music-backend that made it, or restore a backup of this version"
      }
    case "older_schema":
      return {
        says: `has an older schema than this version of the program needs (${problem.found}, needed ${problem.known})`,
        advice: "run music-backend migrate, or start the backend once",
        fix: "run music-backend migrate, or start the server once"
      }
    case "migration_failed": {
      const { fix, says } = driverWording(problem.reason)
      return {
        says: `could not be brought to the schema of this version: it ${says}`,
        ...(fix === undefined ? {} : { fix })
      }
    }
    case "server_too_old":
      return {
        says: `is on PostgreSQL ${problem.version}: 14 or newer is needed`,
        fix: "use a newer PostgreSQL"
      }
    case "wrong_encoding":
      return { says: `stores text as ${problem.encoding}, which lacks characters: UTF8 is needed` }
    default:
      return driverWording(problem)
  }
}
