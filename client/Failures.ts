/** What a call can end in besides the service's own failures, as tagged errors; and what is known of the request. */
import * as Data from "effect/Data"
import { type Details, type Failure, failureTable, isFailure } from "../src/schema/Failure.ts"
import { clientErrorTable } from "./ErrorTable.ts"
import type { MusicError } from "./Types.ts"

interface Told {
  readonly hint?: string
}

/** Nothing was sent: no session is stored for this server and plane. */
export class NotLoggedIn extends Data.TaggedError("NotLoggedIn")<Told> {
  readonly code = "not_logged_in"
}
/**
 * The session is over: `revoked` says the identity service; `lost` was the answer to a refresh more than 10 minutes
 * ago; `refused` are new access tokens; `replaced` it was by a logout elsewhere.
 */
export class LoggedOut extends Data.TaggedError("LoggedOut")<
  Told & { readonly reason: "revoked" | "lost" | "refused" | "replaced" }
> {
  readonly code = "logged_out"
}
/** No connection, or a lost one. What was asked may have happened. */
export class TransportFailed extends Data.TaggedError("TransportFailed")<Told> {
  readonly code = "transport_failed"
}
/** No answer inside the deadline. What was asked may have happened. */
export class TimedOut extends Data.TaggedError("TimedOut")<Told> {
  readonly code = "timed_out"
}
/** An answer that is not the service's: a proxy's page, half a body, an unknown code. */
export class UnexpectedAnswer extends Data.TaggedError("UnexpectedAnswer")<
  Told & { readonly status: number }
> {
  readonly code = "unexpected_answer"
}
/** The session store or its lock failed. */
export class StoreFailed extends Data.TaggedError("StoreFailed")<Told & { readonly cause?: unknown }> {
  readonly code = "store_failed"
}
/** The telemetry queue is at its bound. */
export class QueueFull extends Data.TaggedError("QueueFull")<Told> {
  readonly code = "queue_full"
}
/** No Web Crypto here. */
export class Unsupported extends Data.TaggedError("Unsupported")<Told> {
  readonly code = "unsupported"
}

export type WireFailure = TransportFailed | TimedOut | UnexpectedAnswer
export type SessionFailure = NotLoggedIn | LoggedOut | StoreFailed | Unsupported
export type ClientFailure = WireFailure | SessionFailure | QueueFull
/** Everything that a call can fail with. */
export type MusicFailure = Failure | ClientFailure

/** What is known of the exchange behind a failure. */
export interface Exchange {
  /** Names the request in the service's log; null when nothing was sent. */
  readonly requestId: string | null
  readonly retryAfterSeconds?: number
}

const exchanges = new WeakMap<object, Exchange>()

/** The exchange that ended in this failure. */
export const exchangeOf = (failure: object): Exchange => exchanges.get(failure) ?? { requestId: null }

/** Remembers the exchange of a failure. */
export const withExchange = <E extends object>(failure: E, exchange: Exchange): E => {
  exchanges.set(failure, exchange)
  return failure
}

/** A failure as plain data. */
export const toError = (failure: MusicFailure): MusicError => {
  const { requestId, retryAfterSeconds } = exchangeOf(failure)
  const facts = { requestId, ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }) }
  if (isFailure(failure)) {
    const { retryable, status } = failureTable[failure.code]
    const details: Details | undefined = failure.details
    // One row of the table belongs to one code, which the type checker cannot follow through a variable.
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

/** The caller's own doing, which no effect fails with. */
export const abortedError = (requestId: string | null): MusicError => {
  const { hint, message, retryable } = clientErrorTable.aborted
  return { code: "aborted", status: null, retryable, message, hint, requestId }
}
