import { Clock, Effect, Either, Fiber, Random, Schedule, TestClock } from "effect"
import { describe, expect } from "vitest"
import { recurWithin } from "../../src/services/MonotonicTime.ts"
import { RequestContext } from "../../src/services/RequestContext.ts"
import { retryTransient } from "../../src/services/combinators/Retry.ts"
import { NotExecuted, Refused, Unknown, type UpstreamFailure } from "../../src/services/UpstreamFailure.ts"
import { makeSteppedClock } from "../world/Time.ts"
import { it } from "../world/Test.ts"

const notExecuted = new NotExecuted({ dependency: "iam", reason: "connection refused" })
const unknown = new Unknown({ dependency: "iam", reason: "connection lost" })
const inProgress = new Refused({ dependency: "iam", status: 409, code: "idempotency_in_progress" })
const limited = new Refused({ dependency: "iam", status: 429, code: "rate_limited", retryAfterSeconds: 3 })

const times = <A>(count: number, value: A): ReadonlyArray<A> => Array.from({ length: count }, () => value)

const before =
  (deadlineAt: number) =>
  <A, E>(effect: Effect.Effect<A, E>) =>
    Effect.flatMap(RequestContext, (info) =>
      Effect.provideService(effect, RequestContext, { ...info, deadlineAt })
    )

/** Fails with the given failures in order, then succeeds with `done`; returns the times of the attempts. */
const run = (failures: ReadonlyArray<UpstreamFailure>, deadlineMillis = Number.POSITIVE_INFINITY) =>
  Effect.gen(function* () {
    const start = yield* Clock.currentTimeMillis
    const attempts: Array<number> = []
    const attempt = Effect.gen(function* () {
      const failure = failures[attempts.length]
      attempts.push((yield* Clock.currentTimeMillis) - start)
      return failure === undefined ? "done" : yield* failure
    })
    const fiber = yield* attempt.pipe(
      retryTransient,
      before(start + deadlineMillis),
      Effect.either,
      Effect.zip(Effect.map(Clock.currentTimeMillis, (end) => end - start)),
      Effect.fork
    )
    yield* TestClock.adjust("1 minute")
    const [result, endedAt] = yield* Fiber.join(fiber)
    return { result, attempts, endedAt }
  })

/**
 * The failures, how many attempts are made, and the deadline. `done` where the attempt after the failures is made.
 * How often each call is made after each failure is in the matrix (test/proof/matrix).
 */
const rows: ReadonlyArray<readonly [string, ReadonlyArray<UpstreamFailure>, number, number?]> = [
  ["an unknown outcome, 3 times", times(3, unknown), 3],
  ["a 429, not", [limited], 1],
  ["idempotency_in_progress, 3 times", times(3, inProgress), 3],
  ["nothing whose pause would end after the deadline", [notExecuted], 1, 199],
  ["nothing after the deadline", [], 0, 0]
]

describe("retries", () => {
  it.effect.each(rows)("repeat %s", function* ([, failures, count, deadline]) {
    const { attempts, endedAt, result } = yield* run(failures, deadline)
    expect(attempts).toHaveLength(count)
    const last = failures[count - 1]
    if (count > 0) expect(result).toEqual(last === undefined ? Either.right("done") : Either.left(last))
    else expect(Either.isLeft(result)).toBe(true)
    if (count <= 1) expect(endedAt).toBe(0)
  })

  it.effect("pause for 250 and 750 ms, by a fifth more or less", function* () {
    const first = new Set<number>()
    for (let seed = 0; seed < 40; seed += 1) {
      const { attempts } = yield* Effect.withRandom(run(times(3, notExecuted)), Random.make(seed))
      const [, second = 0, third = 0] = attempts
      expect(Math.abs(second - 250)).toBeLessThanOrEqual(50)
      expect(Math.abs(third - second - 750)).toBeLessThanOrEqual(150)
      first.add(second)
    }
    expect(first.size).toBeGreaterThan(10)
  })

  it.effect("ignore a step of the wall clock", function* () {
    const { clock, step } = yield* makeSteppedClock
    const triedAt: Array<number> = []
    const below = yield* Effect.clock
    const attempt = Effect.suspend(() => {
      triedAt.push(below.unsafeCurrentTimeMillis())
      return Effect.fail("away")
    })
    const schedule = Schedule.intersect(Schedule.spaced(1_000), recurWithin(3_000))
    const retrying = yield* Effect.fork(Effect.withClock(Effect.retry(attempt, schedule), clock))
    yield* TestClock.adjust(1_500)
    step(-3_600_000)
    yield* TestClock.adjust(60_000)
    expect([yield* Effect.flip(Fiber.join(retrying)), triedAt]).toEqual(["away", [0, 1_000, 2_000, 3_000]])
  })
})
