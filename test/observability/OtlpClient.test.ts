import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/TestClock"
import { makeOtlpClient } from "../../src/layers/observability/OtlpClient.ts"
import { otlpTo } from "./Observed.ts"

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
  it.effect("retries only a batch that may succeed later", () =>
    Effect.gen(function* () {
      const busy = yield* clientOf(503, 200)
      const sending = yield* Effect.fork(busy.send)
      yield* TestClock.adjust("1 second")
      expect([Exit.isSuccess(yield* Fiber.join(sending)), busy.calls()]).toEqual([true, 2])
      const refusing = yield* clientOf(400, 200)
      expect([Exit.isSuccess(yield* refusing.send), refusing.calls()]).toEqual([false, 1])
    })
  )

  it.effect("drops a batch while four are in flight, and stops at the timeout", () =>
    Effect.gen(function* () {
      const { calls, send } = yield* clientOf()
      const hanging = yield* Effect.forEach([1, 2, 3, 4], () => Effect.fork(send))
      yield* TestClock.adjust("1 millis")
      expect([Exit.isFailure(yield* send), calls()]).toEqual([true, 4])
      yield* TestClock.adjust("10 seconds")
      expect((yield* Fiber.joinAll(hanging)).every(Exit.isFailure)).toBe(true)
    })
  )
})
