import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { iamFaults } from "../../sandbox/upstreams/Iam.ts"
import { type Bench, basic, key, loggedIn, outcome, startBench, textAt } from "./iamClient.ts"

const token = (prefix: string) => new RegExp(`^${prefix}_[A-Za-z0-9_-]{43}$`)
const allScopes = "obo:ting:subscriptions.register obo:ting:tings.send self.identity.read self.profile.read"
const day = 86_400_000

let bench: Bench
beforeEach(async () => {
  bench = await startBench({ rateLimit: Number.POSITIVE_INFINITY })
})
afterEach(() => bench.iam.close())

const mint = (scopes?: ReadonlyArray<string>) =>
  bench.iam.controls.mintSlt("production", {
    appId: "music",
    actor: "si:deejay",
    ...(scopes === undefined ? {} : { scopes })
  })

const isActive = async (value: string) => (await bench.production.introspect(value)).json.active

describe("login", () => {
  it("exchanges an SLT for a pair, exactly as documented", async () => {
    const answer = await bench.production.login(mint())
    expect(answer.status).toBe(200)
    expect(answer.json).toEqual({
      access_token: expect.stringMatching(token("oat")),
      token_type: "Bearer",
      expires_in: 1800,
      scope: allScopes,
      refresh_token: expect.stringMatching(token("ort")),
      actor: { type: "silicon", public_id: "si:deejay" }
    })
    expect(answer.headers).toMatchObject({ "cache-control": "no-store", pragma: "no-cache" })
    expect(answer.headers["idempotency-replayed"]).toBeUndefined()
  })

  it("names no actor without self.identity.read", async () => {
    const answer = await bench.production.login(mint(["self.profile.read"]))
    expect(answer.json.scope).toBe("self.profile.read")
    expect(answer.json).not.toHaveProperty("actor")
  })

  it("accepts an SLT once", async () => {
    const slt = mint()
    expect((await bench.production.login(slt, key("first"))).status).toBe(200)
    expect(outcome(await bench.production.login(slt, key("second")))).toBe("400 invalid_grant")
  })

  it("accepts one of two concurrent uses", async () => {
    const slt = mint()
    const answers = await Promise.all([
      bench.production.login(slt, key("left")),
      bench.production.login(slt, key("right"))
    ])
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 400])
  })

  it("accepts an SLT for 120 s", async () => {
    const [early, late] = [mint(), mint()]
    bench.clock.time += 119_999
    expect((await bench.production.login(early)).status).toBe(200)
    bench.clock.time += 1
    expect(outcome(await bench.production.login(late))).toBe("400 invalid_grant")
  })

  it("answers invalid_grant to every wrong SLT, and leaves the key free", async () => {
    const { controls } = bench.iam
    controls.addApp("production", { appId: "other", orgId: "acme", scopes: ["self.identity.read"] })
    const foreign = controls.mintSlt("production", { appId: "other", actor: "si:deejay" })
    const { refresh, access } = await loggedIn(bench)
    const revoked = mint()
    controls.revokeSession("production", "si:deejay")
    const shared = key("shared")
    for (const slt of ["", "x", "si:deejay", `oac_${"x".repeat(43)}`, foreign, refresh, access, revoked])
      expect(outcome(await bench.production.login(slt, shared))).toBe("400 invalid_grant")
    expect((await bench.production.login(mint(), shared)).status).toBe(200)
  })

  it("fails when a scope that the user approved is no longer approved for the application", async () => {
    const slt = mint()
    bench.iam.controls.setApprovedScopes("production", "music", ["self.identity.read"])
    expect(outcome(await bench.production.login(slt))).toBe("400 invalid_grant")
    bench.iam.controls.setApprovedScopes("production", "music", [...allScopes.split(" "), "self.tags.read"])
    expect((await bench.production.login(slt)).status).toBe(200)
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

describe("idempotent replay of a login", () => {
  it("returns the same answer for 600 s, then an error until the record is removed after 24 h", async () => {
    const slt = mint()
    const first = await bench.production.login(slt)
    bench.clock.time += 599_999
    const replay = await bench.production.login(slt)
    expect(replay.text).toBe(first.text)
    expect(replay.status).toBe(200)
    expect(replay.headers).toMatchObject({ "idempotency-replayed": "true", pragma: "no-cache" })
    bench.clock.time += 1
    expect(outcome(await bench.production.login(slt))).toBe("409 idempotency_response_expired")
    bench.clock.time += day - 600_001
    expect(outcome(await bench.production.login(slt))).toBe("409 idempotency_response_expired")
    bench.clock.time += 1
    expect(outcome(await bench.production.login(slt))).toBe("400 invalid_grant")
  })

  it("refuses the key with another payload, also after the window", async () => {
    await bench.production.login(mint(), key("one"))
    expect(outcome(await bench.production.login(mint(), key("one")))).toBe("409 idempotency_conflict")
    const { refresh } = await loggedIn(bench)
    expect(outcome(await bench.production.refresh(refresh, key("one")))).toBe("409 idempotency_conflict")
    bench.clock.time += 601_000
    expect(outcome(await bench.production.login(mint(), key("one")))).toBe("409 idempotency_conflict")
  })

  it("scopes a key to the route and to the plane", async () => {
    const { access } = await loggedIn(bench)
    await bench.production.login(mint(), key("one"))
    expect((await bench.production.revoke(access, key("one"))).status).toBe(200)
    expect((await bench.testing.login("si:deejay", key("one"))).status).toBe(200)
  })

  it("replays a login whose answer was lost", async () => {
    const slt = mint()
    bench.iam.fail({ path: "/api/v1/app-auth/tokens", fault: iamFaults.commitThenDrop() })
    await expect(bench.production.login(slt)).rejects.toThrow()
    const replay = await bench.production.login(slt)
    expect(replay.status).toBe(200)
    expect(replay.headers["idempotency-replayed"]).toBe("true")
    expect(await isActive(textAt(replay.json, "access_token"))).toBe(true)
  })

  it("answers in progress while a first request holds the key, for at most 30 s", async () => {
    const slt = mint()
    bench.iam.controls.holdIdempotency(key("held"))
    expect(outcome(await bench.production.login(slt, key("held")))).toBe("409 idempotency_in_progress")
    bench.clock.time += 30_000
    expect((await bench.production.login(slt, key("held"))).status).toBe(200)
    bench.iam.controls.holdIdempotency(key("lease"))
    bench.clock.time += 29_999
    expect(outcome(await bench.production.login(mint(), key("lease")))).toBe("409 idempotency_in_progress")
    bench.clock.time += 1
    expect((await bench.production.login(mint(), key("lease"))).status).toBe(200)
  })
})

describe("refresh", () => {
  it("rotates the pair: the old refresh token is consumed, the old access token stays live", async () => {
    const old = await loggedIn(bench)
    const answer = await bench.production.refresh(old.refresh)
    expect(answer.json).toEqual({
      access_token: expect.stringMatching(token("oat")),
      token_type: "Bearer",
      expires_in: 1800,
      scope: allScopes,
      refresh_token: expect.stringMatching(token("ort")),
      actor: { type: "silicon", public_id: "si:deejay" }
    })
    expect(answer.headers.pragma).toBe("no-cache")
    const next = textAt(answer.json, "refresh_token")
    expect(next).not.toBe(old.refresh)
    expect(await isActive(old.access)).toBe(true)
    expect(await isActive(old.refresh)).toBe(false)
    expect(await isActive(next)).toBe(true)
    expect(bench.iam.controls.familyOf(next)).toBe(bench.iam.controls.familyOf(old.access))
  })

  it("replays an exact retry for 600 s; later it is neither reuse nor a new pair", async () => {
    const { access, refresh } = await loggedIn(bench)
    const first = await bench.production.refresh(refresh)
    bench.clock.time += 599_999
    const replay = await bench.production.refresh(refresh)
    expect(replay.text).toBe(first.text)
    expect(replay.headers["idempotency-replayed"]).toBe("true")
    bench.clock.time += 1
    expect(outcome(await bench.production.refresh(refresh))).toBe("409 idempotency_response_expired")
    expect(await isActive(access)).toBe(true)
  })

  it("answers conflict for the same key with another token, without consuming that token", async () => {
    const [left, right] = [await loggedIn(bench), await loggedIn(bench)]
    await bench.production.refresh(left.refresh, key("one"))
    expect(outcome(await bench.production.refresh(right.refresh, key("one")))).toBe(
      "409 idempotency_conflict"
    )
    expect((await bench.production.refresh(right.refresh)).status).toBe(200)
  })

  it("treats reuse under another key as theft: it ends the whole family and no other login", async () => {
    const [mine, other] = [await loggedIn(bench), await loggedIn(bench)]
    const next = await bench.production.refresh(mine.refresh)
    const reuse = await bench.production.refresh(mine.refresh, key("reuse"))
    expect(outcome(reuse)).toBe("400 invalid_grant")
    expect(bench.iam.controls.familyOf(mine.access)?.status).toBe("compromised")
    for (const dead of [mine.access, textAt(next.json, "access_token"), textAt(next.json, "refresh_token")])
      expect(await isActive(dead)).toBe(false)
    expect(outcome(await bench.production.refresh(textAt(next.json, "refresh_token")))).toBe(
      "400 invalid_grant"
    )
    expect(await isActive(other.access)).toBe(true)
    expect((await bench.production.refresh(other.refresh)).status).toBe(200)
  })

  it("stores the refusal of a reuse and replays it for 600 s", async () => {
    const { refresh } = await loggedIn(bench)
    await bench.production.refresh(refresh)
    const reuse = await bench.production.refresh(refresh, key("reuse"))
    expect(reuse.headers["idempotency-replayed"]).toBeUndefined()
    const unknown = await bench.production.refresh("ort_unknown", key("unknown"))
    expect(textAt(reuse.json, "error", "message")).not.toBe(textAt(unknown.json, "error", "message"))
    bench.clock.time += 599_999
    const replay = await bench.production.refresh(refresh, key("reuse"))
    expect(replay.status).toBe(400)
    expect(replay.text).toBe(reuse.text)
    expect(replay.headers["idempotency-replayed"]).toBe("true")
    bench.clock.time += 1
    expect(outcome(await bench.production.refresh(refresh, key("reuse")))).toBe(
      "409 idempotency_response_expired"
    )
  })

  it("treats the original key as new after 24 h, which makes it reuse", async () => {
    const { refresh } = await loggedIn(bench)
    await bench.production.refresh(refresh)
    bench.clock.time += day
    expect(outcome(await bench.production.refresh(refresh))).toBe("400 invalid_grant")
    expect(bench.iam.controls.familyOf(refresh)?.status).toBe("compromised")
  })

  it("accepts one of two concurrent refreshes under different keys, and compromises the family", async () => {
    const { refresh } = await loggedIn(bench)
    const answers = await Promise.all([
      bench.production.refresh(refresh, key("left")),
      bench.production.refresh(refresh, key("right"))
    ])
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 400])
    expect(bench.iam.controls.familyOf(refresh)?.status).toBe("compromised")
  })

  it("ends with the family, 900 days after the login, however often it was rotated", async () => {
    const { refresh } = await loggedIn(bench)
    bench.clock.time += 800 * day
    const rotated = textAt((await bench.production.refresh(refresh)).json, "refresh_token")
    bench.clock.time += 100 * day - 1
    const last = textAt((await bench.production.refresh(rotated)).json, "refresh_token")
    expect(await isActive(last)).toBe(true)
    bench.clock.time += 1
    expect(await isActive(last)).toBe(false)
    expect(outcome(await bench.production.refresh(last))).toBe("400 invalid_grant")
  })

  it("never adds a scope and drops those no longer approved or consented", async () => {
    const { controls } = bench.iam
    const login = await loggedIn(bench, "si:deejay", { scopes: ["self.identity.read", "self.profile.read"] })
    await loggedIn(bench)
    const second = await bench.production.refresh(login.refresh)
    expect(second.json.scope).toBe("self.identity.read self.profile.read")
    controls.setApprovedScopes("production", "music", ["self.profile.read"])
    const third = await bench.production.refresh(textAt(second.json, "refresh_token"))
    expect(third.json.scope).toBe("self.profile.read")
    expect(third.json).not.toHaveProperty("actor")
    controls.setApprovedScopes("production", "music", ["self.identity.read", "self.profile.read"])
    const fourth = await bench.production.refresh(textAt(third.json, "refresh_token"))
    expect(fourth.json.scope).toBe("self.identity.read self.profile.read")
    controls.withdrawConsent("production", "si:deejay", "music", ["self.profile.read"])
    const fifth = await bench.production.refresh(textAt(fourth.json, "refresh_token"))
    expect(fifth.json.scope).toBe("self.identity.read")
  })

  it("answers invalid_grant when no scope is left, and does not consume the token", async () => {
    const { refresh } = await loggedIn(bench)
    bench.iam.controls.setApprovedScopes("production", "music", [])
    expect(outcome(await bench.production.refresh(refresh))).toBe("400 invalid_grant")
    bench.iam.controls.setApprovedScopes("production", "music", ["self.identity.read"])
    expect((await bench.production.refresh(refresh)).status).toBe(200)
  })

  it("answers invalid_grant to unknown, foreign and misplaced tokens, and after the session ended", async () => {
    const { controls } = bench.iam
    const other = controls.addApp("production", {
      appId: "other",
      orgId: "acme",
      scopes: ["self.identity.read"]
    })
    const { access, refresh } = await loggedIn(bench)
    controls.mintSlt("production", { appId: "other", actor: "si:deejay" })
    const foreign = await bench.production.form(
      "/app-auth/tokens",
      { app_id: "other", refresh_token: refresh },
      { authorization: basic("other", other.secret), "idempotency-key": key("foreign") }
    )
    expect(outcome(foreign)).toBe("400 invalid_grant")
    for (const value of ["", `ort_${"x".repeat(43)}`, mint(), access])
      expect(outcome(await bench.production.refresh(value, key("wrong")))).toBe("400 invalid_grant")
    controls.revokeSession("production", "si:deejay")
    expect(outcome(await bench.production.refresh(refresh))).toBe("400 invalid_grant")
  })

  it("replays a rotation whose answer was lost", async () => {
    const { refresh } = await loggedIn(bench)
    bench.iam.fail({ path: "/api/v1/app-auth/tokens", fault: iamFaults.commitThenDrop() })
    await expect(bench.production.refresh(refresh)).rejects.toThrow()
    const replay = await bench.production.refresh(refresh)
    expect(replay.headers["idempotency-replayed"]).toBe("true")
    expect((await bench.production.refresh(textAt(replay.json, "refresh_token"))).status).toBe(200)
  })
})
