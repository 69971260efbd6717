import * as HttpApiSchema from "@effect/platform/HttpApiSchema"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { describe, expect, it } from "vitest"
import { failureStatus, toEnvelope, wire } from "../../src/schema/Envelope.ts"
import {
  DependencyUnavailable,
  type FailureCode,
  failureClasses,
  failureTable,
  Internal,
  InvalidInput,
  isFailure,
  MethodNotAllowed,
  NotFound,
  RateLimited
} from "../../src/schema/Failure.ts"

/** docs/api.md, "Errors": the codes by status. A repetition may help in the last three rows and of `idempotency_in_progress`. */
const codesByStatus: Readonly<Record<number, string>> = {
  400: "invalid_input idempotency_key_required idempotency_key_invalid",
  401: "unauthenticated slt_rejected testing_secret_invalid webhook_signature_invalid",
  403: `forbidden reconsent_required recipient_not_registered permission_denied test_context_mismatch
    required_delivery_not_enabled origin_not_allowed plane_mismatch`,
  404: "not_found",
  405: "method_not_allowed",
  409: "idempotency_conflict idempotency_in_progress idempotency_response_expired",
  413: "payload_too_large",
  415: "unsupported_media_type",
  500: "internal",
  502: "dependency_misconfigured",
  429: "rate_limited temporarily_rate_limited",
  503: "dependency_unavailable not_ready overloaded reports_full spool_full shutting_down"
}
const documented = Object.entries(codesByStatus).flatMap(([status, codes]) =>
  codes.split(/\s+/).map((code) => [code, Number(status)] as const)
)
const isCode = (code: string): code is FailureCode => code in failureTable
const rows = documented.flatMap(([code, status]) => (isCode(code) ? [[code, status] as const] : []))
const details = {
  fields: [{ path: "events.0.id", problem: "must be a UUID" }],
  reason: "no_organization",
  dependency: "iam",
  upstream_code: "forbidden",
  upstream_request_id: "upstream-1",
  checks: { database: "ok", tracker: "degraded" }
} as const

describe("A failure", () => {
  it("has one of the documented codes", () => {
    const codes = documented.map(([code]) => code).sort()
    expect(Object.keys(failureTable).sort()).toEqual(codes)
    expect(Object.keys(failureClasses).sort()).toEqual(codes)
  })

  it.each(rows)("%s is %i, and is decoded from its own envelope only", (code, status) => {
    const failureClass = failureClasses[code]
    const schema = wire(failureClass)
    const retryable = status === 429 || status === 503 || code === "idempotency_in_progress"
    const { hint, message } = failureTable[code]
    expect([failureStatus(new failureClass({})), HttpApiSchema.getStatus(schema.ast, 0)]).toEqual([
      status,
      status
    ])
    expect(toEnvelope(new failureClass({}))).toEqual({ error: { code, message, hint, retryable } })
    for (const text of [message, hint]) expect(text).toMatch(/^[A-Z].*\.$/)

    const failure = new failureClass({ message: "What happened.", hint: "What to do.", details })
    const sent: unknown = JSON.parse(JSON.stringify(Schema.encodeSync(schema)(failure)))
    expect(sent).toEqual({
      error: { code, message: "What happened.", hint: "What to do.", retryable, details }
    })
    const received = Schema.decodeUnknownSync(schema)(sent)
    expect(received).toBeInstanceOf(failureClass)
    expect(isFailure(received)).toBe(true)
    expect(toEnvelope(received)).toEqual(toEnvelope(failure))
    const other = toEnvelope(code === "internal" ? new NotFound() : new Internal())
    expect(Either.isLeft(Schema.decodeUnknownEither(schema)(other))).toBe(true)
  })

  it("shows in its envelope neither empty details, nor headers, nor details that the contract does not name", () => {
    const { error } = toEnvelope(new RateLimited({ retryAfterSeconds: 5 }))
    expect(Object.keys(error)).toEqual(["code", "message", "hint", "retryable"])
    const wrong = Schema.encodeSync(wire(MethodNotAllowed))(new MethodNotAllowed({ allow: "GET, HEAD" }))
    expect(JSON.stringify(wrong)).not.toContain("HEAD")
    const odd = new InvalidInput({ details: { reason: "r", ...{ token: "oat_secret" } } })
    expect(JSON.stringify(toEnvelope(odd))).not.toContain("oat_secret")
  })

  it("is no object of the same shape", () => {
    const failure = new DependencyUnavailable({})
    const tagged = { _tag: "NotFound", code: "not_found", message: "m", hint: "h" }
    for (const other of [
      undefined,
      null,
      "not_found",
      new Error("no"),
      { ...failure },
      tagged,
      toEnvelope(failure)
    ])
      expect(isFailure(other)).toBe(false)
  })
})
