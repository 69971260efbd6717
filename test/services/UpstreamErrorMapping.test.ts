/** What a caller sees of the failures of IAM, Ting and the database: one table for each. */
import * as Redacted from "effect/Redacted"
import { describe, expect, it } from "vitest"
import { failureStatus } from "../../src/schema/Envelope.ts"
import { Production, Testing } from "../../src/services/Plane.ts"
import { StoreUnavailable } from "../../src/services/Store.ts"
import { mapStoreFailure } from "../../src/services/StoreFailures.ts"
import {
  iamFailures,
  planeFailure,
  repeatableProofRefusals,
  tingFailures
} from "../../src/services/combinators/UpstreamErrorMapping.ts"
import { type Dependency, NotExecuted, Refused, Unknown } from "../../src/services/UpstreamFailure.ts"

const now = Date.parse("2026-11-21T10:00:00Z")
const production = Production()
const testing = Testing({
  environmentId: "0199b000-0000-7000-8000-00000000000e",
  secret: Redacted.make("ask_secret"),
  webhookKeyDigest: undefined
})
const planes = { production, testing }

/** `plane` resolves one, so it is in none. */
const operations = { ...iamFailures, plane: () => planeFailure }
type Operation = keyof typeof operations

const refusal = (
  dependency: Dependency,
  answer: string,
  more: { readonly retryAfterSeconds?: number; readonly answeredAt?: number } = {}
) => {
  const [status = "", code = ""] = answer.split(" ")
  return new Refused({ dependency, status: Number(status), code, requestId: "upstream-1", ...more })
}
const named = (dependency: Dependency, answer: string) => ({
  dependency,
  upstream_code: answer.split(" ")[1],
  upstream_request_id: "upstream-1"
})

const every = "login refresh revoke introspect plane prove"
const tokens = "400 invalid_grant, 400 refresh_token_reuse, 400 invalid_token"
const ours = "401 invalid_client, 401 unauthenticated"
const calls = "login refresh revoke introspect prove"
const odd = `400 invalid_request, 422 validation_failed, 428 precondition_required, 413 payload_too_large,
  405 method_not_allowed`
/** Refusals of IAM, in which operations and plane, and the code that they become. A star: with IAM's code and request id. */
const iamRows: ReadonlyArray<readonly [string, string, keyof typeof planes, code: string]> = [
  [tokens, "login", "production", "slt_rejected"],
  [tokens, "refresh", "production", "unauthenticated"],
  ["400 invalid_grant", "introspect revoke prove plane", "production", "dependency_unavailable *"],
  ["409 idempotency_conflict", "login refresh revoke", "production", "idempotency_conflict"],
  ["409 idempotency_response_expired", "login refresh prove", "production", "idempotency_response_expired"],
  ["409 idempotency_in_progress", "login refresh revoke prove", "production", "idempotency_in_progress 1"],
  [
    "409 idempotency_conflict, 409 idempotency_in_progress",
    "introspect plane",
    "production",
    "dependency_unavailable *"
  ],
  ["429 rate_limited, 429 invalid_grant, 429 unauthenticated", every, "testing", "rate_limited 1"],
  [ours, "plane", "production", "testing_secret_invalid"],
  ["401 unauthenticated", every, "testing", "testing_secret_invalid"],
  ["401 invalid_client", calls, "testing", "dependency_misconfigured *"],
  [ours, calls, "production", "dependency_misconfigured *"],
  ["400 invalid_subject_token", "prove", "production", "unauthenticated"],
  ["400 invalid_subject_token", "introspect", "production", "dependency_unavailable *"],
  ["403 obo_organization_not_authorized", "prove", "production", "forbidden *"],
  ["404 not_found", "prove", "production", "reconsent_required *"],
  ["404 not_found", "login refresh introspect", "production", "dependency_unavailable *"],
  ["403 forbidden", every, "production", "forbidden *"],
  [odd, every, "production", "dependency_unavailable *"]
]

