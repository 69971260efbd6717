/** Checks that the database exists, is writable and whole, and has this version's schema. Creates and changes nothing. */
import { accessSync, constants, existsSync, statfsSync, statSync } from "node:fs"
import { dirname, resolve } from "node:path"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type { SettingsValues } from "../../services/Settings.ts"
import type { StoreUnavailable } from "../../services/Store.ts"
import { latestMigration } from "../store/migrations/Migrations.ts"
import type { Database } from "../store/Database.ts"
import { run } from "../store/Query.ts"
import { makeDeliveries } from "../store/repositories/Deliveries.ts"
import { databaseFromSettings } from "../store/StoreFromSettings.ts"
import { loadAddon } from "../store/sqlite/SqliteAddon.ts"
import { emptyWrite } from "../store/StoreHealth.ts"
import { type Check, type Finding, fail, pass, skip, warn } from "./Finding.ts"
import { checkReports } from "./ReportsCheck.ts"
import { checkPostgresIntegrity, checkSqliteIntegrity } from "./IntegrityCheck.ts"

const nearestExisting = (path: string): string =>
  existsSync(path) || dirname(path) === path ? path : nearestExisting(dirname(path))

const pathFix = "set MUSIC_DATABASE_PATH to a file in a folder that this user may write"

/** A missing file: the first start creates it and its folder. */
const checkFolder = (file: string): Finding => {
  const folder = nearestExisting(dirname(file))
  const usable = Either.try(() => {
    accessSync(folder, constants.W_OK | constants.X_OK)
    return statSync(folder).isDirectory()
  })
  return Either.isRight(usable) && usable.right
    ? pass("database", `${file} does not exist yet; the first start creates it`)
    : fail(
        "database",
        `${file} cannot be created: ${folder} is not a folder that this user can write`,
        pathFix
      )
}

const megabytes = (bytes: number): string => `${Math.floor(bytes / 1_000_000).toLocaleString("en")} MB`

/** Bytes below which writes may fail at any time: the log of the database grows by some megabytes between two checkpoints. */
const leastFree = 20_000_000

export const diskFinding = (free: number, spoolBytes: number): Finding => {
  if (free < leastFree)
    return fail(
      "disk",
      `${megabytes(free)} free: reports, telemetry and webhooks are refused, or will soon be`,
      "free space on the disk of MUSIC_DATABASE_PATH"
    )
  return free < spoolBytes
    ? warn(
        "disk",
        `${megabytes(free)} free; the telemetry spool alone may need ${megabytes(spoolBytes)}`,
        "make room, or lower MUSIC_TELEMETRY_SPOOL_MEGABYTES"
      )
    : pass("disk", `${megabytes(free)} free`)
}

const checkDisk = (file: string, spoolBytes: number): Finding => {
  const free = Either.try(() => {
    const { bavail, bsize } = statfsSync(nearestExisting(file))
    return bavail * bsize
  })
  return Either.isLeft(free) ? skip("disk", "the free space is unknown") : diskFinding(free.right, spoolBytes)
}

const toFinding = ({ fix, problem, summary }: StoreUnavailable): Finding =>
  problem.kind === "older_schema" ? warn("database", summary, fix) : fail("database", summary, fix)

/** Milliseconds after which an open delivery is reported. */
const longWait = 60 * 60 * 1_000

const deliveriesFinding = (failed: number, oldestOpen: Option.Option<number>, now: number): Finding => {
  if (failed > 0)
    return warn(
      "deliveries",
      `${failed} failed`,
      "list them with music-backend deliveries list --state failed, then retry or discard them"
    )
  const age = now - Option.getOrElse(oldestOpen, () => now)
  return age > longWait
    ? warn(
        "deliveries",
        `the oldest one has waited for ${Math.floor(age / longWait)} h`,
        "list them with music-backend deliveries list, and see the checks of the tracker"
      )
    : pass("deliveries", "none failed, none is overdue")
}

const checkDeliveries = (database: Database): Effect.Effect<Finding, StoreUnavailable> =>
  Effect.gen(function* () {
    const { counts, oldestOpen } = makeDeliveries(database)
    const failed = (yield* counts).filter(({ state }) => state === "failed")
    const now = yield* Clock.currentTimeMillis
    return deliveriesFinding(
      failed.reduce((sum, { count }) => sum + count, 0),
      yield* oldestOpen,
      now
    )
  })

const checkOpened = (settings: SettingsValues): Effect.Effect<ReadonlyArray<Finding>, StoreUnavailable> =>
  Effect.gen(function* () {
    const database = yield* databaseFromSettings(settings, { migrate: false })
    // It takes the lock that every write takes, and reaches the disk.
    yield* database.write("check", () => run(emptyWrite(database.sql)))
    return [
      pass("database", `${database.name}, schema ${latestMigration}`),
      ...(yield* Option.match(settings.databaseUrl, {
        onNone: () => checkSqliteIntegrity(resolve(settings.databasePath)),
        onSome: () => checkPostgresIntegrity(database)
      })),
      ...(yield* Effect.forEach([checkDeliveries(database), checkReports(database, settings)], (check) =>
        Effect.catchAll(check, (error) => Effect.succeed(toFinding(error)))
      ))
    ]
  }).pipe(Effect.scoped)

export const checkDatabase = (settings: SettingsValues): Check =>
  Effect.gen(function* () {
    const file = resolve(settings.databasePath)
    const embedded = Option.isNone(settings.databaseUrl)
    const disk = embedded ? [yield* Effect.sync(() => checkDisk(file, settings.telemetry.spoolBytes))] : []
    const absent = embedded && !(yield* Effect.sync(() => existsSync(file)))
    if (absent) {
      // The first start needs it.
      const addon = yield* Effect.either(loadAddon(`SQLite database ${file}`))
      const found = Either.isLeft(addon) ? toFinding(addon.left) : yield* Effect.sync(() => checkFolder(file))
      return [found, ...disk]
    }
    const found = yield* checkOpened(settings).pipe(
      Effect.catchAll((error) => Effect.succeed([toFinding(error)]))
    )
    return [...found, ...disk]
  })
