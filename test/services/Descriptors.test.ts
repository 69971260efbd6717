import { assert, describe, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import type { IamDescriptor } from "../../src/schema/Descriptors.ts"
import { NotReady } from "../../src/schema/Failure.ts"
import { requestedScopes } from "../../src/schema/Identity.ts"
import { version } from "../../src/schema/Release.ts"
import { DeliveryHealth } from "../../src/services/DeliveryHealth.ts"
import { Descriptors } from "../../src/services/Descriptors.ts"
import { Drain } from "../../src/services/Drain.ts"
import { SimulatedIam } from "../support/SimulatedIam.ts"
import { StoreSwitches } from "../support/TestStore.ts"
import { production, scenario } from "../support/UseCaseLayers.ts"

type Check = "ok" | "degraded" | "off"

const described = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  deliveries: Effect.Effect<{ readonly tracker: Check; readonly tables: Check }> = Effect.succeed({
    tracker: "off",
    tables: "ok"
  })
) =>
  scenario(
    Effect.provide(
      effect,
      Descriptors.Default.pipe(
        Layer.provideMerge(Drain.Default),
        Layer.provide(Layer.succeed(DeliveryHealth, { checks: deliveries }))
      )
    ),
    { settings: { minCli: "0.7.0", organisation: "harbor", iam: { url: "https://iam.example" } } }
  )

const readiness = Effect.flatMap(Descriptors, (descriptors) => descriptors.readiness)
const checksOf = (failure: unknown) => (failure instanceof NotReady ? failure.details?.checks : undefined)

describe("health", () => {
  it.effect("is alive without using a dependency, also while draining", () =>
    described(
      Effect.gen(function* () {
        const store = yield* StoreSwitches
        yield* store.hang(Effect.never)
        yield* (yield* Drain).begin
        deepStrictEqual(yield* (yield* Descriptors).health, {
          status: "ok",
          service: "music-backend",
          version
        })
      })
    )
  )
})

describe("version", () => {
  it.effect("names this version, the API versions and the oldest client", () =>
    described(
      Effect.gen(function* () {
        deepStrictEqual(yield* (yield* Descriptors).version, {
          version,
          api_versions: ["v1"],
          min_cli: "0.7.0"
        })
      })
    )
  )
})

describe("the IAM descriptor", () => {
  it.effect("returns the parameters of a login, and the plane", () =>
    described(
      Effect.gen(function* () {
        const { iam } = yield* Descriptors
        const { plane } = yield* (yield* SimulatedIam).environment("e2e")
        const expected: IamDescriptor = {
          app_id: "music",
          org_id: "harbor",
          api_version: "v1",
          iam_url: "https://iam.example",
          ting_url: "http://127.0.0.1:1",
          testing_environment_id: null,
          ting_types: ["music.trigger.fired", "music.trigger.expired"],
          scopes: [...requestedScopes],
          version
        }
        deepStrictEqual(yield* iam(production), expected)
        deepStrictEqual(yield* iam(plane), {
          ...expected,
          testing_environment_id: plane.environmentId
        })
      })
    )
  )
})

describe("readiness", () => {
  it.effect("is ready when the store answers and the process is not draining", () =>
    described(
      Effect.gen(function* () {
        deepStrictEqual(yield* readiness, {
          status: "ready",
          checks: { database: "ok", serving: "ok", tracker: "off", tables: "ok" }
        })
      })
    )
  )

  it.effect("reports a stopped tracker or table as degraded, never as a 503", () =>
    described(
      Effect.gen(function* () {
        const { checks } = yield* readiness
        assert.strictEqual(checks.tracker, "degraded")
        assert.strictEqual(checks.tables, "degraded")
      }),
      Effect.succeed({ tracker: "degraded", tables: "degraded" } as const)
    )
  )

  it.effect("fails as soon as the process drains", () =>
    described(
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
    described(
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
    described(
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
    described(
      Effect.gen(function* () {
        const store = yield* StoreSwitches
        yield* store.hang(Effect.never)
        const first = yield* Effect.fork(readiness)
        yield* TestClock.adjust("1500 millis")
        const second = yield* Effect.fork(Effect.flip(readiness))
        yield* TestClock.adjust("1 millis")
        yield* Fiber.interrupt(first)
        // The check that the first caller began ends 2 s after it.
        yield* TestClock.adjust("499 millis")
        assert.propertyVal(checksOf(yield* Fiber.join(second)), "database", "failed")
      })
    )
  )

  it.effect("waits 2 s for a database that does not answer, also when the check is uninterruptible", () =>
    Effect.forEach([Effect.never, Effect.uninterruptible(Effect.never)], (check) =>
      described(
        Effect.gen(function* () {
          yield* (yield* StoreSwitches).hang(check)
          const fiber = yield* Effect.fork(Effect.flip(readiness))
          yield* TestClock.adjust("1999 millis")
          assert.isTrue(Option.isNone(yield* Fiber.poll(fiber)))
          yield* TestClock.adjust("1 millis")
          assert.propertyVal(checksOf(yield* Fiber.join(fiber)), "database", "failed")
        })
      )
    )
  )

  it.effect("does not delay the end of the process by an uninterruptible check", () =>
    described(
      Effect.gen(function* () {
        yield* Effect.fork(readiness)
        yield* TestClock.adjust("1 seconds")
      }),
      Effect.uninterruptible(Effect.never)
    )
  )
})
