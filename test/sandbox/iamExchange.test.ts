import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { iamFaults, signExchange } from "../../sandbox/upstreams/Iam.ts"
import { sha256 } from "../../sandbox/upstreams/iam/Identifiers.ts"
import {
  type Bench,
  basic,
  type ExchangeInput,
  key,
  loggedIn,
  makeClient,
  outcome,
  start,
  startBench,
  textAt
} from "./iamClient.ts"

const proofShape = /^obo_[A-Za-z0-9_-]{43}$/

let bench: Bench
beforeEach(async () => {
  bench = await startBench({ rateLimit: Number.POSITIVE_INFINITY })
})
afterEach(() => bench.iam.close())

describe("vector O1", () => {
  const secret = "ask_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8S9t0U1v"
  const body = '{"app_id":"music","for":"si:deejay"}'
  const parts = {
    timestamp: "1790331330",
    method: "POST",
    path: "/v1/subscriptions",
    bodySha256: "ac2309c47047527c7ca7f3a069ff94c236903db7acfca893af06af04d3675d2c",
    idempotencyKey: "obo-attempt-00000000000000000001"
  }
  const signature = "f362aa3a6b808f10989b679600fd9aa23cd19382280d8ab968757c8d3b78a631"

  it("is reproduced", () => {
    expect(sha256(body)).toBe(parts.bodySha256)
    expect(signExchange(secret, parts)).toBe(signature)
    expect(basic("music", secret)).toBe(
      "Basic bXVzaWM6YXNrX0ExYjJDM2Q0RTVmNkc3aDhJOWowSzFsMk0zbjRPNXA2UTdyOFM5dDBVMXY="
    )
  })

  it("changes with every part", () => {
    for (const change of [
      { timestamp: "1790331331" },
      { method: "PUT" },
      { path: "/v1/tings" },
      { bodySha256: sha256("{}") },
      { idempotencyKey: "obo-attempt-00000000000000000002" }
    ])
      expect(signExchange(secret, { ...parts, ...change })).not.toBe(signature)
  })

  it("is accepted by the exchange at its timestamp", async () => {
    const { controls } = bench.iam
    const { approvedScopes } = controls.plane("production").apps.get("music") ?? {
      approvedScopes: new Set<string>()
    }
    controls.addApp("production", { appId: "music", orgId: "music", secret, scopes: [...approvedScopes] })
    const client = makeClient(
      bench.iam.url,
      bench.clock,
      { ...bench.seeded.production, musicSecret: secret },
      false
    )
    const slt = controls.mintSlt("production", { appId: "music", actor: "si:deejay" })
    const subject = textAt((await client.login(slt)).json, "access_token")
    const answer = await client.exchange({
      subject,
      bytes: body,
      endpointId: "subscriptions.register",
      key: parts.idempotencyKey,
      headers: { "x-obo-timestamp": parts.timestamp, "x-obo-signature": signature }
    })
    expect(answer.status).toBe(201)
  })
})

describe("catalogue", () => {
  const path = (app: string) => `/obo-access/applications/${app}/endpoints`

  it("lists the active endpoints of an application by id, to any application", async () => {
    const answer = await bench.production.get(path("ting"))
    const endpoint = (endpoint_id: string, at: string) => ({
      endpoint_id,
      path: at,
      metadata: {},
      critical: true,
      ttl_seconds: 60
    })
    expect(answer.json).toEqual({
      application: { app_id: "ting", org_id: "tos" },
      endpoints: [
        endpoint("subscriptions.register", "/v1/subscriptions"),
        endpoint("tings.send", "/v1/tings")
      ]
    })
    bench.iam.controls.withdrawEndpoint("production", "ting", "subscriptions.register")
    expect((await bench.production.get(path("ting"))).json.endpoints).toHaveLength(1)
    expect((await bench.production.get(path("music"))).json.endpoints).toEqual([])
  })
})

