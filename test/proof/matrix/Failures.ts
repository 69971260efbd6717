/** The failures of an upstream, by the groups in which the documents promise one behaviour (api.md, "Errors" and "Retries"). */
import { type Fault, faults, type Reply } from "../../../sandbox/upstreams/Simulator.ts"
import { type PathName, paths, type UpstreamName } from "./Paths.ts"

/** What is done to the calls of one path. */
export type Injury =
  | { readonly kind: "refuse" }
  | { readonly kind: "fault"; readonly fault: Fault }
  /** Milliseconds by which the upstream's whole clock is wrong. */
  | { readonly kind: "skew"; readonly millis: number }

export interface Failure {
  readonly id: string
  readonly group: string
  readonly injury: Injury
}

/** Groups of failures in the order of the page. `†`: the upstream has done its work before. */
export const groups = {
  refused: "no connection",
  silent: "no answer in time",
  "silent†": "no answer in time †",
  broken: "no usable answer",
  "broken†": "no usable answer †",
  busy: "503 that says: not executed",
  later: "503 with `Retry-After: 5`",
  "later†": "503 with `Retry-After: 5` †",
  limit: "429 with `Retry-After: 7`",
  "limit bare": "429 without a usable `Retry-After`",
  "limit long": "429 with `Retry-After: 86400`",
  clock: "clock 90 s off",
  "own credential": "our credential refused",
  "their credential": "the caller's credential refused",
  proof: "the proof refused",
  permission: "no permission, no repository",
  content: "the content refused",
  batch: "the batch refused",
  odd: "another refusal of the contract"
} as const

const fault = (id: string, group: string, made: Fault): Failure => ({
  id,
  group,
  injury: { kind: "fault", fault: made }
})

const after = (made: Fault): Fault =>
  made.kind === "reply" ? { kind: "reply-after", reply: made.reply } : made

/** The envelope of IAM, Ting and the tables. */
const error = (status: number, code: string, headers: Readonly<Record<string, string>> = {}): Fault =>
  faults.status(
    status,
    { error: { code, message: code.replaceAll("_", " "), hint: "", retryable: status === 429 } },
    headers
  )

/** The tracker's errors have a message and no code. */
const message = (status: number, text: string, headers: Readonly<Record<string, string>> = {}): Fault =>
  faults.status(status, { message: text, documentation_url: "https://docs.github.com/rest" }, headers)

const swapTypes = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(swapTypes)
  if (typeof value === "object" && value !== null)
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, swapTypes(member)]))
  return typeof value === "string" ? value.length : String(value)
}

const textOf = ({ body }: Reply): string => (body === undefined ? "" : JSON.stringify(body))
const altered = (id: string, group: string, alter: (own: Reply) => Reply): Failure =>
  fault(id, group, { kind: "alter", alter })
const json = { "content-type": "application/json" }

/** Bytes that the service reads of an answer at most (identity-service.md 1, notification-service.md 1; ours for the others). */
const largestAnswer: Readonly<Record<UpstreamName, number>> = {
  iam: 4 * 1024 * 1024,
  ting: 1024 * 1024,
  tables: 4 * 1024 * 1024,
  tracker: 64 * 1024 * 1024
}

const redirect = (status: number, location: string): Fault => faults.status(status, undefined, { location })

/** What happens on the way, whatever the contract. */
const onTheWay = (upstream: UpstreamName, elsewhere: string): ReadonlyArray<Failure> => [
  { id: "connection refused", group: "refused", injury: { kind: "refuse" } },
  fault("hang", "silent", { kind: "hang" }),
  fault("hang †", "silent†", { kind: "hang-after" }),
  fault("hang in the body †", "silent†", { kind: "hang-body" }),
  fault("slow drip †", "silent†", faults.drip()),
  fault("reset", "broken", { kind: "drop" }),
  fault("reset †", "broken†", { kind: "drop-after" }),
  fault("reset in the body †", "broken†", { kind: "drop-body" }),
  fault("418", "broken", faults.html(418)),
  fault("502 HTML", "broken", faults.html(502)),
  fault("504 HTML †", "broken†", after(faults.html(504))),
  fault("599", "broken", faults.html(599)),
  fault("599 †", "broken†", after(faults.html(599))),
  fault("200 HTML", "broken", faults.html(200)),
  fault("200 HTML †", "broken†", after(faults.html(200))),
  altered("truncated JSON †", "broken†", (own) => ({
    ...own,
    headers: { ...own.headers, ...json },
    body: textOf(own).slice(0, Math.floor(textOf(own).length / 2)) || "{"
  })),
  altered("wrong types †", "broken†", (own) => ({
    ...own,
    body: own.body === undefined ? { body: 1 } : swapTypes(own.body)
  })),
  altered("oversized †", "broken†", (own) => {
    const text = textOf(own)
    const body = Buffer.alloc(largestAnswer[upstream] + 1, " ")
    body.write(text === "" ? "{}" : text)
    return { ...own, headers: { ...own.headers, ...json }, body }
  }),
  fault("302", "broken", redirect(302, elsewhere)),
  fault("307", "broken", redirect(307, elsewhere)),
  fault("302 †", "broken†", after(redirect(302, elsewhere))),
  altered("Date 90 s ahead", "clock", (own) => withDate(own, 90_000)),
  altered("Date 90 s behind", "clock", (own) => withDate(own, -90_000))
]

