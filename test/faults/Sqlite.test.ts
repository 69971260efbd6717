import { closeSync, openSync, renameSync, rmSync, statSync, writeSync } from "node:fs"
import { join } from "node:path"
import { assert, describe } from "vitest"
import { it } from "../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { backup } from "../../src/layers/store/backup/Backup.ts"
import { restore } from "../../src/layers/store/backup/Restore.ts"
import { makeStore } from "../../src/layers/store/repositories/Repositories.ts"
import { openDatabase } from "../../src/layers/store/sqlite/SqliteStore.ts"
import { readFromSqlite, scalar } from "./Files.ts"
import {
  away,
  everyCall,
  expectRecovery,
  healthy,
  issues,
  keptWhole,
  outage,
  signIn,
  startServer,
  unwritable
} from "./Server.ts"
import { eventually } from "../support/Waiting.ts"
import { folder, rawClient } from "../layers/store/Stores.ts"

/** Lock timeout in milliseconds, shorter than production's 5 s. */
const lockWait = 200
/** Milliseconds: below the deadline of a request, 25 s. A call waits for the lock at most twice. */
const promptly = 20_000

const fresh = Effect.map(folder, (folder) => join(folder, "music.sqlite"))

/** A server on a file, and its own connection to it. */
const serving = (path: string) =>
  Effect.gen(function* () {
    const database = yield* openDatabase(path, { lockWait })
    const server = yield* startServer(makeStore(database))
    return { server, sql: database.sql }
  })

describe.concurrent("A SQLite database that fails under a running server:", () => {
  it.scopedLive("full: refuses large writes, accepts small ones, and recovers", function* () {
    const path = yield* fresh
    const { server, sql } = yield* serving(path)
    const { report, telemetry } = unwritable
    yield* outage(server, {
      begin: Effect.gen(function* () {
        // Removed rows free space in the file.
        yield* Effect.repeat(
          Effect.delay(scalar(path, "SELECT COUNT(*) FROM spool WHERE table_name = 'musicclidaemon'"), 20),
          { until: (waiting) => waiting === 0 }
        )
        yield* sql.unsafe("VACUUM")
        yield* sql.unsafe("PRAGMA max_page_count = 1")
      }),
      end: sql.unsafe("PRAGMA max_page_count = 1000000"),
      says: { ...healthy, report, telemetry },
      reason: /is full: its disk or quota has no space left/,
      promptly,
      readNumber: readFromSqlite(path)
    })
  })

  it.scopedLive("read-only: refuses writes, serves reads, and recovers", function* () {
    const path = yield* fresh
    const { server, sql } = yield* serving(path)
    yield* outage(server, {
      begin: sql.unsafe("PRAGMA query_only = ON"),
      end: sql.unsafe("PRAGMA query_only = OFF"),
      says: unwritable,
      reason: /is read-only for this process/,
      promptly,
      readNumber: readFromSqlite(path)
    })
  })

  it.scopedLive(
    "locked by another program: refuses writes after the lock timeout, serves reads, and recovers",
    function* () {
      const path = yield* fresh
      const { server } = yield* serving(path)
      const other = yield* rawClient(path)
      yield* outage(server, {
        begin: other.unsafe("BEGIN EXCLUSIVE"),
        end: other.unsafe("ROLLBACK"),
        says: unwritable,
        reason: /is locked by another process/,
        promptly,
        readNumber: readFromSqlite(path)
      })
    }
  )

  it.scopedLive("moved away: refuses all writes, and recovers when it is moved back", function* () {
    const path = yield* fresh
    const { server } = yield* serving(path)
    yield* outage(server, {
      begin: Effect.sync(() => renameSync(path, `${path}.moved`)),
      end: Effect.sync(() => renameSync(`${path}.moved`, path)),
      says: away,
      reason: /is gone: its file was moved or deleted/,
      promptly,
      readNumber: readFromSqlite(path)
    })
  })

  it.scopedLive(
    "without its write-ahead log: refuses all writes, and keeps acknowledged ones after a restart",
    function* () {
      const path = yield* fresh
      yield* Effect.scoped(
        Effect.gen(function* () {
          const { server } = yield* serving(path)
          const signed = yield* signIn(server)
          deepStrictEqual((yield* everyCall(server, signed)).round, healthy)
          rmSync(`${path}-wal`)
          deepStrictEqual((yield* everyCall(server, signed)).round, away)
        })
      )
      const { server } = yield* serving(path)
      deepStrictEqual((yield* everyCall(server, yield* signIn(server))).round, healthy)
      yield* keptWhole(readFromSqlite(path), { reports: 2, events: 2 })
    }
  )

  it.scopedLive("corrupt: refuses calls, logs the reason, and recovers from a backup", function* () {
    const path = yield* fresh
    const copy = `${path}.backup`
    const place = { databasePath: path, databaseUrl: Option.none() }
    yield* Effect.scoped(
      Effect.gen(function* () {
        const { server } = yield* serving(path)
        const signed = yield* signIn(server)
        deepStrictEqual((yield* everyCall(server, signed)).round, healthy)
        yield* eventually("an issue", () => issues(server) === 1)
        yield* backup(place, copy)
        yield* corrupt(path)
        const { round, slowest } = yield* everyCall(server, signed)
        deepStrictEqual(round, away)
        assert.isBelow(slowest, promptly)
        assert.isTrue(server.log.some((line) => /is corrupt/.test(line)))
      })
    )
    yield* restore(place, copy, { overwrite: true })
    const { server } = yield* serving(path)
    yield* expectRecovery(server, yield* signIn(server))
    yield* keptWhole(readFromSqlite(path), { reports: 2, events: 2 })
  })
})

/** Overwrites every page but the first, and makes the server read them again. */
const corrupt = (path: string) =>
  Effect.gen(function* () {
    const other = yield* rawClient(path)
    yield* other.unsafe("PRAGMA wal_checkpoint(TRUNCATE)")
    const bytes = Buffer.alloc(statSync(path).size - 4096, 0xa5)
    const descriptor = openSync(path, "r+")
    writeSync(descriptor, bytes, 0, bytes.length, 4096)
    closeSync(descriptor)
    yield* other.unsafe("PRAGMA user_version = 1")
  }).pipe(Effect.scoped)
