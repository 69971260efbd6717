import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { BackupFacts, BackupFailed, BackupProgress } from "../../layers/store/Backup.ts"
import { databasePlace } from "../Access.ts"
import { CommandFailed, type Exit, exits } from "../Failure.ts"
import { json } from "../Flags.ts"
import { printFacts, printJson, Screen, type ScreenService } from "../Screen.ts"
import { bytesText } from "../Text.ts"

const file = Args.text({ name: "file" })
const overwrite = Options.boolean("overwrite")

const failed =
  (exit: Exit) =>
  ({ fix, reason }: BackupFailed): CommandFailed =>
    new CommandFailed({
      exit,
      lines: [reason],
      fix: fix.replace("ask for it to be overwritten", "add --overwrite")
    })

const shown =
  ({ progress }: ScreenService) =>
  ({ done, step, total }: BackupProgress): Effect.Effect<void> =>
    progress(
      step === "copying" && total > 0
        ? `copying: ${Math.min(100, Math.floor((done / total) * 100))}% of ${bytesText(total)}`
        : step
    )

const factsShape = ({ bytes, file: path, migration, rows }: BackupFacts) => ({
  file: path,
  bytes,
  schema: migration,
  rows
})

const kept = (rows: BackupFacts["rows"]): string =>
  Object.entries(rows)
    .filter(([, count]) => count > 0)
    .map(([table, count]) => `${count} ${table}`)
    .join(", ")

const printCopy = (facts: BackupFacts, aside?: string) =>
  printFacts([
    ["file", facts.file],
    ["size", bytesText(facts.bytes)],
    ["schema", String(facts.migration)],
    ["rows", kept(facts.rows) || "none"],
    ["before", aside]
  ])

export const backup = Command.make(
  "backup",
  {
    file: file.pipe(Args.withDescription("where the copy goes")),
    overwrite: overwrite.pipe(Options.withDescription("replace the file when it exists")),
    json
  },
  (given) =>
    Effect.gen(function* () {
      const screen = yield* Screen
      const settings = yield* databasePlace
      const backups = yield* Effect.promise(() => import("../../layers/store/Backup.ts"))
      const facts = yield* backups
        .backup(settings, given.file, { overwrite: given.overwrite, progress: shown(screen) })
        .pipe(Effect.mapError(failed(exits.unavailable)))
      yield* screen.progress("")
      yield* given.json ? printJson(factsShape(facts)) : printCopy(facts)
    })
).pipe(
  Command.withDescription("Copies the database to a file, consistent and checked, also while the server runs")
)

const verify = Options.boolean("verify").pipe(
  Options.withDescription("only read the backup from end to end and say whether it can be restored")
)

export const restore = Command.make(
  "restore",
  {
    file: file.pipe(Args.withDescription("the backup")),
    verify,
    overwrite: overwrite.pipe(
      Options.withDescription("replace the database that is there; it is kept aside")
    ),
    json
  },
  (given) =>
    Effect.gen(function* () {
      const screen = yield* Screen
      const backups = yield* Effect.promise(() => import("../../layers/store/Backup.ts"))
      if (given.verify) {
        yield* screen.progress("checking")
        const facts = yield* Effect.mapError(backups.verifyBackup(given.file), failed(exits.no))
        yield* screen.progress("")
        if (given.json) return yield* printJson({ ...factsShape(facts), usable: true })
        yield* screen.out("This backup is whole and can be restored.")
        return yield* printCopy(facts)
      }
      const settings = yield* databasePlace
      const facts = yield* backups
        .restore(settings, given.file, { overwrite: given.overwrite, progress: shown(screen) })
        .pipe(Effect.mapError(failed(exits.unavailable)))
      yield* screen.progress("")
      if (given.json) return yield* printJson({ ...factsShape(facts), before: Option.getOrNull(facts.aside) })
      yield* printCopy(facts, Option.getOrUndefined(facts.aside))
    })
).pipe(Command.withDescription("Puts a backup in the place of the database, which no server may have open"))
