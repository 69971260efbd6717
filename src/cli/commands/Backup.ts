import { existsSync, readdirSync, realpathSync, rmSync, statSync } from "node:fs"
import { join } from "node:path"
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { BackupFailed, DatabaseFacts } from "../../layers/store/backup/DatabaseFiles.ts"
import { errorCode } from "../../services/ErrorCode.ts"
import type { SettingsValues } from "../../services/Settings.ts"
import type { StoreUnavailable } from "../../services/Store.ts"
import { databasePlace, storeFailed } from "../DatabaseAccess.ts"
import { CommandFailed, type Exit, exits, usage } from "../CommandFailed.ts"
import { json } from "../Flags.ts"
import { printFacts, printJson, Screen } from "../Screen.ts"
import { formatBytes, formatTime } from "../Text.ts"

const file = Args.text({ name: "file" })
const overwrite = Options.boolean("overwrite")

const failed =
  (exit: Exit) =>
  ({ fix, reason }: BackupFailed): CommandFailed =>
    new CommandFailed({ exit, lines: [reason], fix })

const toJson = ({ bytes, file: path, migration, rows }: DatabaseFacts) => ({
  file: path,
  bytes,
  schema: migration,
  rows
})

const formatRows = (rows: DatabaseFacts["rows"]): string =>
  Object.entries(rows)
    .filter(([, count]) => count > 0)
    .map(([table, count]) => `${count} ${table}`)
    .join(", ")

const toLines = (facts: DatabaseFacts): ReadonlyArray<readonly [string, string]> => [
  ["file", facts.file],
  ["size", formatBytes(facts.bytes)],
  ["schema", String(facts.migration)],
  ["rows", formatRows(facts.rows) || "none"]
]

/** Names of the copies that `--keep` makes and removes. */
const copies = /^music-\d{8}T\d{9}Z\.sqlite$/

const copyName = (now: number): string =>
  `music-${new Date(now).toISOString().replaceAll(/[-:.]/g, "")}.sqlite`

/** Of a file that may be absent, as on PostgreSQL. */
const realPathOf = (file: string): string => (existsSync(file) ? realpathSync(file) : file)

/**
 * Removes the oldest copies beyond the newest `count`, of which `made` is the newest; names sort by their time. Later copies are not
 * touched: they are those of a run at the same time, or of a wrong clock. Nor are links, folders, files with other names, and
 * databases in use: `live`, and those with a log.
 */
const removeOldCopies = (folder: string, count: number, { live, made }: { live: string; made: string }) =>
  Effect.try({
    try: () => {
      const old = readdirSync(folder, { withFileTypes: true })
        .filter((entry) => entry.isFile() && copies.test(entry.name) && entry.name <= made)
        .map(({ name }) => join(folder, name))
        .filter((copy) => !existsSync(`${copy}-wal`) && realpathSync(copy) !== live)
        .sort()
        .slice(0, -count)
      // Another run at the same time may have removed it.
      for (const copy of old) rmSync(copy, { force: true })
      return old
    },
    catch: (error) =>
      new CommandFailed({
        exit: exits.unavailable,
        lines: [`the backup is complete, but older ones cannot be removed: ${errorCode(error)}`],
        fix: `let this user change ${folder}`
      })
  })

const keepOf = (given: Option.Option<string>) =>
  Option.match(given, {
    onNone: () => Effect.succeedNone,
    onSome: (text) =>
      /^[1-9]\d{0,3}$/.test(text)
        ? Effect.succeedSome(Number(text))
        : Effect.fail(usage(`--keep ${text} is not a number from 1 to 9999`, "keep at least one backup"))
  })

/** Writes the time into the database, for the metric and its alert. */
const record = (settings: SettingsValues) =>
  Effect.gen(function* () {
    const { databaseFromSettings, recordBackup } = yield* Effect.promise(() => import("../DatabaseModule.ts"))
    const database = yield* databaseFromSettings(settings, { migrate: false })
    const now = yield* Clock.currentTimeMillis
    yield* recordBackup(database, now)
    return { database: database.name, at: now }
  }).pipe(Effect.scoped, Effect.mapError(storeFailed))

