import * as HttpApiSchema from "@effect/platform/HttpApiSchema"
import { assert, describe, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
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

/** The table of docs/api.md, "Errors", and its rows of Ting's codes: status and retryability. */
const documented: Record<FailureCode, readonly [number, boolean]> = {
  invalid_input: [400, false],
  idempotency_key_required: [400, false],
  idempotency_key_invalid: [400, false],
  unauthenticated: [401, false],
  slt_rejected: [401, false],
  testing_secret_invalid: [401, false],
  webhook_signature_invalid: [401, false],
  forbidden: [403, false],
  reconsent_required: [403, false],
  recipient_not_registered: [403, false],
  permission_denied: [403, false],
  test_context_mismatch: [403, false],
  required_delivery_not_enabled: [403, false],
  origin_not_allowed: [403, false],
  plane_mismatch: [403, false],
  not_found: [404, false],
  method_not_allowed: [405, false],
  idempotency_conflict: [409, false],
  idempotency_in_progress: [409, true],
  idempotency_response_expired: [409, false],
  payload_too_large: [413, false],
  unsupported_media_type: [415, false],
  rate_limited: [429, true],
  temporarily_rate_limited: [429, true],
  internal: [500, false],
  dependency_misconfigured: [502, false],
  dependency_unavailable: [503, true],
  not_ready: [503, true],
  overloaded: [503, true],
  reports_full: [503, true],
  spool_full: [503, true],
  shutting_down: [503, true]
}

const codes = Object.keys(documented).filter((code): code is FailureCode => code in failureTable)
const details = {
  fields: [{ path: "events.0.id", problem: "must be a UUID" }],
  reason: "no_organization",
  dependency: "iam",
  upstream_code: "forbidden",
  upstream_request_id: "upstream-1",
  checks: { database: "ok", tracker: "degraded" }
} as const

describe("The failure table", () => {
  it("has exactly the documented codes", () => {
    deepStrictEqual(Object.keys(failureTable).sort(), Object.keys(documented).sort())
    deepStrictEqual(Object.keys(failureClasses).sort(), Object.keys(documented).sort())
  })

  for (const code of codes) {
    const failureClass = failureClasses[code]
    const [status, retryable] = documented[code]

    describe(code, () => {
      it(`is ${status}, ${retryable ? "" : "not "}retryable, with message and hint of the table`, () => {
        const failure = new failureClass({})
        assert.strictEqual(failure.code, code)
        assert.strictEqual(failureStatus(failure), status)
        deepStrictEqual(toEnvelope(failure), {
          error: { code, message: failureTable[code].message, hint: failureTable[code].hint, retryable }
        })
        assert.match(failure.message, /^[A-Z].*\.$/)
        assert.match(failure.hint, /^[A-Z].*\.$/)
      })

      it("is encoded as the envelope and decoded to its class", () => {
        const schema = wire(failureClass)
        assert.strictEqual(HttpApiSchema.getStatus(schema.ast, 0), status)
        const failure = new failureClass({ message: "What happened.", hint: "What to do.", details })
        const sent = Schema.encodeSync(schema)(failure)
        deepStrictEqual(JSON.parse(JSON.stringify(sent)), {
          error: { code, message: "What happened.", hint: "What to do.", retryable, details }
        })
        const received = Schema.decodeUnknownSync(schema)(JSON.parse(JSON.stringify(sent)))
        assert.isTrue(received instanceof failureClass)
        assert.isTrue(isFailure(received))
        deepStrictEqual(toEnvelope(received), toEnvelope(failure))
      })

      it("is not decoded from another code's envelope", () => {
        const other = toEnvelope(code === "internal" ? new NotFound() : new Internal())
        assert.isTrue(Either.isLeft(Schema.decodeUnknownEither(wire(failureClass))(other)))
      })
    })
  }
})

describe("The envelope", () => {
  it("omits empty details, and never contains fields that become headers", () => {
    const limited = new RateLimited({ retryAfterSeconds: 5 })
    deepStrictEqual(Object.keys(toEnvelope(limited).error), ["code", "message", "hint", "retryable"])
    const wrong = new MethodNotAllowed({ allow: "GET, HEAD" })
    assert.notInclude(JSON.stringify(Schema.encodeSync(wire(MethodNotAllowed))(wrong)), "HEAD")
  })

  it("omits details that the contract does not name", () => {
    const made = () => new InvalidInput({ details: { reason: "r", ...{ token: "oat_secret" } } })
    assert.notInclude(JSON.stringify(toEnvelope(made())), "oat_secret")
  })
})

describe("isFailure", () => {
  it("accepts an instance of every class", () => {
    for (const code of codes) assert.isTrue(isFailure(new failureClasses[code]({})))
  })

  it("rejects objects of the same shape", () => {
    const failure = new DependencyUnavailable({})
    for (const lookalike of [
      undefined,
      null,
      "not_found",
      new Error("broken"),
      { ...failure },
      { _tag: "NotFound", code: "not_found", message: "m", hint: "h" },
      toEnvelope(failure)
    ]) {
      assert.isFalse(isFailure(lookalike))
    }
  })
})
