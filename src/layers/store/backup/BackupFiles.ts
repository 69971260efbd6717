/** The files of a backup: a copy that shows under its name only when it is whole, and databases opened to be looked at. */
import { randomUUID } from "node:crypto"
import {
  chownSync,
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  renameSync,
  rmSync,
  statSync
} from "node:fs"
import { basename, dirname, join } from "node:path"
import * as Reactivity from "@effect/experimental/Reactivity"
import * as SqliteClient from "@effect/sql-sqlite-node/SqliteClient"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { fsyncFolder } from "../../process/FsyncFolder.ts"
import { type DatabaseFailure, openFailed, toStoreUnavailable } from "../StoreErrors.ts"

/** A copy was not made, not usable, or not put in place; nothing was changed. `fix` says what to do. */
export class BackupFailed extends Data.TaggedError("BackupFailed")<{
  /** What happened, with the file's name and never a credential. */
  readonly reason: string
  readonly fix: string
}> {}

/** What SQLite may keep beside a database. */
const companions = ["-wal", "-shm", "-journal"] as const

export const nameOf = (file: string): string => `SQLite database ${file}`

export const isSameFile = (one: string, other: string): boolean => {
  const [first, second] = [one, other].map((file) => statSync(file, { throwIfNoEntry: false }))
  return first !== undefined && second !== undefined && first.dev === second.dev && first.ino === second.ino
}

/** For file operations; `fix` stands for whatever they raise. */
export const attempt = <A>(file: string, fix: string, run: () => A): Effect.Effect<A, BackupFailed> =>
  Effect.try({
    try: run,
    catch: (error) => new BackupFailed({ reason: openFailed(nameOf(file), error).reason, fix })
  })

export const failedIn =
  (file: string, operation: string, fix: string) =>
  (error: DatabaseFailure): BackupFailed =>
    new BackupFailed({ reason: toStoreUnavailable(nameOf(file), operation)(error).reason, fix })

/** One connection, closed with the scope. Without a write it changes nothing. */
export const openFile = (
  file: string,
  { readonly, fix }: { readonly readonly: boolean; readonly fix: string }
): Effect.Effect<SqliteClient.SqliteClient, BackupFailed, Scope.Scope> =>
  SqliteClient.make({ filename: file, readonly, disableWAL: true }).pipe(
    Effect.provideServiceEffect(Reactivity.Reactivity, Reactivity.make),
    Effect.catchAllDefect((defect) =>
      Effect.fail(new BackupFailed({ reason: openFailed(nameOf(file), defect).reason, fix }))
    )
  )

export const syncFile = (file: string): void => {
  const descriptor = openSync(file, "r+")
  fsyncSync(descriptor)
  closeSync(descriptor)
}

/** An empty file beside the target, for its owner only, which is gone with the scope unless it was renamed. */
export const partialBeside = (
  target: string,
  fix: string
): Effect.Effect<string, BackupFailed, Scope.Scope> =>
  Effect.acquireRelease(
    attempt(target, fix, () => {
      const partial = join(dirname(target), `.${basename(target)}.${randomUUID()}.partial`)
      closeSync(openSync(partial, "wx", 0o600))
      return partial
    }),
    (partial) =>
      Effect.sync(() => {
        for (const suffix of ["", ...companions]) rmSync(`${partial}${suffix}`, { force: true })
      })
  )

/** Gives the whole copy its name. */
export const publish = (partial: string, target: string): void => {
  renameSync(partial, target)
  fsyncFolder(dirname(target))
}

/** As root, a database stays that of the account which runs the server. */
const keepOwner = (partial: string, target: string): void => {
  const { gid, uid } = statSync(existsSync(target) ? target : dirname(target))
  const own = statSync(partial)
  if (own.uid !== uid || own.gid !== gid) chownSync(partial, uid, gid)
}

/**
 * Puts the copy in the database's place; the old one, with what SQLite keeps beside it, is kept under `aside`. At every
 * moment there is a whole database under the name, and never a new one with the log of the old.
 */
export const replace = (
  partial: string,
  target: string,
  aside: string
): Effect.Effect<void, BackupFailed> => {
  const moveCompanions = (from: string, to: string): void => {
    for (const suffix of companions)
      if (existsSync(`${from}${suffix}`)) renameSync(`${from}${suffix}`, `${to}${suffix}`)
  }
  return attempt(target, "Check the folder, and try again.", () => {
    keepOwner(partial, target)
    if (existsSync(target)) linkSync(target, aside)
    moveCompanions(target, aside)
    publish(partial, target)
  }).pipe(
    Effect.tapError(() =>
      Effect.sync(() => {
        moveCompanions(aside, target)
        if (isSameFile(aside, target)) rmSync(aside)
      })
    )
  )
}
