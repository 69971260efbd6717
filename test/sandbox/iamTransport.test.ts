import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { type Bench, basic, key, outcome, send, startBench, textAt } from "./iamClient.ts"

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const versionsHeader = "silicon-iam-supported-api-versions"

let bench: Bench
beforeEach(async () => {
  bench = await startBench()
})
afterEach(() => bench.iam.close())

describe("public routes", () => {
  it("negotiates a version", async () => {
    const answer = await send(bench.iam.url, "GET", "/api/version", { [versionsHeader]: "v2, v1" })
    expect(answer.status).toBe(200)
    expect(answer.headers["silicon-iam-api-version"]).toBe("v1")
    expect(answer.headers.vary).toBe("Silicon-IAM-Supported-API-Versions")
    expect(answer.json).toEqual({
      service: "silicon-iam",
      selected_api_version: "v1",
      supported_api_versions: ["v1"],
      build: "4.0.0",
      commit: "abc123"
    })
  })

  it("refuses a negotiation without a common version, and lists the supported ones", async () => {
    const answer = await send(bench.iam.url, "GET", "/api/version", { [versionsHeader]: "v2" })
    expect(outcome(answer)).toBe("406 api_version_not_acceptable")
    expect(answer.json).toMatchObject({ error: { details: { supported_versions: ["v1"] } } })
  })

  it.each([
    ["missing", {}],
    ["empty", { [versionsHeader]: "" }],
    ["repeated in the list", { [versionsHeader]: "v1,v1" }],
    ["not a version", { [versionsHeader]: "v1,one" }],
    ["version nought", { [versionsHeader]: "v0,v1" }],
    ["more than 16", { [versionsHeader]: Array.from({ length: 17 }, (_, n) => `v${n + 1}`).join(",") }],
    ["two headers", { [versionsHeader]: ["v1", "v2"] }]
  ])("answers 422 to a negotiation header that is %s", async (_, headers) => {
    expect(outcome(await send(bench.iam.url, "GET", "/api/version", headers))).toBe("422 validation_failed")
  })
})

describe("versioned routes", () => {
  it.each([
    ["v2", "406 api_version_not_supported"],
    ["one", "406 api_version_not_supported"],
    ["v2,v1", "401 invalid_client"]
  ])("with the header %s answers %s", async (value, expected) => {
    const answer = await send(bench.iam.url, "POST", "/api/v1/oauth/introspect", { [versionsHeader]: value })
    expect(outcome(answer)).toBe(expected)
  })

  it("answers 404 to an unknown route and 405 with Allow to a wrong method", async () => {
    expect(outcome(await bench.production.get("/app-auth/nothing"))).toBe("404 not_found")
    expect(outcome(await send(bench.iam.url, "GET", "/elsewhere"))).toBe("404 not_found")
    expect(outcome(await bench.production.get("/oauth/introspect/"))).toBe("404 not_found")
    const wrong = await bench.production.get("/oauth/introspect")
    expect(outcome(wrong)).toBe("405 method_not_allowed")
    expect(wrong.headers.allow).toBe("POST")
  })

  it("adds the common headers to answers and refusals", async () => {
    for (const answer of [
      await bench.production.introspect("nothing"),
      await bench.production.get("/nothing")
    ]) {
      expect(answer.headers).toMatchObject({
        "silicon-iam-api-version": "v1",
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        date: "Fri, 25 Sep 2026 10:15:30 GMT",
        "content-type": "application/json"
      })
      expect(answer.headers.pragma).toBeUndefined()
      expect(answer.headers["ratelimit-limit"]).toBeUndefined()
    }
  })

  it("keeps a request id that is a UUID and makes one otherwise", async () => {
    const mine = "0199a0c4-5e2b-7a10-8c3d-1f2e3d4c5b6a"
    const kept = await bench.production.get("/nothing", { "x-request-id": mine })
    expect(kept.headers["x-request-id"]).toBe(mine)
    expect(textAt(kept.json, "error", "request_id")).toBe(mine)
    for (const headers of [{}, { "x-request-id": "req_1" }, { "x-request-id": [mine, mine] }]) {
      const made = await bench.production.get("/nothing", headers)
      expect(made.headers["x-request-id"]).toMatch(uuid)
      expect(made.headers["x-request-id"]).not.toBe(mine)
      expect(textAt(made.json, "error", "request_id")).toBe(made.headers["x-request-id"])
    }
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

  it("accepts the application's secret", async () => {
    const answer = await attempt(basic("music", bench.seeded.production.musicSecret))
    expect(answer.status).toBe(200)
  })

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

  it("counts the claimed application before it checks the secret, and reads the body afterwards", async () => {
    const limited = await startBench({ rateLimit: 1 })
    try {
      const path = "/app-auth/tokens"
      const wrong = { authorization: basic("music", "ask_guess") }
      expect(outcome(await limited.production.form(path, {}, wrong))).toBe("401 invalid_client")
      expect(outcome(await limited.production.form(path, {}, wrong))).toBe("429 rate_limited")
      expect(outcome(await limited.production.login("oac_any"))).toBe("429 rate_limited")
      const malformed = { authorization: "Basic !!!!" }
      expect(outcome(await limited.production.form(path, {}, malformed))).toBe("401 invalid_client")
      const ting = { authorization: basic("ting", limited.seeded.production.tingSecret) }
      expect(outcome(await limited.production.form(path, {}, ting))).toBe("422 request_rejected")
    } finally {
      await limited.iam.close()
    }
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
