import * as Effect from "effect/Effect"
import { rawQuery } from "../layers/store/Stores.ts"
import type { ReadNumber } from "./Server.ts"

export const scalar = (path: string, statement: string) =>
  Effect.map(rawQuery(path, statement), ([row]) => Object.values(row ?? {})[0])

export const readFromSqlite =
  (path: string): ReadNumber =>
  (statement) =>
    Effect.map(scalar(path, statement), Number)

/** Counts tables whose sums are inconsistent with each other or with the rows (`Spool.counts`). */
export const brokenSums = `
  SELECT COUNT(*) AS broken FROM spool_counts c
  WHERE c.accepted <> c.delivered + c.duplicates + c.expired + c.refused + c.waiting
    OR c.waiting <> (SELECT COUNT(*) FROM spool s WHERE s.table_name = c.table_name)
    OR c.waiting_bytes <> (SELECT COALESCE(SUM(bytes), 0) FROM spool s WHERE s.table_name = c.table_name)`

export const spoolLawHolds = (path: string) => Effect.map(scalar(path, brokenSums), (broken) => broken === 0)
