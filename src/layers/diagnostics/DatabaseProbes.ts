/** Probes of the database: whether it can be used, takes a write, is whole and has room. They create and change nothing. */
import { execFile } from "node:child_process"
import { existsSync, statfsSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, resolve } from "node:path"
import * as Effect from "effect/Effect"
import { constVoid } from "effect/Function"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import { roomOf } from "../../services/usecases/Reports.ts"
import type { SettingsValues } from "../../services/Settings.ts"
import { emptyWrite, latestMigration } from "../store/migrations/Migrations.ts"
import { makeReports } from "../../services/store/Reports.ts"
import { databaseFromSettings } from "../store/StoreFromSettings.ts"
import { fail, pass, probe, skip, type Verdict, warn } from "./Probe.ts"

const megabytes = (bytes: number): string =>
  `${(bytes / 1_000_000).toLocaleString("en", { maximumFractionDigits: 1 })} MB`

/** Bytes below which writes may fail at any time: the log of the database grows by some megabytes between two checkpoints. */
const leastFree = 20_000_000

const judgeDisk = (file: string): Verdict => {
  // A link may lead to another disk.
  const { bavail, bsize } = statfsSync(existsSync(file) ? file : dirname(file))
  const found = `${megabytes(bavail * bsize)} free`
  return bavail * bsize < leastFree
    ? fail(`${found}: writes are refused, or will soon be`, "free space on the disk of MUSIC_DATABASE_PATH")
    : pass(found)
}

const judgeMissing = (file: string) => (server: Verdict) =>
  server.status === "PASS"
    ? fail(
        `${file} does not exist, and the server runs: it was moved or deleted, or MUSIC_DATABASE_PATH is wrong`,
        "correct MUSIC_DATABASE_PATH, or put it back; else stop the server and restore a backup"
      )
    : skip(`${file} does not exist: a start creates it, or MUSIC_DATABASE_PATH is wrong`)

/** From half of the room on, the parts of one reporter and of one network bind (services/usecases/Reports.ts). */
const judgeReports = (bytes: number, bound: number): Verdict => {
  const found = `${megabytes(bytes)} of ${megabytes(bound)}`
  return bytes > roomOf(bound).unboundUpTo
    ? warn(
        `${found}: some or all new ones are refused, or will soon be`,
        "find a flood with music-backend reports remove --anonymous --dry-run, or --reporter <public id> --dry-run; remove it, set MUSIC_RETENTION_REPORTS_ANONYMOUS_DAYS, or raise MUSIC_REPORTS_MEGABYTES"
      )
    : pass(found)
}

const reading = `
const [, driver, file] = process.argv
try {
  const database = new (require(driver))(file, { readonly: true })
  if (database.pragma("quick_check(1)", { simple: true }) !== "ok") process.exitCode = 3
} catch (error) {
  process.exitCode = error.code.startsWith("SQLITE_CORRUPT") ? 3 : 1
}`

/** A process of its own for at most 10 s, because SQLite blocks the thread. It does not get the environment with its secrets. */
const checkIntegrity = (file: string): Effect.Effect<Verdict> =>
  Effect.async((resume) => {
    const driver = createRequire(import.meta.url).resolve("better-sqlite3")
    const options = { env: {}, timeout: 10_000, killSignal: "SIGKILL" } as const
    const child = execFile(process.execPath, ["-e", reading, driver, file], options, (error) => {
      const verdict =
        error === null
          ? pass("all pages read, none is damaged")
          : error.code === 3
            ? fail("pages are damaged", "stop all servers, and restore a backup with music-backend restore")
            : warn("not read to its end", "make a backup with music-backend backup: it checks its copy")
      resume(Effect.succeed(verdict))
    })
    return Effect.sync(() => child.kill("SIGKILL"))
  })

/** `server` is the verdict on the server that runs at the listen address. */
export const databaseProbes = (settings: SettingsValues, server: Effect.Effect<Verdict>) =>
  Effect.gen(function* () {
    const scope = yield* Effect.scope
    const file = resolve(settings.databasePath)
    const database = yield* Effect.cached(
      Scope.extend(databaseFromSettings(settings, { migrate: false }), scope)
    )
    const usable = database.pipe(
      // It takes the lock that every write takes, and reaches the disk.
      Effect.tap(({ sql, write }) => emptyWrite(sql).pipe(write("schema", "check"))),
      Effect.map(({ name }) => pass(`${name}, schema ${latestMigration}`)),
      Effect.catchIf(
        ({ code, kind }) => kind === "schema" && code === "ENOENT",
        () => Effect.map(server, judgeMissing(file))
      )
    )
    const disk = Effect.try(() => judgeDisk(file)).pipe(
      Effect.orElseSucceed(() => skip("the free space is unknown"))
    )
    const reports = database.pipe(
      Effect.flatMap((opened) => makeReports(opened, constVoid).storedBytes),
      Effect.map((bytes) => judgeReports(bytes, settings.reportsBytes))
    )
    return [
      probe("database", ["MUSIC_DATABASE_URL", "MUSIC_DATABASE_PATH"], usable),
      probe("reports", ["database"], reports),
      ...(Option.isNone(settings.databaseUrl)
        ? [
            probe("integrity", ["database"], checkIntegrity(file)),
            probe("disk", ["MUSIC_DATABASE_PATH"], disk)
          ]
        : [])
    ]
  })
