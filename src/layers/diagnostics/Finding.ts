/** What a check of the installation found: one line for an operator, with what to do about it. */
import * as Effect from "effect/Effect"
import type { UpstreamFailure } from "../../services/UpstreamFailure.ts"

/** FAIL: the server would not work, or not in full; WARN: look at it; SKIP: not configured, or nothing to go by. */
export type Status = "PASS" | "WARN" | "FAIL" | "SKIP"

export interface Finding {
  readonly name: string
  readonly status: Status
  /** Never a credential, nor text of another system beyond codes and versions. */
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

/** Seconds for one call; no check waits longer for an answer. */
export const patience = 10

/** A check that gives up in time. It never fails: what goes wrong is what it found. */
export type Check = Effect.Effect<ReadonlyArray<Finding>>

export const inTime = (name: string, fix: string, check: Check): Check =>
  Effect.timeoutTo(check, {
    duration: `${patience * 2} seconds`,
    onSuccess: (findings) => findings,
    onTimeout: () => [fail(name, `no result within ${patience * 2} seconds`, fix)]
  })

/** How a call failed, in a few words. */
export const told = (failure: UpstreamFailure): string =>
  failure._tag === "Refused" ? `it answered ${failure.status} ${failure.code}` : failure.reason
