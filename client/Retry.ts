/** Retries inside a deadline. Every call of this API may be repeated: it is a read, or it has an idempotency key. */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Schedule from "effect/Schedule"
import { failureTable, isFailure } from "../src/schema/Failure.ts"
import { type Deadline, monotonicMillis } from "./Deadline.ts"
import { exchangeOf, type MusicFailure, TimedOut } from "./Failures.ts"

/** Exponential backoff: the pauses double. Milliseconds. */
export interface Backoff {
  readonly first: number
  readonly longest: number
}

const callBackoff: Backoff = { first: 250, longest: 5_000 }

/** Milliseconds: a shorter attempt is not worth its connection. */
const shortestAttempt = 10

/** The pause after `count` earlier ones, never shorter than the `Retry-After` of the failure. Milliseconds. */
export const pauseAfter = (backoff: Backoff, count: number, failure: MusicFailure, jitter = 1): number =>
  Math.max(
    Math.min(backoff.first * 2 ** count, backoff.longest) * jitter,
    (exchangeOf(failure).retryAfterSeconds ?? 0) * 1_000
  )

/** An unreadable 200, 408, 429 and 5xx come from a failing intermediary and may be temporary; a redirect or a 404 is permanent. */
const isTransientStatus = (status: number): boolean =>
  status >= 500 || status === 408 || status === 429 || (status >= 200 && status < 300)

/** Whether the same request can succeed later. `uncertain` calls also repeat an `internal` failure of the service. */
export const isRetryable = (failure: MusicFailure, uncertain: boolean): boolean => {
  if (isFailure(failure))
    return failureTable[failure.code].retryable || (uncertain && failure.code === "internal")
  switch (failure._tag) {
    case "TransportFailed":
    case "TimedOut":
      return true
    case "UnexpectedAnswer":
      return isTransientStatus(failure.status)
    default:
      return false
  }
}

/** From 0 up to 1: spreads the pauses, so that clients which failed together do not retry together. */
export class Jitter extends Context.Reference<Jitter>()("music/client/Jitter", {
  defaultValue: (): Effect.Effect<number> => Random.next
}) {}

/** Each pause lies between half and whole of the backoff's. Ends when the deadline leaves no room for pause and attempt. */
const pausesUntil = (deadline: Deadline): Schedule.Schedule<Duration.Duration, MusicFailure> =>
  Schedule.forever.pipe(
    Schedule.intersect(Schedule.identity<MusicFailure>()),
    Schedule.addDelayEffect(([count, failure]) =>
      Effect.map(Effect.flatten(Jitter), (random) =>
        Duration.millis(pauseAfter(callBackoff, count, failure, 0.5 + random / 2))
      )
    ),
    Schedule.delays,
    Schedule.checkEffect((_, pause) =>
      Effect.map(monotonicMillis, (now) => Duration.toMillis(pause) + shortestAttempt < deadline - now)
    )
  )

/**
 * Runs `attempt` until it succeeds, cannot succeed, or the deadline leaves no room for the next pause; then the last
 * failure is the result. `attempt` is given its time limit in milliseconds.
 */
export const retryUntil = <A, E extends MusicFailure>(
  options: {
    readonly deadline: Deadline
    readonly attemptMilliseconds: number
    readonly uncertain?: boolean
    readonly once?: boolean
  },
  attempt: (milliseconds: number) => Effect.Effect<A, E>
): Effect.Effect<A, E | TimedOut> =>
  Effect.flatMap(monotonicMillis, (now): Effect.Effect<A, E | TimedOut> => {
    const left = options.deadline - now
    return left < shortestAttempt
      ? Effect.fail(new TimedOut({}))
      : attempt(Math.min(left, options.attemptMilliseconds))
  }).pipe(
    Effect.retry({
      while: (failure) => options.once !== true && isRetryable(failure, options.uncertain === true),
      schedule: pausesUntil(options.deadline)
    })
  )
