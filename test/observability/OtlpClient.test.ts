import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import { makeOtlpClient } from "../../src/layers/observability/OtlpClient.ts"
import { TracingLive } from "../../src/layers/observability/Tracing.ts"
import { Settings } from "../../src/services/Settings.ts"
import { rawServer } from "../layers/upstream/Simulated.ts"
import { testSettings } from "../support/Settings.ts"
import { until } from "../support/Waiting.ts"
import { everything, otlpTo } from "./Observed.ts"

/** A client whose collector answers with the given statuses, one after another, and then never. */
const clientOf = (...statuses: ReadonlyArray<number>) => {
  let calls = 0
  const collector = HttpClient.make((request) => {
    const status = statuses[calls]
    calls += 1
    return status === undefined
      ? Effect.never
      : Effect.succeed(HttpClientResponse.fromWeb(request, new Response("{}", { status })))
  })
  return Effect.map(
    Effect.provideService(
      makeOtlpClient("traces", otlpTo("http://collector.example/v1/traces")),
      HttpClient.HttpClient,
      collector
    ),
    (client) => ({ calls: () => calls, send: Effect.exit(client.post("http://collector.example/v1/traces")) })
  )
}

describe("The client of the collector", () => {
  it.effect("retries only a batch that may succeed later", function* () {
    const busy = yield* clientOf(503, 200)
    const sending = yield* Effect.fork(busy.send)
    yield* TestClock.adjust("1 second")
    expect([Exit.isSuccess(yield* Fiber.join(sending)), busy.calls()]).toEqual([true, 2])
    const refusing = yield* clientOf(400, 200)
    expect([Exit.isSuccess(yield* refusing.send), refusing.calls()]).toEqual([false, 1])
  })

  it.effect("drops a batch while four are in flight, and stops at the timeout", function* () {
    const { calls, send } = yield* clientOf()
    const hanging = yield* Effect.forEach([1, 2, 3, 4], () => Effect.fork(send))
    yield* TestClock.adjust("1 millis")
    expect([Exit.isFailure(yield* send), calls()]).toEqual([true, 4])
    yield* TestClock.adjust("10 seconds")
    expect((yield* Fiber.joinAll(hanging)).every(Exit.isFailure)).toBe(true)
  })
})

describe("A collector that never answers", () => {
  it.scoped("delays the end of the process by a second for its signal", function* () {
    const hanging = yield* rawServer(() => {})
    const target = { ...otlpTo(`${hanging.url}/v1/traces`), timeoutMillis: 120_000 }
    const { openTelemetry, ...settings } = testSettings()
    const scope = yield* Scope.make()
    const context = yield* Layer.buildWithScope(
      Layer.provide(
        TracingLive,
        Layer.succeed(Settings, {
          ...settings,
          openTelemetry: {
            ...openTelemetry,
            traces: Option.some({ ...target, sampler: everything, intervalMillis: 5_000 })
          }
        })
      ),
      scope
    )
    yield* Effect.void.pipe(Effect.withSpan("GET", { kind: "server", root: true }), Effect.provide(context))
    const ending = yield* Effect.fork(Scope.close(scope, Exit.void))
    yield* until(() => hanging.connections() === 1)
    yield* TestClock.adjust("999 millis")
    expect(Option.isNone(yield* Fiber.poll(ending))).toBe(true)
    yield* TestClock.adjust("1 millis")
    yield* Fiber.join(ending)
  })
})
