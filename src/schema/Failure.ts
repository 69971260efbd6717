/** The failures that a caller can receive: one class, and one type for each code of `failureTable`. */
import * as Data from "effect/Data"
import * as Schema from "effect/Schema"
import { type FailureCode, failureTable } from "./FailureTable.ts"
import { mayBeAbsent, named, optionalText } from "./Fields.ts"
import { Checks } from "./System.ts"

export { type FailureCode, failureTable } from "./FailureTable.ts"

/** In the order of the table, whose keys are the codes. */
export const failureCodes = Object.keys(failureTable) as ReadonlyArray<FailureCode>

/** Details beyond the code; never a credential, never a rejected value. */
export const Details = named("FailureDetails", {
  fields: mayBeAbsent(Schema.Array(Schema.Struct({ path: Schema.String, problem: Schema.String }))),
  reason: optionalText,
  dependency: optionalText,
  upstream_code: optionalText,
  upstream_request_id: optionalText,
  checks: mayBeAbsent(Checks)
})
export type Details = typeof Details.Type

export interface QuotaPolicy {
  readonly name: string
  /** Uses within the window; all of them may come at once. Both are whole numbers. */
  readonly quota: number
  readonly windowSeconds: number
}

export interface QuotaReading {
  readonly policy: QuotaPolicy
  readonly remaining: number
  /** Seconds until the whole quota is free again. */
  readonly resetSeconds: number
  /** Seconds until one use is free; 0 when this one was admitted. */
  readonly retryAfterSeconds: number
}

/** What an occurrence adds to its row in the table. Only message, hint and details are part of the body. */
interface Occurrence {
  /** The cause. */
  readonly message?: string
  /** The next step. */
  readonly hint?: string
  readonly details?: Details
  /** Seconds; becomes the Retry-After header. */
  readonly retryAfterSeconds?: number
  /** Replaces the code's own status where HTTP has a more exact one. */
  readonly status?: number
  /** Methods that the path accepts; becomes the Allow header of a 405. */
  readonly allow?: string
  /** The quota that was exceeded; becomes RateLimit headers. */
  readonly quota?: QuotaReading
}

/** `_tag` is the code, so that each code is caught by its name. */
export class Failure<Code extends FailureCode = FailureCode> extends Data.Error<
  Occurrence & { readonly message: string; readonly hint: string }
> {
  readonly _tag: Code
  readonly code: Code
  constructor(code: Code, occurrence: Occurrence = {}) {
    const { hint, message } = failureTable[code]
    super({ message, hint, ...occurrence })
    this._tag = code
    this.code = code
  }
}

/** The refusal of a request by the dotted path of a field, by a header, or by `body` for the whole. */
export const refuseField = (path: string, problem: string): Failure<"invalid_input"> =>
  new Failure("invalid_input", { details: { fields: [{ path, problem }] } })

/** A union of one type for each of the codes, so that each is caught by its tag. */
export type FailureOf<Code extends FailureCode> = Code extends FailureCode ? Failure<Code> : never
