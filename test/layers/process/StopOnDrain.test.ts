import { Deferred, Effect, Exit, Fiber, Layer, Option, Scope } from "effect"
import { expect } from "vitest"
import { stopOnDrain } from "../../../src/layers/process/Process.ts"
import { Drain } from "../../../src/services/Drain.ts"
import { it } from "../../world/Test.ts"

it.scopedLive("Work ends when the drain begins; what it uses waits for its end", function* () {
  const [stopping, stopped] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
  const release = Effect.zipRight(Deferred.succeed(stopping, undefined), Deferred.await(stopped))
  let isOver = false
  const last = Effect.sync(() => {
    isOver = true
  })
  const work = Layer.scopedDiscard(
    Effect.zipRight(
      Effect.addFinalizer(() => last),
      Effect.addFinalizer(() => release)
    )
  )
  const scope = yield* Scope.make()
  const context = yield* Layer.buildWithScope(Layer.provideMerge(stopOnDrain(work), Drain.Default), scope)
  yield* Effect.flatMap(Drain, ({ begin }) => begin).pipe(Effect.provide(context))
  yield* Effect.timeout(Deferred.await(stopping), "5 seconds")
  const closing = yield* Effect.fork(Scope.close(scope, Exit.void))
  yield* Effect.sleep(20)
  expect(Option.isNone(yield* Fiber.poll(closing))).toBe(true)
  yield* Deferred.succeed(stopped, undefined)
  yield* Fiber.join(closing)
  expect(isOver).toBe(true)
})
