import * as HttpApiSchema from "@effect/platform/HttpApiSchema"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { describe, expect, it } from "vitest"
import { Envelope, failureStatus, toEnvelope } from "../../src/schema/Envelope.ts"
import { Failure, type FailureCode, failureTable } from "../../src/schema/Failure.ts"

/** The statuses and codes of the OpenAPI document are compared in test/http/OpenApi.test.ts. */
const codes = Object.keys(failureTable).filter((code): code is FailureCode => code in failureTable)
const details = {
  fields: [{ path: "events.0.id", problem: "must be a UUID" }],
  reason: "no_organization",
  dependency: "iam",
  upstream_code: "forbidden",
  upstream_request_id: "upstream-1",
  checks: { database: "ok", tracker: "degraded" }
} as const

describe("A failure", () => {
  it.each(codes)("%s has its status and its envelope", (code) => {
    const schema = Envelope(code)
    const { hint, message, status } = failureTable[code]
    const retryable = status === 429 || status === 503 || code === "idempotency_in_progress"
    expect([failureStatus(new Failure(code)), HttpApiSchema.getStatus(schema.ast, 0)]).toEqual([
      status,
      status
    ])
    expect(toEnvelope(new Failure(code))).toEqual({ error: { code, message, hint, retryable } })
    for (const text of [message, hint]) expect(text).toMatch(/^[A-Z].*\.$/)

    const failure = new Failure(code, { message: "What happened.", hint: "What to do.", details })
    const shown = { code, message: "What happened.", hint: "What to do.", retryable, details }
    expect(toEnvelope(failure)).toEqual({ error: shown })
    expect(Schema.decodeUnknownSync(schema)(toEnvelope(failure))).toEqual({ error: shown })
    const other = toEnvelope(code === "internal" ? new Failure("not_found") : new Failure("internal"))
    expect(Either.isLeft(Schema.decodeUnknownEither(schema)(other))).toBe(true)
  })

  it("shows no empty details, headers or details beyond the contract", () => {
    const { error } = toEnvelope(new Failure("rate_limited", { retryAfterSeconds: 5 }))
    expect(Object.keys(error)).toEqual(["code", "message", "hint", "retryable"])
    const wrong = toEnvelope(new Failure("method_not_allowed", { allow: "GET, HEAD" }))
    expect(JSON.stringify(wrong)).not.toContain("HEAD")
    const odd = new Failure("invalid_input", { details: { reason: "r", ...{ token: "oat_secret" } } })
    expect(JSON.stringify(toEnvelope(odd))).not.toContain("oat_secret")
  })
})
