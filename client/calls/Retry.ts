/** When an attempt is repeated, and after which pause. Plain functions; times are milliseconds. */
import type { MusicError } from "../Types.ts"

/** Exponential backoff: the pauses double. */
export interface Backoff {
  readonly first: number
  readonly longest: number
}

export const callBackoff: Backoff = { first: 250, longest: 5_000 }

/** A service that is not there after a restart of usual length is not waited for. */
export const refusedMilliseconds = 5_000
/** A shorter attempt is not worth its connection. */
export const shortestAttempt = 10
/** An attempt that has its answer in time. A rate limit counts each attempt, so none is made with less time after one. */
export const worthwhile = 1_000
/** The first attempt of a read or a refresh: a connection that died while the machine slept takes a request and never answers. */
export const firstAttempt = 10_000

export const isConnectionRefused = (failure: MusicError): boolean =>
  failure.code === "transport_failed" && failure.details.reason === "refused"

/** The pause after `count` earlier ones, never shorter than the `Retry-After` of the failure. */
export const pauseAfter = (backoff: Backoff, count: number, failure: MusicError, jitter = 1): number =>
  Math.max(
    Math.min(backoff.first * 2 ** count, backoff.longest) * jitter,
    (failure.retryAfterSeconds ?? 0) * 1_000
  )

/** Whether the same request can succeed later. `uncertain` calls also repeat an `internal` failure of the service. */
export const isRetryable = (failure: MusicError, uncertain: boolean): boolean =>
  failure.code === "internal"
    ? uncertain
    : failure.retryable && failure.code !== "store_failed" && failure.code !== "aborted"
