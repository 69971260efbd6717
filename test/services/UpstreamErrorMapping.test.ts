import { assert, describe, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Redacted from "effect/Redacted"
import { failureStatus } from "../../src/schema/Envelope.ts"
import type { Failure, FailureCode } from "../../src/schema/Failure.ts"
import { Production, Testing } from "../../src/services/Plane.ts"
import { mapStoreFailure } from "../../src/services/StoreErrorMapping.ts"
import {
  mapIamFailure,
  mapTingFailure,
  type IamOperation,
  repeatableProofRefusals
} from "../../src/services/UpstreamErrorMapping.ts"
import { StoreUnavailable } from "../../src/services/Store.ts"
import { type Dependency, NotExecuted, Refused, Unknown } from "../../src/services/UpstreamFailure.ts"

const now = Date.parse("2026-11-21T10:00:00Z")
const production = Production()
const testing = Testing({
  environmentId: "0199b000-0000-7000-8000-00000000000e",
  secret: Redacted.make("ask_secret"),
  webhookKeyDigest: undefined
})
const operations: ReadonlyArray<IamOperation> = ["login", "refresh", "revoke", "introspect", "plane", "prove"]

const refusal = (
  dependency: Dependency,
  status: number,
  code: string,
  more: { readonly retryAfterSeconds?: number; readonly answeredAt?: number } = {}
) => new Refused({ dependency, status, code, requestId: "upstream-1", ...more })

const named = (dependency: Dependency, code: string) => ({
  dependency,
  upstream_code: code,
  upstream_request_id: "upstream-1"
})

describe("IAM's refusals", () => {
  const iam = (
    operation: IamOperation,
    status: number,
    code: string,
    plane: typeof production | typeof testing | "selecting" = production
  ): Failure => mapIamFailure(operation, plane, now)(refusal("iam", status, code))

  it("map every refusal of an SLT to slt_rejected, and of a refresh token to unauthenticated", () => {
    for (const code of ["invalid_grant", "refresh_token_reuse", "invalid_token"]) {
      assert.strictEqual(iam("login", 400, code).code, "slt_rejected")
      assert.strictEqual(iam("refresh", 400, code).code, "unauthenticated")
    }
  })

  it("keep the three idempotency codes, in every operation", () => {
    for (const operation of operations) {
      assert.strictEqual(iam(operation, 409, "idempotency_conflict").code, "idempotency_conflict")
      assert.strictEqual(
        iam(operation, 409, "idempotency_response_expired").code,
        "idempotency_response_expired"
      )
      const running = iam(operation, 409, "idempotency_in_progress")
      assert.strictEqual(running.code, "idempotency_in_progress")
      assert.strictEqual(running.retryAfterSeconds, 1)
    }
  })

  it("map a 429 to rate_limited with its seconds, in every operation, whatever its code", () => {
    for (const operation of operations) {
      for (const code of ["rate_limited", "invalid_grant", "unauthenticated"]) {
        const failure = mapIamFailure(
          operation,
          testing,
          now
        )(refusal("iam", 429, code, { retryAfterSeconds: 42 }))
        assert.strictEqual(failure.code, "rate_limited")
        assert.strictEqual(failure.retryAfterSeconds, 42)
      }
      assert.strictEqual(iam(operation, 429, "rate_limited").retryAfterSeconds, 1)
    }
  })

  it("map invalid_client and unauthenticated to testing_secret_invalid while a plane is selected", () => {
    assert.strictEqual(iam("plane", 401, "invalid_client", "selecting").code, "testing_secret_invalid")
    assert.strictEqual(iam("plane", 401, "unauthenticated", "selecting").code, "testing_secret_invalid")
  })

  it("map any unauthenticated in a testing plane to testing_secret_invalid", () => {
    for (const operation of operations) {
      assert.strictEqual(
        iam(operation, 401, "unauthenticated", testing).code,
        "testing_secret_invalid",
        operation
      )
    }
  })

  it("map invalid_client in a selected testing plane to a misconfiguration of ours", () => {
    assert.strictEqual(iam("login", 401, "invalid_client", testing).code, "dependency_misconfigured")
    assert.strictEqual(iam("prove", 401, "invalid_client", testing).code, "dependency_misconfigured")
  })

  it("map refusals of our credentials in production to an operator's problem, never to a logout", () => {
    for (const operation of ["login", "refresh", "revoke", "introspect", "prove"] as const)
      for (const code of ["invalid_client", "unauthenticated"]) {
        const failure = iam(operation, 401, code)
        assert.strictEqual(failure.code, "dependency_misconfigured", operation)
        deepStrictEqual(failure.details, named("iam", code))
      }
  })

  it("name clock skew in the hint when IAM's Date differs by more than 60 s in either direction", () => {
    const hint = (answeredAt: number | undefined) =>
      mapIamFailure(
        "prove",
        production,
        now
      )(refusal("iam", 401, "invalid_client", answeredAt === undefined ? {} : { answeredAt })).hint
    assert.notInclude(hint(undefined), "clock")
    assert.notInclude(hint(now - 60_000), "clock")
    assert.notInclude(hint(now + 60_000), "clock")
    assert.include(hint(now - 60_001), "clock")
    assert.include(hint(now + 60_001), "clock")
  })

  it("map a dead subject token to unauthenticated on a proof exchange only", () => {
    assert.strictEqual(iam("prove", 400, "invalid_subject_token").code, "unauthenticated")
    assert.strictEqual(iam("introspect", 400, "invalid_subject_token").code, "dependency_unavailable")
  })

  it("map an organisation that is not granted to forbidden, and 404 to reconsent_required, on a proof exchange", () => {
    const forbidden = iam("prove", 403, "obo_organization_not_authorized")
    assert.strictEqual(forbidden.code, "forbidden")
    deepStrictEqual(forbidden.details, named("iam", "obo_organization_not_authorized"))
    const reconsent = iam("prove", 404, "not_found")
    assert.strictEqual(reconsent.code, "reconsent_required")
    deepStrictEqual(reconsent.details, named("iam", "not_found"))
  })

  it("map a refusal of policy to forbidden, with IAM's code and request id", () => {
    for (const operation of operations) {
      const failure = iam(operation, 403, "forbidden")
      assert.strictEqual(failure.code, "forbidden")
      deepStrictEqual(failure.details, named("iam", "forbidden"))
    }
  })

  it("map an unknown refusal to an outage, never to a logout", () => {
    for (const operation of operations) {
      for (const [status, code] of [
        [400, "invalid_request"],
        [422, "validation_failed"],
        [428, "precondition_required"],
        [413, "payload_too_large"],
        [405, "method_not_allowed"]
      ] as const) {
        const failure = iam(operation, status, code)
        assert.strictEqual(failure.code, "dependency_unavailable", `${operation} ${code}`)
        deepStrictEqual(failure.details, named("iam", code))
      }
    }
    for (const operation of ["introspect", "revoke", "prove"] as const) {
      assert.strictEqual(iam(operation, 400, "invalid_grant").code, "dependency_unavailable")
    }
    for (const operation of ["login", "refresh", "introspect"] as const) {
      assert.strictEqual(iam(operation, 404, "not_found").code, "dependency_unavailable")
    }
  })

  it("map a missing or invalid answer to dependency_unavailable, with the seconds when known", () => {
    for (const operation of operations) {
      for (const plane of [production, testing] as const) {
        const lost = new Unknown({ dependency: "iam", reason: "secret text of the log" })
        const failure = mapIamFailure(operation, plane, now)(lost)
        assert.strictEqual(failure.code, "dependency_unavailable")
        deepStrictEqual(failure.details, { dependency: "iam" })
        assert.isUndefined(failure.retryAfterSeconds)
        const busy = new NotExecuted({ dependency: "iam", reason: "overloaded", retryAfterSeconds: 5 })
        assert.strictEqual(mapIamFailure(operation, plane, now)(busy).retryAfterSeconds, 5)
      }
    }
  })
})

describe("Ting's refusals", () => {
  const rows: ReadonlyArray<readonly [number, string, FailureCode, number]> = [
    [403, "recipient_not_registered", "recipient_not_registered", 403],
    [403, "permission_denied", "permission_denied", 403],
    [403, "test_context_mismatch", "test_context_mismatch", 403],
    [403, "required_delivery_not_enabled", "required_delivery_not_enabled", 403],
    [404, "not_found", "not_found", 404],
    [400, "invalid_input", "invalid_input", 400],
    [409, "idempotency_conflict", "idempotency_conflict", 409],
    [413, "payload_too_large", "payload_too_large", 413],
    [401, "invalid_proof", "dependency_unavailable", 503],
    [401, "proof_expired", "dependency_unavailable", 503],
    [401, "proof_consumed", "dependency_unavailable", 503],
    [503, "storage_unavailable", "dependency_unavailable", 503],
    [418, "something_new", "dependency_unavailable", 503],
    [401, "session_expired", "dependency_misconfigured", 502],
    [401, "authentication_required", "dependency_misconfigured", 502],
    [400, "test_context_required", "dependency_misconfigured", 502]
  ]

  for (const [status, code, expected, ours] of rows) {
    it(`${status} ${code} is ${ours} ${expected}`, () => {
      const failure = mapTingFailure(refusal("ting", status, code), now)
      assert.strictEqual(failure.code, expected)
      assert.strictEqual(failureStatus(failure), ours)
      deepStrictEqual(failure.details, named("ting", code))
    })
  }

  it("map 429 temporarily_rate_limited to the same code with its seconds", () => {
    const limited = refusal("ting", 429, "temporarily_rate_limited", { retryAfterSeconds: 7 })
    const failure = mapTingFailure(limited, now)
    assert.strictEqual(failure.code, "temporarily_rate_limited")
    assert.strictEqual(failure.retryAfterSeconds, 7)
    assert.strictEqual(mapTingFailure(refusal("ting", 429, "anything"), now).retryAfterSeconds, 1)
  })

  it("map no 401 of Ting to a 401 of ours", () => {
    for (const code of ["unauthenticated", "invalid_token", "session_expired", "authentication_required"]) {
      assert.isAtLeast(failureStatus(mapTingFailure(refusal("ting", 401, code), now)), 500)
    }
  })

  it("map a missing answer to dependency_unavailable", () => {
    const failure = mapTingFailure(new Unknown({ dependency: "ting", reason: "timeout" }), now)
    assert.strictEqual(failure.code, "dependency_unavailable")
    deepStrictEqual(failure.details, { dependency: "ting" })
  })

  it("allow another attempt with a new proof only for the three refusals of a proof", () => {
    deepStrictEqual([...repeatableProofRefusals].sort(), ["invalid_proof", "proof_consumed", "proof_expired"])
  })
})

describe("the database", () => {
  it("maps to dependency_unavailable with Retry-After 2; the reason appears only in the log", () => {
    const failure = mapStoreFailure(new StoreUnavailable({ problem: { kind: "unreachable" } }))
    assert.strictEqual(failure.code, "dependency_unavailable")
    deepStrictEqual(failure.details, { dependency: "database" })
    assert.strictEqual(failure.retryAfterSeconds, 2)
    assert.notInclude(JSON.stringify(failure), "disk I/O")
  })
})
