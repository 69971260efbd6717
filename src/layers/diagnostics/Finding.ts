/** A finding of a check: one line for an operator, with its fix. */
import * as Effect from "effect/Effect"
import type { UpstreamFailure } from "../../services/UpstreamFailure.ts"

/** FAIL: the server would not work, or not fully; WARN: needs attention; SKIP: not configured or not checkable. */
export type Status = "PASS" | "WARN" | "FAIL" | "SKIP"

export interface Finding {
  readonly name: string
  readonly status: Status
  /** Holds no credential, and of another system only codes and versions. */
  readonly found: string
  readonly fix: string | null
}

export const pass = (name: string, found: string): Finding => ({ name, status: "PASS", found, fix: null })
export const warn = (name: string, found: string, fix: string): Finding => ({
  name,
  status: "WARN",
  found,
  fix
})
export const fail = (name: string, found: string, fix: string): Finding => ({
  name,
  status: "FAIL",
  found,
  fix
})
export const skip = (name: string, found: string, fix: string | null = null): Finding => ({
  name,
  status: "SKIP",
  found,
  fix
})

/** Seconds to wait for the answer to one call. */
export const callTimeoutSeconds = 10

/** A check never fails: a failure is a finding. */
export type Check = Effect.Effect<ReadonlyArray<Finding>>

/** Limits a check to twice the time of a call. */
export const withTimeout = (name: string, fix: string, check: Check): Check =>
  Effect.timeoutTo(check, {
    duration: `${callTimeoutSeconds * 2} seconds`,
    onSuccess: (findings) => findings,
    onTimeout: () => [fail(name, `no result within ${callTimeoutSeconds * 2} seconds`, fix)]
  })

/** The fix of a call that failed: that of its connection, where the failure shows one. */
export const fixOfCall = (failure: UpstreamFailure, otherwise: string): string =>
  (failure._tag === "NotExecuted" ? failure.advice : undefined) ?? otherwise

/** A failed call in a few words. */
export const summarizeFailure = (failure: UpstreamFailure): string =>
  failure._tag === "Refused" ? `it answered ${failure.status} ${failure.code}` : failure.reason
