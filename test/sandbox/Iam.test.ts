/** What the simulated IAM refuses and in which order, so that a service that breaks the contract fails its tests. */
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { signExchange } from "../../sandbox/upstreams/Iam.ts"
import { sha256 } from "../../sandbox/upstreams/iam/Identifiers.ts"
import {
  type Bench,
  basic,
  type Exchange,
  form,
  type HeaderMap,
  jsonType,
  key,
  outcome,
  send,
  start,
  startBench,
  textAt
} from "./IamBench.ts"

let bench: Bench
beforeEach(async () => {
  bench = await startBench()
})
afterEach(() => bench.iam.close())

const endpoints = "/obo-access/applications/ting/endpoints"
const stranger = { authorization: basic("music", "ask_wrong") }
const introspect = (body: string) => bench.production.call("POST", "/oauth/introspect", form, body)
const tokens = (fields: Record<string, string>, headers: HeaderMap = {}) =>
  bench.production.post("/app-auth/tokens", fields, headers)
const sha = "a".repeat(64)

const versions = (value: string) => ({ authorization: "", "silicon-iam-supported-api-versions": value })
const typed = (type: string) => ({ "content-type": type })
const keyed = (...keys: ReadonlyArray<string>) => ({
  ...form,
  "idempotency-key": keys.length === 1 ? (keys[0] ?? "") : keys
})
const long = (count: number) => `token=${"x".repeat(count)}`
const proof = (change: object) =>
  JSON.stringify({
    access_proof: "x",
    request: { method: "POST", path: "/v1/tings", body_sha256: sha },
    ...change
  })
const [asking, login, revocation, verification] = [
  "POST /oauth/introspect",
  "POST /app-auth/tokens",
  "POST /oauth/revoke",
  "POST /obo-access/verify"
]

