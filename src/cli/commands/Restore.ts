/** Commands that change the database as a whole: `restore` and `migrate`. */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { withOwnName } from "../../layers/store/backup/PostgresTools.ts"
import {
  refuseOpenDatabase,
  restore as replaceDatabase,
  verifyBackup
} from "../../layers/store/backup/Restore.ts"
import { countSessions, finishRestore } from "../../layers/store/backup/RestoreReconciliation.ts"
import { latestMigration } from "../../layers/store/migrations/Migrations.ts"
import { databaseFromSettings } from "../../layers/store/StoreFromSettings.ts"
import { databasePlace } from "../DatabaseAccess.ts"
import { CommandFailed, misuse } from "../Host.ts"
import { argument, flag, json } from "../Options.ts"
import { field, formatCount, printRecord } from "../Output.ts"
import { copyFields } from "./Backup.ts"

const usable = field("usable", "usable", () => true)
const before = field<{ readonly aside: Option.Option<string> }>("before", "before", (it) =>
  Option.getOrNull(it.aside)
)
const databaseName = field<{ readonly database: string }>("database", "database", (it) => it.database)

/** Reports that are not filed in the backup. */
const doubted = field<{ readonly unfiled: number }>(
  "doubted",
  "doubted",
  (it) => it.unfiled,
  ({ unfiled }) =>
    unfiled === 0
      ? "none"
      : `${formatCount(unfiled, "report")} not filed in the backup; the tracker is searched before they are sent`
)

/** Finishes a restore by PostgreSQL's own tools or from a snapshot. */
const finishRestored = Effect.gen(function* () {
  const settings = yield* databasePlace
  const named = Option.map(settings.databaseUrl, withOwnName)
  const open = Effect.catchIf(
    databaseFromSettings(
      { ...settings, databaseUrl: Option.map(named, ({ url }) => url) },
      { migrate: false }
    ),
    ({ problem }) => problem.kind === "older_schema" && problem.found === 0,
    ({ database }) =>
      new CommandFailed({
        exit: 69,
        lines: [`${database} holds nothing`],
        fix: "restore it first: music-backend restore <file> prints the command"
      })
  )
  // A server that runs would file reports before they are marked. SQLite: the lock needs a database that is valid, and closed here.
  const sessions = yield* Effect.scoped(
    Effect.flatMap(open, (database) =>
      Option.match(named, {
        onNone: () => Effect.succeed(0),
        onSome: ({ name }) => countSessions(database, name)
      })
    )
  )
  if (sessions > 0)
    return yield* new CommandFailed({
      exit: 69,
      lines: [`the database is in use: ${formatCount(sessions, "other session")} of its user`],
      fix: "stop all servers, close other programs of this user, and try again"
    })
  yield* refuseOpenDatabase(settings)
  return yield* Effect.scoped(
    Effect.flatMap(open, (database) =>
      Effect.map(finishRestore(database), (unfiled) => ({ database: database.name, unfiled }))
    )
  )
})

const verify = (file: string) =>
  Effect.mapError(
    verifyBackup(file),
    ({ fix, reason }) => new CommandFailed({ exit: 1, lines: [reason], fix })
  )

export const restore = Command.make(
  "restore",
  {
    file: Args.optional(argument("file", "the backup")),
    verify: flag("verify", "only check that the backup is complete and can be restored"),
    finish: flag(
      "finish",
      "after another tool restored: unfiled reports are searched for before they are sent"
    ),
    overwrite: flag("overwrite", "replace the existing database, which is kept under another name"),
    json
  },
  ({ file, finish, json: asJson, overwrite, verify: verifyOnly }) =>
    Effect.gen(function* () {
      if (finish)
        return Option.isSome(file) || verifyOnly || overwrite
          ? yield* misuse("restore --finish takes no file, --verify or --overwrite")
          : yield* printRecord([databaseName, doubted], yield* finishRestored, asJson)
      if (Option.isNone(file)) return yield* misuse("restore needs a file, or --finish")
      if (verifyOnly) return yield* printRecord([usable, ...copyFields], yield* verify(file.value), asJson)
      const restored = yield* replaceDatabase(yield* databasePlace, file.value, { overwrite })
      yield* printRecord([...copyFields, before, doubted], restored, asJson)
    })
).pipe(Command.withDescription("Replaces the database by a backup; no server may have the database open"))

const migrated = [
  databaseName,
  field<{ readonly from: number }>("from", "from", (it) => it.from),
  field("to", "schema", () => latestMigration),
  field<{ readonly from: number }>("migrated", "migrated", (it) => it.from < latestMigration)
]

export const migrate = Command.make("migrate", { json }, (given) =>
  databasePlace.pipe(
    Effect.flatMap((settings) => databaseFromSettings(settings, { migrate: true })),
    Effect.scoped,
    Effect.flatMap(({ name, schema }) =>
      printRecord(migrated, { database: name, from: schema.found }, given.json)
    )
  )
).pipe(
  Command.withDescription(
    "Creates the database, or migrates it to this version, as a server does at its start"
  )
)
