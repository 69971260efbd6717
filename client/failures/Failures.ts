/** Failures as tagged errors, for the program and inside the client: one class for the service's codes and the client's own. */
import type * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import { type FailureCode, failureTable } from "../../src/schema/FailureTable.ts"
import { type ClientErrorCode, clientErrorTable } from "./ErrorTable.ts"
import type { ErrorDetails, MusicError, MusicErrorCode, RateLimit, UnknownCode } from "../Types.ts"

/** `rate_limited` is `RateLimited`. */
type PascalCase<Text extends string> = Text extends `${infer Head}_${infer Rest}`
  ? `${Capitalize<Head>}${PascalCase<Rest>}`
  : Capitalize<Text>

/** The tag of a failure: its code in Pascal case; `UnknownFailure` for a code that this version does not know. */
type TagOf<Code extends string> = Code extends UnknownCode ? "UnknownFailure" : PascalCase<Code>

type Tagged<Code extends MusicErrorCode> = Code extends unknown
  ? Cause.YieldableError & Extract<MusicError, { readonly code: Code }> & { readonly _tag: TagOf<Code> }
  : never

/** All failures of a call, or those with some codes: an `Error` with the members of `MusicError` and a `_tag`. */
export type MusicFailure<Code extends MusicErrorCode = MusicErrorCode> = Tagged<Code>

/** Failures that stop before anything is sent. */
export type OptionsProblem = MusicFailure<"invalid_input" | "testing_secret_invalid">
/** Failures of sending and receiving. */
export type WireFailure = MusicFailure<"transport_failed" | "timed_out" | "unexpected_answer">
export type SessionFailure = MusicFailure<"not_logged_in" | "logged_out" | "store_failed" | "unsupported">
export type UnknownFailure = MusicFailure<UnknownCode>

export const isServiceFailureCode = (code: string): code is FailureCode => Object.hasOwn(failureTable, code)
const isClientCode = (code: string): code is ClientErrorCode => Object.hasOwn(clientErrorTable, code)

const tagOf = (code: string): string =>
  isServiceFailureCode(code) || isClientCode(code)
    ? code.replace(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase())
    : "UnknownFailure"

class Failure extends Data.Error<{ readonly code: string }> {
  readonly _tag = tagOf(this.code)
}

// The constructor takes the members of the very code, which the type checker cannot follow through a union.
const make = <Code extends MusicErrorCode>(facts: object): MusicFailure<Code> =>
  new Failure(facts as { readonly code: string }) as unknown as MusicFailure<Code>

/** Members that replace those of a code's row in its table. */
interface Replacements {
  readonly message?: string
  readonly hint?: string
  readonly retryable?: boolean
  readonly status?: number | null
  readonly details?: ErrorDetails
  readonly requestId?: string | null
  readonly retryAfterSeconds?: number
  readonly rateLimits?: ReadonlyArray<RateLimit>
  readonly cause?: unknown
}

/** A failure of the client's own. */
export const clientFailure = <const Code extends ClientErrorCode>(
  code: Code,
  more: Replacements = {}
): MusicFailure<Code> => make({ code, status: null, requestId: null, ...clientErrorTable[code], ...more })

/** A failure with a code of the service. */
export const serviceFailure = <const Code extends FailureCode>(
  code: Code,
  more: Replacements = {}
): MusicFailure<Code> => make({ code, requestId: null, ...failureTable[code], ...more })

/** A failure with a code that this version does not know. */
export const unknownFailure = (
  code: string,
  facts: Required<Pick<Replacements, "message" | "hint" | "retryable">> & {
    readonly status: number
  } & Replacements
): UnknownFailure => make({ code, requestId: null, ...facts })

/** The failure of a field that was given, such as an option. Nothing was sent. */
export const invalidInput = (path: string, problem: string, hint?: string): MusicFailure<"invalid_input"> =>
  serviceFailure("invalid_input", {
    message: withFirstField(failureTable.invalid_input.message, [{ path, problem }]),
    hint: hint ?? `Correct ${path}, then call again.`,
    details: { fields: [{ path, problem }] }
  })

/** A message that names the first field and its problem. */
export const withFirstField = (message: string, fields: ErrorDetails["fields"]): string => {
  const [first] = fields ?? []
  return first === undefined ? message : `${message.replace(/\.$/, "")}: ${first.path} ${first.problem}.`
}

/** The same failure with another request id, hint or pause. */
export const withFacts = <F extends MusicFailure>(failure: F, more: Replacements): F =>
  make({ ...toError(failure), cause: failure.cause, ...more }) as F

/** The failure of a call with a random key: a repetition needs the same key. */
export const withKey = <F extends MusicFailure>(failure: F, idempotencyKey: string): F =>
  withFacts(failure, {
    hint: `${failure.hint} Pass the idempotencyKey ${idempotencyKey}, so that it is done once.`,
    details: { ...failure.details, idempotencyKey }
  })

const members = [
  "code",
  "status",
  "retryable",
  "message",
  "hint",
  "requestId",
  "retryAfterSeconds",
  "rateLimits",
  "details"
]

/** Converts a failure to plain data. The cause is not enumerable: it is no JSON, and it may name more than a log should. */
export const toError = (failure: MusicFailure): MusicError => {
  const facts = Object.fromEntries(
    Object.entries({ ...failure, message: failure.message }).filter(
      ([name, value]) => members.includes(name) && value !== undefined
    )
  )
  if (failure.cause !== undefined) Object.defineProperty(facts, "cause", { value: failure.cause })
  // The members are those of the failure's own code.
  return facts as unknown as MusicError
}

/** The session is over or was never there: a retry cannot help. */
export const isOver = (failure: MusicFailure): failure is MusicFailure<"not_logged_in" | "logged_out"> =>
  failure.code === "not_logged_in" || failure.code === "logged_out"
