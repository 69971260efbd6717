/**
 * How a call to another system can fail, typed by outcome, because the outcome alone decides whether a repetition is
 * harmless: it answered no, it surely did nothing, or it may have happened.
 */
import * as Data from "effect/Data"

export type Dependency = "iam" | "ting" | "tables" | "tracker"

/** It answered no, in the words of its own contract. */
export class Refused extends Data.TaggedError("Refused")<{
  readonly dependency: Dependency
  readonly status: number
  /** The upstream's own code, for example `invalid_grant`. */
  readonly code: string
  readonly requestId?: string
  /** Seconds; present on every 429. */
  readonly retryAfterSeconds?: number
  /** The answer's own `Date`, milliseconds since the epoch: shows clock skew. */
  readonly answeredAt?: number
}> {}

/** It surely did nothing: the connection was never made, or it said so itself. */
export class NotExecuted extends Data.TaggedError("NotExecuted")<{
  readonly dependency: Dependency
  readonly reason: string
  readonly retryAfterSeconds?: number
}> {}

/** It may have happened: no answer, a lost connection, or an answer that is not its contract. */
export class Unknown extends Data.TaggedError("Unknown")<{
  readonly dependency: Dependency
  readonly reason: string
  readonly retryAfterSeconds?: number
}> {}

export type UpstreamFailure = Refused | NotExecuted | Unknown
