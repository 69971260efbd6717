/** Failures inside the client: plain `MusicError`s, with which its promises reject. Anything else that is rejected with is a defect. */
import type {
  AnswerReason,
  ErrorDetails,
  ErrorOf,
  MusicError,
  MusicErrorCode,
  UnknownError
} from "../Types.ts"
import { type FailureCode, failureTable } from "../../src/schema/FailureTable.ts"
import { present } from "../Values.ts"
import {
  type ClientErrorCode,
  clientErrorTable,
  type ReasonedCode,
  type ReasonOf,
  rowOf,
  sentenceOf
} from "./ErrorTable.ts"

/** Failures that stop before anything is sent. */
export type OptionsProblem = ErrorOf<"invalid_input" | "testing_secret_invalid">

/** Members that replace those of a code's row in its table. */
type Replacements = {
  readonly [Name in Exclude<keyof UnknownError, "code">]?:
    | UnknownError[Name]
    | (Name extends "status" ? null : undefined)
}

const made = new WeakSet<object>()

/** Whether the client made this value; an error of a program's own store or `fetch` is none. */
export const isFailure = (value: unknown): value is MusicError =>
  typeof value === "object" && value !== null && made.has(value)

/** The members in one order. Cause and response are not enumerable: they are no JSON, and they may name more than a log should. */
const make = <Code extends MusicErrorCode>({
  cause,
  code,
  details,
  hint,
  message,
  rateLimits,
  requestId = null,
  response,
  retryable,
  retryAfterSeconds,
  status
}: Replacements & { readonly code: string }): ErrorOf<Code> => {
  const more = { retryAfterSeconds, rateLimits, details }
  const failure = present({ code, status, retryable, message, hint, requestId, ...more })
  for (const [name, value] of Object.entries(present({ cause, response })))
    Object.defineProperty(failure, name, { value })
  made.add(failure)
  // The members are those of the code's own row, which the type checker cannot follow through a union.
  return failure as unknown as ErrorOf<Code>
}

export const isServiceFailureCode = (code: string): code is FailureCode => Object.hasOwn(failureTable, code)

/** A failure of the client's own. */
export const clientFailure = <const Code extends ClientErrorCode>(
  code: Code,
  more: Replacements = {}
): ErrorOf<Code> => {
  const row = clientErrorTable[code]
  return make<Code>({ code, status: null, ...row, message: sentenceOf(row.message), ...more })
}

/** The same for a reason. `about` is what the message names: a host or a status, and the code of the system. */
export const reasonedFailure = <const Code extends ReasonedCode>(
  code: Code,
  reason: ReasonOf<Code>,
  more: Replacements = {},
  about: { readonly place?: string; readonly code?: string | undefined } = {}
): ErrorOf<Code> => {
  const row = rowOf(code, reason)
  const message = sentenceOf(row.message, about.place, about.code)
  return clientFailure(code, { ...row, message, ...more, details: { reason, ...more.details } })
}

/** A failure with a code of the service. */
export const serviceFailure = <const Code extends FailureCode>(
  code: Code,
  more: Replacements = {}
): ErrorOf<Code> => make<Code>({ code, ...failureTable[code], ...more })

/** A failure with a code that this version does not know. */
export const unknownFailure = (
  code: string,
  facts: Required<Pick<Replacements, "message" | "hint" | "retryable" | "status">> & Replacements
): UnknownError => make<UnknownError["code"]>({ code, ...facts })

export const isSuccess = (status: number): boolean => status >= 200 && status < 300

/**
 * A 408, 429 and 5xx come from a failing intermediary and may be temporary, and so may a page in place of a 200. A connection
 * that broke within an answer is repeated with every status. A redirect or a 404 is permanent, and a well-formed answer would
 * be the same again.
 */
const isTransient = (status: number, reason: AnswerReason): boolean =>
  reason === "incomplete" ||
  (isSuccess(status) ? reason === "not_json" : status >= 500 || status === 408 || status === 429)

/** An answer outside the contract. */
export const unexpectedAnswer = (
  status: number,
  reason: AnswerReason,
  cause?: unknown
): ErrorOf<"unexpected_answer"> => {
  const facts = { status, retryable: isTransient(status, reason), cause }
  return reasonedFailure("unexpected_answer", reason, facts, { code: `status ${status}` })
}

/** A message that names the first field and its problem. */
export const withFirstField = (message: string, fields: ErrorDetails["fields"]): string => {
  const [first] = fields ?? []
  return first === undefined ? message : `${message.replace(/\.$/, "")}: ${first.path} ${first.problem}.`
}

/** The failure of a field that was given, such as an option. Nothing was sent. */
export const invalidInput = (path: string, problem: string, hint?: string): ErrorOf<"invalid_input"> =>
  serviceFailure("invalid_input", {
    message: withFirstField(failureTable.invalid_input.message, [{ path, problem }]),
    hint: hint ?? `Correct ${path}, then call again.`,
    details: { fields: [{ path, problem }] }
  })

/** The same failure with other members. */
export const withFacts = <F extends MusicError>(failure: F, more: Replacements): F =>
  make({ ...failure, cause: failure.cause, response: failure.response, ...more }) as F

/** The failure of a call with a random key: a repetition needs the same key. */
export const withKey = <F extends MusicError>(failure: F, idempotencyKey: string): F =>
  withFacts(failure, {
    hint: `${failure.hint} Pass the idempotencyKey ${idempotencyKey}, so that it is done once.`,
    details: { ...failure.details, idempotencyKey }
  })

/** The failure behind a rejection. */
export const failureOf = (cause: unknown): MusicError =>
  isFailure(cause) ? cause : clientFailure("client_defect", { cause })

export const failWith = (failure: MusicError): Promise<never> => Promise.reject(failure)

/** The session is over or was never there: a retry cannot help. */
export const isOver = (failure: MusicError): failure is ErrorOf<"not_logged_in" | "logged_out"> =>
  failure.code === "not_logged_in" || failure.code === "logged_out"

/** The client's failure as an `Error`, for `throwOnError`. It has the members of `MusicError`. */
export type MusicClientError = Error & MusicError

const thrownName = "MusicClientError"

/** Whether a caught value is the error of a client with `throwOnError`. */
export const isMusicClientError = (value: unknown): value is MusicClientError =>
  value instanceof Error && value.name === thrownName

/** The error of a call as an `Error`, whose message is a part of its JSON. */
export const toThrown = (error: MusicError): MusicClientError => {
  const { cause, message, response } = error
  const thrown = new Error(message, cause === undefined ? undefined : { cause })
  Object.defineProperty(thrown, "name", { value: thrownName })
  Object.defineProperty(thrown, "message", { value: message, enumerable: true })
  if (response !== undefined) Object.defineProperty(thrown, "response", { value: response })
  return Object.assign(thrown, { ...error })
}

/** Whether a later service sent a code that this version does not know. */
export const isUnknownCode = (error: MusicError): error is UnknownError =>
  !Object.hasOwn(failureTable, error.code) && !Object.hasOwn(clientErrorTable, error.code)

/** Narrows an error to some of its codes. */
export const hasCode = <E extends MusicError, const Code extends MusicErrorCode>(
  error: E,
  ...codes: ReadonlyArray<Code>
): error is E & ErrorOf<Code> => codes.some((code) => code === error.code)
