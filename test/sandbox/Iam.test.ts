/** What the simulated IAM refuses and in which order, so that a service that breaks the contract fails its tests. */
import { beforeEach, describe, expect, it } from "vitest"
import {
  basic,
  type Exchange,
  form,
  type HeaderMap,
  jsonType,
  key,
  outcome,
  start,
  startBench,
  textAt
} from "./Simulators.ts"

let bench: ReturnType<typeof startBench>
beforeEach(() => {
  bench = startBench()
})

const stranger = { authorization: basic("music", "ask_wrong") }
const sha = "a".repeat(64)
const versions = (value: string) => ({ authorization: "", "silicon-iam-supported-api-versions": value })
const keyed = (...keys: ReadonlyArray<string>) => ({ ...form, "idempotency-key": keys })
const long = (count: number) => `token=${"x".repeat(count)}`
const [asking, login, revocation, verification] = [
  "POST /oauth/introspect",
  "POST /app-auth/tokens",
  "POST /oauth/revoke",
  "POST /obo-access/verify"
]

describe("The simulated IAM answers", () => {
  it.each<[string, string, HeaderMap?, string?]>([
    ["404 not_found", "GET /app-auth/nothing"],
    ["405 method_not_allowed", "GET /oauth/introspect"],
    ["406 api_version_not_supported", asking, versions("v2")],
    ["401 invalid_client", asking, versions("v2,v1")],
    ["415 request_rejected", asking, jsonType, "token=x"],
    ["200", asking, form, long(65_530)],
    ["413 payload_too_large", asking, form, long(65_531)],
    ["401 invalid_client", asking, { ...form, ...stranger }, long(65_531)],
    ["422 request_rejected", asking, form, "token=x&token=y"],
    ["400 invalid_request", asking, form, "token=x&token_type_hint=id_token"],
    ["400 invalid_request", asking, { ...form, "x-org-id": "acme" }, "token=x"],
    ["422 request_rejected", verification, jsonType, "{}"],
    // The order of the token route: secret, form, app_id, one credential, key, grant.
    ["401 invalid_client", login, { ...form, ...stranger }, ""],
    ["422 request_rejected", login, form, "slt=a&refresh_token=b"],
    ["401 invalid_client", login, form, "app_id=ting&slt=a&refresh_token=b"],
    ["400 invalid_request", login, form, "app_id=music&slt=a&refresh_token=b"],
    ["428 precondition_required", login, form, "app_id=music&slt=a"],
    ["422 validation_failed", login, keyed("x".repeat(15)), "app_id=music&slt=a"],
    ["422 validation_failed", login, keyed("x".repeat(256)), "app_id=music&slt=a"],
    ["422 validation_failed", login, keyed(key("a"), key("b")), "app_id=music&slt=a"],
    ["400 invalid_grant", login, keyed("~".repeat(255)), "app_id=music&slt=a"],
    ["428 precondition_required", revocation, form, long(32)],
    ["400 invalid_request", revocation, keyed(key("a")), long(31)],
    ["200", revocation, keyed(key("a")), long(32)],
    ["400 invalid_request", revocation, keyed(key("a")), long(4_097)]
  ])("%s to %s %.80j %.60j", async (expected, route, headers = {}, body = "") => {
    const [method = "", path = ""] = route.split(" ")
    expect(outcome(await bench.production.call(method, path, headers, body))).toBe(expected)
  })

  it("a selector of a testing application with byte-identical credentials only", async () => {
    const { musicSecret, tingSecret } = bench.seeded.environment
    const good = basic("music", musicSecret)
    const context = async (selector: string | ReadonlyArray<string>, authorization: string) => {
      const headers = { "x-testing-application": selector, authorization }
      return outcome(await bench.production.call("GET", "/application/testing-context", headers))
    }
    expect(await context(good, good)).toBe("200")
    const ofProduction = basic("music", bench.seeded.production.musicSecret)
    for (const selector of ["", good.replace(/=+$/, ""), ofProduction, [good, good]])
      expect(await context(selector, good)).toBe("401 unauthenticated")
    for (const authorization of [good.replace("Basic", "basic"), basic("ting", tingSecret)])
      expect(await context(good, authorization)).toBe("401 invalid_client")
  })

  it("429 to the 121st request in 60 s on one path", async () => {
    const ask = () => bench.production.call("GET", "/obo-access/applications/ting/endpoints")
    for (let count = 0; count < 120; count += 1) expect((await ask()).status).toBe(200)
    bench.time.jump(59_999)
    expect(await ask()).toMatchObject({ status: 429, headers: { "retry-after": "1" } })
    bench.time.jump(1)
    expect((await ask()).status).toBe(200)
  })
})

describe("An exchange is checked", () => {
  it("in the contract's order: each case violates its own check and all later ones", async () => {
    const { controls, production } = bench
    const access = await bench.accessOf("c:ana", { orgs: ["acme"] })
    const both = await bench.accessOf("c:ana")
    const scopes = ["self.identity.read"]
    const other = controls.addApp("production", { appId: "other", orgId: "acme", scopes })
    const slt = controls.mintSlt("production", { appId: "other", actor: "c:ana" })
    const credentials = { ...keyed(key("foreign")), authorization: basic("other", other.secret) }
    const asOther = await production.call("POST", "/app-auth/tokens", credentials, `app_id=other&slt=${slt}`)
    const foreign = textAt(asOther.body, "access_token")
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
      expect([given, outcome(await production.exchange(given))]).toEqual([given, expected])
    controls.holdIdempotency(key("attempt"))
    const asked = async (more: Exchange = {}) =>
      outcome(await production.exchange({ subject: access, ...more }))
    expect(await asked()).toBe("409 idempotency_in_progress")
    bench.time.jump(30_000)
    expect(await asked()).toBe("201")
    expect(await asked({ bytes: "other" })).toBe("409 idempotency_conflict")
  })

  it("by its signature, within 60 s in both directions", async () => {
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
    const signature = { "x-obo-signature": "a".repeat(64) }
    expect((await bench.production.exchange({ subject, headers: signature })).status).toBe(401)
  })
})
