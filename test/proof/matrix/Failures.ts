/**
 * The failures of an upstream, by the groups in which the documents promise one behaviour (api.md, "Errors" and "Retries"). That each
 * failure of a socket ends as one of these is proved once, at the transport (test/layers/upstream).
 */
import type { Reply } from "../../../sandbox/upstreams/Simulator.ts"
import { answer, type Fault, type PathName, paths, type When } from "../../world/Faults.ts"

export interface Failure {
  readonly id: string
  /** `†`: the upstream has done its work before. */
  readonly group: string
  readonly fault: Fault
}

const failure = (id: string, group: string, fault: Fault): Failure => ({ id, group, fault })

/** Before the upstream works, and after it. */
const twice = (id: string, group: string, fault: (when: When) => Fault): ReadonlyArray<Failure> => [
  failure(id, group, fault("before")),
  failure(`${id} †`, `${group}†`, fault("after"))
]

const html = (status: number) => (when: When) =>
  answer(when, status, "<html></html>", { "content-type": "text/html" })

type Headers = Readonly<Record<string, string>>

const upstreamRequest = "upstream-1"

/** The envelope of IAM and Ting. */
const error =
  (status: number, code: string, headers: Headers = {}) =>
  (when: When): Fault => {
    const message = code.replaceAll("_", " ")
    const envelope = { code, message, hint: "", retryable: status === 429, request_id: upstreamRequest }
    return answer(when, status, { error: envelope }, headers)
  }

const swapTypes = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(swapTypes)
  if (typeof value === "object" && value !== null)
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, swapTypes(member)]))
  return typeof value === "string" ? value.length : String(value)
}

const altered = (id: string, group: string, alter: (own: Reply, now: number) => Reply): Failure =>
  failure(id, group, { kind: "alter", alter })
const withHeaders = (own: Reply, headers: Headers): Reply => ({
  ...own,
  headers: { ...own.headers, ...headers }
})
const dated = (seconds: number) => (own: Reply, now: number) =>
  withHeaders(own, { date: new Date(now + seconds * 1_000).toUTCString() })

/** What happens on the way, whatever the contract. */
const onTheWay: ReadonlyArray<Failure> = [
  failure("connection refused", "refused", { kind: "refused" }),
  ...twice("hang", "silent", (when) => ({ kind: "hang", when })),
  ...twice("reset", "broken", (when) => ({ kind: "lost", when })),
  failure("reset in the body †", "broken†", { kind: "lost", when: "within" }),
  ...twice("502 HTML", "broken", html(502)),
  ...twice("200 HTML", "broken", html(200)),
  failure("418", "broken", html(418)("before")),
  altered("wrong types †", "broken†", (own) => ({
    ...own,
    body: own.body === undefined ? { body: 1 } : swapTypes(own.body)
  })),
  // A world fails on a call to elsewhere.
  ...twice("302", "broken", (when) => answer(when, 302, undefined, { location: "https://elsewhere.test/" })),
  altered("Date 90 s ahead", "clock", dated(90)),
  altered("Date 90 s behind", "clock", dated(-90))
]

/** Whatever the code is. */
const limits: ReadonlyArray<Failure> = (
  [
    ["limit", "rate_limited", "429, 7 s", { "retry-after": "7" }],
    ["limit bare", "invalid_grant", "429, no seconds", {}],
    ["limit bare", "unauthenticated", "429, senseless seconds", { "retry-after": "soon" }],
    ["limit long", "temporarily_rate_limited", "429, 86400 s", { "retry-after": "86400" }]
  ] as const
).map(([group, code, id, headers]) => failure(id, group, error(429, code, headers)("before")))

const seconds = { "retry-after": "5" }

/** A refusal of the contract, under its own code, where the group has no other name. */
const refusal = (status: number, code: string, group: string = code): Failure =>
  failure(`${status} ${code}`, group, error(status, code)("before"))

const refusals = (group: string, ...codes: ReadonlyArray<readonly [status: number, code: string]>) =>
  codes.map(([status, code]) => refusal(status, code, group))

