/** A copy of a SQLite database, and what is looked at before it counts as one. */
import { statSync } from "node:fs"
import { dirname } from "node:path"
import type * as SqliteClient from "@effect/sql-sqlite-node/SqliteClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { attempt, BackupFailed, failedIn, nameOf, openFile, partialBeside, syncFile } from "./BackupFiles.ts"
import { applicationId } from "../sqlite/ApplicationId.ts"
import { migrationsTable } from "../migrations/Migrations.ts"
import { all, first, OptionalWhole, Whole } from "../repositories/Rows.ts"

/** What a whole copy holds. */
export interface BackupFacts {
  readonly file: string
  readonly bytes: number
  /** The newest migration that it was brought to. */
  readonly migration: number
  readonly rows: Readonly<Record<string, number>>
}

export interface BackupProgress {
  readonly step: "copying" | "checking"
  /** Bytes written so far, of about so many. */
  readonly done: number
  readonly total: number
}

export interface BackupOptions {
  /** Replace what already stands there. */
  readonly overwrite?: boolean
  readonly progress?: (progress: BackupProgress) => Effect.Effect<void>
}

const unusable = "Use another backup: this one cannot be restored."

const Name = Schema.Struct({ name: Schema.String })
const Count = Schema.Struct({ count: Whole })

/** Reads the file from end to end, and tells what it holds if it is a whole database of ours. */
export const examine = (file: string): Effect.Effect<BackupFacts, BackupFailed> =>
  Effect.gen(function* () {
    const { size: bytes } = yield* attempt(file, "Check the name of the file.", () => statSync(file))
    const sql = yield* openFile(file, { readonly: true, fix: unusable })
    const failed = failedIn(file, "Backup.verify", unusable)
    const refuse = (problem: string) =>
      new BackupFailed({ reason: `${nameOf(file)} ${problem}`, fix: unusable })

    const marked = yield* first(Schema.Struct({ application_id: Whole }))(
      sql.unsafe("PRAGMA application_id")
    ).pipe(Effect.mapError(failed))
    if (!Option.exists(marked, ({ application_id }) => application_id === applicationId))
      return yield* refuse("is not a database of this program")

    const problems = yield* all(Schema.Struct({ integrity_check: Schema.String }))(
      sql.unsafe("PRAGMA integrity_check(1)")
    ).pipe(Effect.mapError(failed))
    const [found] = problems.filter(({ integrity_check }) => integrity_check !== "ok")
    if (found !== undefined) return yield* refuse("is corrupt: its integrity check fails")

    const newest = yield* first(Schema.Struct({ latest: OptionalWhole }))(
      sql`SELECT MAX(migration_id) AS latest FROM ${sql(migrationsTable)}`
    ).pipe(Effect.mapError(failed))
    const migration = Option.flatMap(newest, ({ latest }) => latest)
    if (Option.isNone(migration)) return yield* refuse("has no schema")

    const tables = yield* all(Name)(sql`
      SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name`).pipe(
      Effect.mapError(failed)
    )
    const counted = yield* Effect.forEach(tables, ({ name }) =>
      first(Count)(sql`SELECT COUNT(*) AS count FROM ${sql(name)}`).pipe(
        Effect.mapError(failed),
        Effect.map((row): [string, number] => [
          name,
          Option.match(row, { onNone: () => 0, onSome: ({ count }) => count })
        ])
      )
    )
    return { file, bytes, migration: migration.value, rows: Object.fromEntries(counted) }
  }).pipe(Effect.scoped)

/** Tells the size of the growing copy until it is whole. */
const watching = (partial: string, total: number, { progress }: BackupOptions) =>
  progress === undefined
    ? Effect.never
    : Effect.suspend(() =>
        progress({ step: "copying", done: Math.min(total, statSync(partial).size), total })
      ).pipe(Effect.zipRight(Effect.sleep("200 millis")), Effect.forever)

/**
 * Copies page by page, as of the moment at which it starts. The open read is what makes it end: another process's commit
 * starts SQLite's online backup anew, for ever when there is always one, but not under a read that began before. It holds
 * up no writer; the log grows meanwhile. `VACUUM INTO` is as steady, but slower, blind to a damaged index and without
 * progress.
 */
const copyPages = (
  source: SqliteClient.SqliteClient,
  from: string,
  partial: string,
  options: BackupOptions
) =>
  Effect.gen(function* () {
    const fix = "Make room or choose another folder, and try again."
    const failed = failedIn(`${from}, or its copy in ${dirname(partial)},`, "Backup.copy", fix)
    yield* source.unsafe("BEGIN").pipe(Effect.mapError(failed))
    const pages = yield* first(Schema.Struct({ total: Whole }))(source`
      SELECT page_count * page_size AS total FROM pragma_page_count, pragma_page_size`).pipe(
      Effect.mapError(failed)
    )
    const total = Option.match(pages, { onNone: () => 0, onSome: (row) => row.total })
    yield* Effect.raceFirst(
      Effect.mapError(source.backup(partial), failed),
      watching(partial, total, options)
    )
    yield* source.unsafe("COMMIT").pipe(Effect.mapError(failed))
    // One file, without a log beside it, that can be looked at on a read-only disk.
    const copy = yield* openFile(partial, { readonly: false, fix })
    yield* copy.unsafe("PRAGMA journal_mode = DELETE").pipe(Effect.mapError(failed))
    return total
  }).pipe(Effect.scoped)

/** A whole, checked copy of a database under a temporary name beside the target. */
export const copyBeside = (
  from: string,
  target: string,
  options: BackupOptions
): Effect.Effect<{ readonly partial: string; readonly facts: BackupFacts }, BackupFailed, Scope.Scope> =>
  Effect.gen(function* () {
    const partial = yield* partialBeside(target, "Choose a folder that exists and can be written.")
    const total = yield* Effect.scoped(
      Effect.flatMap(
        openFile(from, { readonly: true, fix: "Check MUSIC_DATABASE_PATH and the rights of this account." }),
        (source) => copyPages(source, from, partial, options)
      )
    )
    yield* attempt(partial, "Check the disk, and try again.", () => syncFile(partial))
    if (options.progress !== undefined) yield* options.progress({ step: "checking", done: total, total })
    const facts = yield* Effect.mapError(
      examine(partial),
      ({ reason }) =>
        new BackupFailed({
          reason: `the copy of ${nameOf(from)} is not usable: ${reason.replace(`${nameOf(partial)} `, "it ")}`,
          fix: "The database itself may be damaged: run its integrity check, or restore an earlier backup."
        })
    )
    return { partial, facts }
  })
