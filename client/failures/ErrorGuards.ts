/** The forms of errors that programs receive. This file has no library inside, so a page can check errors without the client. */
import { failureTable } from "../../src/schema/FailureTable.ts"
import type { MusicError, MusicErrorCode, UnknownError } from "../Types.ts"
import { clientErrorTable } from "./ErrorTable.ts"

/** The client's failure as an `Error`, for `throwOnError`. It has the members of `MusicError`. */
export type MusicClientError = Error & MusicError

const thrownName = "MusicClientError"

/** Whether a caught value is the error of a client with `throwOnError`. */
export const isMusicClientError = (value: unknown): value is MusicClientError =>
  value instanceof Error && value.name === thrownName

/** The error of a call as an `Error`. */
export const toThrown = (error: MusicError): MusicClientError => {
  const thrown = new Error(error.message, error.cause === undefined ? undefined : { cause: error.cause })
  thrown.name = thrownName
  return Object.assign(thrown, error)
}

/** Whether a later service sent a code that this version does not know. */
export const isUnknownCode = (error: MusicError): error is UnknownError =>
  !Object.hasOwn(failureTable, error.code) && !Object.hasOwn(clientErrorTable, error.code)

/** Narrows an error to some of its codes. */
export const hasCode = <const Code extends MusicErrorCode>(
  error: MusicError,
  ...codes: ReadonlyArray<Code>
): error is Extract<MusicError, { readonly code: Code }> => codes.some((code) => code === error.code)
