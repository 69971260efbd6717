import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  statSync,
  rmSync,
  truncateSync,
  writeFileSync
} from "node:fs"
import { dirname, join } from "node:path"
import { assert, describe } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Chunk from "effect/Chunk"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import { makeStore } from "../../../../src/layers/store/repositories/Repositories.ts"
import { openDatabase } from "../../../../src/layers/store/sqlite/SqliteStore.ts"
import { StoreFromSettings } from "../../../../src/layers/store/StoreFromSettings.ts"
import { productionId } from "../../../../src/services/Plane.ts"
import { Drain } from "../../../../src/services/Drain.ts"
import { Settings } from "../../../../src/services/Settings.ts"
import { Store, type StoreService } from "../../../../src/services/Store.ts"
import { testSettings } from "../../../support/Settings.ts"
import { awaited } from "../../../support/Waiting.ts"
import { folder, freshPath, openStore, rawClient, rawQuery, sampleReport, withStore } from "../Stores.ts"

const modeOf = (path: string) => statSync(path).mode & 0o777
const storeAndClient = (path: string) =>
  Effect.gen(function* () {
    const database = yield* openDatabase(path, { lockWait: 100 })
    return { store: yield* makeStore(database), sql: database.sql }
  })

const activate = ({ recipients }: StoreService, publicId = "c:ana") =>
  recipients.activate({ plane: productionId, organisation: "acme", organisationUuid: "uuid", publicId })
const isActive = ({ recipients }: StoreService, publicId = "c:ana") =>
  recipients.isActive({ plane: productionId, organisation: "acme", publicId })

/** One line that names the database and the problem, without a stack or a statement. */
const assertReason = (reason: string, path: string, trouble: RegExp) => {
  assert.include(reason, `SQLite database ${path}`)
  assert.match(reason, trouble)
  assert.notMatch(reason, /\n|\bat .*:\d+|SELECT|INSERT|c:ana/)
}
const refusal = (path: string) =>
  Effect.map(Effect.flip(Effect.scoped(openStore(path))), ({ reason }) => reason)

/** The write lock, held by another program until the scope closes. */
const heldLock = (path: string) =>
  Effect.gen(function* () {
    const sql = yield* rawClient(path)
    yield* Effect.acquireRelease(sql.unsafe("BEGIN IMMEDIATE"), () => Effect.orDie(sql.unsafe("ROLLBACK")))
  })

