import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { embeddedPostgres } from "../support/Postgres.ts"
import { freePort } from "../support/Process.ts"
import { postgres, rawQuery } from "../layers/store/Stores.ts"

/** Reads one number from the database over a connection of its own. */
export type ReadNumber = (statement: string) => Effect.Effect<number>

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

export const readFromPostgres =
  (url: string): ReadNumber =>
  (text) =>
    Effect.map(postgres.rawQuery(url, text), ([row]) => Number(Object.values(row ?? {})[0]))

/** A server that can be stopped and started again on the same port and data; removed with the scope. */
export const restartablePostgres = Effect.acquireRelease(
  Effect.promise(async () => {
    const EmbeddedPostgres = await embeddedPostgres()
    const folder = mkdtempSync(join(tmpdir(), "music-faults-postgres-"))
    // The server's own account must reach its data inside.
    chmodSync(folder, 0o755)
    const port = await freePort()
    const server = new EmbeddedPostgres({
      databaseDir: join(folder, "data"),
      user: "postgres",
      password: "postgres",
      port,
      persistent: true,
      createPostgresUser: process.getuid?.() === 0,
      initdbFlags: ["--locale=C", "--encoding=UTF8", "--no-sync"],
      postgresFlags: ["-c", "fsync=off", "-c", "listen_addresses=127.0.0.1"],
      onLog: () => undefined
    })
    await server.initialise()
    await server.start()
    return { folder, server, url: `postgres://postgres:postgres@127.0.0.1:${port}/postgres` }
  }),
  ({ folder, server }) =>
    Effect.promise(async () => {
      await server.stop()
      rmSync(folder, { recursive: true, force: true })
    })
).pipe(
  Effect.map(({ folder, server, url }) => {
    const answers = postgres
      .rawQuery(url, "SELECT 1")
      .pipe(Effect.sandbox, Effect.retry({ schedule: Schedule.spaced("50 millis"), times: 2_000 }))
    const stop = Effect.promise(() => server.stop())
    return {
      url,
      stop,
      start: Effect.promise(() => server.start()),
      /** Restarts as a standby, which refuses writes until it is promoted. */
      standBy: Effect.gen(function* () {
        yield* stop
        writeFileSync(join(folder, "data", "standby.signal"), "")
        // The package waits until the server takes writes.
        void server.start().catch(() => undefined)
        yield* answers
      }),
      promote: postgres.rawQuery(url, "SELECT pg_promote()")
    }
  })
)
