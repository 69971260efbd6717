/** Simultaneous writes of SQLite share a commit, and none affects another one. */
import { assert, describe } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as fc from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import type { Database } from "../../../../src/layers/store/Database.ts"
import { all, first, run, type Steps } from "../../../../src/layers/store/Query.ts"
import { openDatabase } from "../../../../src/layers/store/sqlite/SqliteStore.ts"
import { makeStore } from "../../../../src/layers/store/repositories/Repositories.ts"
import type { StoreUnavailable } from "../../../../src/services/Store.ts"
import { recordStatements } from "../Drivers.ts"
import { freshPath, rawQuery, sampleEvent, sampleReport } from "../Stores.ts"

const turn = Effect.promise(() => new Promise(setImmediate))

// Rows of any table do.
const Row = Schema.Struct({ recordId: Schema.String, deliveredAt: Schema.Int })
const rows = ({ read, sql }: Database) =>
  read("Test.read", all(Row)(sql`SELECT record_id, delivered_at FROM spool_delivered ORDER BY record_id`))

/** Adds to a row, and returns its new value. */
function* add({ sql }: Database, key: string, amount: number): Steps<number> {
  const found = yield* first(Row)(sql`SELECT * FROM spool_delivered WHERE record_id = ${key}`)
  const value = amount + (found._tag === "Some" ? found.value.deliveredAt : 0)
  yield* run(sql`INSERT OR REPLACE INTO spool_delivered (record_id, delivered_at) VALUES (${key}, ${value})`)
  return value
}

const end = {
  succeeds: () => [],
  "has a failing statement": ({ sql }: Database) => [
    sql`INSERT INTO spool_delivered (record_id) VALUES ('x')`
  ],
  "has a malformed row": ({ sql }: Database) => [
    sql`UPDATE spool_delivered SET delivered_at = 'a' RETURNING *`
  ],
  "loses the transaction": ({ sql }: Database) => [sql.unsafe("ROLLBACK"), sql`SELECT * FROM missing`],
  dies: () => []
}
type End = keyof typeof end

/** Interrupted after so many turns of the event loop. */
const write = fc.record({
  key: fc.constantFrom("a", "b", "c"),
  amount: fc.integer({ min: 1, max: 100 }),
  end: fc.constantFrom<End>(
    "succeeds",
    "succeeds",
    "succeeds",
    "succeeds",
    "has a failing statement",
    "has a malformed row",
    "loses the transaction",
    "dies"
  ),
  pause: fc.integer({ min: 0, max: 3 }),
  interrupted: fc.option(fc.integer({ min: 0, max: 2 }), { nil: undefined })
})
type Write = typeof write extends fc.Arbitrary<infer A> ? A : never

const bodyOf = (database: Database, { amount, end: kind, key }: Write) =>
  function* () {
    const value = yield* add(database, key, amount)
    for (const statement of end[kind](database)) yield* all(Row)(statement)
    if (kind === "dies") BigInt("not a number")
    return value
  }

const play = (writes: ReadonlyArray<Write>) =>
  Effect.gen(function* () {
    const database = yield* openDatabase(yield* freshPath)
    const model = new Map<string, number>()
    const committed = new Map<Write, number>()

    const fibers: Array<{
      readonly one: Write
      readonly fiber: Fiber.RuntimeFiber<number, StoreUnavailable>
    }> = []
    for (const one of writes) {
      yield* Effect.repeatN(one.pause === 0 ? Effect.void : turn, one.pause)
      const fiber = yield* Effect.fork(
        database.write("Test.write", bodyOf(database, one), (value) => {
          assert.isFalse(committed.has(one), "committed once")
          committed.set(one, value)
          model.set(one.key, (model.get(one.key) ?? 0) + one.amount)
          assert.strictEqual(value, model.get(one.key), "sees the writes before it, and no other")
        })
      )
      if (one.interrupted !== undefined)
        yield* Effect.forkScoped(
          Effect.zipRight(Effect.repeatN(turn, one.interrupted), Fiber.interruptFork(fiber))
        )
      fibers.push({ one, fiber })
    }
    for (const { fiber, one } of fibers) {
      const exit = yield* Fiber.await(fiber)
      const value = committed.get(one)
      if (Exit.isSuccess(exit)) assert.strictEqual(exit.value, value)
      else if (!Exit.isInterrupted(exit)) assert.isUndefined(value)
      assert.isTrue(one.end === "succeeds" || value === undefined)
      assert.isTrue(Exit.isSuccess(exit) || one.end !== "succeeds" || one.interrupted !== undefined)
    }
    deepStrictEqual(
      yield* rows(database),
      [...model].sort().map(([recordId, deliveredAt]) => ({ recordId, deliveredAt }))
    )
  }).pipe(Effect.scoped)

