/** The databases of these tests, read over connections of their own, and damaged. */
import { closeSync, openSync, writeSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { folder, postgres, rawQuery } from "../layers/store/Stores.ts"

export const newPath = Effect.map(folder, (place) => join(place, "music.sqlite"))

/** Reads one number from the database over a connection of its own. */
export type ReadNumber = (statement: string) => Effect.Effect<number>

export const scalar = (path: string, statement: string) =>
  Effect.map(rawQuery(path, statement), ([row]) => Object.values(row ?? {})[0])

export const readFromSqlite =
  (path: string): ReadNumber =>
  (statement) =>
    Effect.map(scalar(path, statement), Number)

export const readFromPostgres =
  (url: string): ReadNumber =>
  (text) =>
    Effect.map(postgres.rawQuery(url, text), ([row]) => Number(Object.values(row ?? {})[0]))

/** Counts tables whose sums are inconsistent with each other or with the rows (`Spool.counts`). */
export const brokenSums = `
  SELECT COUNT(*) AS broken FROM spool_counts c
  WHERE c.accepted <> c.delivered + c.duplicates + c.expired + c.refused + c.waiting
    OR c.waiting <> (SELECT COUNT(*) FROM spool s WHERE s.table_name = c.table_name)
    OR c.waiting_bytes <> (SELECT COALESCE(SUM(bytes), 0) FROM spool s WHERE s.table_name = c.table_name)`

export const spoolLawHolds = (path: string) => Effect.map(scalar(path, brokenSums), (broken) => broken === 0)

/** Overwrites a part of a file with invalid bytes. */
export const garble = (path: string, from: number, length: number) => {
  const descriptor = openSync(path, "r+")
  writeSync(descriptor, Buffer.alloc(length, 0xa5), 0, length, from)
  closeSync(descriptor)
}
