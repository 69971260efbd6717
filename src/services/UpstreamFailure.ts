/**
 * Failures of calls to other systems, typed by outcome, because the outcome alone decides whether a retry is safe: refused, not
 * executed, or unknown.
 */
import * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"

export type Dependency = "iam" | "ting" | "tables" | "tracker"

/** The upstream refused the call, with a code of its own contract. */
export class Refused extends Data.TaggedError("Refused")<{
  readonly dependency: Dependency
  readonly status: number
  /** The upstream's own code, for example `invalid_grant`. */
  readonly code: string
  readonly requestId?: string | undefined
  /** What an operator has to repair, where the code shows it. */
  readonly advice?: string | undefined
  /** Seconds; present on every 429. */
  readonly retryAfterSeconds?: number | undefined
}> {}

interface NoAnswer {
  readonly dependency: Dependency
  readonly reason: string
  readonly retryAfterSeconds?: number | undefined
  /** The deadline of the caller's request left less than a second for the call: this says nothing about the dependency. */
  readonly isLate?: boolean
}

/** The call had no effect: the connection was never made, or the upstream says so. */
export class NotExecuted extends Data.TaggedError("NotExecuted")<NoAnswer> {}

/** The call may have taken effect: no response, a lost connection, or a response that violates the contract. */
export class Unknown extends Data.TaggedError("Unknown")<NoAnswer> {}

export type UpstreamFailure = Refused | NotExecuted | Unknown

/** The failure of a call that has ended; undefined after a success, a defect or an interruption. */
export const failureOf = <A>(exit: Exit.Exit<A, UpstreamFailure>): UpstreamFailure | undefined =>
  Exit.isFailure(exit) ? Option.getOrUndefined(Cause.failureOption(exit.cause)) : undefined