describe("The simulated IAM answers", () => {
  it.each<readonly [string, string, HeaderMap?, string?]>([
    ["404 not_found", "GET /app-auth/nothing"],
    ["404 not_found", "GET /oauth/introspect/"],
    ["405 method_not_allowed", "GET /oauth/introspect"],
    ["406 api_version_not_supported", asking, versions("v2")],
    ["401 invalid_client", asking, versions("v2,v1")],
    ["415 request_rejected", asking, {}, "token=x"],
    ["415 request_rejected", asking, jsonType, "token=x"],
    ["200", asking, typed("Application/X-WWW-form-urlencoded; charset=utf-8"), "token=x"],
    ["200", asking, form, long(65_530)],
    ["413 payload_too_large", asking, form, long(65_531)],
    ["401 invalid_client", asking, { ...form, ...stranger }, long(65_531)],
    ["422 request_rejected", asking, form, "other=x"],
    ["422 request_rejected", asking, form, "token=x&token=y"],
    ["200", asking, form, "token=x&other=y"],
    ["200", asking, form, "token=x&token_type_hint=refresh_token"],
    ["400 invalid_request", asking, form, "token=x&token_type_hint=id_token"],
    ["400 invalid_request", asking, { ...form, "x-org-id": "acme" }, "token=x"],
    ["400 request_rejected", verification, jsonType, "{"],
    ...["[]", "null", "{}", proof({ access_proof: 1 }), proof({ request: [] }), proof({ more: 1 })].map(
      (body) => ["422 request_rejected", verification, jsonType, body] as const
    ),
    // The order of the token route: secret, form, app_id, one credential, key, grant.
    ["401 invalid_client", login, { ...form, ...stranger }, ""],
    ["422 request_rejected", login, form, "slt=a&refresh_token=b"],
    ["401 invalid_client", login, form, "app_id=ting&slt=a&refresh_token=b"],
    ["400 invalid_request", login, form, "app_id=music&slt=a&refresh_token=b"],
    ["400 invalid_request", login, form, "app_id=music"],
    ["428 precondition_required", login, form, "app_id=music&slt=a"],
    ["422 validation_failed", login, keyed("x".repeat(15)), "app_id=music&slt=a"],
    ["422 validation_failed", login, keyed("x".repeat(256)), "app_id=music&slt=a"],
    ["422 validation_failed", login, keyed("with a space inside"), "app_id=music&slt=a"],
    ["422 validation_failed", login, keyed(key("a"), key("b")), "app_id=music&slt=a"],
    ["400 invalid_grant", login, keyed("~".repeat(255)), "app_id=music&slt=a"],
    ["428 precondition_required", revocation, form, long(32)],
    ["400 invalid_request", revocation, keyed(key("a")), long(31)],
    ["200", revocation, keyed(key("a")), long(32)],
    ["400 invalid_request", revocation, keyed(key("a")), long(4_097)],
    ["400 invalid_request", revocation, keyed(key("a")), `${long(40)}&token_type_hint=other`]
  ])("%s to %s %.80j %.60j", async (expected, route, headers = {}, body = "") => {
    const [method = "", path = ""] = route.split(" ")
    const answer = await bench.production.call(method, path, headers, body)
    expect(outcome(answer)).toBe(expected)
    if (expected.startsWith("405")) expect(answer.headers.allow).toBe("POST")
    if (expected.startsWith("428")) expect(JSON.stringify(answer.json)).toContain('"Idempotency-Key"')
  })

  it("400 to an invalid proof, and to one for an organisation", async () => {
    for (const value of ["", "obo_short", `oat_${"x".repeat(43)}`])
      expect(outcome(await bench.production.verify(value))).toBe("400 invalid_proof")
    expect(outcome(await bench.production.verify("", {}, { "x-org-id": "a" }))).toBe("400 unsupported_header")
    const { json } = await bench.production.exchange({ subject: await bench.accessOf() })
    for (const change of [{ method: "post" }, { path: "v1/tings" }])
      expect(outcome(await bench.production.verify(textAt(json, "access_proof"), change))).toBe(
        "422 validation_failed"
      )
  })

  it("invalid_client to credentials that are missing, malformed, repeated or wrong", async () => {
    const { musicSecret, tingSecret } = bench.seeded.production
    const good = basic("music", musicSecret)
    expect(good).toMatch(/=$/)
    const wrong = [
      ...[
        "",
        "Basic",
        "Basic !!!!",
        `Bearer ${musicSecret}`,
        good.replace(/=+$/, ""),
        basic("Music", musicSecret)
      ],
      ...[
        basic("music", `${musicSecret}x`),
        basic("music", tingSecret),
        basic("nobody", musicSecret),
        [good, good]
      ]
    ]
    for (const authorization of wrong) {
      const answer = await send(bench.iam.url, "GET", `/api/v1${endpoints}`, { authorization })
      expect(outcome(answer)).toBe("401 invalid_client")
      expect(answer.headers["www-authenticate"]).toBe('Basic realm="silicon-iam"')
    }
  })

  it("a selector of a testing application with byte-identical credentials only", async () => {
    const { musicSecret, tingSecret } = bench.seeded.environment
    const good = basic("music", musicSecret)
    const context = (selector: string | ReadonlyArray<string>, authorization: string) =>
      bench.production.call("GET", "/application/testing-context", {
        "x-testing-application": selector,
        authorization
      })
    expect((await context(good, good)).status).toBe(200)
    for (const selector of [
      ...["", "Basic", good.replace(/=+$/, ""), `Bearer ${musicSecret}`, basic("music", "ask_short")],
      ...[basic("music", bench.seeded.production.musicSecret), [good, good]]
    ])
      expect(outcome(await context(selector, good))).toBe("401 unauthenticated")
    for (const [selector, authorization] of [
      [basic("ting", musicSecret), basic("ting", musicSecret)],
      [good, good.replace("Basic", "basic")],
      [good, basic("ting", tingSecret)],
      [good, `Bearer oat_${"x".repeat(43)}`]
    ] as const)
      expect(outcome(await context(selector, authorization))).toBe("401 invalid_client")
  })

  it("429 to the 121st request in 60 s on one path, with the remaining time", async () => {
    const ask = (client = bench.production, path = endpoints) => client.call("GET", path)
    for (let count = 0; count < 120; count += 1) expect((await ask()).status).toBe(200)
    bench.clock.time += 10_500
    const blocked = await ask()
    expect(outcome(blocked)).toBe("429 rate_limited")
    const limits = {
      "retry-after": "50",
      "ratelimit-limit": "120",
      "ratelimit-remaining": "0",
      "ratelimit-reset": "50"
    }
    expect(blocked.headers).toMatchObject(limits)
    expect((await ask(bench.production, endpoints.replace("ting", "music"))).status).toBe(200)
    expect((await ask(bench.testing)).status).toBe(200)
    bench.clock.time += 49_499
    expect((await ask()).status).toBe(429)
    bench.clock.time += 1
    expect((await ask()).status).toBe(200)
  })
})

