/** What the simulated IAM refuses, so that a client that breaks the contract fails its tests. */
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { signExchange } from "../../sandbox/upstreams/Iam.ts"
import { sha256 } from "../../sandbox/upstreams/iam/Identifiers.ts"
import {
  type Bench,
  basic,
  type ExchangeInput,
  key,
  loggedIn,
  outcome,
  send,
  start,
  startBench,
  textAt
} from "./iamClient.ts"

let bench: Bench
beforeEach(async () => {
  bench = await startBench()
})
afterEach(() => bench.iam.close())

describe("routes", () => {
  it("answers 404 to an unknown route and 405 with Allow to a wrong method", async () => {
    expect(outcome(await bench.production.get("/app-auth/nothing"))).toBe("404 not_found")
    expect(outcome(await send(bench.iam.url, "GET", "/elsewhere"))).toBe("404 not_found")
    expect(outcome(await bench.production.get("/oauth/introspect/"))).toBe("404 not_found")
    const wrong = await bench.production.get("/oauth/introspect")
    expect(outcome(wrong)).toBe("405 method_not_allowed")
    expect(wrong.headers.allow).toBe("POST")
  })

  it.each([
    ["v2", "406 api_version_not_supported"],
    ["one", "406 api_version_not_supported"],
    ["v2,v1", "401 invalid_client"]
  ])("with the version header %s answer %s", async (value, expected) => {
    const headers = { "silicon-iam-supported-api-versions": value }
    expect(outcome(await send(bench.iam.url, "POST", "/api/v1/oauth/introspect", headers))).toBe(expected)
  })
})

describe("client authentication", () => {
  const attempt = (authorization: string | ReadonlyArray<string> | undefined) =>
    send(
      bench.iam.url,
      "GET",
      "/api/v1/obo-access/applications/ting/endpoints",
      authorization === undefined ? {} : { authorization }
    )

  it("answers invalid_client to credentials that are missing, malformed, repeated or wrong", async () => {
    const { musicSecret, tingSecret } = bench.seeded.production
    const good = basic("music", musicSecret)
    const wrong = [
      undefined,
      "",
      "Basic",
      "Basic !!!!",
      `Bearer ${musicSecret}`,
      good.replace(/=+$/, ""),
      `Basic ${Buffer.from("music").toString("base64")}`,
      basic("Music", musicSecret),
      basic("music", `${musicSecret}x`),
      basic("music", tingSecret),
      basic("nobody", musicSecret),
      [good, good]
    ]
    expect(good).toMatch(/=$/)
    for (const authorization of wrong) {
      const answer = await attempt(authorization)
      expect(outcome(answer)).toBe("401 invalid_client")
      expect(answer.headers["www-authenticate"]).toBe('Basic realm="silicon-iam"')
    }
  })
})

describe("application selector", () => {
  const music = () => basic("music", bench.seeded.environment.musicSecret)
  const context = (selector: string | ReadonlyArray<string>, authorization?: string) =>
    send(bench.iam.url, "GET", "/api/v1/application/testing-context", {
      "x-testing-application": selector,
      ...(authorization === undefined ? {} : { authorization })
    })

  it("answers unauthenticated to an unknown, malformed, repeated or production secret", async () => {
    const unpadded = music().replace(/=+$/, "")
    for (const selector of [
      "",
      "Basic",
      unpadded,
      `Bearer ${bench.seeded.environment.musicSecret}`,
      basic("music", "ask_short"),
      basic("music", `ask_${"x".repeat(43)}`),
      basic("music", bench.seeded.production.musicSecret),
      [music(), music()]
    ]) {
      const answer = await context(selector, typeof selector === "string" ? selector : music())
      expect(outcome(answer)).toBe("401 unauthenticated")
      expect(answer.headers["www-authenticate"]).toBe("Bearer")
    }
  })

  it("answers invalid_client when the secret belongs to another application id", async () => {
    const crossed = basic("ting", bench.seeded.environment.musicSecret)
    expect(outcome(await context(crossed, crossed))).toBe("401 invalid_client")
  })

  it("requires byte-identical credentials in Authorization", async () => {
    expect(outcome(await context(music()))).toBe("401 invalid_client")
    expect(outcome(await context(music(), music().replace("Basic", "basic")))).toBe("401 invalid_client")
    const ting = basic("ting", bench.seeded.environment.tingSecret)
    expect(outcome(await context(music(), ting))).toBe("401 invalid_client")
    expect(outcome(await context(music(), `Bearer oat_${"x".repeat(43)}`))).toBe("401 invalid_client")
  })
})