describe("exchange", () => {
  it("issues a proof for the endpoint's lifetime, and no testing context in production", async () => {
    const { access } = await loggedIn(bench)
    bench.clock.time += 500
    const answer = await bench.production.exchange({ subject: access })
    expect(answer.status).toBe(201)
    expect(answer.json).toEqual({
      access_proof: expect.stringMatching(proofShape),
      proof_id: expect.any(String),
      expires_in: 60,
      expires_at: "2026-09-25T10:16:30.5Z"
    })
    expect(answer.headers).toMatchObject({ "cache-control": "no-store", pragma: "no-cache" })
  })

  it("returns the audience's test credentials only for an audience imported into the plane", async () => {
    const { controls } = bench.iam
    const { environmentId, rootKey, tingSecret } = bench.seeded.environment
    const login = await bench.testing.login("si:deejay", key("one"))
    const imported = await bench.testing.exchange({ subject: textAt(login.json, "access_token") })
    expect(imported.json.testing_context).toEqual({
      app_id: "ting",
      app_secret: tingSecret,
      iam_test_key: rootKey
    })
    controls.addApp(environmentId, {
      appId: "ting",
      orgId: "tos",
      scopes: [],
      endpoints: [{ endpointId: "tings.send", path: "/v1/tings", ttlSeconds: 300 }]
    })
    const local = await bench.testing.exchange({
      subject: textAt(login.json, "access_token"),
      key: key("two")
    })
    expect(local.status).toBe(201)
    expect(local.json).not.toHaveProperty("testing_context")
    expect(local.json.expires_in).toBe(300)
  })
})

describe("order of the exchange's checks", () => {
  const attempt = async (input: Omit<ExchangeInput, "subject"> & { readonly subject?: string }) =>
    await bench.production.exchange({ subject: `oat_${"x".repeat(43)}`, ...input })

  /** Each case violates its own check and all later ones; its own check must refuse it. */
  it("equals the contract's", async () => {
    const { controls } = bench.iam
    const { access } = await loggedIn(bench, "c:ana", { orgs: ["acme"] })
    const both = await loggedIn(bench, "c:ana")
    const other = controls.addApp("production", {
      appId: "other",
      orgId: "acme",
      scopes: ["self.identity.read"]
    })
    const slt = controls.mintSlt("production", { appId: "other", actor: "c:ana" })
    const foreignLogin = await bench.production.form(
      "/app-auth/tokens",
      { app_id: "other", slt },
      { authorization: basic("other", other.secret), "idempotency-key": key("foreign") }
    )
    const foreign = textAt(foreignLogin.json, "access_token")
    const orgHeader = { "x-org-id": "acme" }
    const stranger = { authorization: basic("music", "ask_wrong") }
    const noTimestamp = { "x-obo-timestamp": "" }
    const badTimestamp = { "x-obo-timestamp": "01790331330" }
    const noSignature = { "x-obo-signature": "" }
    const badSignature = { "x-obo-signature": "A".repeat(64) }
    const wrongSignature = { "x-obo-signature": "a".repeat(64) }
    const noKey = { "idempotency-key": "" }
    const badKey = { "idempotency-key": "short" }
    const unknownField = { body: { more: 1 } }
    const cases: ReadonlyArray<readonly [Parameters<typeof attempt>[0], string]> = [
      [{ ...unknownField, headers: { ...stranger, ...orgHeader } }, "401 invalid_client"],
      [{ ...unknownField, headers: { ...orgHeader, ...noTimestamp } }, "422 request_rejected"],
      [{ endpointId: "x", headers: { ...orgHeader, ...noTimestamp } }, "400 unsupported_header"],
      [{ endpointId: "x", headers: noTimestamp }, "422 validation_failed"],
      [{ headers: { ...noTimestamp, ...noSignature } }, "428 precondition_required"],
      [{ headers: { ...badTimestamp, ...noSignature } }, "401 invalid_client"],
      [{ headers: { ...noSignature, ...noKey } }, "428 precondition_required"],
      [{ headers: { ...badSignature, ...noKey } }, "401 invalid_client"],
      [{ headers: { ...wrongSignature, ...noKey } }, "428 precondition_required"],
      [{ headers: { ...wrongSignature, ...badKey } }, "422 validation_failed"],
      [{ orgId: "nowhere", headers: wrongSignature }, "400 invalid_subject_token"],
      [{ subject: foreign, orgId: "nowhere", headers: wrongSignature }, "403 obo_subject_token_forbidden"],
      [
        { subject: access, orgId: "zenith", endpointId: "none", headers: wrongSignature },
        "403 obo_organization_not_authorized"
      ],
      [{ subject: both.access, endpointId: "none", headers: wrongSignature }, "422 validation_failed"],
      [{ subject: access, endpointId: "none", headers: wrongSignature }, "404 not_found"],
      [{ subject: access, metadata: { more: 1 }, headers: wrongSignature }, "401 invalid_client"],
      [{ subject: access, metadata: { more: 1 } }, "422 validation_failed"]
    ]
    for (const [input, expected] of cases)
      expect(outcome(await attempt(input)), JSON.stringify(input)).toBe(expected)
    controls.holdIdempotency(key("attempt"))
    expect(outcome(await attempt({ subject: access }))).toBe("409 idempotency_in_progress")
    bench.clock.time += 30_000
    expect((await attempt({ subject: access })).status).toBe(201)
    expect(outcome(await attempt({ subject: access, bytes: "other" }))).toBe("409 idempotency_conflict")
  })

  it("names the missing precondition and the invalid field", async () => {
    const precondition = async (header: string) =>
      (await attempt({ headers: { [header.toLowerCase()]: "" } })).json
    for (const header of ["X-OBO-Timestamp", "X-OBO-Signature", "Idempotency-Key"])
      expect(await precondition(header)).toMatchObject({ error: { details: { precondition: header } } })
    const { access } = await loggedIn(bench, "c:ana")
    expect((await attempt({ subject: access })).json).toMatchObject({
      error: { code: "validation_failed", details: { fields: [{ field: "org_id" }] } }
    })
    expect((await attempt({ subject: access, orgId: "zenith" })).status).toBe(201)
  })
})

