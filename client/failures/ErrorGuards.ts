/** The forms of errors that programs receive. */
import { failureTable } from "../../src/schema/FailureTable.ts"
import type { ErrorOf, MusicError, MusicErrorCode, UnknownError } from "../Types.ts"
import { clientErrorTable } from "./ErrorTable.ts"

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
