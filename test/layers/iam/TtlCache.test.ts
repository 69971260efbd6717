import { assert, describe } from "vitest"
import { it } from "../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import { makeTtlCache } from "../../../src/layers/iam/TtlCache.ts"

const counted = Effect.sync(() => {
  let calls = 0
  return {
    calls: () => calls,
    next: Effect.sync(() => {
      calls += 1
      return calls
    })
  }
})

describe("The cache", () => {
  it.scoped("is bounded: the oldest entry is dropped", function* () {
    const remembered = yield* makeTtlCache<number, never>({ capacity: 2, millis: 1_000 })
    const { next } = yield* counted
    const get = (key: string) => remembered.get(key, next)
    deepStrictEqual(yield* Effect.forEach(["a", "b", "b", "c", "b", "a", "c"], get), [1, 2, 2, 3, 2, 4, 3])
  })

  it.scoped("drops one entry or all", function* () {
    const remembered = yield* makeTtlCache<number, never>({ capacity: 9, millis: 1_000 })
    const { next } = yield* counted
    const get = (key: string) => remembered.get(key, next)
    yield* Effect.forEach(["a", "b"], get)
    remembered.forget("a")
    deepStrictEqual(yield* Effect.forEach(["a", "b"], get), [3, 2])
    remembered.forgetWhere(() => true)
    deepStrictEqual(yield* Effect.forEach(["a", "b"], get), [4, 5])
  })

  it.scoped(
    "does not keep the result of a look-up that was forgotten in flight, though its callers get it",
    function* () {
      const remembered = yield* makeTtlCache<number, string>({ capacity: 9, millis: 1_000 })
      const gate = yield* Deferred.make<number, string>()
      const early = yield* Effect.fork(remembered.get("a", Deferred.await(gate)))
      yield* Effect.yieldNow()
      remembered.forget("a")
      assert.strictEqual(yield* remembered.get("a", Effect.succeed(2)), 2)
      yield* Deferred.fail(gate, "refused")
      deepStrictEqual(yield* Fiber.await(early), Exit.fail("refused"))
      assert.strictEqual(yield* remembered.get("a", Effect.succeed(3)), 2)
    }
  )

  it.effect.each([Effect.interruptible, Effect.uninterruptible])(
    "ends with its scope: no caller waits for a result that cannot arrive, also when it is uninterruptible",
    function* (region) {
      const scope = yield* Scope.make()
      const remembered = yield* Scope.extend(
        makeTtlCache<number, never>({ capacity: 9, millis: 1_000 }),
        scope
      )
      const waiting = yield* Effect.fork(region(Effect.exit(remembered.get("a", Effect.never))))
      yield* Effect.yieldNow()
      yield* Scope.close(scope, Exit.void)
      assert.isTrue(Exit.isInterrupted(yield* Fiber.join(waiting)))
    }
  )
})
