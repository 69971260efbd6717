import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { isRecord } from "../../sandbox/upstreams/ControlRoutes.ts"
import { outcome, send } from "./iamClient.ts"
import {
  type Bench,
  dock,
  environment,
  harbor,
  planeHeaders,
  register,
  registration,
  sample,
  sendTing,
  start,
  startBench,
  testSecret
} from "./tingClient.ts"

let bench: Bench
beforeEach(async () => {
  bench = await startBench()
})
afterEach(() => bench.close())

const verifications = () => bench.iam.seen.filter((request) => request.path.endsWith("/verify")).length
const invalid = "400 invalid_input"
/** A body of exactly that many bytes, valid but for its unknown field. */
const sized = (bytes: number) => {
  const shell = JSON.stringify(sample({ pad: "" }))
  return JSON.stringify(sample({ pad: "x".repeat(bytes - Buffer.byteLength(shell)) }))
}
const bare = (
  body: string | Buffer,
  headers: Record<string, string> = { "content-type": "application/json" }
) => send(bench.ting.url, "POST", "/v1/tings", headers, body)

describe("every response", () => {
  it("carries a request id, Vary and JSON, refusals included", async () => {
    for (const answer of [await sendTing(bench, "{"), await send(bench.ting.url, "GET", "/healthz")]) {
      expect(answer.headers["ting-request-id"]).toMatch(/^req_[0-9a-f]{32}$/)
      expect(answer.headers.vary).toBe("Origin")
      expect(answer.headers["content-type"]).toBe("application/json")
    }
  })

  it("has the envelope of four fields; only 429 and 503 are retryable", async () => {
    expect((await sendTing(bench, "{}", { bearer: "" })).json).toEqual({
      error: {
        code: "authentication_required",
        message: expect.any(String),
        hint: expect.any(String),
        retryable: false
      }
    })
    bench.verdict = { status: 500 }
    expect((await sendTing(bench)).json).toMatchObject({ error: { retryable: true } })
  })
})

describe("the order of checks before the bearer", () => {
  it("1: a browser origin is refused before anything else", async () => {
    const headers = { origin: "https://elsewhere.example" }
    expect(outcome(await bare("x".repeat(1_048_577), headers))).toBe("403 permission_denied")
    expect(outcome(await send(bench.ting.url, "GET", "/healthz", headers))).toBe("403 permission_denied")
  })

  it("2: a body over 1 MiB comes before its content type", async () => {
    expect(outcome(await bare("x".repeat(1_048_577), { "content-type": "text/plain" }))).toBe(
      "413 payload_too_large"
    )
  })

  it.each(["text/plain", "Application/json", "application/json ;charset=utf-8", "application/json2"])(
    "3: refuses the content type %j",
    async (type) => {
      expect(outcome(await bare("{}", { "content-type": type }))).toBe(invalid)
    }
  )

  it("3: accepts parameters after the semicolon, and no content type with an empty body", async () => {
    expect(outcome(await bare("{}", { "content-type": "application/json; charset=utf-8" }))).toBe(
      "401 authentication_required"
    )
    expect(outcome(await bare("", {}))).toBe("401 authentication_required")
  })

  it("5: 262,144 bytes pass on tings and one more does not, even when it is no JSON", async () => {
    expect(outcome(await bare(sized(262_145)))).toBe("413 payload_too_large")
    expect(outcome(await bare("x".repeat(262_145)))).toBe("413 payload_too_large")
    expect(outcome(await bare(sized(262_144)))).toBe("401 authentication_required")
  })

  it("5: other routes read up to 1 MiB", async () => {
    const body = JSON.stringify({ ...registration, pad: "x".repeat(300_000) })
    expect(outcome(await register(bench, body, { bearer: "" }))).toBe("401 authentication_required")
  })

  it.each([
    ["text that is no JSON", "{"],
    ["trailing data", "{} 1"],
    ["a duplicate key", '{"org_id":"harbor","org_id":"harbor"}'],
    ["a duplicate key deep inside", '{"data":{"a":[{"b":1,"b":2}]}}'],
    ["a number that is not finite", '{"data":{"a":1e999}}'],
    ["an array at the top", "[]"],
    ["nesting over 128 levels", `{"data":${"[".repeat(128)}${"]".repeat(128)}}`],
    ["invalid UTF-8", Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])]
  ])("6: refuses %s without a bearer", async (_, body) => {
    expect(outcome(await bare(body))).toBe(invalid)
  })

  it.each([
    { app_id: "Music" },
    { app_id: "1music" },
    { app_id: `m${"x".repeat(80)}` },
    { for: "lyra" },
    { for: "si:ab" },
    { for: `c:${"x".repeat(31)}` },
    { for: "c:Ana" },
    { org_id: "" },
    { org_id: "a\u0000b" },
    { org_id: "é".repeat(128) },
    { type: "music.track" },
    { type: "music.track.ready.now" },
    { type: "music.Track.ready" },
    { type: `music.track.${"x".repeat(244)}` }
  ])("7: refuses the grammar of %j without a bearer", async (change) => {
    expect(outcome(await bare(JSON.stringify(sample(change))))).toBe(invalid)
  })

  it("7: leaves types of values and presence to the checks after the bearer", async () => {
    expect(outcome(await bare(JSON.stringify({ org_id: 5, type: null })))).toBe("401 authentication_required")
  })
})