describe("field grammar of the exchange", () => {
  const sha = "a".repeat(64)
  it.each([
    ["org_id", { org_id: "AC" }],
    ["subject_token", { subject_token: "x".repeat(31) }],
    ["subject_token", { subject_token: "x".repeat(4097) }],
    ["audience", { audience: "tos>ting" }],
    ["endpoint_id", { endpoint_id: "Tings" }],
    ["request.method", { request: { method: "post", body_sha256: sha } }],
    ["request.body_sha256", { request: { method: "POST", body_sha256: sha.toUpperCase() } }],
    ["metadata", { metadata: { a: { b: { c: { d: { e: { f: { g: { h: 1 } } } } } } } } }],
    ["metadata", { metadata: { list: Array.from({ length: 511 }, () => 0) } }],
    ["metadata", { metadata: { text: "x".repeat(16_385) } }]
  ])("answers 422 with the field %s", async (field, body) => {
    const { access } = await loggedIn(bench)
    const answer = await bench.production.exchange({ subject: access, body })
    expect(outcome(answer)).toBe("422 validation_failed")
    expect(answer.json).toMatchObject({ error: { details: { fields: [{ field }] } } })
  })

  it.each([
    { org_id: 1 },
    { subject_token: null },
    { metadata: [] },
    { request: { method: "POST" } },
    { request: { method: "POST", body_sha256: sha, path: "/v1/tings" } }
  ])("answers 422 in the framework's form to the mistyped %o", async (body) => {
    const { access } = await loggedIn(bench)
    expect(outcome(await bench.production.exchange({ subject: access, body }))).toBe("422 request_rejected")
  })
})

describe("timestamp and signature", () => {
  it("accepts a timestamp within 60 s in both directions", async () => {
    const { access } = await loggedIn(bench)
    const now = start / 1000
    for (const [offset, status] of [
      [-61, 401],
      [-60, 201],
      [60, 201],
      [61, 401]
    ] as const) {
      const answer = await bench.production.exchange({
        subject: access,
        key: key(`offset${offset}`),
        timestamp: String(now + offset)
      })
      expect(answer.status).toBe(status)
    }
  })

  it("accepts only canonical headers that occur once", async () => {
    const { access } = await loggedIn(bench)
    const now = String(start / 1000)
    const good = signExchange(bench.seeded.production.musicSecret, {
      timestamp: now,
      method: "POST",
      path: "/v1/tings",
      bodySha256: sha256("{}"),
      idempotencyKey: key("attempt")
    })
    for (const headers of [
      { "x-obo-timestamp": `+${now}` },
      { "x-obo-timestamp": `0${now}` },
      { "x-obo-timestamp": `${now}.0` },
      { "x-obo-timestamp": "1".repeat(21) },
      { "x-obo-timestamp": [now, now] },
      { "x-obo-signature": good.toUpperCase() },
      { "x-obo-signature": `v1=${good}` },
      { "x-obo-signature": good.slice(1) },
      { "x-obo-signature": [good, good] }
    ])
      expect(outcome(await bench.production.exchange({ subject: access, headers }))).toBe(
        "401 invalid_client"
      )
    const right = await bench.production.exchange({ subject: access, headers: { "x-obo-signature": good } })
    expect(right.status).toBe(201)
  })

  it("signs with the catalogue's path and the current secret", async () => {
    const { access } = await loggedIn(bench)
    const wrongPath = await bench.production.exchange({ subject: access, path: "/v1/ting" })
    expect(outcome(wrongPath)).toBe("401 invalid_client")
    bench.iam.controls.changeEndpointPath("production", "ting", "tings.send", "/v2/tings")
    expect(outcome(await bench.production.exchange({ subject: access }))).toBe("401 invalid_client")
    expect((await bench.production.exchange({ subject: access, path: "/v2/tings" })).status).toBe(201)
  })
})