describe("SqliteStore", () => {
  it.scoped("opens the file of the settings, and creates a private folder and private files", function* () {
    const path = join(yield* folder, "new", "deep", "music.sqlite")
    const store = yield* Layer.build(
      StoreFromSettings.pipe(
        Layer.provide([Layer.succeed(Settings, testSettings({ databasePath: path })), Drain.Default])
      )
    ).pipe(Effect.flatMap((context) => Effect.provide(Store, context)))
    yield* activate(store)
    assert.strictEqual(modeOf(dirname(path)), 0o700)
    assert.strictEqual(modeOf(dirname(dirname(path))), 0o700)
    for (const file of [path, `${path}-wal`, `${path}-shm`]) assert.strictEqual(modeOf(file), 0o600, file)
  })

  it.scoped("keeps the mode of an existing folder and file", function* () {
    const path = yield* freshPath
    chmodSync(dirname(path), 0o750)
    writeFileSync(path, "", { mode: 0o640 })
    yield* withStore(path, ({ check }) => check)
    deepStrictEqual([modeOf(dirname(path)), modeOf(path)], [0o750, 0o640])
  })

  it.scoped("commits to a write-ahead log, and syncs every commit to the disk", function* () {
    const { sql } = yield* storeAndClient(yield* freshPath)
    const pragma = (name: string) =>
      Effect.map(
        sql.unsafe<Record<string, unknown>>(`PRAGMA ${name}`).withoutTransform,
        ([row]) => row?.[name]
      )
    const full = 2
    assert.strictEqual(yield* pragma("journal_mode"), "wal")
    assert.strictEqual(yield* pragma("synchronous"), full)
    assert.strictEqual(yield* pragma("foreign_keys"), 1)
    // 2 is MEMORY: no write depends on room in a temporary folder.
    assert.strictEqual(yield* pragma("temp_store"), 2)
  })

  it.live("opens a file whose write-ahead log another process removes at the same time", () =>
    Effect.gen(function* () {
      const path = yield* freshPath
      yield* withStore(path, (store) => activate(store))
      const scope = yield* Scope.make()
      const other = yield* Scope.extend(rawClient(path), scope)
      yield* other.unsafe("PRAGMA locking_mode = EXCLUSIVE")
      yield* other.unsafe("UPDATE recipients SET plane = plane")
      const lockWait = 120_000
      const opening = yield* Effect.fork(Effect.flatMap(openDatabase(path, { lockWait }), makeStore))
      yield* Effect.sleep(40)
      assert.isTrue(existsSync(`${path}-wal`))
      yield* Scope.close(scope, Exit.void)
      assert.isFalse(existsSync(`${path}-wal`))
      const [took, store] = yield* Effect.timed(Fiber.join(opening))
      assert.isTrue(yield* isActive(store))
      // The lock is released, so nothing waits for as long as for a lock.
      assert.isBelow(Duration.toMillis(took), lockWait / 2)
    }).pipe(Effect.scoped)
  )

  describe("refuses to start, and names database and problem:", () => {
    for (const mark of ["CREATE TABLE theirs (id INTEGER)", "PRAGMA application_id = 252006675"])
      it.scoped(`a database of another program, without changing it: ${mark}`, function* () {
        const path = yield* freshPath
        yield* rawQuery(path, mark)
        const before = readFileSync(path)
        assertReason(yield* refusal(path), path, /belongs to another program/)
        assert.isTrue(before.equals(readFileSync(path)))
      })

    const damages: ReadonlyArray<readonly [string, (path: string) => void, RegExp]> = [
      [
        "a file that is not a database",
        (path) => writeFileSync(path, "this is a text file, and long enough to have a header\n".repeat(50)),
        /corrupt, or not a database \(SQLITE_NOTADB\)/
      ],
      ["a damaged database", (path) => writeFileSync(path, readFileSync(path).fill(0xa5, 100)), /corrupt/],
      ["a truncated database", (path) => truncateSync(path, 4096 * 3), /corrupt/],
      [
        "a folder",
        (path) => {
          rmSync(path)
          mkdirSync(path)
        },
        /cannot be opened/
      ]
    ]
    it.scoped.each(damages)("%s", function* ([, damage, trouble]) {
      const path = yield* freshPath
      yield* withStore(path, (store) => activate(store))
      damage(path)
      assertReason(yield* refusal(path), path, trouble)
    })

    it.scoped("a path that leads through a file", function* () {
      const file = yield* freshPath
      writeFileSync(file, "")
      const path = join(file, "music.sqlite")
      assertReason(yield* refusal(path), path, /cannot be opened/)
    })

    it.scoped("a file that is not writable for this process", function* () {
      const path = yield* freshPath
      yield* withStore(path, (store) => activate(store))
      chmodSync(path, 0o444)
      chmodSync(dirname(path), 0o777)
      const reason = yield* Effect.acquireUseRelease(
        // A superuser can write any file.
        Effect.sync(() => process.getuid?.() === 0 && process.seteuid?.(65_534)),
        () => refusal(path),
        () => Effect.sync(() => process.getuid?.() === 0 && process.seteuid?.(0))
      )
      assertReason(reason, path, /read-only/)
    })

    it.scoped("a lock that another process keeps for 5 s", function* () {
      const path = yield* freshPath
      yield* withStore(path, (store) => activate(store))
      yield* heldLock(path)
      const opening = yield* Effect.fork(Effect.flip(openDatabase(path)))
      // The addon loads in real time.
      yield* awaited("the wait for the lock", TestClock.sleeps(), (sleeps) => Chunk.isNonEmpty(sleeps))
      yield* TestClock.adjust("4900 millis")
      assert.isTrue(Option.isNone(yield* Fiber.poll(opening)))
      yield* TestClock.adjust("200 millis")
      const { reason } = yield* Fiber.join(opening)
      assertReason(reason, path, /locked by another process/)
    })

    it.live("a lock that another process keeps", () =>
      Effect.gen(function* () {
        const path = yield* freshPath
        yield* withStore(path, (store) => activate(store))
        yield* heldLock(path)
        const { reason } = yield* Effect.flip(openDatabase(path, { lockWait: 60 }))
        assertReason(reason, path, /locked by another process/)
      }).pipe(Effect.scoped)
    )
  })

  describe("while it runs:", () => {
    it.live("a locked database fails writes after the lock timeout, and serves reads", () =>
      Effect.gen(function* () {
        const path = yield* freshPath
        const { store } = yield* storeAndClient(path)
        yield* activate(store)
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* heldLock(path)
            const writing = yield* Effect.fork(Effect.either(activate(store, "c:eva")))
            yield* Effect.sleep(30)
            assert.isTrue(yield* isActive(store))
            yield* store.check
            const result = yield* Fiber.join(writing)
            assert.isTrue(Either.isLeft(result))
            if (Either.isLeft(result))
              assertReason(result.left.reason, path, /locked by another process \(SQLITE_BUSY/)
          })
        )
        assert.isFalse(yield* isActive(store, "c:eva"))
        yield* activate(store, "c:eva")
        assert.isTrue(yield* isActive(store, "c:eva"))
      }).pipe(Effect.scoped)
    )

    it.live("a lock that is released in time causes no failure", () =>
      Effect.gen(function* () {
        const path = yield* freshPath
        const store = yield* openStore(path)
        const scope = yield* Scope.make()
        yield* Scope.extend(heldLock(path), scope)
        const started = yield* Deferred.make<void>()
        const writing = yield* Effect.fork(
          Effect.zipRight(Deferred.succeed(started, undefined), activate(store))
        )
        yield* Deferred.await(started)
        yield* Effect.sleep(40)
        yield* Scope.close(scope, Exit.void)
        yield* Fiber.join(writing)
        assert.isTrue(yield* isActive(store))
      }).pipe(Effect.scoped)
    )

    it.scoped("is unready while large writes fail, even when a small probe succeeds", function* () {
      const path = yield* freshPath
      const { sql, store } = yield* storeAndClient(path)
      const large = sampleReport({
        content: { ...sampleReport().content, message: "x".repeat(500_000) }
      })
      const fails = Effect.flip(store.reports.admit(large, true))
      const unready = Effect.map(Effect.flip(store.check), ({ reason }) =>
        assertReason(reason, path, /fails writes, although small ones succeed/)
      )
      yield* sql.unsafe("PRAGMA max_page_count = 60")
      // A single failed write does not count.
      yield* fails
      yield* store.check
      yield* fails
      yield* unready
      yield* TestClock.adjust("29 seconds")
      yield* fails
      yield* TestClock.adjust("29 seconds")
      yield* unready
      yield* sql.unsafe("PRAGMA max_page_count = 1000000")
      yield* TestClock.adjust("1 second")
      yield* store.check
      assert.strictEqual((yield* store.reports.admit(large, true))._tag, "Stored")
      // A lock does not count, because it ends with its holder.
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* heldLock(path)
          const waiting = yield* Effect.fork(Effect.flip(activate(store)))
          yield* TestClock.adjust("1 second")
          assertReason((yield* Fiber.join(waiting)).reason, path, /locked by another process/)
        })
      )
      yield* store.check
      // Long after a successful probe, a failure counts as the first one.
      yield* TestClock.adjust("1 minute")
      yield* sql.unsafe("PRAGMA query_only = ON")
      yield* Effect.flip(activate(store))
      yield* sql.unsafe("PRAGMA query_only = OFF")
      yield* store.check
    })

    it.scoped(
      "a file that was moved away, or replaced by another, refuses all calls until it is moved back",
      function* () {
        const path = yield* freshPath
        const store = yield* openStore(path)
        yield* activate(store)
        renameSync(path, `${path}.old`)
        const attempts = [store.check, activate(store, "c:eva"), Effect.asVoid(isActive(store))]
        for (const attempt of attempts) assertReason((yield* Effect.flip(attempt)).reason, path, /is gone/)
        writeFileSync(path, "")
        assertReason((yield* Effect.flip(activate(store))).reason, path, /is gone/)
        renameSync(`${path}.old`, path)
        yield* store.check
      }
    )

    it.scoped("a folder that was replaced by a file refuses all calls until it is moved back", function* () {
      const path = join(yield* folder, "data", "music.sqlite")
      const store = yield* openStore(path)
      yield* activate(store)
      renameSync(dirname(path), `${dirname(path)}.old`)
      writeFileSync(dirname(path), "")
      const attempts = [store.check, activate(store, "c:eva"), Effect.asVoid(isActive(store))]
      for (const attempt of attempts) assertReason((yield* Effect.flip(attempt)).reason, path, /is gone/)
      rmSync(dirname(path))
      renameSync(`${dirname(path)}.old`, dirname(path))
      yield* activate(store, "c:eva")
    })

    it.scoped("a closed store fails with a typed error", function* () {
      const path = yield* freshPath
      const store = yield* Effect.scoped(openStore(path))
      for (const attempt of [store.check, activate(store)])
        assertReason((yield* Effect.flip(attempt)).reason, path, /is closed/)
    })

    it.scoped("a write that fails half-way leaves no lock and no rows", function* () {
      const path = yield* freshPath
      const store = yield* openStore(path)
      yield* rawQuery(path, "ALTER TABLE deliveries RENAME TO elsewhere")
      const { reason } = yield* Effect.flip(store.reports.admit(sampleReport(), true))
      assertReason(reason, path, /failed \(SQLITE_ERROR\), in Reports.admit/)
      yield* store.check
      yield* rawQuery(path, "ALTER TABLE elsewhere RENAME TO deliveries")
      assert.strictEqual((yield* store.reports.find("rep_1"))._tag, "None")
      assert.strictEqual((yield* store.reports.admit(sampleReport(), true))._tag, "Stored")
    })
  })
})
