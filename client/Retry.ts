/** Repeats what can succeed inside a deadline. Every call of this API may be repeated: it reads, or it has a key. */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import { failureTable, isFailure } from "../src/schema/Failure.ts"
import { exchangeOf, type MusicFailure, TimedOut, withExchange } from "./Failures.ts"

const firstPause = 250
const longestPause = 5_000
/** Shorter than this, an attempt is not worth its connection, milliseconds. */
const shortestAttempt = 10

/** Milliseconds of a clock that only goes forward: a wrong or corrected wall clock moves no deadline. */
export const monotonic: Effect.Effect<number> = Effect.map(
  Clock.currentTimeNanos,
  (nanos) => Number(nanos / 1_000n) / 1_000
)

/** A moment of the monotonic clock, milliseconds. */
export type Deadline = number

export const deadlineIn = (milliseconds: number): Effect.Effect<Deadline> =>
  Effect.map(monotonic, (now) => now + milliseconds)

/** 200 that is no answer, 408, 429 and 5xx: somebody in between is in trouble. A redirect or a 404 stays what it is. */
const passes = (status: number): boolean =>
  status >= 500 || status === 408 || status === 429 || (status >= 200 && status < 300)

/** Whether the same request can end otherwise. `uncertain` calls also repeat what the service could not say itself. */
export const mayPass = (failure: MusicFailure, uncertain: boolean): boolean => {
  if (isFailure(failure))
    return failureTable[failure.code].retryable || (uncertain && failure.code === "internal")
  switch (failure._tag) {
    case "TransportFailed":
    case "TimedOut":
      return true
    case "UnexpectedAnswer":
      return passes(failure.status)
    default:
      return false
  }
}

/** From 0 up to 1: where in its span a pause lies, so that clients which failed together do not return together. */
export class Jitter extends Context.Reference<Jitter>()("music/client/Jitter", {
  defaultValue: (): Effect.Effect<number> => Random.next
}) {}

/** Doubling from 250 ms to 5 s, each between half and whole of it; never sooner than `Retry-After` says. */
const pauseAfter = (failure: MusicFailure, count: number): Effect.Effect<number> =>
  Effect.map(Effect.flatten(Jitter), (random) => {
    const whole = Math.min(firstPause * 2 ** count, longestPause)
    return Math.max(whole * (0.5 + random / 2), (exchangeOf(failure).retryAfterSeconds ?? 0) * 1_000)
  })

/**
 * Runs `attempt` until it succeeds, cannot succeed, or the deadline leaves no room for the next pause. `attempt` is
 * given the milliseconds that it may take.
 */
export const retried = <A, E extends MusicFailure>(
  options: {
    readonly deadline: Deadline
    readonly attemptMilliseconds: number
    readonly uncertain?: boolean
    readonly once?: boolean
  },
  attempt: (milliseconds: number) => Effect.Effect<A, E>
): Effect.Effect<A, E | TimedOut> => {
  const from = (count: number): Effect.Effect<A, E | TimedOut> =>
    Effect.gen(function* () {
      const left = options.deadline - (yield* monotonic)
      if (left < shortestAttempt) return yield* new TimedOut({})
      return yield* Effect.catchAll(
        attempt(Math.min(left, options.attemptMilliseconds)),
        (failure: E): Effect.Effect<A, E | TimedOut> =>
          Effect.gen(function* () {
            if (options.once === true || !mayPass(failure, options.uncertain === true))
              return yield* Effect.fail(failure)
            const pause = yield* pauseAfter(failure, count)
            const room = options.deadline - (yield* monotonic)
            // The last word of the service says more than a timeout of our own.
            if (pause + shortestAttempt >= room) return yield* Effect.fail(failure)
            yield* Effect.sleep(pause)
            return yield* from(count + 1)
          })
      )
    })
  return from(0)
}

/** Fails with `TimedOut` once the deadline has passed. */
export const within =
  (deadline: Deadline, hint?: string) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | TimedOut, R> =>
    Effect.flatMap(monotonic, (now) =>
      Effect.timeoutFail(effect, {
        duration: Math.max(0, deadline - now),
        onTimeout: () => withExchange(new TimedOut(hint === undefined ? {} : { hint }), { requestId: null })
      })
    )