describe("the order of checks from the bearer on", () => {
  it.each([
    ["none", undefined],
    ["an empty one", "Bearer "],
    ["another case", "bearer obo_x"],
    ["another scheme", "Basic obo_x"],
    ["8193 bytes", `Bearer ${"x".repeat(8193)}`]
  ])("8: %s is no valid bearer", async (_, authorization) => {
    const headers = {
      "content-type": "application/json",
      ...(authorization === undefined ? {} : { authorization })
    }
    expect(outcome(await bare(JSON.stringify(sample()), headers))).toBe("401 authentication_required")
    expect(verifications()).toBe(0)
  })

  it("8: 8192 bytes are sent to IAM", async () => {
    expect(outcome(await sendTing(bench, sample(), { bearer: "x".repeat(8192) }))).toBe("401 invalid_proof")
    expect(verifications()).toBe(1)
  })

  it.each([{ org_id: undefined }, { org_id: 5 }, { org_id: null }])(
    "9: refuses %j before the plane and the proof",
    async (change) => {
      expect(outcome(await sendTing(bench, sample(change), { headers: { iam_test_app_secret: "x" } }))).toBe(
        invalid
      )
      expect(bench.iam.seen.length).toBe(0)
    }
  )

  it.each(["iam_test_app_secret", "x-testing-environment-key"])("10: refuses %s alone", async (name) => {
    expect(outcome(await sendTing(bench, sample(), { headers: { [name]: "x" } }))).toBe(
      "400 test_context_required"
    )
    expect(bench.iam.seen.length).toBe(0)
  })

  it("11: the proof is consumed before the operation reads the request", async () => {
    const bearer = bench.proof()
    expect(outcome(await sendTing(bench, sample({ extra: 1 }), { bearer }))).toBe(invalid)
    expect(outcome(await sendTing(bench, sample(), { bearer }))).toBe("401 proof_consumed")
  })

  it("12 before 13: a proof that does not match is invalid_proof even when the application is another one", async () => {
    bench.bend = (facts) => ({ ...facts, audience: "other" })
    expect(outcome(await sendTing(bench, sample({ type: "other.a.b" })))).toBe("401 invalid_proof")
  })

  it("13: another application's type or id is refused before unknown fields", async () => {
    expect(outcome(await sendTing(bench, sample({ type: "other.a.b", extra: 1 })))).toBe(
      "403 permission_denied"
    )
    expect(outcome(await sendTing(bench, sample({ app_id: "other" })))).toBe("403 permission_denied")
    expect(outcome(await register(bench, { ...registration, app_id: "other", extra: 1 }))).toBe(
      "403 permission_denied"
    )
    expect(outcome(await sendTing(bench, sample({ type: "musical.a.b" })))).toBe("403 permission_denied")
  })

  it("sends the exact method, path and body digest to IAM, as Ting", async () => {
    await register(bench)
    const asked = bench.iam.seen[0]
    expect(JSON.parse(asked?.body.toString() ?? "")).toEqual({
      access_proof: expect.stringMatching(/^obo_/),
      request: {
        method: "POST",
        path: "/v1/subscriptions",
        body_sha256: expect.stringMatching(/^[0-9a-f]{64}$/)
      }
    })
  })

  it.each([
    ["GET", "/v1/tings"],
    ["PUT", "/v1/subscriptions"],
    ["POST", "/v1/unknown"],
    ["GET", "/"]
  ])("%s %s needs a session, and rejects every bearer", async (method, path) => {
    expect(outcome(await send(bench.ting.url, method, path))).toBe("401 authentication_required")
    const headers = { authorization: `Bearer ting_${"0".repeat(64)}` }
    expect(outcome(await send(bench.ting.url, method, path, headers))).toBe("401 authentication_required")
  })
})

