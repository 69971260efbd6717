import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { type Bench, basic, key, loggedIn, outcome, start, startBench, textAt } from "./iamClient.ts"

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const inactive = { active: false }
const org = (handle: string) => ({ "x-org-id": handle })

let bench: Bench
beforeEach(async () => {
  bench = await startBench({ rateLimit: Number.POSITIVE_INFINITY })
})
afterEach(() => bench.iam.close())

const identity = ["self.identity.read", "self.profile.read"]

describe("introspection of an access token", () => {
  it("with X-Org-ID returns one authorization", async () => {
    bench.iam.controls.addMembership("production", "c:ana", "acme")
    const { access } = await loggedIn(bench, "c:ana", { orgs: ["acme"], scopes: identity })
    const answer = await bench.production.introspect(access, org("acme"))
    expect(answer.status).toBe(200)
    expect(answer.json).toEqual({
      active: true,
      public_id: "c:ana",
      actor_type: "carbon",
      client_id: "music",
      org_id: "acme",
      membership_id: "c:ana[acme]",
      session_id: expect.stringMatching(uuid),
      scope: "self.identity.read self.profile.read",
      audience: "music",
      issued_at: start / 1000,
      expires_at: start / 1000 + 1800,
      authorization_epoch: 2,
      authorization: {
        actor_type: "carbon",
        public_id: "c:ana",
        organization_id: bench.seeded.production.organizations.acme,
        org_id: "acme",
        membership_id: "c:ana[acme]",
        membership_version: 2,
        authorization_epoch: 2,
        audience: "music",
        testing_environment_id: null,
        scopes: identity,
        org_role: null,
        tags: null
      }
    })
  })

  it("without X-Org-ID returns all authorizations by handle, and the subject's own epoch", async () => {
    const { access } = await loggedIn(bench, "c:ana", { orgs: ["zenith", "acme"], scopes: identity })
    const { json } = await bench.production.introspect(access)
    expect(json).toMatchObject({
      active: true,
      authorization_epoch: 1,
      authorizations: [
        { org_id: "acme", membership_id: "c:ana[acme]" },
        { org_id: "zenith", organization_id: bench.seeded.production.organizations.zenith }
      ]
    })
    for (const name of ["org_id", "membership_id", "authorization"]) expect(json).not.toHaveProperty(name)
  })

  it("returns an empty list for a Carbon without organisations", async () => {
    const { access } = await loggedIn(bench, "c:ana", { orgs: [] })
    expect((await bench.production.introspect(access)).json).toMatchObject({
      active: true,
      authorizations: []
    })
  })

  it("expires after 1800 s", async () => {
    const { access } = await loggedIn(bench)
    bench.clock.time += 1_799_999
    expect((await bench.production.introspect(access)).json.active).toBe(true)
    bench.clock.time += 1
    expect((await bench.production.introspect(access)).json).toEqual(inactive)
  })

  it("omits the identity without self.identity.read, except the id", async () => {
    const { access } = await loggedIn(bench, "si:deejay", { scopes: ["self.profile.read"] })
    const { json } = await bench.production.introspect(access, org("acme"))
    expect(json).toMatchObject({ public_id: "si:deejay", authorization: { id: "si:deejay" } })
    expect(json).not.toHaveProperty("actor_type")
    expect(json).not.toHaveProperty("authorization.public_id")
    expect(json).not.toHaveProperty("authorization.actor_type")
  })

  it("shows a removed and a restored membership at once", async () => {
    const { access } = await loggedIn(bench, "c:ana")
    const { controls } = bench.iam
    controls.removeMembership("production", "c:ana", "acme")
    expect((await bench.production.introspect(access, org("acme"))).json).toEqual(inactive)
    expect((await bench.production.introspect(access)).json.authorizations).toMatchObject([
      { org_id: "zenith" }
    ])
    controls.addMembership("production", "c:ana", "acme")
    expect((await bench.production.introspect(access, org("acme"))).json).toMatchObject({
      authorization: { membership_version: 3, authorization_epoch: 3 }
    })
  })

  it("counts only selected organisations", async () => {
    const { access } = await loggedIn(bench, "c:ana", { orgs: ["zenith"] })
    expect((await bench.production.introspect(access, org("acme"))).json).toEqual(inactive)
    expect((await bench.production.introspect(access, org("nowhere"))).json).toEqual(inactive)
  })

  it("answers exactly inactive for unknown and foreign tokens and for an ended session", async () => {
    const { controls } = bench.iam
    const { access, refresh } = await loggedIn(bench)
    const ting = { authorization: basic("ting", bench.seeded.production.tingSecret) }
    for (const value of ["", "x", `oat_${"x".repeat(43)}`, `ort_${"x".repeat(43)}`])
      expect((await bench.production.introspect(value)).text).toBe('{"active":false}')
    for (const value of [access, refresh])
      expect((await bench.production.introspect(value, ting)).json).toEqual(inactive)
    expect((await bench.production.introspect(access)).json.active).toBe(true)
    controls.revokeSession("production", "si:deejay")
    expect((await bench.production.introspect(access)).json).toEqual(inactive)
    expect((await bench.production.introspect(refresh)).json).toEqual(inactive)
  })

  it("refuses a malformed or repeated X-Org-ID and a bad hint", async () => {
    for (const value of ["ac", "Acme", "", "x".repeat(51), ["acme", "acme"]]) {
      const answer = await bench.production.introspect("x", { "x-org-id": value })
      expect(outcome(answer)).toBe("400 invalid_request")
    }
    const hinted = (hint: string) =>
      bench.production.form("/oauth/introspect", { token: "x", token_type_hint: hint })
    expect((await hinted("access_token")).status).toBe(200)
    expect((await hinted("refresh_token")).status).toBe(200)
    expect(outcome(await hinted("id_token"))).toBe("400 invalid_request")
  })

  it("routes by prefix and ignores the hint", async () => {
    const { refresh } = await loggedIn(bench)
    const fields = { token: refresh, token_type_hint: "access_token" }
    expect((await bench.production.form("/oauth/introspect", fields)).json.active).toBe(true)
  })
})

