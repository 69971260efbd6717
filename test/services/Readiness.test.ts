import { Effect, Fiber, Layer, Option, TestClock, type TestServices } from "effect"
import { describe, expect } from "vitest"
import { Drain } from "../../src/services/Drain.ts"
import { RequestContext } from "../../src/services/RequestContext.ts"
import { DeliveryHealth, Readiness } from "../../src/services/usecases/Readiness.ts"
import * as TestStore from "../world/TestStore.ts"
import { type Body, it, toEffect } from "../world/Test.ts"

const deliveries = { tracker: "degraded", tables: "ok" } as const
const layer = Readiness.Default.pipe(
  Layer.provideMerge(Layer.merge(Drain.Default, TestStore.layer)),
  Layer.provide(Layer.succeed(DeliveryHealth, { checks: Effect.succeed(deliveries) }))
)
type Services = Layer.Layer.Success<typeof layer> | TestServices.TestServices
const readinessTest = (name: string, body: Body<Services, []>): void =>
  it.effect(name, () => Effect.provide(toEffect(body)(), layer))

/** `ready` or `failed`, the database, and whether the process serves. */
const readiness = Effect.flatMap(Readiness, ({ check }) => check).pipe(
  Effect.match({
    onSuccess: ({ checks, status }) => [status, checks.database, checks.serving],
    onFailure: (failure) => {
      const checks = failure.code === "not_ready" ? failure.details?.checks : undefined
      return ["failed", checks?.database, checks?.serving]
    }
  })
)
const ready = ["ready", "ok", "ok"]
const store = TestStore.StoreSwitches
describe("readiness", () => {
  readinessTest("checks the database once a second, and shows a drain at once", function* () {
    const { breakDown, repair } = yield* store
    // What is degraded is never a 503.
    const checks = { database: "ok", serving: "ok", ...deliveries }
    expect(yield* (yield* Readiness).check).toEqual({ status: "ready", checks })
    yield* breakDown("check")
    yield* TestClock.adjust("999 millis")
    expect(yield* readiness).toEqual(ready)
    yield* TestClock.adjust("1 millis")
    expect(yield* readiness).toEqual(["failed", "failed", "ok"])
    yield* repair("check")
    yield* (yield* Drain).begin
    expect(yield* readiness).toEqual(["failed", "failed", "failed"])
    yield* TestClock.adjust("1 seconds")
    expect(yield* readiness).toEqual(["failed", "ok", "failed"])
  })

  readinessTest("makes one check for all probes of a slow database, recorded or not", function* () {
    const { calls, hold } = yield* store
    yield* hold("check")
    const info = yield* RequestContext
    const probes = [true, false, true, false].map((recording) =>
      Effect.provideService(readiness, RequestContext, { ...info, recording })
    )
    const all = yield* Effect.fork(Effect.all(probes, { concurrency: "unbounded" }))
    yield* TestClock.adjust("500 millis")
    yield* Fiber.join(all)
    expect(yield* calls("check")).toBe(1)
  })

  readinessTest("stays ready with a slow database until its accesses fail", function* () {
    const { fail, hang } = yield* store
    let answers = 0
    const slow = Effect.sync(() => {
      answers += 1
    })
    yield* hang(Effect.delay(slow, "3 seconds"))
    const probe = yield* Effect.fork(readiness)
    yield* TestClock.adjust("500 millis")
    expect(yield* Fiber.join(probe)).toEqual(["ready", "degraded", "ok"])
    yield* TestClock.adjust("2500 millis")
    expect(answers).toBe(1)
    // Nor does a check that never ends delay the end of the process.
    yield* hang(Effect.uninterruptible(Effect.never))
    yield* fail(true)
    const failing = yield* Effect.fork(readiness)
    yield* TestClock.adjust("499 millis")
    expect(Option.isNone(yield* Fiber.poll(failing))).toBe(true)
    yield* TestClock.adjust("1 millis")
    expect(yield* Fiber.join(failing)).toEqual(["failed", "failed", "ok"])
  })
})