describe("bodies", () => {
  const type = (value: string) => ({ "content-type": value })
  const introspect = (headers: Record<string, string>, body: string) =>
    bench.production.call("POST", "/oauth/introspect", headers, body)
  const formType = type("application/x-www-form-urlencoded")

  it("answers 415 to another content type and accepts parameters of the right one", async () => {
    expect(outcome(await introspect({}, "token=x"))).toBe("415 request_rejected")
    expect(outcome(await introspect(type("application/json"), "token=x"))).toBe("415 request_rejected")
    expect(
      (await introspect(type("Application/X-WWW-form-urlencoded; charset=utf-8"), "token=x")).status
    ).toBe(200)
    const wrong = await bench.production.call("POST", "/obo-access/verify", formType, "{}")
    expect(outcome(wrong)).toBe("415 request_rejected")
  })

  it("accepts 65,536 bytes and answers 413 to one more, after the client is authenticated", async () => {
    const body = `token=${"x".repeat(65_530)}`
    expect((await introspect(formType, body)).status).toBe(200)
    expect(outcome(await introspect(formType, `${body}x`))).toBe("413 payload_too_large")
    const stranger = { ...formType, authorization: basic("music", "ask_wrong") }
    expect(outcome(await introspect(stranger, `${body}x`))).toBe("401 invalid_client")
  })

  it("answers 422 to a missing or repeated form field and ignores unknown ones", async () => {
    expect(outcome(await introspect(formType, "other=x"))).toBe("422 request_rejected")
    expect(outcome(await introspect(formType, "token=x&token=y"))).toBe("422 request_rejected")
    expect((await introspect(formType, "token=x&other=y")).status).toBe(200)
  })

  it("answers 400 to malformed JSON and 422 to missing, mistyped and unknown JSON fields", async () => {
    const verify = (body: string) =>
      bench.production.call("POST", "/obo-access/verify", type("application/json"), body)
    const sha = "a".repeat(64)
    const request = { method: "POST", path: "/v1/tings", body_sha256: sha }
    expect(outcome(await verify("{"))).toBe("400 request_rejected")
    for (const body of [
      [],
      null,
      {},
      { access_proof: 1, request },
      { access_proof: "x", request: [] },
      { access_proof: "x", request, more: 1 },
      { access_proof: "x", request: { ...request, more: 1 } }
    ])
      expect(outcome(await verify(JSON.stringify(body)))).toBe("422 request_rejected")
  })
})

describe("idempotency keys", () => {
  it("are required, valid and single on the routes that use them", async () => {
    const routes: ReadonlyArray<readonly [string, Record<string, string>]> = [
      ["/app-auth/tokens", { app_id: "music", slt: "oac_none" }],
      ["/oauth/revoke", { token: "x".repeat(32) }]
    ]
    for (const [path, fields] of routes) {
      const missing = await bench.production.form(path, fields)
      expect(outcome(missing)).toBe("428 precondition_required")
      expect(missing.json).toMatchObject({ error: { details: { precondition: "Idempotency-Key" } } })
      for (const bad of ["x".repeat(15), "x".repeat(256), "with a space inside", [key("a"), key("b")]]) {
        const answer = await bench.production.form(path, fields, { "idempotency-key": bad })
        expect(outcome(answer)).toBe("422 validation_failed")
        expect(answer.json).toMatchObject({ error: { details: { fields: [{ field: "idempotency_key" }] } } })
      }
      const longest = { "idempotency-key": "~".repeat(255) }
      expect((await bench.production.form(path, fields, longest)).status).not.toBe(422)
    }
  })
})

