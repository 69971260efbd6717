import { assert, describe } from "vitest"
import { it } from "../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { stopOnDrain } from "../../../src/layers/process/StopOnDrain.ts"
import { Drain } from "../../../src/services/Drain.ts"
import { settle, until } from "../../support/Waiting.ts"

class Worker extends Context.Tag("test/Worker")<Worker, { readonly name: string }>() {}
class Dependency extends Context.Tag("test/Dependency")<Dependency, object>() {}

/** A layer with a slow, interruptible release, over another layer; both record their release. */
const made = Effect.gen(function* () {
  const ended: Array<string> = []
  const recordEnd = (name: string) => Effect.sync(() => ended.push(name))
  const dependency = Layer.scoped(
    Dependency,
    Effect.acquireRelease(Effect.succeed({}), () => recordEnd("dependency"))
  )
  const worker = Layer.scoped(
    Worker,
    Effect.zipRight(
      Dependency,
      Effect.acquireRelease(Effect.succeed({ name: "worker" }), () =>
        Effect.sleep("30 millis").pipe(Effect.interruptible, Effect.zipRight(recordEnd("worker")))
      )
    )
  )
  const scope = yield* Scope.make()
  const context = yield* Layer.buildWithScope(
    stopOnDrain(worker).pipe(Layer.provide(dependency), Layer.provideMerge(Drain.Default)),
    scope
  )
  return { ended, context, drain: Context.get(context, Drain), close: Scope.close(scope, Exit.void) }
})

describe("stopOnDrain", () => {
  it.live("releases the layer when the drain begins, and keeps its services", function* () {
    const { close, context, drain, ended } = yield* made
    yield* drain.begin
    yield* until(() => ended.length > 0)
    yield* settle
    deepStrictEqual(ended, ["worker"])
    assert.strictEqual(Context.get(context, Worker).name, "worker")
    yield* close
    deepStrictEqual(ended, ["worker", "dependency"])
  })

  it.live(
    "completes the release before that of the dependencies, also when all scopes close at once",
    function* () {
      const { close, drain, ended } = yield* made
      yield* drain.begin
      yield* Effect.sleep("5 millis")
      assert.isTrue(Exit.isSuccess(yield* Effect.exit(close)))
      deepStrictEqual(ended, ["worker", "dependency"])
    }
  )

  it.live("releases the layer without a drain too", function* () {
    const { close, ended } = yield* made
    yield* close
    deepStrictEqual(ended, ["worker", "dependency"])
  })
})