describe("introspection of a refresh token", () => {
  it("returns only the top level, until the family ends", async () => {
    const { refresh } = await loggedIn(bench)
    expect((await bench.production.introspect(refresh)).json).toEqual({
      active: true,
      public_id: "si:deejay",
      actor_type: "silicon",
      client_id: "music",
      session_id: expect.stringMatching(uuid),
      scope: "obo:ting:subscriptions.register obo:ting:tings.send self.identity.read self.profile.read",
      audience: "music",
      issued_at: start / 1000,
      expires_at: start / 1000 + 900 * 86_400,
      authorization_epoch: 1
    })
    const selected = (await bench.production.introspect(refresh, org("acme"))).json
    expect(selected).toMatchObject({ org_id: "acme", membership_id: "si:deejay[acme]" })
    expect(selected).not.toHaveProperty("authorization")
    expect((await bench.production.introspect(refresh, org("zenith"))).json).toEqual(inactive)
  })
})

describe("revocation", () => {
  const active = async (value: string) => (await bench.production.introspect(value)).json.active

  it("of an access token ends that token only", async () => {
    const { access, refresh } = await loggedIn(bench)
    const answer = await bench.production.revoke(access)
    expect(answer.status).toBe(200)
    expect(answer.text).toBe("")
    expect(await active(access)).toBe(false)
    expect(await active(refresh)).toBe(true)
  })

  it("of a refresh token, even a consumed one, ends the family and nothing else", async () => {
    const login = await loggedIn(bench)
    const other = await loggedIn(bench)
    const rotated = await bench.production.refresh(login.refresh)
    expect((await bench.production.revoke(login.refresh)).status).toBe(200)
    for (const value of [
      login.access,
      textAt(rotated.json, "access_token"),
      textAt(rotated.json, "refresh_token")
    ])
      expect(await active(value)).toBe(false)
    expect(bench.iam.controls.familyOf(login.access)?.status).toBe("revoked")
    expect(outcome(await bench.production.refresh(textAt(rotated.json, "refresh_token")))).toBe(
      "400 invalid_grant"
    )
    expect(await active(other.access)).toBe(true)
  })

  it("answers 200 for unknown, foreign and revoked tokens, and does not revoke foreign ones", async () => {
    const { access, refresh } = await loggedIn(bench)
    const authorization = basic("ting", bench.seeded.production.tingSecret)
    for (const token of [access, refresh]) {
      const headers = { authorization, "idempotency-key": key(token) }
      expect((await bench.production.form("/oauth/revoke", { token }, headers)).status).toBe(200)
    }
    expect(await active(access)).toBe(true)
    expect((await bench.production.revoke("x".repeat(4096), key("long"))).status).toBe(200)
    expect((await bench.production.revoke(refresh, key("one"))).status).toBe(200)
    expect((await bench.production.revoke(refresh, key("two"))).status).toBe(200)
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

  it("is replayed for 24 h by the raw token, with any hint; then the key is new", async () => {
    const { access, refresh } = await loggedIn(bench)
    await bench.production.revoke(access, key("one"))
    bench.clock.time += 86_399_999
    const replay = await bench.production.form(
      "/oauth/revoke",
      { token: access, token_type_hint: "access_token" },
      { "idempotency-key": key("one") }
    )
    expect(replay.status).toBe(200)
    expect(replay.headers["idempotency-replayed"]).toBe("true")
    expect(outcome(await bench.production.revoke(refresh, key("one")))).toBe("409 idempotency_conflict")
    bench.clock.time += 1
    const fresh = await bench.production.revoke(refresh, key("one"))
    expect(fresh.status).toBe(200)
    expect(fresh.headers["idempotency-replayed"]).toBeUndefined()
  })
})
