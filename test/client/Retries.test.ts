/** When a call is repeated, and when it ends: the Effect client under a clock that only the test moves. */
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientError from "@effect/platform/HttpClientError"
import type * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import { describe, expect } from "vitest"
import { type EffectClient, MusicClient, type MusicFailure } from "../../client/effect.ts"
import { examples } from "../../src/http/openapi/Examples.ts"
import { type FailureCode, failureTable } from "../../src/schema/FailureTable.ts"
import { it } from "../world/Test.ts"
import { until } from "../world/Waiting.ts"
import { defaults, makeClient, failure as failureResponse } from "./support/ClientWorld.ts"

/** An answer, an error of the network, or silence. */
type Step =
  | { readonly status: number; readonly body: unknown; readonly after?: number }
  | { readonly code: string }
  | "silence"

const failing = (code: string, more: { readonly after?: number; readonly message?: string } = {}): Step => {
  const { status, retryable } = failureTable[code as FailureCode]
  const { after, message = "m" } = more
  const error = { code, message, hint: "h", retryable }
  return { status, body: { error }, ...(after === undefined ? {} : { after }) }
}

type Call = (client: EffectClient) => Effect.Effect<unknown, MusicFailure>
const callVersion: Call = (client) => client.version()

/** Takes the steps in this order, then succeeds. Returns the times of the attempts, and the result of the call. */
const play = (seconds: number, script: ReadonlyArray<Step>, call = callVersion) =>
  Effect.gen(function* () {
    const times: Array<number> = []
    const left = [...script]
    const success: Step = { status: 200, body: examples["descriptors.version"].response }
    const http = HttpClient.make((request) =>
      Effect.gen(function* () {
        times.push(Number((yield* Clock.currentTimeNanos) / 1_000_000n))
        const step = left.shift() ?? success
        if (step === "silence") return yield* Effect.never
        if ("code" in step)
          return yield* new HttpClientError.RequestError({ request, reason: "Transport", cause: step })
        const { after, body, status } = step
        const headers = after === undefined ? {} : { "retry-after": String(after) }
        const stream = Stream.make(new TextEncoder().encode(JSON.stringify(body)))
        // The parts of a response that the client reads.
        return { status, headers, stream } as unknown as HttpClientResponse.HttpClientResponse
      })
    )
    const options = { ...defaults, deadlineMilliseconds: seconds * 1_000 }
    const layer = Layer.provide(MusicClient.layer(options), Layer.succeed(HttpClient.HttpClient, http))
    const running = yield* Effect.fork(
      Effect.provide(Effect.either(Effect.flatMap(MusicClient, call)), layer)
    )
    // The platform derives a key in its own time.
    yield* until(() => times.length > 0)
    yield* TestClock.adjust(`${seconds + 1} seconds`)
    return { times, result: yield* Fiber.join(running) }
  }).pipe(Effect.withRandom(Random.fixed([1])))

const failed = (facts: object) => Either.left(expect.objectContaining(facts))
const succeeded = Either.right(expect.anything())
const unavailable = failing("dependency_unavailable")
const overloaded = (after: number) => failing("overloaded", { after })
const limited = failing("rate_limited", { after: 7 })
const facts = { code: "rate_limited", retryAfterSeconds: 7 }
const gone = Array(20).fill({ code: "ECONNREFUSED" })
const refused = { code: "transport_failed", details: { reason: "refused" } }

describe("Retries", () => {
  it.effect.each<readonly [string, number, ReadonlyArray<Step>, unknown, ReadonlyArray<number>]>([
    [
      "wait longer before each attempt, 5 s at most",
      30,
      Array(7).fill(unavailable),
      succeeded,
      [0, 250, 750, 1_750, 3_750, 7_750, 12_750, 17_750]
    ],
    ["are never sent before Retry-After", 30, [limited], succeeded, [0, 7_000]],
    ["end at once when a rate limit leaves less than a second", 7.9, [limited], failed(facts), [0]],
    ["use that time after another failure", 7.9, [overloaded(7)], succeeded, [0, 7_000]],
    ["end at once when Retry-After is later", 30, [overloaded(60)], failed({ code: "overloaded" }), [0]],
    ["end after 5 s when nothing listens", 30, gone, failed(refused), [0, 250, 750, 1_750, 3_750]],
    ["end with the deadline", 30, ["silence", "silence"], failed({ code: "timed_out" }), [0, 10_250]],
    ["leave a later attempt 28 s", 60, ["silence", "silence"], succeeded, [0, 10_250, 38_750]]
  ])("%s", function* ([, seconds, script, result, times]) {
    expect(yield* play(seconds, script)).toEqual({ times, result })
  })

  it.effect("name the last known failure when they end at the deadline", function* () {
    const away = failing("dependency_unavailable", { message: "Ting is away." })
    const { result } = yield* play(15, [away, "silence"])
    const last = { code: "dependency_unavailable", requestId: expect.stringMatching(/^daemon-/) }
    const { requestId } = last
    const message = expect.stringContaining("Ting is away.")
    expect(result).toMatchObject({ left: { code: "timed_out", message, requestId, details: { last } } })
  })

  it.effect.each(Object.keys(failureTable) as ReadonlyArray<FailureCode>)(
    "follow the service's table of failures: %s",
    function* (code) {
      const { result, times } = yield* play(2, [failing(code)])
      const { retryable, status } = failureTable[code]
      expect(times.length > 1).toBe(retryable)
      if (!retryable) expect(result).toEqual(failed({ code, status, message: "m" }))
    }
  )

  it.effect("repeat an internal failure of a call with a derived key only", function* () {
    const { times } = yield* play(2, [failing("internal")], (client) => client.login("oac_1"))
    expect(times).toEqual([0, 250])
  })
})

it("readyz and a flush of telemetry make one attempt", async () => {
  const { answers, calls, client } = makeClient({ telemetry: true })
  answers.readyz = () => failureResponse(503, "overloaded", {}, { retryable: true })
  answers.telemetry = answers.readyz
  client.telemetry.record("musicclidaemon", { type: "daemon.started" })
  for (const result of [await client.readyz(), await client.telemetry.flush()])
    expect(result).toMatchObject({ ok: false, error: { code: "overloaded" } })
  expect(calls()).toEqual(["readyz", "telemetry"])
})