describe("Shared commits of SQLite", () => {
  it("hold exactly the writes that succeeded, whatever the others do", () =>
    fc.assert(
      fc.asyncProperty(fc.array(write, { minLength: 1, maxLength: 25 }), (writes) =>
        Effect.runPromise(play(writes))
      ),
      { numRuns: 60 }
    ))

  it.scoped("one that does not fit on the disk does not fail the others", function* () {
    const database = yield* openDatabase(yield* freshPath)
    const { reports, webhooks } = yield* makeStore(database)
    yield* database.sql.unsafe("PRAGMA max_page_count = 60")
    const large = { ...sampleReport().content, message: "x".repeat(500_000) }
    const [first, report, second] = yield* Effect.all(
      [
        Effect.exit(webhooks.receive(sampleEvent({ eventId: "one" }), [])),
        Effect.exit(reports.admit(sampleReport({ content: large }), true)),
        Effect.exit(webhooks.receive(sampleEvent({ eventId: "two" }), []))
      ],
      { concurrency: "unbounded" }
    )
    deepStrictEqual([first, second], [Exit.succeed(true), Exit.succeed(true)])
    assert.isTrue(Exit.isFailure(report))
  })

  it.scoped(
    "an interrupted caller withdraws a write that waits, and does not wait for one that has begun",
    function* () {
      const database = yield* openDatabase(yield* freshPath)
      const begun: Array<string> = []
      const writing = (key: string) =>
        Effect.fork(
          database.write("Test.write", () => {
            begun.push(key)
            return add(database, key, 1)
          })
        )
      const waiting = yield* writing("a")
      const kept = yield* writing("b")
      yield* Effect.yieldNow()
      yield* Fiber.interrupt(waiting)
      assert.strictEqual(yield* Fiber.join(kept), 1)
      deepStrictEqual(begun, ["b"])
      const late = yield* writing("c")
      yield* Effect.yieldNow()
      // Its commit is over in this turn, before the caller has continued.
      yield* Effect.async<void>((resume) => {
        setImmediate(() => {
          late.unsafeInterruptAsFork(FiberId.none)
          resume(Effect.void)
        })
      })
      yield* Fiber.await(late)
      deepStrictEqual(
        (yield* rows(database)).map(({ recordId }) => recordId),
        ["b", "c"]
      )
    }
  )

  it.scoped("writes that wait when the store closes are committed", function* () {
    const path = yield* freshPath
    const scope = yield* Scope.make()
    const database = yield* Scope.extend(openDatabase(path), scope)
    const writing = yield* Effect.fork(database.write("Test.write", () => add(database, "a", 1)))
    yield* Effect.yieldNow()
    yield* Scope.close(scope, Exit.void)
    assert.strictEqual(yield* Fiber.join(writing), 1)
    deepStrictEqual(yield* rawQuery(path, "SELECT record_id FROM spool_delivered"), [{ record_id: "a" }])
  })

  it.scoped("no write waits for more than two commits, and many share one", function* () {
    const database = yield* openDatabase(yield* freshPath)
    const statements = yield* recordStatements
    const commits = () => statements.filter((text) => text === "COMMIT").length
    const waited: Array<number> = []
    const caller = (key: string) =>
      Effect.repeatN(
        Effect.gen(function* () {
          const before = commits()
          yield* database.write("Test.write", () => add(database, key, 1))
          waited.push(commits() - before)
        }),
        9
      )
    yield* Effect.forEach(
      Array.from({ length: 64 }, (_, index) => `${index}`),
      caller,
      { concurrency: "unbounded" }
    )
    assert.strictEqual(waited.length, 640)
    assert.isAtMost(Math.max(...waited), 2)
    assert.isAtMost(commits(), 20)
  })

  it.scoped("a write alone begins in the next turn of the event loop", function* () {
    const database = yield* openDatabase(yield* freshPath)
    let begun = false
    yield* Effect.fork(
      database.write("Test.write", () => {
        begun = true
        return add(database, "a", 1)
      })
    )
    yield* Effect.yieldNow()
    assert.isFalse(begun)
    yield* turn
    assert.isTrue(begun)
  })
})
