import { assert, describe, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { stopOnDrain } from "../../../src/layers/process/StopOnDrain.ts"
import { Drain } from "../../../src/services/Drain.ts"

class Worker extends Context.Tag("test/Worker")<Worker, { readonly name: string }>() {}
class Ground extends Context.Tag("test/Ground")<Ground, object>() {}

/** A layer that takes a while to stop, in an interruptible way, over another; both note their end. */
const made = Effect.gen(function* () {
  const ended: Array<string> = []
  const noting = (name: string) => Effect.sync(() => ended.push(name))
  const ground = Layer.scoped(
    Ground,
    Effect.acquireRelease(Effect.succeed({}), () => noting("ground"))
  )
  const worker = Layer.scoped(
    Worker,
    Effect.zipRight(
      Ground,
      Effect.acquireRelease(Effect.succeed({ name: "worker" }), () =>
        Effect.sleep("30 millis").pipe(Effect.interruptible, Effect.zipRight(noting("worker")))
      )
    )
  )
  const scope = yield* Scope.make()
  const context = yield* Layer.buildWithScope(
    stopOnDrain(worker).pipe(Layer.provide(ground), Layer.provideMerge(Drain.Default)),
    scope
  )
  return { ended, context, drain: Context.get(context, Drain), close: Scope.close(scope, Exit.void) }
})

describe("A layer that ends with the drain", () => {
  it.live("stops when the drain begins, while what it provides stays", () =>
    Effect.gen(function* () {
      const { close, context, drain, ended } = yield* made
      yield* drain.begin
      yield* Effect.sleep("100 millis")
      deepStrictEqual(ended, ["worker"])
      assert.strictEqual(Context.get(context, Worker).name, "worker")
      yield* close
      deepStrictEqual(ended, ["worker", "ground"])
    })
  )

  it.live("has ended, undisturbed, before what it stands on, also when all ends at once", () =>
    Effect.gen(function* () {
      const { close, drain, ended } = yield* made
      yield* drain.begin
      yield* Effect.sleep("5 millis")
      assert.isTrue(Exit.isSuccess(yield* Effect.exit(close)))
      deepStrictEqual(ended, ["worker", "ground"])
    })
  )

  it.live("ends without a drain as well", () =>
    Effect.gen(function* () {
      const { close, ended } = yield* made
      yield* close
      deepStrictEqual(ended, ["worker", "ground"])
    })
  )
})