describe("rate limit", () => {
  it("blocks the 121st request in 60 s on one path, with the remaining time in headers and details", async () => {
    for (let count = 0; count < 120; count += 1)
      expect((await bench.production.get("/obo-access/applications/ting/endpoints")).status).toBe(200)
    bench.clock.time += 10_500
    const blocked = await bench.production.get("/obo-access/applications/ting/endpoints")
    expect(outcome(blocked)).toBe("429 rate_limited")
    expect(blocked.headers).toMatchObject({
      "retry-after": "50",
      "ratelimit-limit": "120",
      "ratelimit-remaining": "0",
      "ratelimit-reset": "50"
    })
    expect(blocked.json).toMatchObject({
      error: { details: { limit: 120, remaining: 0, reset_after_seconds: 50, retry_after_seconds: 50 } }
    })
    expect((await bench.production.get("/obo-access/applications/music/endpoints")).status).toBe(200)
    expect((await bench.testing.get("/obo-access/applications/ting/endpoints")).status).toBe(200)
    bench.clock.time += 49_499
    expect((await bench.production.get("/obo-access/applications/ting/endpoints")).status).toBe(429)
    bench.clock.time += 1
    expect((await bench.production.get("/obo-access/applications/ting/endpoints")).status).toBe(200)
  })
})

describe("order of the token route's checks", () => {
  const post = (fields: Record<string, string>, headers: Record<string, string> = {}) =>
    bench.production.form("/app-auth/tokens", fields, headers)
  const keyed = { "idempotency-key": key("order") }

  it("checks secret, form, app_id, one credential, key, grant", async () => {
    const stranger = { authorization: basic("music", "ask_wrong") }
    expect(outcome(await post({}, stranger))).toBe("401 invalid_client")
    expect(outcome(await post({ slt: "a", refresh_token: "b" }))).toBe("422 request_rejected")
    const foreign = await post({ app_id: "ting", slt: "a", refresh_token: "b" })
    expect(outcome(foreign)).toBe("401 invalid_client")
    expect(foreign.headers["www-authenticate"]).toBe('Basic realm="silicon-iam"')
    expect(outcome(await post({ app_id: "music", slt: "a", refresh_token: "b" }))).toBe("400 invalid_request")
    expect(outcome(await post({ app_id: "music" }))).toBe("400 invalid_request")
    expect(outcome(await post({ app_id: "music", slt: "a" }))).toBe("428 precondition_required")
    expect(outcome(await post({ app_id: "music", slt: "a" }, keyed))).toBe("400 invalid_grant")
  })
})

describe("introspection and revocation", () => {
  it("refuses X-Org-ID, which is not simulated, and a bad hint", async () => {
    expect(outcome(await bench.production.introspect("x", { "x-org-id": "acme" }))).toBe(
      "400 invalid_request"
    )
    const hinted = (hint: string) =>
      bench.production.form("/oauth/introspect", { token: "x", token_type_hint: hint })
    expect((await hinted("access_token")).status).toBe(200)
    expect((await hinted("refresh_token")).status).toBe(200)
    expect(outcome(await hinted("id_token"))).toBe("400 invalid_request")
  })

  it("requires 32 to 4096 characters and a known hint", async () => {
    for (const token of ["", "x".repeat(31), "x".repeat(4097)])
      expect(outcome(await bench.production.revoke(token, key("length")))).toBe("400 invalid_request")
    expect((await bench.production.revoke("x".repeat(32))).status).toBe(200)
    const hinted = await bench.production.form(
      "/oauth/revoke",
      { token: "x".repeat(40), token_type_hint: "other" },
      { "idempotency-key": key("hint") }
    )
    expect(outcome(hinted)).toBe("400 invalid_request")
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
})

describe("verification of a proof", () => {
  it("refuses an invalid proof, X-Org-ID, and a malformed binding", async () => {
    for (const value of ["", "obo_short", `oat_${"x".repeat(43)}`])
      expect(outcome(await bench.production.verify(value))).toBe("400 invalid_proof")
    const withOrg = await bench.production.verify("", {}, { "x-org-id": "acme" })
    expect(outcome(withOrg)).toBe("400 unsupported_header")
    const { access } = await loggedIn(bench)
    const proof = textAt((await bench.production.exchange({ subject: access })).json, "access_proof")
    expect(outcome(await bench.production.verify(proof, { method: "post" }))).toBe("422 validation_failed")
    expect(outcome(await bench.production.verify(proof, { path: "v1/tings" }))).toBe("422 validation_failed")
  })
})
