import { assert } from "vitest"
import { it } from "../../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { onBoth, withPgClient } from "./Stores.ts"

onBoth("The usage of a store", ({ freshPath, freshStore, name, openStore }) => {
  it.scopedLive("has the size of the database, and of SQLite its log and the free space", function* () {
    const { usage } = yield* freshStore
    const { data, file } = yield* usage.size
    assert.isAbove(data, 0)
    assert.strictEqual(Option.isSome(file), name === "SQLite")
    if (Option.isNone(file)) return
    assert.isAbove(file.value.log, 0)
    assert.isAbove(file.value.free, 0)
  })

  it.scopedLive("counts the connections of Postgres and the accesses that wait for one", function* () {
    const place = yield* freshPath
    const { destinations, usage } = yield* openStore(place)
    if (name === "SQLite") return assert.isTrue(Option.isNone(usage.pool()))
    const pool = Effect.sync(() => Option.getOrThrow(usage.pool()))
    const { limit } = yield* pool
    let unlock = (): void => undefined
    const locked = yield* Effect.fork(
      withPgClient(place, async (client) => {
        const unlocked = new Promise<void>((resolve) => {
          unlock = resolve
        })
        await client.query("BEGIN; LOCK TABLE destinations IN ACCESS EXCLUSIVE MODE")
        const reading = Effect.runPromise(
          Effect.all(
            Array.from({ length: limit + 3 }, () => destinations.find("tracker")),
            { concurrency: "unbounded", discard: true }
          )
        )
        await unlocked
        await client.query("COMMIT")
        await reading
      })
    )
    const busy = yield* Effect.repeat(Effect.zipLeft(pool, Effect.sleep(5)), {
      until: ({ waiting, used }) => used === limit && waiting === 3
    })
    assert.deepStrictEqual(busy, { limit, used: limit, idle: 0, waiting: 3 })
    unlock()
    yield* Fiber.join(locked)
    assert.deepInclude(yield* pool, { used: 0, waiting: 0 })
  })
})