const iamAlways: ReadonlyArray<Failure> = [
  ...twice("500 internal_error", "broken", error(500, "internal_error")),
  failure("403 HTML", "broken", html(403)("before")),
  altered("version v2 †", "broken†", (own) => withHeaders(own, { "silicon-iam-api-version": "v2" })),
  failure("503 server_overloaded", "busy", error(503, "server_overloaded", seconds)("before")),
  ...twice("503 service_unavailable", "later", error(503, "service_unavailable", seconds)),
  ...limits,
  ...refusals("own credential", [401, "invalid_client"], [401, "unauthenticated"]),
  refusal(403, "forbidden"),
  ...refusals("odd", [404, "not_found"], [410, "api_version_sunset"], [422, "validation_failed"]),
  ...refusals("odd", [405, "method_not_allowed"], [413, "payload_too_large"], [428, "precondition_required"])
]

const iamKeyed: ReadonlyArray<Failure> = [
  refusal(409, "idempotency_conflict"),
  refusal(409, "idempotency_in_progress"),
  refusal(409, "idempotency_response_expired")
]

const tingAlways: ReadonlyArray<Failure> = [
  ...twice("503 storage_unavailable", "broken", error(503, "storage_unavailable")),
  failure("503 proof_verification_uncertain", "broken", error(503, "proof_verification_uncertain")("before")),
  failure("503 dependency_unavailable", "busy", error(503, "dependency_unavailable", seconds)("before")),
  ...twice("503 storage_unavailable, 5 s", "later", error(503, "storage_unavailable", seconds)),
  ...limits,
  ...refusals("proof", [401, "invalid_proof"], [401, "proof_expired"], [401, "proof_consumed"]),
  ...refusals("own credential", [401, "session_expired"], [401, "authentication_required"]),
  // No 401 of Ting becomes one of ours.
  ...refusals("odd", [401, "unauthenticated"], [401, "invalid_token"], [418, "something_new"]),
  refusal(400, "test_context_required", "own credential"),
  refusal(400, "invalid_input"),
  refusal(403, "permission_denied"),
  refusal(403, "test_context_mismatch"),
  refusal(413, "payload_too_large")
]

/** Refusals that mean something in a call with a key or a credential. */
const inOtherCalls = [
  refusal(409, "idempotency_in_progress", "in progress"),
  ...refusals("odd", [400, "invalid_request"], [400, "invalid_grant"], [409, "idempotency_conflict"])
]

/** What the contract of one path adds. */
const ofPath: Partial<Record<PathName, ReadonlyArray<Failure>>> = {
  tokens: [
    ...iamKeyed,
    refusal(400, "invalid_request", "odd"),
    ...refusals(
      "their credential",
      [400, "invalid_grant"],
      [400, "refresh_token_reuse"],
      [401, "invalid_token"]
    )
  ],
  introspect: [
    ...inOtherCalls,
    refusal(400, "invalid_subject_token", "odd"),
    failure("200 inactive", "inactive", answer("before", 200, { active: false }))
  ],
  context: inOtherCalls,
  revoke: [...iamKeyed, ...refusals("odd", [400, "invalid_request"], [400, "invalid_grant"])],
  proof: [
    ...iamKeyed,
    ...refusals("odd", [400, "unsupported_header"], [400, "invalid_grant"], [401, "proof_expired"]),
    refusal(400, "invalid_subject_token"),
    ...refusals("forbidden", [403, "obo_subject_token_forbidden"], [403, "obo_organization_not_authorized"])
  ],
  ting: [
    refusal(403, "recipient_not_registered"),
    refusal(403, "required_delivery_not_enabled"),
    refusal(404, "not_found"),
    refusal(409, "idempotency_conflict")
  ]
}

/** Every failure of a path. */
export const failuresOf = (path: PathName): ReadonlyArray<Failure> => {
  const { method, upstream } = paths[path]
  // A read has nothing to commit, so its failures before and after are the same.
  const commits = method !== "GET" && path !== "introspect"
  return [...onTheWay, ...(upstream === "iam" ? iamAlways : tingAlways), ...(ofPath[path] ?? [])].map(
    (one) => (commits ? one : { ...one, group: one.group.replace("†", "") })
  )
}
