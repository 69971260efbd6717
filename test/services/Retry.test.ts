import { assert, describe } from "vitest"
import { it } from "../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as TestClock from "effect/TestClock"
import { RequestContext } from "../../src/services/RequestContext.ts"
import { Deadlines } from "../../src/services/Deadlines.ts"
import { Retry, type RetryPolicy } from "../../src/services/Retry.ts"
import { NotExecuted, Refused, Unknown, type UpstreamFailure } from "../../src/services/UpstreamFailure.ts"

const notExecuted = new NotExecuted({ dependency: "iam", reason: "connection refused" })
const unknown = new Unknown({ dependency: "iam", reason: "connection lost" })
const refused = (status: number, code: string, retryAfterSeconds?: number) =>
  new Refused({
    dependency: "iam",
    status,
    code,
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds })
  })
const inProgress = refused(409, "idempotency_in_progress")

const once: RetryPolicy = { dependency: "iam", repeatable: false }
const repeatable: RetryPolicy = { dependency: "iam", repeatable: true }

const retryTransient =
  (policy: RetryPolicy) =>
  <A>(effect: Effect.Effect<A, UpstreamFailure>) =>
    Effect.flatMap(Retry, (retry) => retry.retryTransient(policy)(effect)).pipe(
      Effect.provide(Layer.provide(Retry.Default, Deadlines.Default))
    )

/** Fails with the given failures in order, then succeeds with `done`; returns the times of the attempts. */
const run = (policy: RetryPolicy, failures: ReadonlyArray<UpstreamFailure>, deadlineMillis?: number) =>
  Effect.gen(function* () {
    const start = yield* Clock.currentTimeMillis
    const times: Array<number> = []
    const attempt = Effect.gen(function* () {
      const failure = failures[times.length]
      times.push((yield* Clock.currentTimeMillis) - start)
      return failure === undefined ? "done" : yield* failure
    })
    const info = yield* RequestContext
    const fiber = yield* attempt.pipe(
      retryTransient(policy),
      Effect.provideService(RequestContext, {
        ...info,
        deadlineAt: deadlineMillis === undefined ? Number.POSITIVE_INFINITY : start + deadlineMillis
      }),
      Effect.either,
      Effect.zip(Effect.map(Clock.currentTimeMillis, (end) => end - start)),
      Effect.fork
    )
    yield* TestClock.adjust("1 minute")
    const [result, endedAt] = yield* Fiber.join(fiber)
    return { result, times, endedAt }
  })

const within = (value: number | undefined, low: number, high: number) =>
  assert.isTrue(value !== undefined && value >= low && value <= high, `${value} is not in ${low} to ${high}`)

describe("retries", () => {
  it.effect("always repeat a call that was not executed: 3 attempts, after 250 ms and 750 ms", function* () {
    const { result, times } = yield* run(once, [notExecuted, notExecuted, notExecuted])
    deepStrictEqual(result, Either.left(notExecuted))
    assert.strictEqual(times.length, 3)
    within(times[1], 200, 300)
    within((times[2] ?? 0) - (times[1] ?? 0), 600, 900)
  })

  it.effect("repeat an unknown outcome only for a read or under a key", function* () {
    const single = yield* run(once, [unknown])
    deepStrictEqual(single.result, Either.left(unknown))
    assert.strictEqual(single.times.length, 1)
    const keyed = yield* run(repeatable, [unknown, unknown, unknown])
    deepStrictEqual(keyed.result, Either.left(unknown))
    assert.strictEqual(keyed.times.length, 3)
  })

  it.effect("do not repeat an Unknown after a NotExecuted", function* () {
    const { result, times } = yield* run(once, [notExecuted, unknown])
    deepStrictEqual(result, Either.left(unknown))
    assert.strictEqual(times.length, 2)
  })

  it.effect("do not repeat a refusal, and return a 429 at once with its seconds", function* () {
    for (const failure of [refused(400, "invalid_grant"), refused(429, "rate_limited", 3)]) {
      const { result, times, endedAt } = yield* run(repeatable, [failure])
      deepStrictEqual([result, times, endedAt], [Either.left(failure), [0], 0])
    }
  })

  it.effect("repeat a refusal that the policy names, at most 3 times", function* () {
    const expired = refused(401, "proof_expired")
    const policy = { ...once, again: ({ code }: Refused) => code === "proof_expired" }
    const { result, times } = yield* run(policy, [expired, expired, expired])
    deepStrictEqual(result, Either.left(expired))
    assert.strictEqual(times.length, 3)
    const other = yield* run(policy, [refused(401, "session_expired")])
    assert.strictEqual(other.times.length, 1)
  })

  it.effect("make the policy's own number of attempts", function* () {
    const { times } = yield* run({ ...once, attempts: 2 }, [notExecuted, notExecuted])
    assert.strictEqual(times.length, 2)
    const one = yield* run({ ...once, attempts: 1 }, [notExecuted])
    deepStrictEqual(one.times, [0])
  })

  it.effect("jitter pauses by a fifth", function* () {
    const seconds = yield* Effect.forEach(
      Array.from({ length: 40 }, (_, seed) => seed),
      (seed) =>
        run(once, [notExecuted]).pipe(
          Effect.withRandom(Random.make(seed)),
          Effect.map(({ times }) => times[1])
        )
    )
    for (const second of seconds) within(second, 200, 300)
    assert.isAbove(new Set(seconds).size, 10)
  })
})

