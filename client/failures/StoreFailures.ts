/** Failures of session stores and locks: six reasons, with the system's code. A message of a foreign error is never passed on. */
import type { Reasons } from "../Contract.ts"
import { isRecord, isText, present, tried } from "../Values.ts"
import { findReason, reasonTable, rowOf, sentenceOf } from "./ErrorTable.ts"

/** The members of a `SessionStoreError`; what is left out follows from the reason. */
export interface StoreProblemInput extends Readonly<Reasons["store_failed"]> {
  /** The file or folder, when the store keeps files. */
  readonly path?: string
  /** The system's code or name of the error, for example `ENOSPC` or `QuotaExceededError`. */
  readonly code?: string
  /** Whether the same call can succeed later without a change of program or configuration. */
  readonly retryable?: boolean
  /** What happened. */
  readonly message?: string
  /** What to do next. */
  readonly hint?: string
  /** The error behind it. Never one that quotes a credential: programs log it. */
  readonly cause?: unknown
}

export type StoreFailureReason = StoreProblemInput["reason"]

/** A member of a value; a getter or a proxy of a program's own may fail. */
export const memberOf = (value: object, name: string): unknown => tried(() => Reflect.get(value, name))

/** An error, its causes and the errors that it unites, at most 20. */
export const causesOf = (error: unknown): ReadonlyArray<object> => {
  const found: Array<object> = []
  const left: Array<unknown> = [error]
  while (left.length > 0 && found.length < 20) {
    const next = left.shift()
    if (typeof next !== "object" || next === null) continue
    found.push(next)
    const errors = memberOf(next, "errors")
    left.push(memberOf(next, "cause"), ...(Array.isArray(errors) ? errors : []))
  }
  return found
}

const nameOfError = "SessionStoreError"

/**
 * The rejection of a session store that knows the reason. A store of one's own may reject with it; the client passes its fields on.
 * Fields that are left out follow from the reason.
 */
export class SessionStoreError extends Error {
  override readonly name = nameOfError
  readonly reason: StoreFailureReason
  declare readonly path?: string
  declare readonly code?: string
  readonly retryable: boolean
  readonly hint: string

  constructor({ cause, code, hint, message, path, reason, retryable }: StoreProblemInput) {
    const row = rowOf("store_failed", reason)
    super(message ?? sentenceOf(row.message, path, code), cause === undefined ? undefined : { cause })
    this.reason = reason
    Object.assign(this, present({ path, code }))
    this.retryable = retryable ?? row.retryable
    this.hint = hint ?? row.hint
  }
}

const textIn = (error: object, name: string): string | undefined => {
  const found = memberOf(error, name)
  return isText(found) && found !== "" ? found : undefined
}

const textsIn = (error: object, ...names: ReadonlyArray<string>) =>
  present(Object.fromEntries(names.map((name) => [name, textIn(error, name)])))

/** What a store says itself. Recognised by its members: a program may load two copies of this module. */
const readStated = (error: object): StoreProblemInput | undefined => {
  const [reason = "", retryable] = [textIn(error, "reason"), memberOf(error, "retryable")]
  if (textIn(error, "name") !== nameOfError || !Object.hasOwn(reasonTable.store_failed, reason))
    return undefined
  return {
    reason: reason as StoreFailureReason,
    ...textsIn(error, "path", "code", "message", "hint"),
    ...(typeof retryable === "boolean" ? { retryable } : {})
  }
}

/** A failure of Node, a browser or JSON. */
const recognise = (error: object): StoreProblemInput | undefined => {
  for (const code of [textIn(error, "code"), textIn(error, "name")]) {
    if (code === undefined) continue
    const reason = findReason("store_failed", code)
    if (reason === "corrupt" || reason === "locked") return { reason, ...textsIn(error, "path") }
    if (reason !== undefined) return { reason, code, ...textsIn(error, "path") }
  }
  return undefined
}

/**
 * The rejection of any store or lock as a `SessionStoreError`, which names `path`. Never fails. The cause is kept, but not of a spoiled
 * session: the message of a JSON error quotes the text around the error.
 */
export const storeErrorOf = (cause: unknown, path?: string): SessionStoreError => {
  if (cause instanceof SessionStoreError) return cause
  for (const error of causesOf(cause).filter(isRecord)) {
    const found = readStated(error) ?? recognise(error)
    if (found === undefined) continue
    const more = present({ path, cause: found.reason === "corrupt" ? undefined : cause })
    return new SessionStoreError({ ...found, ...more })
  }
  return new SessionStoreError({ reason: "unavailable", ...present({ path }), cause })
}
