/** The databases of a run, and a way to read their rows beside the server. */
import { createRequire } from "node:module"
import { join } from "node:path"
import pg from "pg"
import { freshDatabase } from "../support/Postgres.ts"
import { scratch } from "./Scratch.ts"

export type Row = Readonly<Record<string, unknown>>

export interface TestDatabase {
  readonly kind: "SQLite" | "PostgreSQL"
  /** Settings that make a server use it. */
  readonly environment: Readonly<Record<string, string>>
  /** PostgreSQL returns large integers as text: read them with `toNumber`. */
  readonly rows: (statement: string) => Promise<ReadonlyArray<Row>>
  readonly remove: () => Promise<void>
}

export const toNumber = (value: unknown): number => Number(value ?? 0)
export const text = (value: unknown): string => (typeof value === "string" ? value : "")

/** The part of the untyped driver that is used for reading. */
interface Driver {
  new (
    path: string,
    options: { readonly readonly: boolean }
  ): { readonly prepare: (statement: string) => { all(): ReadonlyArray<Row> }; readonly close: () => void }
}
const Sqlite = createRequire(import.meta.url)("better-sqlite3") as Driver

export const sqliteDatabase = async (): Promise<TestDatabase> => {
  const folder = scratch()
  const path = join(folder.path, "music.sqlite")
  return {
    kind: "SQLite",
    environment: { MUSIC_DATABASE_PATH: path },
    rows: async (statement) => {
      // Opened for each read: an open reader could hide the effect of a crash on the log.
      const database = new Sqlite(path, { readonly: true })
      try {
        return database.prepare(statement).all()
      } finally {
        database.close()
      }
    },
    remove: async () => folder.remove()
  }
}

export const postgresDatabase = async (serverUrl: string): Promise<TestDatabase> => {
  const { drop, url } = await freshDatabase(serverUrl)
  const client = new pg.Client({ connectionString: url })
  client.on("error", () => undefined)
  await client.connect()
  return {
    kind: "PostgreSQL",
    environment: { MUSIC_DATABASE_URL: url },
    rows: async (statement) => (await client.query(statement)).rows,
    remove: async () => {
      await client.end()
      await drop()
    }
  }
}