/** The backup is complete all the same. */
const recordOrWarn = (settings: SettingsValues) =>
  Effect.catchAll(record(settings), ({ lines }) =>
    Effect.flatMap(Screen, ({ err }) =>
      err(`The time of this backup is not recorded for the metric: ${lines.join(" ")}.`)
    )
  )

const recordOnly = (asJson: boolean) =>
  Effect.gen(function* () {
    const { at, database } = yield* record(yield* databasePlace)
    yield* asJson
      ? printJson({ database, recorded_at: new Date(at).toISOString() })
      : printFacts([
          ["database", database],
          ["recorded", formatTime(at)]
        ])
  })

const printCopy = (facts: DatabaseFacts) => printFacts(toLines(facts))

const formatUnfiled = (count: number): string =>
  count === 0
    ? "none"
    : `${count} ${count === 1 ? "report" : "reports"} not filed in the backup; the tracker is searched before they are sent`

export const backup = Command.make(
  "backup",
  {
    file: file.pipe(
      Args.withDescription("path of the copy; with --keep the folder of the copies"),
      Args.optional
    ),
    overwrite: overwrite.pipe(Options.withDescription("replace the file when it exists")),
    keep: Options.text("keep").pipe(
      Options.withPseudoName("n"),
      Options.withDescription(
        "writes music-<time>.sqlite into the folder, then removes all of these but the newest n"
      ),
      Options.optional
    ),
    record: Options.boolean("record").pipe(
      Options.withDescription("only records that another tool has just made a backup, for the metric")
    ),
    json
  },
  (given) =>
    Effect.gen(function* () {
      const screen = yield* Screen
      const keep = yield* keepOf(given.keep)
      if (given.record) {
        if (Option.isSome(given.file) || Option.isSome(keep) || given.overwrite)
          return yield* usage(
            "backup --record takes no file, --keep or --overwrite",
            "see music-backend backup --help"
          )
        return yield* recordOnly(given.json)
      }
      if (Option.isNone(given.file))
        return yield* usage("backup needs a file, or --record", "see music-backend backup --help")
      if (Option.isSome(keep) && given.overwrite)
        return yield* usage("--keep and --overwrite together", "use only one of them")
      const path = given.file.value
      if (Option.isSome(keep) && statSync(path, { throwIfNoEntry: false })?.isDirectory() === false)
        return yield* usage(`--keep needs a folder, and ${path} is none`, "name the folder of the copies")
      const settings = yield* databasePlace
      const backups = yield* Effect.promise(() => import("../../layers/store/backup/Backup.ts"))
      const name = copyName(yield* Clock.currentTimeMillis)
      const target = Option.isSome(keep) ? join(path, name) : path
      const facts = yield* backups
        .backup(settings, target, { overwrite: given.overwrite, progress: screen.progress })
        .pipe(Effect.mapError(failed(exits.unavailable)))
      yield* screen.progress("")
      yield* recordOrWarn(settings)
      const removed = Option.isSome(keep)
        ? yield* removeOldCopies(path, keep.value, { live: realPathOf(settings.databasePath), made: name })
        : []
      yield* given.json
        ? printJson({ ...toJson(facts), removed })
        : printFacts([...toLines(facts), ...removed.map((copy) => ["removed", copy] as const)])
    })
).pipe(
  Command.withDescription(
    "Writes a consistent, verified copy of the database to a file, also while the server runs"
  )
)

const verify = Options.boolean("verify").pipe(
  Options.withDescription("only check that the backup is complete and can be restored")
)

const finish = Options.boolean("finish").pipe(
  Options.withDescription(
    "after another tool restored the database: unfiled reports are searched for before they are sent"
  )
)

const misused = (line: string) => usage(line, "see music-backend restore --help")