describe("an unacceptable proof", () => {
  const statuses = [400, 401, 403, 404, 409, 410]
  it.each(
    statuses.flatMap(
      (status) =>
        [
          [status, "obo_proof_consumed", "401 proof_consumed"],
          [status, "obo_proof_expired", "401 proof_expired"],
          [status, "obo_request_binding_mismatch", "401 invalid_proof"]
        ] as const
    )
  )("IAM's %i %s is %s", async (status, code, expected) => {
    bench.verdict = { status, body: { error: { code, message: "text" } } }
    expect(outcome(await sendTing(bench))).toBe(expected)
  })

  it.each([429, 500, 502, 503, 504, 302, 422])("IAM's %i is an unknown outcome", async (status) => {
    bench.verdict = { status, body: { error: { code: "obo_proof_consumed", message: "text" } } }
    expect(outcome(await sendTing(bench))).toBe("503 proof_verification_uncertain")
    expect(verifications()).toBe(1)
  })

  it("a 200 that is not JSON, a dropped connection and an unreachable IAM are unknown outcomes", async () => {
    bench.verdict = { status: 200, body: "<html>" }
    expect(outcome(await sendTing(bench))).toBe("503 proof_verification_uncertain")
    bench.iam.fail({ fault: { kind: "drop" } })
    expect(outcome(await sendTing(bench))).toBe("503 proof_verification_uncertain")
    await bench.iam.close()
    expect(outcome(await sendTing(bench))).toBe("503 proof_verification_uncertain")
  })

  const authorization = (facts: Record<string, unknown>, change: Record<string, unknown>) => ({
    ...facts,
    authorization: { ...(isRecord(facts.authorization) ? facts.authorization : {}), ...change }
  })

  it.each<[string, (facts: Record<string, unknown>) => Record<string, unknown>]>([
    ["it is not valid", (facts) => ({ ...facts, valid: false })],
    ["its audience is another", (facts) => ({ ...facts, audience: "other" })],
    [
      "its endpoint id is another",
      (facts) => ({ ...facts, endpoint: { endpoint_id: "sent.read", path: "/v1/tings" } })
    ],
    [
      "its path is another",
      (facts) => ({ ...facts, endpoint: { endpoint_id: "tings.send", path: "/v1/other" } })
    ],
    [
      "its organisation is another",
      (facts) => authorization({ ...facts, org_id: "dock" }, { organization_id: dock })
    ],
    ["its actor is not the authorisation's", (facts) => authorization(facts, { public_id: "si:deejay" })],
    [
      "its actor's prefix does not fit",
      (facts) => ({ ...facts, actor: { type: "carbon", public_id: "si:lyra" } })
    ],
    [
      "its actor id breaks the grammar",
      (facts) =>
        authorization({ ...facts, actor: { type: "silicon", public_id: "si:L" } }, { public_id: "si:L" })
    ],
    [
      "it belongs to a testing plane",
      (facts) => authorization(facts, { testing_environment_id: environment })
    ],
    ["it has expired", (facts) => ({ ...facts, expires_at: new Date(start).toISOString() })],
    [
      "it lives over 60 s from its consumption",
      (facts) => ({ ...facts, expires_at: new Date(start + 60_001).toISOString() })
    ],
    ["its issuer is no bare application id", (facts) => ({ ...facts, issuer_app_id: "harbor>music" })],
    ["it has metadata", (facts) => ({ ...facts, metadata: { a: 1 } })],
    ["its scopes lack the endpoint", (facts) => authorization(facts, { scopes: ["obo:ting:sent.read"] })],
    ["its facts are missing", () => ({})]
  ])("is invalid_proof when %s", async (_, bend) => {
    bench.bend = bend
    expect(outcome(await sendTing(bench))).toBe("401 invalid_proof")
    expect(bench.ting.accepted("production")).toEqual([])
  })

  it("accepts the organisation by handle or by UUID", async () => {
    expect((await register(bench, { ...registration, org_id: harbor })).status).toBe(201)
    expect((await register(bench)).status).toBe(200)
  })
})

