/** Reads a whole SQLite file in search of damaged pages, for a bounded time; asks Postgres for the damage that it has counted. */
import { spawn } from "node:child_process"
import { createRequire } from "node:module"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { StoreUnavailable } from "../../services/Store.ts"
import type { Database } from "../store/Database.ts"
import { first } from "../store/Query.ts"
import { OptionalWhole } from "../store/repositories/Rows.ts"
import { type Check, type Finding, fail, pass, skip, warn } from "./Finding.ts"

const name = "integrity"

/** Milliseconds. The database was opened before, and the whole check has 20 s. */
const integrityTime = 10_000

/**
 * Reads table by table, each with its indexes, and prints what it found. A process of its own, because SQLite blocks the thread
 * until it has read a table, and cannot be stopped.
 */
const program = `
const [, driver, file] = process.argv
const say = (line) => process.stdout.write(JSON.stringify(line) + "\\n")
try {
  const database = new (require(driver))(file, { readonly: true })
  const names = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").pluck()
  const check = database.prepare("SELECT quick_check FROM pragma_quick_check(?)").pluck()
  const tables = names.all()
  say({ tables: tables.length })
  for (const table of tables) {
    try {
      say({ table, damaged: check.get(table) !== "ok" })
    } catch (error) {
      if (!/^SQLITE_CORRUPT/.test(error.code)) throw error
      say({ table, damaged: true })
    }
  }
  say({ end: null })
} catch (error) {
  say({ end: error.code ?? error.name })
}
`

const Line = Schema.parseJson(
  Schema.Union(
    Schema.Struct({ tables: Schema.Int }),
    Schema.Struct({ table: Schema.String, damaged: Schema.Boolean }),
    Schema.Struct({ end: Schema.NullOr(Schema.String) })
  )
)
const decodeLine = Schema.decodeUnknownOption(Line)

interface Reading {
  /** Tables of the database; undefined until it was opened. */
  readonly tables: number | undefined
  readonly read: number
  readonly damaged: ReadonlyArray<string>
  /** The error that ended it; undefined while it is not complete. */
  readonly end: string | null | undefined
}

const toReading = (output: string): Reading => {
  const lines = output.split("\n").flatMap((line) => Option.toArray(decodeLine(line)))
  const read = lines.flatMap((line) => ("table" in line ? [line] : []))
  return {
    tables: lines.flatMap((line) => ("tables" in line ? [line.tables] : []))[0],
    read: read.length,
    damaged: read.filter(({ damaged }) => damaged).map(({ table }) => table),
    end: lines.flatMap((line) => ("end" in line ? [line.end] : []))[0]
  }
}

/** What the process found before its end or the end of the time. */
const readFile = (file: string, millis: number): Effect.Effect<Reading> =>
  Effect.async((resume) => {
    // The environment, with its secrets, stays here.
    const child = spawn(
      process.execPath,
      ["-e", program, createRequire(import.meta.url).resolve("better-sqlite3"), file],
      { env: {}, stdio: ["ignore", "pipe", "ignore"], timeout: Math.max(1, millis), killSignal: "SIGKILL" }
    )
    let output = ""
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      output += text
    })
    child.on("error", () => resume(Effect.succeed(toReading(""))))
    child.on("close", () => resume(Effect.succeed(toReading(output))))
    return Effect.sync(() => child.kill("SIGKILL"))
  })

const restoreFix = "stop all servers, and restore a backup with music-backend restore"

const sqliteFinding = ({ damaged, end, read, tables }: Reading, millis: number): Finding => {
  if (damaged.length > 0) return fail(name, `damaged: ${damaged.join(", ")}`, restoreFix)
  if (typeof end === "string")
    return /^SQLITE_(?:CORRUPT|NOTADB)/.test(end)
      ? fail(name, `the file is damaged (${end})`, restoreFix)
      : warn(name, `not verifiable now (${end})`, "run the check again")
  return end === undefined
    ? warn(
        name,
        `only ${read} of ${tables ?? "all"} tables were read in ${millis / 1_000} s, without damage`,
        "to read all of it, make a backup with music-backend backup: it checks its copy"
      )
    : pass(name, `${read} tables read, none is damaged`)
}

/** For a database of this program. It works beside a running server, and blocks neither it nor this thread. */
export const checkSqliteIntegrity = (file: string, millis = integrityTime): Check =>
  Effect.map(readFile(file, millis), (reading) => [sqliteFinding(reading, millis)])

const ChecksumFailures = Schema.Struct({ failures: OptionalWhole })

export const postgresFinding = (failures: Option.Option<number>): Finding =>
  Option.match(failures, {
    onNone: () => skip(name, "PostgreSQL keeps no checksums of this database"),
    onSome: (count) =>
      count === 0
        ? pass(name, "PostgreSQL has counted no page with a bad checksum")
        : warn(
            name,
            `PostgreSQL has counted ${count} reads of pages with a bad checksum`,
            "find them in PostgreSQL's log, restore a backup, and reset the count with SELECT pg_stat_reset()"
          )
  })

/** Reading all tables over the network would load the server: only what it has found itself is reported. */
export const checkPostgresIntegrity = ({
  read,
  sql
}: Database): Effect.Effect<ReadonlyArray<Finding>, StoreUnavailable> =>
  Effect.map(
    read(
      "check",
      first(ChecksumFailures)(
        sql`SELECT checksum_failures AS failures FROM pg_stat_database WHERE datname = current_database()`
      )
    ),
    (row) => [postgresFinding(Option.flatMap(row, ({ failures }) => failures))]
  )
