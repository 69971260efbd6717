/** The errors of each call, so that a program sees which codes it has to expect. */
import type { EndpointName, FailureCodesOf } from "./calls/Endpoints.ts"
import type { ErrorOf, UnknownError } from "./Types.ts"

/** The errors of any call, also of one that sends nothing. */
export type LocalError = ErrorOf<"invalid_input" | "testing_secret_invalid" | "aborted" | "client_defect">

/** The errors of the session's store. */
export type StoreError = ErrorOf<"store_failed" | "unsupported">

/** The errors of a call without a session: those that the contract declares for it, and those of sending and receiving. */
export type CallError<Name extends EndpointName> =
  | LocalError
  | ErrorOf<FailureCodesOf<Name> | "transport_failed" | "timed_out" | "unexpected_answer">
  | UnknownError

/** The errors of a call with a session: it may need a refresh. */
export type SignedError<Name extends EndpointName> =
  | CallError<Name | "refresh">
  | StoreError
  | ErrorOf<"not_logged_in" | "logged_out">