describe("idempotency_in_progress", () => {
  it.effect("is polled up to 8 times", function* () {
    const { result, times } = yield* run(
      once,
      Array.from({ length: 20 }, () => inProgress)
    )
    deepStrictEqual(result, Either.left(inProgress))
    assert.strictEqual(times.length, 9)
    within(times[8], 14_750 * 0.8, 14_750 * 1.2)
  })

  it.effect("the eighth poll can succeed", function* () {
    const { result, times } = yield* run(
      once,
      Array.from({ length: 8 }, () => inProgress)
    )
    deepStrictEqual(result, Either.right("done"))
    assert.strictEqual(times.length, 9)
  })

  it.effect("is polled without counting attempts: three attempts remain", function* () {
    const { result, times } = yield* run(once, [inProgress, inProgress, notExecuted, inProgress, notExecuted])
    deepStrictEqual(result, Either.right("done"))
    assert.strictEqual(times.length, 6)
  })
})

describe("the deadline", () => {
  it.effect("prevents a pause that would end after it", function* () {
    const { result, times, endedAt } = yield* run(once, [notExecuted], 199)
    deepStrictEqual(result, Either.left(notExecuted))
    deepStrictEqual(times, [0])
    assert.strictEqual(endedAt, 0)
  })

  it.effect("also limits the polling", function* () {
    const { result, endedAt } = yield* run(
      once,
      Array.from({ length: 20 }, () => inProgress),
      2_000
    )
    deepStrictEqual(result, Either.left(inProgress))
    assert.isAtMost(endedAt, 2_000)
  })

  it.effect("ends an attempt in flight, whose outcome is then unknown", function* () {
    const start = yield* Clock.currentTimeMillis
    const info = yield* RequestContext
    let attempts = 0
    const fiber = yield* Effect.suspend(() => {
      attempts += 1
      return Effect.never
    }).pipe(
      retryTransient({ ...repeatable, dependency: "ting" }),
      Effect.provideService(RequestContext, { ...info, deadlineAt: start + 5_000 }),
      Effect.flip,
      Effect.fork
    )
    yield* TestClock.adjust("4999 millis")
    assert.isTrue((yield* Fiber.poll(fiber))._tag === "None")
    yield* TestClock.adjust("1 millis")
    const failure = yield* Fiber.join(fiber)
    deepStrictEqual(failure, new Unknown({ dependency: "ting", reason: "deadline passed" }))
    assert.strictEqual(attempts, 1)
  })

  it.effect("prevents any attempt after it has passed", function* () {
    const { result, times } = yield* run(repeatable, [], 0)
    assert.isTrue(Either.isLeft(result))
    deepStrictEqual(times, [])
  })

  it.effect("includes a policy's own time limit: the earlier one applies", function* () {
    const policy = { ...once, withinMillis: 250 * 0.8 }
    assert.strictEqual((yield* run(policy, [notExecuted], 60_000)).times.length, 1)
    assert.strictEqual((yield* run({ ...once, withinMillis: 60_000 }, [notExecuted], 200)).times.length, 1)
    assert.strictEqual((yield* run({ ...once, withinMillis: 60_000 }, [notExecuted], 60_000)).times.length, 2)
  })

  it.effect("is absent for work without a request", function* () {
    const fiber = yield* Effect.fork(retryTransient(once)(Effect.as(Effect.sleep("1 day"), "done")))
    yield* TestClock.adjust("1 day")
    assert.strictEqual(yield* Fiber.join(fiber), "done")
  })
})
