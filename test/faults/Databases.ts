/** The databases of these tests, read over connections of their own, and damaged. */
import { closeSync, openSync, writeFileSync, writeSync } from "node:fs"
import { join } from "node:path"
import { Effect, Schedule } from "effect"
import { startPostgres } from "../world/Postgres.ts"
import { type Kind, postgres, rawQuery, storeOf } from "../layers/store/Stores.ts"
import { type SettingsOverrides, testSettings } from "../world/Settings.ts"

/** Why a server does not start on a database: the sentences of its line, from its store in this process. */
export const refusalOf = (settings: SettingsOverrides) =>
  Effect.map(
    Effect.flip(Effect.scoped(storeOf(testSettings(settings)))),
    ({ fix, summary }) => `${summary}. ${fix.charAt(0).toUpperCase()}${fix.slice(1)}.`
  )

/** Reads one number from the database over a connection of its own. */
export type ReadNumber = (statement: string) => Effect.Effect<number>

export const scalar = (path: string, statement: string) =>
  Effect.map(rawQuery(path, statement), ([row]) => Object.values(row ?? {})[0])

export const numbersOf =
  ({ rawQuery: query }: Kind, place: string): ReadNumber =>
  (statement) =>
    Effect.map(query(place, statement), ([row]) => Number(Object.values(row ?? {})[0]))

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

/** A server that can become a standby, on the same port and data; removed with the scope. */
export const standbyPostgres = Effect.map(
  Effect.acquireRelease(
    Effect.promise(() => startPostgres({ persistent: true })),
    ({ stop }) => Effect.promise(stop)
  ),
  ({ data, server, url }) => ({
    url,
    /** Restarts as a standby, which refuses writes until it is promoted. */
    standBy: Effect.gen(function* () {
      yield* Effect.promise(() => server.stop())
      writeFileSync(join(data, "standby.signal"), "")
      // The package waits until the server takes writes.
      void server.start().catch(() => undefined)
      yield* postgres
        .rawQuery(url, "SELECT 1")
        .pipe(Effect.sandbox, Effect.retry({ schedule: Schedule.spaced("50 millis"), times: 2_000 }))
    }),
    promote: postgres.rawQuery(url, "SELECT pg_promote()")
  })
)