describe("the testing plane", () => {
  const inPlane = { proof: { plane: environment }, headers: planeHeaders }

  it("has separate grants, tings, keys and types", async () => {
    expect((await register(bench, registration, inPlane)).status).toBe(201)
    expect((await sendTing(bench, sample(), inPlane)).status).toBe(202)
    expect(outcome(await sendTing(bench))).toBe("403 recipient_not_registered")
    expect([bench.ting.grants(environment).length, bench.ting.grants("production").length]).toEqual([1, 0])
    await register(bench)
    expect((await sendTing(bench, sample({ data: { other: true } }))).status).toBe(202)
    bench.ting.registerType("production", "music", "music.only.production")
    expect((await sendTing(bench, sample({ type: "music.only.production", key: "k1" }))).status).toBe(202)
    expect(
      outcome(await sendTing(bench, sample({ type: "music.only.production", key: "k1" }), inPlane))
    ).toBe("404 not_found")
  })

  it("sends IAM the test secret as selector and as authorisation", async () => {
    await register(bench, registration, inPlane)
    expect(bench.iam.seen.map((request) => request.path)).toEqual([
      "/api/v1/application/testing-context",
      "/api/v1/obo-access/verify"
    ])
    for (const request of bench.iam.seen)
      expect(request.headers.get("x-testing-application")).toEqual(request.headers.get("authorization"))
  })

  it("refuses a proof of the other plane, in both directions", async () => {
    expect(outcome(await sendTing(bench, sample(), { headers: planeHeaders }))).toBe("401 invalid_proof")
    expect(outcome(await sendTing(bench, sample(), { proof: { plane: environment } }))).toBe(
      "401 invalid_proof"
    )
  })

  it.each([
    ["IAM says 401", { status: 401, body: { error: { code: "unauthenticated" } } }, "401 session_expired"],
    ["IAM says 403", { status: 403, body: { error: { code: "forbidden" } } }, "403 permission_denied"],
    [
      "the secret is known under another application",
      { status: 401, body: { error: { code: "invalid_client" } } },
      "403 permission_denied"
    ],
    [
      "the context is another application's",
      { status: 200, body: { environment_id: environment, application: { app_id: "music" } } },
      "403 permission_denied"
    ],
    ["IAM says 503", { status: 503 }, "503 dependency_unavailable"],
    ["IAM says 429", { status: 429 }, "503 dependency_unavailable"],
    ["IAM redirects", { status: 302, headers: { location: "/" } }, "503 dependency_unavailable"]
  ])("checks the header pair: %s", async (_, context, expected) => {
    bench.context = context
    expect(outcome(await sendTing(bench, sample(), inPlane))).toBe(expected)
    expect(verifications()).toBe(0)
  })

  it("answers 503 while IAM cannot be reached", async () => {
    bench.iam.fail({ fault: { kind: "drop" } })
    expect(outcome(await sendTing(bench, sample(), inPlane))).toBe("503 dependency_unavailable")
  })

  it("refuses a rotated environment key", async () => {
    const headers = { iam_test_app_secret: testSecret, "x-testing-environment-key": "B".repeat(32) }
    expect(outcome(await sendTing(bench, sample(), { ...inPlane, headers }))).toBe("403 permission_denied")
  })
})

describe("registering a recipient", () => {
  it("answers 201, then 200 while it is active, then 201 with the same id after a revocation", async () => {
    const first = await register(bench)
    expect([first.status, first.json]).toEqual([
      201,
      {
        id: expect.stringMatching(/^sub_[0-9a-f]{32}$/),
        app_id: "music",
        for: "si:lyra",
        active: true,
        required_delivery: false
      }
    ])
    const again = await register(bench, { org_id: "harbor", app_id: "music" })
    expect([again.status, again.json]).toEqual([200, first.json])
    const grant = { plane: "production", org: "harbor", app_id: "music", for: "si:lyra" }
    bench.ting.revokeGrant(grant)
    const revived = await register(bench)
    expect([revived.status, revived.json]).toEqual([201, first.json])
  })

  it("keeps one grant per organisation, application and recipient", async () => {
    await register(bench)
    await register(bench, { ...registration, org_id: "dock" }, { proof: { org: "dock" } })
    await register(bench, { ...registration, app_id: "other" }, { proof: { issuer: "other" } })
    await register(bench, { ...registration, for: "c:ana" }, { proof: { actor: "c:ana" } })
    expect(
      bench.ting.grants("production").map(({ org, app_id, for: actor }) => [org, app_id, actor])
    ).toEqual([
      ["harbor", "music", "si:lyra"],
      ["dock", "music", "si:lyra"],
      ["harbor", "other", "si:lyra"],
      ["harbor", "music", "c:ana"]
    ])
  })

  it.each([
    [{ for: "si:deejay" }, "403 permission_denied"],
    [{ for: 5 }, invalid],
    [{ extra: 1 }, invalid],
    [{ type: "music.track.ready" }, invalid],
    [{ app_id: undefined }, invalid],
    [{ app_id: 5 }, invalid]
  ])("refuses %j", async (change, expected) => {
    expect(outcome(await register(bench, { ...registration, ...change }))).toBe(expected)
    expect(bench.ting.grants("production")).toEqual([])
  })
})
