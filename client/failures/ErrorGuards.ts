/** The forms of errors that programs receive. This file has no library inside, so a page can check errors without the client. */
import type { MusicError, MusicErrorCode } from "../Types.ts"

/** The client's failure as an `Error`, for `throwOnError`. It has the members of `MusicError`. */
export type MusicClientError = Error & MusicError

const thrownName = "MusicClientError"

/** Whether a caught value is the error of a client with `throwOnError`. */
export const isMusicClientError = (value: unknown): value is MusicClientError =>
  value instanceof Error && value.name === thrownName

/** The error of a call as an `Error`. */
export const toThrown = (error: MusicError): MusicClientError => {
  const thrown = new Error(error.message)
  thrown.name = thrownName
  return Object.assign(thrown, error)
}

/** Narrows an error to some of its codes. */
export const hasCode = <const Code extends MusicErrorCode>(
  error: MusicError,
  ...codes: ReadonlyArray<Code>
): error is Extract<MusicError, { readonly code: Code }> => codes.some((code) => code === error.code)