describe("A refusal of IAM", () => {
  it.each(iamRows)("%s of %s in %s is %s", (answers, among, plane, row) => {
    const [code, more] = row.split(" ")
    for (const answer of answers.split(/,\s+/))
      for (const operation of among.split(" ") as ReadonlyArray<Operation>) {
        const map = operations[operation](planes[plane])
        const failure = map(refusal("iam", answer), now)
        expect([operation, failure.code]).toEqual([operation, code])
        if (more === "*") expect(failure.details).toEqual(named("iam", answer))
        else if (more !== undefined) expect(failure.retryAfterSeconds).toBe(Number(more))
        if (answer.startsWith("429"))
          expect(map(refusal("iam", answer, { retryAfterSeconds: 42 }), now)).toMatchObject({
            retryAfterSeconds: 42
          })
      }
  })

  it("of our credentials hints at the clock where it is more than a minute wrong", () => {
    for (const seconds of [0, -60, 60, -60.001, 60.001]) {
      const given = refusal("iam", "401 invalid_client", { answeredAt: now + seconds * 1_000 })
      const { hint } = iamFailures.prove(production)(given, now)
      expect([seconds, hint.includes("clock")]).toEqual([seconds, Math.abs(seconds) > 60])
    }
  })
})

const same = `403 recipient_not_registered, 403 permission_denied, 403 test_context_mismatch, 404 not_found,
  403 required_delivery_not_enabled, 400 invalid_input, 409 idempotency_conflict, 413 payload_too_large`
/** No 401 of Ting becomes one of ours. */
const unavailable = `401 invalid_proof, 401 proof_expired, 401 proof_consumed, 503 storage_unavailable,
  418 something_new, 401 unauthenticated, 401 invalid_token`
const misconfigured = "401 session_expired, 401 authentication_required, 400 test_context_required"
const tingRows: ReadonlyArray<readonly [answer: string, code: string]> = [
  ...same.split(/,\s+/).map((answer) => [answer, answer] as const),
  ...unavailable.split(/,\s+/).map((answer) => [answer, "503 dependency_unavailable"] as const),
  ...misconfigured.split(/,\s+/).map((answer) => [answer, "502 dependency_misconfigured"] as const)
]

describe("A refusal of Ting", () => {
  it.each(tingRows)("%s is %s", (answer, expected) => {
    const failure = tingFailures.send(refusal("ting", answer), now)
    expect([`${failureStatus(failure)} ${failure.code}`, failure.details]).toEqual([
      expected,
      named("ting", answer)
    ])
  })

  it("with 429 is temporarily_rate_limited, for its seconds or one", () => {
    for (const [given, retryAfterSeconds] of [[{ retryAfterSeconds: 7 }, 7] as const, [{}, 1] as const])
      expect(tingFailures.register(refusal("ting", "429 anything", given), now)).toMatchObject({
        code: "temporarily_rate_limited",
        retryAfterSeconds
      })
  })

  it("of a proof allows another attempt, and no other one", () => {
    expect([...repeatableProofRefusals].sort()).toEqual(["invalid_proof", "proof_consumed", "proof_expired"])
  })
})

describe("A missing answer", () => {
  it("of IAM or Ting is dependency_unavailable, its reason only in the log", () => {
    const reason = "secret text of the log"
    const maps = Object.entries(operations).map(([, map]) => ["iam", map(production)] as const)
    for (const [dependency, map] of [...maps, ["ting", tingFailures.send] as const])
      for (const kind of [Unknown, NotExecuted]) {
        const failure = map(new kind({ dependency, reason, retryAfterSeconds: 5 }), now)
        expect(failure).toMatchObject({ code: "dependency_unavailable", retryAfterSeconds: 5 })
        expect(failure.details).toEqual({ dependency })
        expect(JSON.stringify(failure)).not.toContain(reason)
      }
  })

  it("of the database is dependency_unavailable for 2 s", () => {
    expect(mapStoreFailure(new StoreUnavailable({ kind: "unanswered" }))).toMatchObject({
      code: "dependency_unavailable",
      details: { dependency: "database" },
      retryAfterSeconds: 2
    })
  })
})