describe("authority of the exchange", () => {
  const attempt = async (access: string) => outcome(await bench.production.exchange({ subject: access }))

  it("answers 404 unless the endpoint is declared, approved, consented and granted to the token", async () => {
    const { controls } = bench.iam
    const narrow = await loggedIn(bench, "si:lyra", { scopes: ["self.identity.read"] })
    expect(await attempt(narrow.access)).toBe("404 not_found")
    await loggedIn(bench, "si:lyra")
    expect(await attempt(narrow.access)).toBe("404 not_found")
    const { access } = await loggedIn(bench)
    controls.withdrawEndpoint("production", "ting", "tings.send")
    expect(await attempt(access)).toBe("404 not_found")
    controls.restoreEndpoint("production", "ting", "tings.send")
    controls.setApprovedScopes("production", "music", ["self.identity.read"])
    expect(await attempt(access)).toBe("404 not_found")
    controls.setApprovedScopes("production", "music", ["self.identity.read", "obo:ting:tings.send"])
    controls.withdrawConsent("production", "si:deejay", "music", ["obo:ting:tings.send"])
    expect(await attempt(access)).toBe("404 not_found")
    const again = await loggedIn(bench)
    expect(await attempt(again.access)).toBe("201")
  })

  it("requires a live access token of the caller and an active membership", async () => {
    const { controls } = bench.iam
    const { access, refresh } = await loggedIn(bench)
    expect(await attempt(refresh)).toBe("400 invalid_subject_token")
    controls.removeMembership("production", "si:deejay", "acme")
    expect(await attempt(access)).toBe("403 obo_organization_not_authorized")
    controls.addMembership("production", "si:deejay", "acme")
    expect(await attempt(access)).toBe("201")
    bench.clock.time += 1_800_000
    expect(await attempt(access)).toBe("400 invalid_subject_token")
  })
})

describe("replay of an exchange", () => {
  it("returns the same proof under a new timestamp, for any order of the JSON fields", async () => {
    const { access } = await loggedIn(bench)
    const first = await bench.production.exchange({ subject: access })
    bench.clock.time += 59_999
    const body = { request: { body_sha256: sha256("{}"), method: "POST" } }
    const replay = await bench.production.exchange({ subject: access, body })
    expect(replay.status).toBe(201)
    expect(replay.text).toBe(first.text)
    expect(replay.headers["idempotency-replayed"]).toBe("true")
  })

  it("checks authority again before it replays", async () => {
    const { access } = await loggedIn(bench)
    await bench.production.exchange({ subject: access })
    await bench.production.revoke(access)
    expect(outcome(await bench.production.exchange({ subject: access }))).toBe("400 invalid_subject_token")
  })

  it("recovers a proof whose answer was lost", async () => {
    const { access } = await loggedIn(bench)
    bench.iam.fail({ path: "/api/v1/obo-access/exchanges", fault: iamFaults.commitThenDrop() })
    await expect(bench.production.exchange({ subject: access })).rejects.toThrow()
    const replay = await bench.production.exchange({ subject: access })
    expect(replay.headers["idempotency-replayed"]).toBe("true")
    expect((await bench.production.verify(textAt(replay.json, "access_proof"))).status).toBe(200)
  })
})