describe("An exchange is checked", () => {
  /** Each case violates its own check and all later ones; its own check must refuse it. */
  it("in the contract's order", async () => {
    const { controls } = bench.iam
    const access = await bench.accessOf("c:ana", { orgs: ["acme"] })
    const both = await bench.accessOf("c:ana")
    const scopes = ["self.identity.read"]
    const other = controls.addApp("production", { appId: "other", orgId: "acme", scopes })
    const slt = controls.mintSlt("production", { appId: "other", actor: "c:ana" })
    const credentials = { authorization: basic("other", other.secret), "idempotency-key": key("foreign") }
    const foreign = textAt((await tokens({ app_id: "other", slt }, credentials)).json, "access_token")
    const orgHeader = { "x-org-id": "acme" }
    const noTimestamp = { "x-obo-timestamp": "" }
    const badTimestamp = { "x-obo-timestamp": "01790331330" }
    const noSignature = { "x-obo-signature": "" }
    const badSignature = { "x-obo-signature": "A".repeat(64) }
    const headers = { "x-obo-signature": sha }
    const noKey = { "idempotency-key": "" }
    const badKey = { "idempotency-key": "short" }
    const unknownField = { body: { more: 1 } }
    const cases: ReadonlyArray<readonly [Exchange, string]> = [
      [{ ...unknownField, headers: { ...stranger, ...orgHeader } }, "401 invalid_client"],
      [{ ...unknownField, headers: { ...orgHeader, ...noTimestamp } }, "422 request_rejected"],
      [{ endpointId: "x", headers: { ...orgHeader, ...noTimestamp } }, "400 unsupported_header"],
      [{ endpointId: "x", headers: noTimestamp }, "422 validation_failed"],
      [{ headers: { ...noTimestamp, ...noSignature } }, "428 precondition_required"],
      [{ headers: { ...badTimestamp, ...noSignature } }, "401 invalid_client"],
      [{ headers: { ...noSignature, ...noKey } }, "428 precondition_required"],
      [{ headers: { ...badSignature, ...noKey } }, "401 invalid_client"],
      [{ headers: { ...headers, ...noKey } }, "428 precondition_required"],
      [{ headers: { ...headers, ...badKey } }, "422 validation_failed"],
      [{ orgId: "nowhere", headers }, "400 invalid_subject_token"],
      [{ subject: foreign, orgId: "nowhere", headers }, "403 obo_subject_token_forbidden"],
      [
        { subject: access, orgId: "zenith", endpointId: "none", headers },
        "403 obo_organization_not_authorized"
      ],
      [{ subject: both, endpointId: "none", headers }, "422 validation_failed"],
      [{ subject: access, endpointId: "none", headers }, "404 not_found"],
      [{ subject: access, metadata: { more: 1 }, headers }, "401 invalid_client"],
      [{ subject: access, metadata: { more: 1 } }, "422 validation_failed"]
    ]
    for (const [given, expected] of cases)
      expect([given, outcome(await bench.production.exchange(given))]).toEqual([given, expected])
    controls.holdIdempotency(key("attempt"))
    const asked = (more: Exchange = {}) => bench.production.exchange({ subject: access, ...more })
    expect(outcome(await asked())).toBe("409 idempotency_in_progress")
    bench.clock.time += 30_000
    expect((await asked()).status).toBe(201)
    expect(outcome(await asked({ bytes: "other" }))).toBe("409 idempotency_conflict")
  })

  it.each([
    ["org_id", { org_id: "AC" }],
    ["subject_token", { subject_token: "x".repeat(31) }],
    ["audience", { audience: "tos>ting" }],
    ["endpoint_id", { endpoint_id: "Tings" }],
    ["request.method", { request: { method: "post", body_sha256: sha } }],
    ["request.body_sha256", { request: { method: "POST", body_sha256: sha.toUpperCase() } }],
    ["metadata", { metadata: { a: { b: { c: { d: { e: { f: { g: { h: 1 } } } } } } } } }],
    ["metadata", { metadata: { list: Array.from({ length: 511 }, () => 0) } }],
    ["metadata", { metadata: { text: "x".repeat(16_385) } }],
    [null, { org_id: 1 }],
    [null, { metadata: [] }],
    [null, { request: { method: "POST" } }]
  ])("by its grammar: 422 names %s (%o)", async (field, body) => {
    const answer = await bench.production.exchange({ subject: await bench.accessOf(), body })
    expect(outcome(answer)).toBe(field === null ? "422 request_rejected" : "422 validation_failed")
    if (field !== null) expect(answer.json).toMatchObject({ error: { details: { fields: [{ field }] } } })
  })

  it("by a canonical signature, within 60 s in both directions", async () => {
    const subject = await bench.accessOf()
    for (const [offset, status] of [
      [-61, 401],
      [-60, 201],
      [60, 201],
      [61, 401]
    ] as const) {
      const given = { subject, key: key(`offset${offset}`), timestamp: String(start + offset) }
      expect((await bench.production.exchange(given)).status).toBe(status)
    }
    const now = String(start)
    const good = signExchange(bench.seeded.production.musicSecret, {
      timestamp: now,
      method: "POST",
      path: "/v1/tings",
      bodySha256: sha256("{}"),
      idempotencyKey: key("attempt")
    })
    const stamps = [`+${now}`, `0${now}`, `${now}.0`, "1".repeat(21), [now, now]]
    const signatures = [good.toUpperCase(), `v1=${good}`, good.slice(1), [good, good]]
    for (const headers of [
      ...stamps.map((value) => ({ "x-obo-timestamp": value })),
      ...signatures.map((value) => ({ "x-obo-signature": value }))
    ])
      expect(outcome(await bench.production.exchange({ subject, headers }))).toBe("401 invalid_client")
    expect((await bench.production.exchange({ subject, headers: { "x-obo-signature": good } })).status).toBe(
      201
    )
  })
})

