import { assert, describe, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import * as Tracer from "effect/Tracer"
import { groupCommit } from "../../../src/layers/store/GroupCommit.ts"
import { onBoth, sampleEntry } from "./Stores.ts"

const numbers = (length: number) => Array.from({ length }, (_, index) => index)
const all = { concurrency: "unbounded" } as const

describe("Group commit", () => {
  /** Records the groups; each commit waits for `hold`. */
  const recordGroups = (options: { readonly atMost: number; readonly hold?: Effect.Effect<void> }) =>
    Effect.gen(function* () {
      const groups: Array<ReadonlyArray<number>> = []
      const commit = (items: ReadonlyArray<number>) =>
        Effect.gen(function* () {
          groups.push(items)
          yield* options.hold ?? Effect.void
          return items.map((item) => item * 10)
        })
      const give = yield* groupCommit(commit, { atMost: options.atMost, weight: (item: number) => item })
      return { give, groups }
    })

  it.scoped("keeps the order and the maximum weight of a group; a heavier item is committed alone", () =>
    Effect.gen(function* () {
      const { give, groups } = yield* recordGroups({ atMost: 10 })
      yield* Effect.forEach([4, 6, 1, 50, 2, 9], give, all)
      deepStrictEqual(groups, [[4, 6], [1], [50], [2], [9]])
    })
  )

  it.scoped("puts an item that arrives during a commit into the next group", () =>
    Effect.gen(function* () {
      const held = yield* Deferred.make<void>()
      const { give, groups } = yield* recordGroups({ atMost: 10, hold: Deferred.await(held) })
      const first = yield* Effect.fork(give(1))
      yield* Effect.repeat(Effect.yieldNow(), { until: () => groups.length === 1, times: 1_000 })
      yield* Effect.promise(() => new Promise(setImmediate))
      const others = yield* Effect.fork(Effect.forEach([2, 3], give, all))
      yield* Effect.promise(() => new Promise(setImmediate))
      yield* Deferred.succeed(held, undefined)
      yield* Effect.zipRight(Fiber.join(first), Fiber.join(others))
      deepStrictEqual(groups, [[1], [2, 3]])
    })
  )

  it.scoped("fails a whole group after a failed or defective commit, and commits the next group", () =>
    Effect.gen(function* () {
      let attempts = 0
      const give = yield* groupCommit(
        (items: ReadonlyArray<number>) => {
          attempts += 1
          if (attempts === 1) return Effect.fail("no disk")
          return attempts === 2 ? Effect.die("a bug") : Effect.succeed(items)
        },
        { atMost: 10, weight: () => 1 }
      )
      const failed = yield* Effect.forEach([1, 2], (item) => Effect.exit(give(item)), all)
      deepStrictEqual(failed, [Exit.fail("no disk"), Exit.fail("no disk")])
      const died = yield* Effect.forEach([1, 2], (item) => Effect.exit(give(item)), all)
      deepStrictEqual(died, [Exit.die("a bug"), Exit.die("a bug")])
      assert.strictEqual(yield* give(7), 7)
    })
  )

  it.scoped(
    "callers of the same turn of the event loop share a group, and other work runs between groups",
    () =>
      Effect.gen(function* () {
        const log: Array<unknown> = []
        const work = Effect.sync(() => void setImmediate(() => log.push("other work")))
        const commit = (items: ReadonlyArray<number>) =>
          Effect.zipRight(
            work,
            Effect.sync(() => {
              log.push(items)
              return items
            })
          )
        const give = yield* groupCommit(commit, { atMost: 2, weight: () => 1 })
        const fibers: Array<Fiber.Fiber<number>> = []
        for (const item of [1, 2, 3]) {
          fibers.push(yield* Effect.fork(give(item)))
          yield* Effect.repeatN(Effect.yieldNow(), 10)
        }
        deepStrictEqual(yield* Effect.forEach(fibers, Fiber.join), [1, 2, 3])
        deepStrictEqual(log, [[1, 2], "other work", [3]])
        for (let turn = 0; turn < 3; turn += 1) yield* Effect.promise(() => new Promise(setImmediate))
        assert.strictEqual(yield* give(4), 4)
      })
  )

  it.effect("waits for the running commit when it closes, and answers its callers", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const held = yield* Deferred.make<void>()
      const { give, groups } = yield* Scope.extend(
        recordGroups({ atMost: 10, hold: Deferred.await(held) }),
        scope
      )
      const first = yield* Effect.fork(give(1))
      while (groups.length === 0) yield* Effect.promise(() => new Promise(setImmediate))
      const closing = yield* Effect.fork(Scope.close(scope, Exit.void))
      yield* Effect.yieldNow()
      yield* Deferred.succeed(held, undefined)
      yield* Fiber.join(closing)
      yield* Effect.repeatN(Effect.yieldNow(), 10)
      deepStrictEqual(yield* Fiber.poll(first), Option.some(Exit.succeed(10)))
    })
  )

  it.effect("commits pending items when it closes, and answers later ones too", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const { give, groups } = yield* Scope.extend(recordGroups({ atMost: 1 }), scope)
      const waiting = yield* Effect.fork(Effect.forEach([1, 2, 3], give, all))
      yield* Effect.repeatN(Effect.yieldNow(), 10)
      deepStrictEqual(groups, [])
      yield* Scope.close(scope, Exit.void)
      deepStrictEqual(yield* Fiber.join(waiting), [10, 20, 30])
      assert.strictEqual(yield* give(4), 40)
      deepStrictEqual(groups, [[1], [2], [3], [4]])
    })
  )
})

