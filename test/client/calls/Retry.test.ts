import { describe, expect } from "vitest"
import { it } from "../../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/TestClock"
import { unexpectedAnswer } from "../../../client/calls/AnswerDecoder.ts"
import { deadlineIn, monotonicMillis, timedOut } from "../../../client/calls/Deadline.ts"
import { clientFailure, type MusicFailure, serviceFailure } from "../../../client/failures/Failures.ts"
import { isRetryable, Jitter, retryUntil } from "../../../client/calls/Retry.ts"
import { json, startClient } from "../support/RecordingService.ts"
import { type FailureCode, failureTable } from "../../../src/schema/FailureTable.ts"

/** Fails in this order, then succeeds; `times` are the starts of the attempts. */
const failing = (...failures: ReadonlyArray<MusicFailure>) => {
  const times: Array<number> = []
  const left = [...failures]
  const attempt = () =>
    Effect.gen(function* () {
      times.push(yield* monotonicMillis)
      const failure = left.shift()
      return failure === undefined ? "done" : yield* Effect.fail(failure)
    })
  return { times, attempt }
}

const run = (
  seconds: number,
  attempt: (count: number, milliseconds: number) => Effect.Effect<string, MusicFailure>
) =>
  Effect.gen(function* () {
    const deadline = yield* deadlineIn(seconds * 1_000)
    const fiber = yield* Effect.fork(
      Effect.either(retryUntil({ deadline, attemptMilliseconds: 10_000 }, attempt))
    )
    yield* TestClock.adjust(`${seconds} seconds`)
    return yield* Fiber.join(fiber)
  }).pipe(Effect.provideService(Jitter, Effect.succeed(1)))

const unavailable = () => serviceFailure("dependency_unavailable")

describe("Retries", () => {
  it.effect("wait longer before each attempt, 5 s at most", function* () {
    const { attempt, times } = failing(...Array.from({ length: 7 }, unavailable))
    expect(yield* run(30, attempt)).toEqual(Either.right("done"))
    expect(times).toEqual([0, 250, 750, 1_750, 3_750, 7_750, 12_750, 17_750])
  })

  it.effect("are never sent before Retry-After", function* () {
    const asked = serviceFailure("rate_limited", { retryAfterSeconds: 7 })
    const { attempt, times } = failing(asked)
    expect(yield* run(30, attempt)).toEqual(Either.right("done"))
    expect(times).toEqual([0, 7_000])
  })

  it.effect(
    "end at once after a rate limit that leaves less than a second, which the service would count",
    function* () {
      const asked = serviceFailure("rate_limited", { retryAfterSeconds: 7 })
      const { attempt, times } = failing(asked)
      expect(yield* run(8, attempt)).toEqual(Either.left(asked))
      expect(times).toEqual([0])
      const other = failing(serviceFailure("overloaded", { retryAfterSeconds: 7 }))
      expect(yield* run(8, other.attempt)).toEqual(Either.right("done"))
    }
  )

  it.effect("end at once with the service's error when Retry-After exceeds the deadline", function* () {
    const asked = serviceFailure("rate_limited", { retryAfterSeconds: 60 })
    const { attempt, times } = failing(asked)
    expect(yield* run(30, attempt)).toEqual(Either.left(asked))
    expect(times).toHaveLength(1)
  })

  it.effect("limit each attempt to the remaining time", function* () {
    const given: Array<number> = []
    const attempt = (_: number, milliseconds: number) => {
      given.push(milliseconds)
      return Effect.zipRight(Effect.sleep(milliseconds), Effect.fail(clientFailure("timed_out")))
    }
    expect(Either.isLeft(yield* run(15, attempt))).toBe(true)
    expect(given).toEqual([10_000, 4_750])
  })

  it.effect("end after 5 s when nothing listens at the address", function* () {
    const refused = clientFailure("transport_failed", { details: { reason: "refused" } })
    const { attempt, times } = failing(...Array.from({ length: 20 }, () => refused))
    expect(yield* run(30, attempt)).toEqual(Either.left(refused))
    expect(times).toEqual([0, 250, 750, 1_750, 3_750])
  })

  it.effect("are not sent for a failure that is not retryable", function* () {
    const internal = serviceFailure("internal")
    const { attempt, times } = failing(internal)
    expect(yield* run(30, attempt)).toEqual(Either.left(internal))
    expect(times).toHaveLength(1)
  })

  it("follow the failure table of the service, and repeat an internal failure only under a key", () => {
    // Iterating over our own constant: its keys are the codes.
    for (const code of Object.keys(failureTable) as ReadonlyArray<FailureCode>)
      expect(isRetryable(serviceFailure(code), false)).toBe(failureTable[code].retryable)
    expect(isRetryable(serviceFailure("internal"), true)).toBe(true)
    for (const [status, passes] of [
      [200, true],
      [502, true],
      [429, true],
      [0, false],
      [307, false],
      [404, false],
      [401, false]
    ] as const)
      expect(isRetryable(unexpectedAnswer(status, "not_json"), false)).toBe(passes)
    expect(isRetryable(unexpectedAnswer(200, "outside_contract"), false)).toBe(false)
  })
})

describe("A call that makes one attempt", () => {
  it("is readyz, and so is a flush of telemetry", async () => {
    const { answers, calls, client } = startClient({ telemetry: true })
    const full = { code: "overloaded", message: "m", hint: "h", retryable: true }
    answers.readyz = () => json({ error: full }, {}, 503)
    answers.telemetry = answers.readyz
    client.telemetry.record("musicclidaemon", { type: "daemon.started" })
    expect(await client.readyz()).toMatchObject({ ok: false, error: { code: "overloaded" } })
    expect(await client.telemetry.flush()).toMatchObject({ ok: false, error: { code: "overloaded" } })
    expect(calls).toEqual(["readyz", "telemetry"])
  })
})

describe("A call that ends at its deadline", () => {
  it.effect("names the last known failure", () =>
    Effect.gen(function* () {
      const known = serviceFailure("dependency_unavailable", { requestId: "cli-1", message: "Ting is away." })
      const deadline = yield* deadlineIn(15_000)
      const attempt = (count: number, milliseconds: number) =>
        count === 1
          ? Effect.fail(known)
          : Effect.zipRight(
              Effect.sleep(milliseconds),
              Effect.suspend(() => Effect.fail(timedOut(deadline, { requestId: "cli-1" })))
            )
      const fiber = yield* Effect.fork(
        Effect.flip(retryUntil({ deadline, attemptMilliseconds: 30_000 }, attempt))
      )
      yield* TestClock.adjust("15 seconds")
      const failure = yield* Fiber.join(fiber)
      expect(failure).toMatchObject({
        code: "timed_out",
        requestId: "cli-1",
        hint: known.hint,
        details: { last: { code: "dependency_unavailable", requestId: "cli-1" } }
      })
      expect(failure.message).toContain("Ting is away.")
    }).pipe(Effect.provideService(Jitter, Effect.succeed(1)))
  )
})