it("The control routes mint, break and refuse; every credential that was issued is recorded", async () => {
  const { iam, seeded } = bench
  const control = (path: string, body: unknown) =>
    send(iam.url, "POST", `/_sandbox/${path}`, {}, JSON.stringify(body))
  const { json } = await control("slt", { plane: seeded.environment.plane, actor: "c:ana" })
  expect((await bench.testing.login(textAt(json, "slt"))).json).toMatchObject({
    actor: { public_id: "c:ana" }
  })
  for (const body of [{ actor: "si:nobody" }, { plane: "nowhere" }, { actor: 1 }, []])
    expect((await control("slt", body)).status).toBe(400)
  const path = "/api/v1/oauth/introspect"
  expect((await control("faults", { path, times: 1, fault: "serviceUnavailable" })).status).toBe(204)
  expect(outcome(await introspect("token=x"))).toBe("503 service_unavailable")
  expect((await introspect("token=x")).status).toBe(200)
  for (const fault of ["toString", undefined]) expect((await control("faults", { fault })).status).toBe(400)
  const access = await bench.accessOf()
  const proof = textAt((await bench.production.exchange({ subject: access })).json, "access_proof")
  const { musicSecret, tingSecret, webhookSecret } = seeded.production
  const issued = [
    musicSecret,
    tingSecret,
    webhookSecret,
    seeded.environment.rootKey,
    textAt(json, "slt"),
    access,
    proof
  ]
  expect(iam.minted).toEqual(expect.arrayContaining(issued))
  expect(new Set(iam.minted).size).toBe(iam.minted.length)
})
