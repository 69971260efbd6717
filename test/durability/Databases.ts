/** The databases of a run, and a way to read their rows beside the server. */
import { join } from "node:path"
import pg from "pg"
import { freshDatabase } from "../world/Postgres.ts"
import { type Environment, scratch } from "../world/Fleet.ts"
import { type Row, rowsOf } from "../world/Oracle.ts"

export const text = (value: unknown): string => (typeof value === "string" ? value : "")

export const sqliteDatabase = async () => {
  const folder = scratch()
  const path = join(folder.path, "music.sqlite")
  // Settings that make a server use it.
  const environment: Environment = { MUSIC_DATABASE_PATH: path }
  return {
    kind: "SQLite",
    environment,
    /** PostgreSQL returns large integers as text: read them with `Number`. */
    rows: async (statement: string): Promise<ReadonlyArray<Row>> => rowsOf(path, statement),
    remove: async (): Promise<void> => folder.remove()
  }
}
export type TestDatabase = Awaited<ReturnType<typeof sqliteDatabase>>

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
