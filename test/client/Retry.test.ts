import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/TestClock"
import {
  type MusicFailure,
  TimedOut,
  TransportFailed,
  UnexpectedAnswer,
  withExchange
} from "../../client/Failures.ts"
import { deadlineIn, monotonicMillis } from "../../client/Deadline.ts"
import { isRetryable, Jitter, retryUntil } from "../../client/Retry.ts"
import {
  DependencyUnavailable,
  type FailureCode,
  failureClasses,
  failureTable,
  Internal,
  RateLimited
} from "../../src/schema/Failure.ts"

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

const run = (seconds: number, attempt: (milliseconds: number) => Effect.Effect<string, MusicFailure>) =>
  Effect.gen(function* () {
    const deadline = yield* deadlineIn(seconds * 1_000)
    const fiber = yield* Effect.fork(
      Effect.either(retryUntil({ deadline, attemptMilliseconds: 10_000 }, attempt))
    )
    yield* TestClock.adjust(`${seconds} seconds`)
    return yield* Fiber.join(fiber)
  }).pipe(Effect.provideService(Jitter, Effect.succeed(1)))

const unavailable = () => new DependencyUnavailable({})

describe("Retries", () => {
  it.effect("wait longer before each attempt", () =>
    Effect.gen(function* () {
      const { attempt, times } = failing(unavailable(), unavailable(), unavailable())
      expect(yield* run(30, attempt)).toEqual(Either.right("done"))
      expect(times).toEqual([0, 250, 750, 1_750])
    })
  )

  it.effect("are never sent before Retry-After", () =>
    Effect.gen(function* () {
      const asked = withExchange(new RateLimited({}), { requestId: null, retryAfterSeconds: 7 })
      const { attempt, times } = failing(asked)
      expect(yield* run(30, attempt)).toEqual(Either.right("done"))
      expect(times).toEqual([0, 7_000])
    })
  )

  it.effect("end at once with the service's error when Retry-After exceeds the deadline", () =>
    Effect.gen(function* () {
      const asked = withExchange(new RateLimited({}), { requestId: null, retryAfterSeconds: 60 })
      const { attempt, times } = failing(asked)
      expect(yield* run(30, attempt)).toEqual(Either.left(asked))
      expect(times).toHaveLength(1)
    })
  )

  it.effect("limit each attempt to the remaining time", () =>
    Effect.gen(function* () {
      const given: Array<number> = []
      const attempt = (milliseconds: number) => {
        given.push(milliseconds)
        return Effect.zipRight(Effect.sleep(milliseconds), Effect.fail(new TimedOut({})))
      }
      expect(Either.isLeft(yield* run(15, attempt))).toBe(true)
      expect(given).toEqual([10_000, 4_750])
    })
  )

  it.effect("are not sent for a failure that is not retryable", () =>
    Effect.gen(function* () {
      const { attempt, times } = failing(new Internal({}))
      expect(yield* run(30, attempt)).toEqual(Either.left(new Internal({})))
      expect(times).toHaveLength(1)
    })
  )

  it("follow the failure table of the service, and repeat an internal failure only under a key", () => {
    // Iterating over our own constant: its keys are the codes.
    for (const code of Object.keys(failureTable) as ReadonlyArray<FailureCode>)
      expect(isRetryable(new failureClasses[code]({}), false)).toBe(failureTable[code].retryable)
    expect(isRetryable(new Internal({}), true)).toBe(true)
    expect(isRetryable(new TransportFailed({}), false)).toBe(true)
    for (const [status, passes] of [
      [200, true],
      [502, true],
      [429, true],
      [0, false],
      [307, false],
      [404, false],
      [401, false]
    ] as const)
      expect(isRetryable(new UnexpectedAnswer({ status }), false)).toBe(passes)
  })
})