/** The time of the matrix when an altered answer is made; `World` sets it. */
let dateNow = (): number => 0
export const useDates = (now: () => number): void => {
  dateNow = now
}
const withDate = (own: Reply, millis: number): Reply => ({
  ...own,
  headers: { ...own.headers, date: new Date(dateNow() + millis).toUTCString() }
})

const limits = (code: string): ReadonlyArray<Failure> => [
  fault("429, 7 s", "limit", error(429, code, { "retry-after": "7" })),
  fault(
    "429 HTML, 7 s",
    "limit",
    faults.status(429, "<html></html>", { "content-type": "text/html", "retry-after": "7" })
  ),
  fault("429, no seconds", "limit bare", error(429, code)),
  fault("429, senseless seconds", "limit bare", error(429, code, { "retry-after": "soon" })),
  fault("429, -5 s", "limit bare", error(429, code, { "retry-after": "-5" })),
  fault("429, 86400 s", "limit long", error(429, code, { "retry-after": "86400" }))
]

const later = (code: string): ReadonlyArray<Failure> => [
  fault(`503 ${code}`, "later", error(503, code, { "retry-after": "5" })),
  fault(`503 ${code} †`, "later†", after(error(503, code, { "retry-after": "5" })))
]

/** A refusal of the contract, under its own code. */
const refusal = (status: number, code: string, group: string = code): Failure =>
  fault(`${status} ${code}`, group, error(status, code))

const iamAlways: ReadonlyArray<Failure> = [
  fault("500 internal_error", "broken", error(500, "internal_error")),
  fault("500 internal_error †", "broken†", after(error(500, "internal_error"))),
  fault("504 request_timeout", "broken", error(504, "request_timeout")),
  fault("504 request_timeout †", "broken†", after(error(504, "request_timeout"))),
  fault("401 HTML", "broken", faults.html(401)),
  fault("403 HTML", "broken", faults.html(403)),
  fault("404 HTML", "broken", faults.html(404)),
  altered("version v2 †", "broken†", (own) => ({
    ...own,
    headers: { ...own.headers, "silicon-iam-api-version": "v2" }
  })),
  fault("503 server_overloaded", "busy", error(503, "server_overloaded", { "retry-after": "5" })),
  ...later("service_unavailable"),
  fault("503 provider_unavailable", "later", error(503, "provider_unavailable", { "retry-after": "5" })),
  ...limits("rate_limited"),
  refusal(401, "invalid_client", "own credential"),
  refusal(401, "unauthenticated", "own credential"),
  refusal(403, "forbidden"),
  refusal(404, "not_found", "odd"),
  refusal(405, "method_not_allowed", "odd"),
  refusal(406, "api_version_not_supported", "odd"),
  refusal(410, "api_version_sunset", "odd"),
  refusal(413, "payload_too_large", "odd"),
  refusal(415, "request_rejected", "odd"),
  refusal(422, "validation_failed", "odd")
]

const iamKeyed: ReadonlyArray<Failure> = [
  refusal(409, "idempotency_conflict"),
  refusal(409, "idempotency_in_progress"),
  refusal(409, "idempotency_response_expired"),
  refusal(428, "precondition_required", "odd")
]

const tingAlways: ReadonlyArray<Failure> = [
  fault("500 text", "broken", faults.status(500, "Internal Server Error")),
  fault("500 text †", "broken†", after(faults.status(500, "Internal Server Error"))),
  fault("503 storage_unavailable", "broken", error(503, "storage_unavailable")),
  fault("503 storage_unavailable †", "broken†", after(error(503, "storage_unavailable"))),
  fault("503 proof_verification_uncertain", "broken", error(503, "proof_verification_uncertain")),
  fault("503 dependency_unavailable", "busy", error(503, "dependency_unavailable", { "retry-after": "5" })),
  ...later("storage_unavailable").map((one) => ({ ...one, id: `${one.id}, 5 s` })),
  ...limits("temporarily_rate_limited"),
  refusal(401, "invalid_proof", "proof"),
  refusal(401, "proof_expired", "proof"),
  refusal(401, "proof_consumed", "proof"),
  refusal(401, "session_expired", "own credential"),
  refusal(401, "authentication_required", "own credential"),
  refusal(400, "test_context_required", "own credential"),
  refusal(400, "invalid_input"),
  refusal(403, "permission_denied"),
  refusal(403, "test_context_mismatch"),
  refusal(413, "payload_too_large")
]

