/** Failures of the client beside the service's own, as tagged errors, and the exchange behind a failure. */
import * as Data from "effect/Data"
import { type Details, type Failure, failureTable, isFailure } from "../src/schema/Failure.ts"
import { clientErrorTable } from "./ErrorTable.ts"
import type { MusicError } from "./Types.ts"

interface WithHint {
  readonly hint?: string
}

/** Nothing was sent: no session is stored for this server and plane. */
export class NotLoggedIn extends Data.TaggedError("NotLoggedIn")<WithHint> {
  readonly code = "not_logged_in"
}
/**
 * The session is over. `revoked`: the identity service refused the refresh token. `lost`: the answer to a refresh was lost
 * more than 10 minutes ago. `refused`: new access tokens are refused. `replaced`: another program logged out.
 */
export class LoggedOut extends Data.TaggedError("LoggedOut")<
  WithHint & { readonly reason: "revoked" | "lost" | "refused" | "replaced" }
> {
  readonly code = "logged_out"
}
/** No connection, or a lost one. The request may have taken effect. */
export class TransportFailed extends Data.TaggedError("TransportFailed")<WithHint> {
  readonly code = "transport_failed"
}
/** No answer before the deadline. The request may have taken effect. */
export class TimedOut extends Data.TaggedError("TimedOut")<WithHint> {
  readonly code = "timed_out"
}
/** An answer outside the contract: a proxy's page, a truncated body, an unknown code. */
export class UnexpectedAnswer extends Data.TaggedError("UnexpectedAnswer")<
  WithHint & { readonly status: number }
> {
  readonly code = "unexpected_answer"
}
/** The session store or its lock failed. */
export class StoreFailed extends Data.TaggedError("StoreFailed")<WithHint & { readonly cause?: unknown }> {
  readonly code = "store_failed"
}
/** The telemetry queue is full. */
export class QueueFull extends Data.TaggedError("QueueFull")<WithHint> {
  readonly code = "queue_full"
}
/** This environment has no Web Crypto. */
export class Unsupported extends Data.TaggedError("Unsupported")<WithHint> {
  readonly code = "unsupported"
}

export type WireFailure = TransportFailed | TimedOut | UnexpectedAnswer
export type SessionFailure = NotLoggedIn | LoggedOut | StoreFailed | Unsupported
export type ClientFailure = WireFailure | SessionFailure | QueueFull
/** All failures of a call. */
export type MusicFailure = Failure | ClientFailure

/** The exchange behind a failure. */
export interface Exchange {
  /** The request id in the service's log; null when nothing was sent. */
  readonly requestId: string | null
  readonly retryAfterSeconds?: number
}

const exchanges = new WeakMap<object, Exchange>()

/** Returns the exchange of a failure. */
export const exchangeOf = (failure: object): Exchange => exchanges.get(failure) ?? { requestId: null }

/** Attaches an exchange to a failure. */
export const withExchange = <E extends object>(failure: E, exchange: Exchange): E => {
  exchanges.set(failure, exchange)
  return failure
}

/** Converts a failure to plain data. */
export const toError = (failure: MusicFailure): MusicError => {
  const { requestId, retryAfterSeconds } = exchangeOf(failure)
  const facts = { requestId, ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }) }
  if (isFailure(failure)) {
    const { retryable, status } = failureTable[failure.code]
    const details: Details | undefined = failure.details
    // The row belongs to the code, which the type checker cannot follow through a variable.
    return {
      code: failure.code,
      status,
      retryable,
      message: failure.message,
      hint: failure.hint,
      ...facts,
      ...(details === undefined ? {} : { details })
    } as MusicError
  }
  const { hint, message, retryable } = clientErrorTable[failure.code]
  return {
    code: failure.code,
    status: failure._tag === "UnexpectedAnswer" ? failure.status : null,
    retryable,
    message,
    hint: failure.hint ?? hint,
    ...facts,
    ...(failure._tag === "LoggedOut" ? { details: { reason: failure.reason } } : {})
  } as MusicError
}

/** The caller aborted the call: an interruption, no failure of an effect. */
export const abortedError = (requestId: string | null): MusicError => {
  const { hint, message, retryable } = clientErrorTable.aborted
  return { code: "aborted", status: null, retryable, message, hint, requestId }
}
