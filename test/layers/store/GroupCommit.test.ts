import { assert, describe } from "vitest"
import { it } from "../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import type * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import { type Groups, makeGroups } from "../../../src/layers/store/GroupCommit.ts"
import { recordStatements } from "./Drivers.ts"
import { onBoth, sampleEntry } from "./Stores.ts"

const numbers = (length: number) => Array.from({ length }, (_, index) => index)
const all = { concurrency: "unbounded" } as const
const turn = Effect.promise(() => new Promise(setImmediate))

describe("Group commit", () => {
  /** Remembers the groups. A commit is over at once, or at the call of `finish`. */
  const recordGroups = ({ atMost = 10, held = false } = {}) =>
    Effect.gen(function* () {
      const groups: Array<Arr.NonEmptyReadonlyArray<number>> = []
      const running: Array<() => void> = []
      const room: Groups<number> = yield* makeGroups<number>(
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
    "keeps the order and the maximum weight of a group; a heavier item is committed alone",
    function* () {
      const { add, groups } = yield* recordGroups()
      for (const item of [4, 6, 1, 50, 2, 9]) add(item)
      yield* Effect.repeatN(turn, 5)
      deepStrictEqual(groups, [[4, 6], [1], [50], [2], [9]])
    }
  )

  it.scoped("puts an item that arrives during a commit into the next group", function* () {
    const { add, finish, groups } = yield* recordGroups({ held: true })
    add(1)
    yield* turn
    add(2)
    yield* Effect.repeatN(turn, 3)
    add(3)
    deepStrictEqual(groups, [[1]])
    finish()
    yield* turn
    deepStrictEqual(groups, [[1], [2, 3]])
    finish()
  })

  it.scoped(
    "commits in the next turn of the event loop, and lets other work run between groups",
    function* () {
      const log: Array<unknown> = []
      const { add } = yield* makeGroups<number>(
        (group, done) => {
          log.push(group)
          setImmediate(() => log.push("other work"))
          done()
        },
        { atMost: 2, weight: () => 1 }
      )
      for (const item of [1, 2, 3]) add(item)
      deepStrictEqual(log, [])
      yield* Effect.repeatN(turn, 2)
      deepStrictEqual(log.slice(0, 3), [[1, 2], "other work", [3]])
    }
  )

  it.scoped("a withdrawn item is not committed, and one whose commit has begun stays", function* () {
    const { add, groups, remove } = yield* recordGroups()
    add(1)
    add(2)
    remove(1)
    yield* turn
    remove(2)
    deepStrictEqual(groups, [[2]])
  })

  it.effect(
    "commits pending items when it closes, waits for the running commit, and commits later ones too",
    function* () {
      const scope = yield* Scope.make()
      const { add, finish, groups } = yield* Scope.extend(recordGroups({ atMost: 1, held: true }), scope)
      for (const item of [1, 2]) add(item)
      yield* turn
      const closing = yield* Effect.fork(Scope.close(scope, Exit.void))
      yield* turn
      deepStrictEqual(groups, [[1]])
      finish()
      deepStrictEqual(groups, [[1], [2]])
      assert.isNull(closing.unsafePoll())
      finish()
      yield* Fiber.join(closing)
      add(3)
      deepStrictEqual(groups, [[1], [2], [3]])
    }
  )
})

onBoth("Concurrent offers", ({ freshPath, openStore, rawQuery }) => {
  it.scoped("200 of them share a few commits, with correct sums", function* () {
    const { spool } = yield* openStore(yield* freshPath)
    const statements = yield* recordStatements
    const admissions = yield* Effect.forEach(
      numbers(200),
      (index) =>
        spool.offer([sampleEntry(`${index}-a`), sampleEntry(`${index % 50}-b`)], { limitBytes: 1_000_000 }),
      all
    )
    assert.isTrue(admissions.every((admission) => admission === "accepted"))
    assert.isAtMost(statements.filter((text) => text.endsWith("COMMIT")).length, 20)
    const [counts] = yield* spool.counts
    deepStrictEqual(
      [counts?.accepted, counts?.duplicates, counts?.waiting, counts?.waitingBytes],
      [400, 150, 250, 2_500]
    )
  })

  it.scoped("a failed transaction fails all of them, and stores nothing", function* () {
    const path = yield* freshPath
    const { spool } = yield* openStore(path)
    const offers = Effect.forEach(
      ["a", "b"],
      (id) => Effect.exit(spool.offer([sampleEntry(id)], { limitBytes: 100 })),
      all
    )
    yield* rawQuery(path, "ALTER TABLE spool_counts RENAME TO elsewhere")
    assert.isTrue((yield* offers).every(Exit.isFailure))
    yield* rawQuery(path, "ALTER TABLE elsewhere RENAME TO spool_counts")
    deepStrictEqual(yield* rawQuery(path, "SELECT * FROM spool"), [])
    deepStrictEqual(yield* spool.counts, [])
  })

  it.scoped("an interrupted caller withdraws its offer and does not affect the others", function* () {
    const { spool } = yield* openStore(yield* freshPath)
    const fibers = yield* Effect.forEach(numbers(10), (index) =>
      Effect.fork(spool.offer([sampleEntry(`${index}`)], { limitBytes: 1_000 }))
    )
    yield* Effect.yieldNow()
    yield* Effect.forEach(fibers, (fiber, index) => (index % 2 === 0 ? Fiber.interrupt(fiber) : Effect.void))
    const kept = fibers.filter((_, index) => index % 2 === 1)
    const admissions = yield* Effect.forEach(kept, Fiber.join)
    assert.isTrue(admissions.every((admission) => admission === "accepted"))
    const [counts] = yield* spool.counts
    assert.strictEqual(counts?.waiting, 5)
  })
})