const tablesAlways: ReadonlyArray<Failure> = [
  fault("500 ingest_unavailable", "broken", error(500, "ingest_unavailable")),
  fault("500 ingest_unavailable †", "broken†", after(error(500, "ingest_unavailable"))),
  fault("405", "broken", faults.status(405, undefined, { allow: "POST" })),
  refusal(404, "not_found", "broken"),
  fault("403 HTML", "broken", faults.html(403)),
  ...later("ingest_unavailable"),
  ...limits("rate_limited"),
  refusal(400, "bad_json", "batch"),
  refusal(400, "invalid_batch", "batch"),
  refusal(400, "batch_too_large", "batch")
]

const limited = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
const trackerAlways: ReadonlyArray<Failure> = [
  fault("500", "broken", message(500, "Server Error")),
  fault("500 †", "broken†", after(message(500, "Server Error"))),
  fault("502 HTML †", "broken†", after(faults.html(502))),
  fault("503", "broken", message(503, "Service unavailable")),
  fault("503 †", "broken†", after(message(503, "Service unavailable"))),
  fault("503, 5 s", "later", message(503, "Service unavailable", { "retry-after": "5" })),
  fault("503, 5 s †", "later†", after(message(503, "Service unavailable", { "retry-after": "5" }))),
  fault("429, 7 s", "limit", message(429, limited, { "retry-after": "7" })),
  fault("403, 7 s", "limit", message(403, limited, { "retry-after": "7" })),
  fault(
    "403, nothing remaining",
    "limit bare",
    message(403, "API rate limit exceeded", { "x-ratelimit-remaining": "0", "x-ratelimit-reset": "soon" })
  ),
  fault("403, secondary limit", "limit bare", message(403, limited)),
  fault("429, no seconds", "limit bare", message(429, limited)),
  fault("429, senseless seconds", "limit bare", message(429, limited, { "retry-after": "soon" })),
  fault("429, 86400 s", "limit long", message(429, limited, { "retry-after": "86400" })),
  fault("401 Bad credentials", "own credential", message(401, "Bad credentials")),
  fault("403 no permission", "permission", message(403, "Resource not accessible by personal access token")),
  fault("404 Not Found", "permission", message(404, "Not Found")),
  fault("410 issues disabled", "permission", message(410, "Issues are disabled for this repo")),
  fault("400", "content", message(400, "Problems parsing JSON")),
  fault("451", "content", message(451, "Repository access blocked")),
  fault(
    "422 spammed",
    "content",
    faults.status(422, {
      message: "Validation Failed",
      errors: [{ resource: "Issue", field: "base", code: "unprocessable" }]
    })
  )
]

const always: Readonly<Record<UpstreamName, ReadonlyArray<Failure>>> = {
  iam: iamAlways,
  ting: tingAlways,
  tables: tablesAlways,
  tracker: trackerAlways
}

/** What the contract of one path adds. */
const ofPath: Partial<Record<PathName, ReadonlyArray<Failure>>> = {
  tokens: [
    ...iamKeyed,
    refusal(400, "invalid_request", "odd"),
    refusal(400, "invalid_grant", "their credential"),
    refusal(400, "refresh_token_reuse", "their credential"),
    refusal(401, "invalid_token", "their credential")
  ],
  introspect: [
    refusal(400, "invalid_request", "odd"),
    fault("200 inactive", "inactive", faults.status(200, { active: false }))
  ],
  revoke: [...iamKeyed, refusal(400, "invalid_request", "odd")],
  proof: [
    ...iamKeyed,
    refusal(400, "unsupported_header", "odd"),
    refusal(400, "invalid_subject_token"),
    refusal(403, "obo_subject_token_forbidden", "forbidden"),
    refusal(403, "obo_organization_not_authorized", "forbidden")
  ],
  send: [
    refusal(403, "recipient_not_registered"),
    refusal(403, "required_delivery_not_enabled"),
    refusal(404, "not_found"),
    refusal(409, "idempotency_conflict")
  ],
  create: [
    fault(
      "422 body too long",
      "too long",
      faults.status(422, {
        message: "Validation Failed",
        errors: [{ resource: "Issue", field: "body", code: "custom" }]
      })
    )
  ]
}

/** Every failure of a path. A redirect leads to `elsewhere`. */
export const failuresOf = (path: PathName, elsewhere: string): ReadonlyArray<Failure> => {
  const { method, upstream } = paths[path]
  // A read has nothing to commit, so its failures before and after are the same.
  const commits = method !== "GET" && path !== "introspect"
  return [...onTheWay(upstream, elsewhere), ...always[upstream], ...(ofPath[path] ?? [])].map((one) =>
    commits ? one : { ...one, group: one.group.replace("†", "") }
  )
}

/** What can happen to a whole upstream at once. */
export const wholeFailures: ReadonlyArray<Failure> = [
  { id: "connection refused", group: "refused", injury: { kind: "refuse" } },
  fault("hang", "silent", { kind: "hang" }),
  fault("reset", "broken", { kind: "drop" }),
  fault("599", "broken", faults.html(599)),
  { id: "clock 90 s ahead", group: "clock", injury: { kind: "skew", millis: 90_000 } },
  { id: "clock 90 s behind", group: "clock", injury: { kind: "skew", millis: -90_000 } }
]
