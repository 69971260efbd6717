import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { onBoth } from "./Stores.ts"

onBoth("The usage of a store", ({ freshStore, name }) => {
  it.scopedLive("has the size of the database, and of SQLite its log and the free space", () =>
    Effect.gen(function* () {
      const { usage } = yield* freshStore
      const { data, file } = yield* usage.size
      assert.isAbove(data, 0)
      assert.strictEqual(Option.isSome(file), name === "SQLite")
      if (Option.isNone(file)) return
      assert.isAbove(file.value.log, 0)
      assert.isAbove(file.value.free, 0)
    })
  )

  it.scopedLive("counts the connections of Postgres and the accesses that wait for one", () =>
    Effect.gen(function* () {
      const { reports, usage } = yield* freshStore
      if (name === "SQLite") return assert.isTrue(Option.isNone(usage.pool()))
      const { limit } = Option.getOrThrow(usage.pool())
      const reads = yield* Effect.forEach(Array.from({ length: limit + 3 }), () =>
        Effect.fork(reports.storedBytes)
      )
      yield* Effect.yieldNow()
      // The pool gives its connections in the next tick, and nothing is answered before that.
      yield* Effect.promise(() => new Promise<void>((wake) => process.nextTick(wake)))
      assert.deepStrictEqual(Option.getOrThrow(usage.pool()), { limit, used: limit, idle: 0, waiting: 3 })
      yield* Fiber.joinAll(reads)
      assert.deepInclude(Option.getOrThrow(usage.pool()), { used: 0, waiting: 0 })
    })
  )
})