/** Counts the transactions of offers. */
const countingCommits = Effect.map(Effect.tracer, (usual) => {
  let commits = 0
  const tracer = Tracer.make({
    span: (name, ...rest) => {
      if (name === "Spool.commit") commits += 1
      return usual.span(name, ...rest)
    },
    context: (run) => run()
  })
  return { tracer, count: () => commits }
})

onBoth("Concurrent offers", ({ freshPath, openStore, rawQuery }) => {
  it.scoped("200 of them share a few commits, with correct sums", () =>
    Effect.gen(function* () {
      const { count, tracer } = yield* countingCommits
      const { spool } = yield* Effect.withTracer(openStore(yield* freshPath), tracer)
      const admissions = yield* Effect.forEach(
        numbers(200),
        (index) =>
          spool.offer([sampleEntry(`${index}-a`), sampleEntry(`${index % 50}-b`)], { limitBytes: 1_000_000 }),
        all
      )
      assert.isTrue(admissions.every((admission) => admission === "accepted"))
      assert.isAtMost(count(), 20)
      const [counts] = yield* spool.counts
      deepStrictEqual(
        [counts?.accepted, counts?.duplicates, counts?.waiting, counts?.waitingBytes],
        [400, 150, 250, 2_500]
      )
    })
  )

  it.scoped("at the bound, exactly those that do not fit are refused", () =>
    Effect.gen(function* () {
      const { spool } = yield* openStore(yield* freshPath)
      const sizes = [40, 50, 20, 10, 5, 1]
      const admissions = yield* Effect.forEach(
        sizes,
        (bytes) => spool.offer([sampleEntry(`of ${bytes}`, { bytes })], { limitBytes: 100 }),
        all
      )
      deepStrictEqual(admissions, ["accepted", "accepted", "full", "accepted", "full", "full"])
      const [counts] = yield* spool.counts
      deepStrictEqual([counts?.accepted, counts?.waitingBytes], [3, 100])
    })
  )

  it.scoped("a failed transaction fails all of them, and stores nothing", () =>
    Effect.gen(function* () {
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
      // The SQLite client caches statements that failed to prepare.
      yield* TestClock.adjust("6 seconds")
      deepStrictEqual(yield* rawQuery(path, "SELECT * FROM spool"), [])
      deepStrictEqual(yield* spool.counts, [])
    })
  )

  it.scoped("an interrupted caller does not affect the others", () =>
    Effect.gen(function* () {
      const { spool } = yield* openStore(yield* freshPath)
      const fibers = yield* Effect.forEach(numbers(10), (index) =>
        Effect.fork(spool.offer([sampleEntry(`${index}`)], { limitBytes: 1_000 }))
      )
      yield* Effect.yieldNow()
      yield* Effect.forEach(fibers, (fiber, index) =>
        index % 2 === 0 ? Fiber.interrupt(fiber) : Effect.void
      )
      const kept = fibers.filter((_, index) => index % 2 === 1)
      const admissions = yield* Effect.forEach(kept, Fiber.join)
      assert.isTrue(admissions.every((admission) => admission === "accepted"))
      const [counts] = yield* spool.counts
      assert.strictEqual(counts?.waiting, 10)
    })
  )
})
