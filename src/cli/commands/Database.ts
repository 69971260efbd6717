/** Commands for the database as a whole: `backup`, `restore` and `migrate`. */
import { existsSync, readdirSync, rmSync, statSync } from "node:fs"
import { join } from "node:path"
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Backup from "../../layers/store/sqlite/Backup.ts"
import { identityOf } from "../../layers/store/sqlite/SqliteFiles.ts"
import { latestMigration } from "../../layers/store/migrations/Migrations.ts"
import { recordBackup } from "../../services/store/Logins.ts"
import { databaseFromSettings } from "../../layers/store/StoreFromSettings.ts"
import { errorCode } from "../../services/ErrorCode.ts"
import type { SettingsValues } from "../../services/Settings.ts"
import { databasePlace } from "../DatabaseAccess.ts"
import { failed, Host, misuse, printRecord, refuse } from "../Host.ts"
import { argument, count, flag, json } from "../Options.ts"

/** Names of the copies that `--keep` makes and removes. */
const copies = /^music-\d{8}T\d{9}Z\.sqlite$/

/**
 * Removes the oldest copies beyond the newest `kept`, of which `made` is the newest; names sort by their time. Later copies are not
 * touched: they are those of a run at the same time, or of a wrong clock. Nor are links, folders, files with other names, and
 * databases in use: `live`, and those with a log.
 */
const removeOldCopies = (folder: string, kept: number, { live, made }: { live: string; made: string }) =>
  Effect.try({
    try: () => {
      const old = readdirSync(folder, { withFileTypes: true })
        .filter((entry) => entry.isFile() && copies.test(entry.name) && entry.name <= made)
        .map(({ name }) => join(folder, name))
        .filter((copy) => !existsSync(`${copy}-wal`) && identityOf(copy) !== identityOf(live))
        .sort()
        .slice(0, -kept)
      // Another run at the same time may have removed it.
      for (const copy of old) rmSync(copy, { force: true })
      return old
    },
    catch: (error) =>
      failed(
        69,
        `the backup is complete, but older ones cannot be removed: ${errorCode(error)}`,
        `let this user change ${folder}`
      )
  })

/** Writes the time into the database, for the metric and its alert. */
const record = (settings: SettingsValues) =>
  Effect.gen(function* () {
    const database = yield* databaseFromSettings(settings, { migrate: false })
    const at = yield* Clock.currentTimeMillis
    yield* recordBackup(database, at)
    return { database: database.name, recorded_at: new Date(at).toISOString() }
  }).pipe(Effect.scoped)

const makeCopy = (path: string, keep: Option.Option<number>) =>
  Effect.gen(function* () {
    const settings = yield* databasePlace
    const { err } = yield* Host
    const now = new Date(yield* Clock.currentTimeMillis).toISOString()
    const made = `music-${now.replaceAll(/[-:.]/g, "")}.sqlite`
    const facts = yield* Backup.backup(settings, Option.isSome(keep) ? join(path, made) : path)
    // The backup is complete all the same.
    yield* Effect.catchAll(record(settings), ({ summary }) =>
      err(`The time of this backup is not recorded for the metric: ${summary}.`)
    )
    const live = settings.databasePath
    const old = Option.isSome(keep) ? yield* removeOldCopies(path, keep.value, { live, made }) : []
    return { ...facts, removed: old }
  })

export const backup = Command.make(
  "backup",
  {
    file: Args.optional(argument("file", "path of the copy; with --keep the folder of the copies")),
    keep: Options.optional(
      count("keep", 1, 9_999, "writes music-<time>.sqlite into the folder, and keeps the newest n")
    ),
    record: flag("record", "only records that another tool has just made a backup, for the metric"),
    json
  },
  ({ file, json: asJson, keep, record: recordOnly }) =>
    Effect.gen(function* () {
      const isKept = Option.isSome(keep)
      if (recordOnly)
        return Option.isSome(file) || isKept
          ? yield* misuse("backup --record takes no file and no --keep")
          : yield* printRecord(yield* record(yield* databasePlace), asJson)
      if (Option.isNone(file)) return yield* misuse("backup needs a file, or --record")
      if (isKept && existsSync(file.value) && !statSync(file.value).isDirectory())
        return yield* misuse(`--keep needs a folder, and ${file.value} is none`)
      yield* printRecord(yield* makeCopy(file.value, keep), asJson)
    })
).pipe(Command.withDescription("Writes a verified copy of a SQLite database, also while the server runs"))

export const restore = Command.make(
  "restore",
  {
    file: argument("file", "the backup"),
    verify: flag("verify", "only check that the backup is complete and can be restored"),
    overwrite: flag("overwrite", "replace the existing database, which is kept under another name"),
    json
  },
  ({ file, json: asJson, overwrite, verify: verifyOnly }) =>
    Effect.gen(function* () {
      if (verifyOnly) {
        const verified = Effect.mapError(Backup.verifyBackup(file), ({ fix, summary }) =>
          refuse(summary, fix)
        )
        return yield* printRecord({ usable: true, ...(yield* verified) }, asJson)
      }
      const restored = yield* Backup.restore(yield* databasePlace, file, overwrite)
      const { aside, unfiled: doubted, ...facts } = restored
      yield* printRecord({ ...facts, before: Option.getOrNull(aside), doubted }, asJson)
      if (doubted > 0)
        yield* (yield* Host).err(
          "The doubted reports may be filed: the server searches the tracker for each before it sends it."
        )
    })
).pipe(Command.withDescription("Replaces a SQLite database by a backup; no server may have it open"))

export const migrate = Command.make("migrate", { json }, (given) =>
  databasePlace.pipe(
    Effect.flatMap((settings) => databaseFromSettings(settings, { migrate: true })),
    Effect.scoped,
    Effect.flatMap(({ foundSchema: from, name: database }) => {
      const to = latestMigration
      return printRecord({ database, from, to, migrated: from < to }, given.json)
    })
  )
).pipe(Command.withDescription("Creates the database, or migrates it to this version"))
