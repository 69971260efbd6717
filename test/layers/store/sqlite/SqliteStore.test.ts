/** What a caller sees of a SQLite file that is locked, full, moved, damaged or of somebody else. */
import { chmodSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { assert, describe } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import { Effect, Exit, Fiber, Metric, Option, Schema, Scope } from "effect"
import { all } from "../../../../src/services/store/Statements.ts"
import { productionId } from "../../../../src/services/Plane.ts"
import { storeCorrupt } from "../../../../src/services/Metrics.ts"
import type { StoreService, StoreUnavailable } from "../../../../src/services/Store.ts"
import { environmentOf, upstreams } from "../../../world/Fleet.ts"
import { keptConsole } from "../../../world/Sandbox.ts"
import { run } from "../../../cli/Harness.ts"
import { garble } from "../../../faults/Databases.ts"
import { testSettings } from "../../../world/Settings.ts"
import { sampleReport } from "../Samples.ts"
import {
  folder,
  freshPath,
  type OpenOptions,
  openStore,
  rawClient,
  rawQuery,
  storeOf,
  withStore
} from "../Stores.ts"

const modeOf = (path: string) => statSync(path).mode & 0o777
const activate = ({ recipients }: StoreService, publicId = "c:ana") =>
  recipients.activate({ plane: productionId, organisation: "acme", organisationUuid: "uuid", publicId })
const isActive = ({ recipients }: StoreService, publicId = "c:ana") =>
  recipients.isActive({ plane: productionId, organisation: "acme", organisationUuid: "uuid", publicId })

/** The kind of the failure. Its line names the database, without a stack, a statement or a value. */
const kindOf = <A, R>(access: Effect.Effect<A, StoreUnavailable, R>, path: string) =>
  Effect.map(Effect.flip(access), ({ kind, reason }) => {
    assert.include(reason, `SQLite database ${path}`)
    assert.notMatch(reason, /\n|\bat .*:\d+|SELECT|INSERT|c:ana/)
    return kind
  })
const refusal = (path: string, options?: OpenOptions) => kindOf(Effect.scoped(openStore(path, options)), path)

/** The write lock, held by another program until the scope closes. */
const heldLock = (path: string) =>
  Effect.gen(function* () {
    const sql = yield* rawClient(path)
    yield* Effect.acquireRelease(sql.unsafe("BEGIN IMMEDIATE"), () => Effect.orDie(sql.unsafe("ROLLBACK")))
  })

/** A file of a store that was used. */
const usedPath = Effect.tap(freshPath, (path) => withStore(path, (store) => activate(store)))

describe("The file of a store", () => {
  it.scoped("is made private with its folders, and keeps the modes that it has", function* () {
    const path = join(yield* folder, "new", "deep", "music.sqlite")
    yield* activate(yield* storeOf(testSettings({ databasePath: path })))
    deepStrictEqual([dirname(path), dirname(dirname(path))].map(modeOf), [0o700, 0o700])
    deepStrictEqual([path, `${path}-wal`, `${path}-shm`].map(modeOf), [0o600, 0o600, 0o600])
    const other = yield* freshPath
    chmodSync(dirname(other), 0o750)
    writeFileSync(other, "")
    chmodSync(other, 0o640)
    yield* withStore(other, ({ check }) => check)
    deepStrictEqual([modeOf(dirname(other)), modeOf(other)], [0o750, 0o640])
  })

  it.scoped("commits to a write-ahead log, and syncs every commit to the disk", function* () {
    const { read, sql, usage } = yield* openStore(yield* freshPath)
    const names = ["journal_mode", "synchronous", "temp_store"]
    const pragmas = yield* Effect.forEach(names, (name) =>
      Effect.map(sql.unsafe<object>(`PRAGMA ${name}`), ([row]) => Object.values(row ?? {})[0])
    )
    // 2 is FULL; of the last one MEMORY: no access depends on room in a temporary folder.
    assert.deepStrictEqual(pragmas, ["wal", 2, 2])
    const place = all(Schema.Struct({ tempStore: Schema.Number }))(sql`SELECT * FROM pragma_temp_store`)
    assert.deepStrictEqual(yield* place.pipe(read("Test.place")), [{ tempStore: 2 }])
    const { data, file } = yield* usage.size
    assert.deepStrictEqual([data > 0, Option.isSome(file), usage.pool()], [true, true, Option.none()])
    for (const size of Object.values(Option.getOrThrow(file))) assert.isAbove(size, 0)
  })
})

describe("A file that cannot be used is refused, as", () => {
  it.scoped.each(["CREATE TABLE theirs (id INTEGER)", "PRAGMA application_id = 252006675"])(
    "of another program, without a change: %s",
    function* (mark) {
      const path = join(yield* folder, "music.sqlite")
      yield* rawQuery(path, mark)
      const before = readFileSync(path)
      assert.strictEqual(yield* refusal(path), "schema")
      assert.isTrue(before.equals(readFileSync(path)))
    }
  )

  it.scoped("other: a file that is not writable for this process", function* () {
    const path = yield* usedPath
    chmodSync(path, 0o444)
    chmodSync(dirname(path), 0o777)
    const kind = yield* Effect.acquireUseRelease(
      // A superuser can write any file.
      Effect.sync(() => process.getuid?.() === 0 && process.seteuid?.(65_534)),
      () => refusal(path),
      () => Effect.sync(() => process.getuid?.() === 0 && process.seteuid?.(0))
    )
    assert.strictEqual(kind, "other")
  })

  it.scopedLive("locked: by another process for as long as a lock is waited for", function* () {
    const path = yield* usedPath
    yield* heldLock(path)
    assert.strictEqual(yield* refusal(path, { lockWait: 30 }), "locked")
  })
})

describe("While a store runs", () => {
  it.scopedLive("a lock that ends in time fails no write, and blocks no read", function* () {
    const path = yield* freshPath
    const store = yield* openStore(path)
    const scope = yield* Scope.make()
    yield* Scope.extend(heldLock(path), scope)
    const writing = yield* Effect.fork(activate(store))
    yield* Effect.sleep(40)
    assert.isFalse(yield* isActive(store))
    yield* Scope.close(scope, Exit.void)
    yield* Fiber.join(writing)
    yield* store.check
    assert.isTrue(yield* isActive(store))
    assert.isFalse(store.isFailing())
  })

  it.scoped("a check fails while no write is taken, until one of them succeeds", function* () {
    const path = yield* freshPath
    const store = yield* openStore(path)
    yield* store.sql.unsafe("PRAGMA query_only = ON")
    assert.strictEqual(yield* kindOf(store.check, path), "other")
    yield* isActive(store)
    assert.isTrue(store.isFailing())
    yield* store.sql.unsafe("PRAGMA query_only = OFF")
    yield* store.check
    assert.isFalse(store.isFailing())
  })

  it.scopedLive("a corruption that a read meets ends all writes, also of a mended file", function* () {
    const path = yield* usedPath
    const { console, lines } = keptConsole()
    const store = yield* openStore(path)
    const environment = { ...environmentOf(yield* upstreams), MUSIC_DATABASE_PATH: path }
    const integrity = Effect.map(run(["check"], environment), ({ out }) => /^.*integrity .*$/m.exec(out)?.[0])
    const report = sampleReport()
    yield* store.reports.admit(report, true)
    // A bad row is none.
    yield* rawQuery(path, "UPDATE reports SET content = 'no JSON'")
    assert.strictEqual(yield* kindOf(store.reports.find(report.id), path), "other")
    yield* store.check
    assert.match((yield* integrity) ?? "", /^PASS/)
    const other = yield* rawClient(path)
    const [root] = yield* other<{ readonly page: number }>`
      SELECT rootpage AS page FROM sqlite_master WHERE type = 'table' AND name = 'recipients'`
    yield* other.unsafe("PRAGMA wal_checkpoint(TRUNCATE)")
    const sound = readFileSync(path)
    garble(path, ((root?.page ?? 1) - 1) * 4_096, 4_096)
    yield* other.unsafe("PRAGMA user_version = 1")
    const reading = kindOf(Effect.asVoid(isActive(store)), path)
    for (const read of [reading, reading])
      assert.strictEqual(yield* Effect.withConsole(read, console), "corrupt")
    const said = lines.join(" ").match(/ERROR.*?The database is corrupt.*?restore a backup/gs)
    assert.lengthOf(said ?? [], 1)
    assert.strictEqual((yield* Metric.value(storeCorrupt({}))).value, 1)
    assert.match((yield* integrity) ?? "", /^FAIL.* pages are damaged$/)
    writeFileSync(path, sound)
    yield* other.unsafe("PRAGMA user_version = 2")
    assert.isTrue(yield* isActive(store))
    for (const attempt of [store.check, activate(store)])
      assert.strictEqual(yield* kindOf(attempt, path), "corrupt")
    assert.isTrue(store.isFailing())
  })

  it.scoped("its file that was moved away or replaced refuses all calls until it is back", function* () {
    const path = join(yield* folder, "music.sqlite")
    const store = yield* openStore(path)
    yield* activate(store)
    renameSync(path, `${path}.old`)
    const calls = [store.check, activate(store), Effect.asVoid(isActive(store))]
    for (const call of calls) assert.strictEqual(yield* kindOf(call, path), "other")
    writeFileSync(path, "")
    for (const call of calls.slice(0, 2)) assert.strictEqual(yield* kindOf(call, path), "other")
    rmSync(path)
    renameSync(`${path}.old`, path)
    yield* store.check
    yield* activate(store, "c:eva")
  })
})
