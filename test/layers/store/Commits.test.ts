/** Simultaneous writes share a commit, none affects another one, and each is answered after it. */
import { assert, describe } from "vitest"
import { it } from "../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import type * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as fc from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import { makeGroups } from "../../../src/layers/store/GroupCommit.ts"
import { commitsIn, recordStatements } from "./DriverStatements.ts"
import { type Kind, onBoth, rawQuery, sampleEntry, sampleEvent, sampleReport, sqlite } from "./Stores.ts"

const numbers = (length: number) => Array.from({ length }, (_, index) => index)
const all = { concurrency: "unbounded" } as const
const turn = Effect.promise(() => new Promise(setImmediate))

describe("Groups of a commit", () => {
  /** A commit is over at once, or at the call of `finish`. */
  const recordGroups = ({ atMost = 10, held = false } = {}) =>
    Effect.gen(function* () {
      const groups: Array<Arr.NonEmptyReadonlyArray<number>> = []
      const running: Array<() => void> = []
      const room = yield* makeGroups<number>(
        (group, done) => {
          groups.push(group)
          if (held) running.push(done)
          else done()
        },
        { atMost, weight: (item) => item }
      )
      return { ...room, groups, finish: () => running.shift()?.() }
    })

  it.scoped(
    "keep the order and a maximum weight; a heavier item goes alone, one that withdraws not",
    function* () {
      const { add, groups, remove } = yield* recordGroups()
      for (const item of [4, 3, 6, 1, 50, 2, 9]) add(item)
      remove(3)
      deepStrictEqual(groups, [], "they begin in the next turn of the event loop")
      yield* turn
      remove(4)
      yield* Effect.repeatN(turn, 5)
      deepStrictEqual(groups, [[4, 6], [1], [50], [2], [9]])
    }
  )

  it.effect("follow each other; those that wait at the end are committed, and later ones too", function* () {
    const scope = yield* Scope.make()
    const { add, finish, groups } = yield* Scope.extend(recordGroups({ atMost: 5, held: true }), scope)
    add(1)
    yield* turn
    for (const item of [2, 3, 4]) add(item)
    yield* Effect.repeatN(turn, 3)
    deepStrictEqual(groups, [[1]])
    finish()
    yield* turn
    deepStrictEqual(groups, [[1], [2, 3]])
    const closing = yield* Effect.fork(Scope.close(scope, Exit.void))
    yield* turn
    finish()
    deepStrictEqual(groups, [[1], [2, 3], [4]])
    assert.isNull(closing.unsafePoll())
    finish()
    yield* Fiber.join(closing)
    add(5)
    deepStrictEqual(groups.at(-1), [5])
  })
})

/** Events of these types fail in the database; the second kind of failure also ends the transaction. */
const failing = (name: Kind["name"]) =>
  name === "SQLite"
    ? ["ABORT", "ROLLBACK"]
        .map(
          (way) => `CREATE TRIGGER ${way} BEFORE INSERT ON webhook_inbox WHEN NEW.event_type = '${way}'
            BEGIN SELECT RAISE(${way}, 'refused'); END;`
        )
        .join("\n")
    : `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$;
      CREATE TRIGGER refused BEFORE INSERT ON webhook_inbox FOR EACH ROW
      WHEN (NEW.event_type IN ('ABORT', 'ROLLBACK')) EXECUTE FUNCTION refuse()`

const write = fc.record({
  eventId: fc.constantFrom("a", "b", "c", "d", "e"),
  eventType: fc.constantFrom("fine", "fine", "fine", "ABORT", "ROLLBACK"),
  pause: fc.integer({ min: 0, max: 3 }),
  /** After so many turns of the event loop. */
  interrupted: fc.option(fc.integer({ min: 0, max: 2 }), { nil: undefined })
})
type Write = typeof write extends fc.Arbitrary<infer A> ? A : never

const play = (kind: Kind, writes: ReadonlyArray<Write>) =>
  Effect.gen(function* () {
    const path = yield* kind.emptyPath
    const { webhooks } = yield* kind.openStore(path)
    yield* kind.rawQuery(path, failing(kind.name))
    const fibers = yield* Effect.forEach(writes, (one) =>
      Effect.gen(function* () {
        yield* Effect.repeatN(one.pause === 0 ? Effect.void : turn, one.pause)
        const fiber = yield* Effect.fork(webhooks.receive(sampleEvent(one), []))
        if (one.interrupted !== undefined)
          yield* Effect.forkScoped(
            Effect.zipRight(Effect.repeatN(turn, one.interrupted), Fiber.interruptFork(fiber))
          )
        return { ...one, fiber }
      })
    )
    const ends = yield* Effect.forEach(fibers, ({ fiber, ...one }) =>
      Effect.map(Fiber.await(fiber), (exit) => ({ ...one, exit }))
    )
    // The last commit of an interrupted caller may be under way: this one comes after it.
    yield* webhooks.receive(sampleEvent({ eventId: "last" }), [])
    const rows = yield* kind.rawQuery(path, "SELECT event_id FROM webhook_inbox")
    const stored = new Set(rows.map(({ event_id }) => event_id))
    for (const { eventId, eventType, exit, interrupted } of ends) {
      if (Exit.isSuccess(exit)) assert.isTrue(eventType === "fine" && stored.has(eventId))
      else assert.isTrue(eventType !== "fine" || interrupted !== undefined)
    }
    for (const id of stored) {
      const mine = ends.filter(({ eventId, eventType }) => eventId === id && eventType === "fine")
      const first = mine.filter(({ exit }) => Exit.isSuccess(exit) && exit.value).length
      assert.isTrue(
        id === "last" || first === 1 || (first === 0 && mine.some(({ exit }) => Exit.isFailure(exit)))
      )
    }
  }).pipe(Effect.scoped)

