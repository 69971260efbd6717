/** SQLite databases in temporary folders, and connections of another program to them. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Reactivity from "@effect/experimental/Reactivity"
import * as SqliteClient from "@effect/sql-sqlite-node/SqliteClient"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { openDatabase } from "../../src/layers/store/sqlite/SqliteStore.ts"
import { type SpoolEntry, type StoreService, type StoreUnavailable } from "../../src/services/Store.ts"
import { makeStore } from "../../src/layers/store/repositories/Repositories.ts"

export const freshFolder: Effect.Effect<string, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "music-faults-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

/** The store of a server, open until the scope closes. */
export const openStore = (path: string): Effect.Effect<StoreService, StoreUnavailable, Scope.Scope> =>
  Effect.flatMap(openDatabase(path), makeStore)

export const withStore = <A, E>(path: string, use: (store: StoreService) => Effect.Effect<A, E>) =>
  Effect.scoped(Effect.flatMap(openStore(path), use))

/** A connection of another program, open until the scope closes; the store's rules do not apply to it. */
export const otherProgram = (path: string) =>
  SqliteClient.make({ filename: path, disableWAL: true }).pipe(
    Effect.provideServiceEffect(Reactivity.Reactivity, Reactivity.make)
  )

export const query = (path: string, statement: string) =>
  Effect.scoped(Effect.flatMap(otherProgram(path), (sql) => sql.unsafe<Record<string, unknown>>(statement)))

export const scalar = (path: string, statement: string) =>
  Effect.map(query(path, statement), ([row]) => Object.values(row ?? {})[0])

export const entryOf = (recordId: string, json = `{"id":"${recordId}"}`): SpoolEntry => ({
  table: "musicclidaemon",
  recordId,
  eventAt: 900,
  json,
  bytes: Buffer.byteLength(json),
  acceptedAt: 1_000
})

/** Counts tables whose sums are inconsistent with each other or with the rows (`Spool.counts`). */
export const brokenSums = `
  SELECT COUNT(*) AS broken FROM spool_counts c
  WHERE c.accepted <> c.delivered + c.duplicates + c.expired + c.refused + c.waiting
    OR c.waiting <> (SELECT COUNT(*) FROM spool s WHERE s.table_name = c.table_name)
    OR c.waiting_bytes <> (SELECT COALESCE(SUM(bytes), 0) FROM spool s WHERE s.table_name = c.table_name)`

export const spoolLawHolds = (path: string) => Effect.map(scalar(path, brokenSums), (broken) => broken === 0)
