import { assert, describe } from "vitest"
import { it } from "../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import { NotReady } from "../../src/schema/Failure.ts"
import { DeliveryHealth } from "../../src/services/DeliveryHealth.ts"
import { Drain } from "../../src/services/Drain.ts"
import { Readiness } from "../../src/services/Readiness.ts"
import { StoreSwitches } from "../support/TestStore.ts"
import { withUseCases } from "../support/UseCaseLayers.ts"

type Check = "ok" | "degraded" | "off"

const withDeliveries = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  deliveries: Effect.Effect<{ readonly tracker: Check; readonly tables: Check }> = Effect.succeed({
    tracker: "off",
    tables: "ok"
  })
) =>
  withUseCases(
    Effect.provide(
      effect,
      Readiness.Default.pipe(
        Layer.provideMerge(Drain.Default),
        Layer.provide(Layer.succeed(DeliveryHealth, { checks: deliveries }))
      )
    )
  )

const readiness = Effect.flatMap(Readiness, ({ check }) => check)
const checksOf = (failure: unknown) => (failure instanceof NotReady ? failure.details?.checks : undefined)

describe("readiness", () => {
  it.effect("is ready when the store answers and the process is not draining", () =>
    withDeliveries(
      Effect.gen(function* () {
        deepStrictEqual(yield* readiness, {
          status: "ready",
          checks: { database: "ok", serving: "ok", tracker: "off", tables: "ok" }
        })
      })
    )
  )

  it.effect("reports a stopped tracker or table as degraded, never as a 503", () =>
    withDeliveries(
      Effect.gen(function* () {
        const { checks } = yield* readiness
        assert.strictEqual(checks.tracker, "degraded")
        assert.strictEqual(checks.tables, "degraded")
      }),
      Effect.succeed({ tracker: "degraded", tables: "degraded" } as const)
    )
  )

  it.effect("fails as soon as the process drains", () =>
    withDeliveries(
      Effect.gen(function* () {
        yield* (yield* Drain).begin
        deepStrictEqual(checksOf(yield* Effect.flip(readiness)), {
          database: "ok",
          serving: "failed",
          tracker: "off",
          tables: "ok"
        })
      })
    )
  )

  it.effect("fails while the database fails, and recovers with it", () =>
    withDeliveries(
      Effect.gen(function* () {
        const store = yield* StoreSwitches
        yield* store.breakDown("check")
        assert.propertyVal(checksOf(yield* Effect.flip(readiness)), "database", "failed")
        yield* store.repair("check")
        yield* TestClock.adjust("1 seconds")
        assert.strictEqual((yield* readiness).status, "ready")
      })
    )
  )

  it.effect("checks the database once a second for all callers, and shows a drain at once", () =>
    withDeliveries(
      Effect.gen(function* () {
        const store = yield* StoreSwitches
        assert.strictEqual((yield* readiness).status, "ready")
        yield* store.breakDown("check")
        yield* TestClock.adjust("999 millis")
        assert.strictEqual((yield* readiness).status, "ready")
        yield* TestClock.adjust("1 millis")
        assert.propertyVal(checksOf(yield* Effect.flip(readiness)), "database", "failed")
        yield* store.repair("check")
        yield* (yield* Drain).begin
        deepStrictEqual(checksOf(yield* Effect.flip(readiness)), {
          database: "failed",
          serving: "failed",
          tracker: "off",
          tables: "ok"
        })
      })
    )
  )

  it.effect("shares one check between concurrent callers, also when the first one disconnects", () =>
    withDeliveries(
      Effect.gen(function* () {
        const store = yield* StoreSwitches
        yield* store.hang(Effect.never)
        yield* store.fail(true)
        const first = yield* Effect.fork(readiness)
        yield* TestClock.adjust("300 millis")
        const second = yield* Effect.fork(Effect.flip(readiness))
        yield* TestClock.adjust("1 millis")
        yield* Fiber.interrupt(first)
        // The check that the first caller began ends 500 ms after it.
        yield* TestClock.adjust("199 millis")
        assert.propertyVal(checksOf(yield* Fiber.join(second)), "database", "failed")
      })
    )
  )

  it.effect("stays ready with a slow database, until its accesses fail", () =>
    withDeliveries(
      Effect.gen(function* () {
        const store = yield* StoreSwitches
        let answers = 0
        yield* store.hang(
          Effect.delay(
            Effect.sync(() => {
              answers += 1
            }),
            "3 seconds"
          )
        )
        const slow = yield* Effect.fork(readiness)
        yield* TestClock.adjust("500 millis")
        const report = yield* Fiber.join(slow)
        assert.deepStrictEqual([report.status, report.checks.database], ["ready", "degraded"])
        // The check of that probe runs to its end.
        yield* TestClock.adjust("2500 millis")
        assert.strictEqual(answers, 1)
        yield* store.fail(true)
        const failing = yield* Effect.fork(Effect.flip(readiness))
        yield* TestClock.adjust("500 millis")
        assert.propertyVal(checksOf(yield* Fiber.join(failing)), "database", "failed")
      })
    )
  )

  it.effect("waits 500 ms for a database that does not answer, also when the check is uninterruptible", () =>
    Effect.forEach([Effect.never, Effect.uninterruptible(Effect.never)], (check) =>
      withDeliveries(
        Effect.gen(function* () {
          const store = yield* StoreSwitches
          yield* store.hang(check)
          yield* store.fail(true)
          const fiber = yield* Effect.fork(Effect.flip(readiness))
          yield* TestClock.adjust("499 millis")
          assert.isTrue(Option.isNone(yield* Fiber.poll(fiber)))
          yield* TestClock.adjust("1 millis")
          assert.propertyVal(checksOf(yield* Fiber.join(fiber)), "database", "failed")
        })
      )
    )
  )

  it.effect("does not delay the end of the process by an uninterruptible check", () =>
    withDeliveries(
      Effect.gen(function* () {
        yield* Effect.fork(readiness)
        yield* TestClock.adjust("1 seconds")
      }),
      Effect.uninterruptible(Effect.never)
    )
  )
})