onBoth("Simultaneous writes", (kind) => {
  const { freshPath, openStore } = kind

  it("store exactly those that succeeded, whatever the others do", () =>
    fc.assert(
      fc.asyncProperty(fc.array(write, { minLength: 1, maxLength: 25 }), (writes) =>
        Effect.runPromise(play(kind, writes))
      ),
      { numRuns: kind.name === "SQLite" ? 40 : 4 }
    ))

  it.scoped("200 batches of telemetry share a few commits, with correct sums", function* () {
    const { spool } = yield* openStore(yield* freshPath)
    const statements = yield* recordStatements
    const admissions = yield* Effect.forEach(
      numbers(200),
      (index) =>
        spool.offer([sampleEntry(`${index}-a`), sampleEntry(`${index % 50}-b`)], { limitBytes: 1_000_000 }),
      all
    )
    assert.isTrue(admissions.every((admission) => admission === "accepted"))
    assert.isAtMost(commitsIn(statements), 20)
    const [counts] = yield* spool.counts
    deepStrictEqual(
      [counts?.accepted, counts?.duplicates, counts?.waiting, counts?.waitingBytes],
      [400, 150, 250, 2_500]
    )
  })

  it.scoped("that fail together store nothing, and one that is withdrawn fails no other", function* () {
    const path = yield* freshPath
    const { spool } = yield* openStore(path)
    const offer = (id: string) => spool.offer([sampleEntry(id)], { limitBytes: 1_000 })
    const offers = Effect.forEach(["a", "b"], (id) => Effect.exit(offer(id)), all)
    yield* kind.rawQuery(path, "ALTER TABLE spool_counts RENAME TO elsewhere")
    assert.isTrue((yield* offers).every(Exit.isFailure))
    yield* kind.rawQuery(path, "ALTER TABLE elsewhere RENAME TO spool_counts")
    deepStrictEqual(yield* kind.rawQuery(path, "SELECT * FROM spool"), [])

    const fibers = yield* Effect.forEach(numbers(10), (index) => Effect.fork(offer(`${index}`)))
    yield* Effect.yieldNow()
    const [withdrawn, kept] = [0, 1].map((rest) => fibers.filter((_, index) => index % 2 === rest))
    yield* Effect.forEach(withdrawn ?? [], Fiber.interrupt)
    yield* Effect.forEach(kept ?? [], Fiber.join)
    deepStrictEqual(
      (yield* spool.counts).map(({ waiting }) => waiting),
      [5]
    )
  })
})

describe("Shared commits of SQLite", () => {
  const { freshPath, openStore } = sqlite

  it.scoped("a write that does not fit on the disk does not fail the others", function* () {
    const { reports, sql, webhooks } = yield* openStore(yield* freshPath)
    yield* sql.unsafe("PRAGMA max_page_count = 60")
    const large = { ...sampleReport().content, message: "x".repeat(500_000) }
    const receive = (eventId: string) => Effect.exit(webhooks.receive(sampleEvent({ eventId }), []))
    const [first, report, second] = yield* Effect.all(
      [receive("one"), Effect.exit(reports.admit(sampleReport({ content: large }), true)), receive("two")],
      all
    )
    deepStrictEqual([first, second], [Exit.succeed(true), Exit.succeed(true)])
    assert.isTrue(Exit.isFailure(report))
  })

  it.scoped("writes that wait when the store closes are committed", function* () {
    const path = yield* freshPath
    const scope = yield* Scope.make()
    const { webhooks } = yield* Scope.extend(openStore(path), scope)
    const writing = yield* Effect.fork(webhooks.receive(sampleEvent(), []))
    yield* Effect.yieldNow()
    yield* Scope.close(scope, Exit.void)
    assert.isTrue(yield* Fiber.join(writing))
    deepStrictEqual(yield* rawQuery(path, "SELECT plane FROM webhook_inbox"), [{ plane: "production" }])
  })

  it.scoped("each is answered after its commit, which is one of the next two; many share one", function* () {
    const { webhooks } = yield* openStore(yield* freshPath)
    const statements = yield* recordStatements
    const waited: Array<number> = []
    const caller = (caller: number) =>
      Effect.forEach(numbers(10), (index) =>
        Effect.gen(function* () {
          const before = commitsIn(statements)
          yield* webhooks.receive(sampleEvent({ eventId: `${caller} ${index}` }), [])
          waited.push(commitsIn(statements) - before)
        })
      )
    yield* Effect.forEach(numbers(64), caller, all)
    assert.strictEqual(waited.length, 640)
    assert.deepStrictEqual([Math.min(...waited) >= 1, Math.max(...waited) <= 2], [true, true])
    assert.isAtMost(commitsIn(statements), 20)
  })
})