/** Finishes a restore by PostgreSQL's own tools or from a snapshot. */
const finishRestored = (asJson: boolean) =>
  Effect.gen(function* () {
    const settings = yield* databasePlace
    const { countSessions, databaseFromSettings, finishRestore, refuseOpenDatabase, withOwnName } =
      yield* Effect.promise(() => import("../DatabaseModule.ts"))
    const named = Option.map(settings.databaseUrl, withOwnName)
    const place = { ...settings, databaseUrl: Option.map(named, ({ url }) => url) }
    const open = databaseFromSettings(place, { migrate: false })
    const toFailure = (error: StoreUnavailable) => {
      const { database, problem } = error
      return problem.kind === "older_schema" && problem.found === 0
        ? new CommandFailed({
            exit: exits.unavailable,
            lines: [`${database} holds nothing`],
            fix: "restore it first: music-backend restore <file> prints the command"
          })
        : storeFailed(error)
    }
    // A server that runs would file reports before they are marked. SQLite: the lock needs a database that is valid, and closed here.
    const sessions = yield* Effect.flatMap(open, (database) =>
      Option.match(named, {
        onNone: () => Effect.succeed(0),
        onSome: ({ name }) => countSessions(database, name)
      })
    ).pipe(Effect.scoped, Effect.mapError(toFailure))
    if (sessions > 0)
      return yield* new CommandFailed({
        exit: exits.unavailable,
        lines: [
          `the database is in use: ${sessions} other ${sessions === 1 ? "session" : "sessions"} of its user`
        ],
        fix: "stop all servers, close other programs of this user, and try again"
      })
    yield* Effect.mapError(refuseOpenDatabase(settings), failed(exits.unavailable))
    const facts = yield* Effect.flatMap(open, (database) =>
      Effect.map(finishRestore(database), (doubted) => ({ database: database.name, doubted }))
    ).pipe(Effect.scoped, Effect.mapError(toFailure))
    yield* asJson
      ? printJson(facts)
      : printFacts([
          ["database", facts.database],
          ["doubted", formatUnfiled(facts.doubted)]
        ])
  })

export const restore = Command.make(
  "restore",
  {
    file: file.pipe(Args.withDescription("the backup"), Args.optional),
    verify,
    finish,
    overwrite: overwrite.pipe(
      Options.withDescription("replace the existing database, which is kept under another name")
    ),
    json
  },
  (given) =>
    Effect.gen(function* () {
      const screen = yield* Screen
      if (given.finish) {
        if (Option.isSome(given.file) || given.verify || given.overwrite)
          return yield* misused("restore --finish takes no file, --verify or --overwrite")
        return yield* finishRestored(given.json)
      }
      if (Option.isNone(given.file)) return yield* misused("restore needs a file, or --finish")
      const backups = yield* Effect.promise(() => import("../../layers/store/backup/Restore.ts"))
      if (given.verify) {
        yield* screen.progress("checking")
        const facts = yield* Effect.mapError(backups.verifyBackup(given.file.value), failed(exits.no))
        yield* screen.progress("")
        if (given.json) return yield* printJson({ ...toJson(facts), usable: true })
        yield* screen.out("This backup is complete and can be restored.")
        return yield* printCopy(facts)
      }
      const settings = yield* databasePlace
      const facts = yield* backups
        .restore(settings, given.file.value, { overwrite: given.overwrite, progress: screen.progress })
        .pipe(Effect.mapError(failed(exits.unavailable)))
      yield* screen.progress("")
      if (given.json)
        return yield* printJson({
          ...toJson(facts),
          before: Option.getOrNull(facts.aside),
          doubted: facts.unfiled
        })
      yield* printFacts([
        ...toLines(facts),
        ["before", Option.getOrUndefined(facts.aside)],
        ["doubted", formatUnfiled(facts.unfiled)]
      ])
    })
).pipe(Command.withDescription("Replaces the database by a backup; no server may have the database open"))
