import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { type Bench, basic, key, loggedIn, outcome, startBench, textAt } from "./iamClient.ts"

let bench: Bench
beforeEach(async () => {
  bench = await startBench()
})
afterEach(() => bench.iam.close())

const prove = async (access?: string) => {
  const subject = access ?? (await loggedIn(bench)).access
  return textAt((await bench.production.exchange({ subject })).json, "access_proof")
}

describe("verification of a proof", () => {
  it("consumes it and returns issuer, actor, authorization and endpoint", async () => {
    const proof = await prove()
    bench.clock.time += 1000
    const answer = await bench.production.verify(proof)
    expect(answer.status).toBe(200)
    expect(answer.headers.pragma).toBe("no-cache")
    expect(answer.json).toEqual({
      valid: true,
      proof_id: expect.any(String),
      issuer_app_id: "music",
      audience: "ting",
      actor: { type: "silicon", public_id: "si:deejay" },
      authorization: {
        actor_type: "silicon",
        public_id: "si:deejay",
        organization_id: bench.seeded.production.organizations.acme,
        org_id: "acme",
        membership_id: "si:deejay[acme]",
        membership_version: 1,
        authorization_epoch: 1,
        audience: "ting",
        testing_environment_id: null,
        scopes: [
          "obo:ting:subscriptions.register",
          "obo:ting:tings.send",
          "self.identity.read",
          "self.profile.read"
        ],
        org_role: null,
        tags: null
      },
      org_id: "acme",
      endpoint: { endpoint_id: "tings.send", path: "/v1/tings" },
      metadata: {},
      expires_at: "2026-09-25T10:16:30Z",
      consumed_at: "2026-09-25T10:15:31Z"
    })
    expect(outcome(await bench.production.verify(proof))).toBe("409 obo_proof_consumed")
    bench.clock.time += 60_000
    expect(outcome(await bench.production.verify(proof))).toBe("409 obo_proof_consumed")
  })

  it("returns the environment in a testing plane, where a production proof is unknown", async () => {
    const login = await bench.testing.login("si:deejay")
    const exchanged = await bench.testing.exchange({ subject: textAt(login.json, "access_token") })
    const proof = textAt(exchanged.json, "access_proof")
    expect(outcome(await bench.production.verify(proof))).toBe("410 obo_proof_invalid")
    expect(outcome(await bench.testing.verify(await prove()))).toBe("410 obo_proof_invalid")
    expect((await bench.testing.verify(proof)).json).toMatchObject({
      authorization: { testing_environment_id: bench.seeded.environment.environmentId }
    })
  })

  it("refuses an invalid proof, X-Org-ID, and a malformed binding", async () => {
    for (const value of ["", "obo_short", `oat_${"x".repeat(43)}`])
      expect(outcome(await bench.production.verify(value))).toBe("400 invalid_proof")
    const withOrg = await bench.production.verify("", {}, { "x-org-id": "acme" })
    expect(outcome(withOrg)).toBe("400 unsupported_header")
    const proof = await prove()
    expect(outcome(await bench.production.verify(proof, { method: "post" }))).toBe("422 validation_failed")
    expect(outcome(await bench.production.verify(proof, { path: "v1/tings" }))).toBe("422 validation_failed")
  })

  it("is invalid when unknown and for another audience", async () => {
    const proof = await prove()
    expect(outcome(await bench.production.verify(`obo_${"x".repeat(43)}`))).toBe("410 obo_proof_invalid")
    const music = { authorization: basic("music", bench.seeded.production.musicSecret) }
    expect(outcome(await bench.production.verify(proof, {}, music))).toBe("410 obo_proof_invalid")
    expect((await bench.production.verify(proof)).status).toBe(200)
  })

  it("is valid until its expiry", async () => {
    const { access } = await loggedIn(bench)
    const exchange = (name: string) => bench.production.exchange({ subject: access, key: key(name) })
    const early = textAt((await exchange("early")).json, "access_proof")
    const late = textAt((await exchange("late")).json, "access_proof")
    bench.clock.time += 59_999
    expect((await bench.production.verify(early)).status).toBe(200)
    bench.clock.time += 1
    expect(outcome(await bench.production.verify(late, { path: "/v1/other" }))).toBe("410 obo_proof_expired")
  })

  it("is bound to method, path and exact bytes, and a mismatch does not consume it", async () => {
    const proof = await prove()
    for (const change of [{ method: "PUT" }, { path: "/v1/subscriptions" }, { bytes: "{} " }])
      expect(outcome(await bench.production.verify(proof, change))).toBe("403 obo_request_binding_mismatch")
    expect((await bench.production.verify(proof)).status).toBe(200)
  })

  it("is revoked when the membership or the session changed", async () => {
    const { controls } = bench.iam
    const changes = [
      () => controls.removeMembership("production", "si:deejay", "acme"),
      () => controls.revokeSession("production", "si:deejay")
    ]
    for (const [index, change] of changes.entries()) {
      controls.addMembership("production", "si:deejay", "acme")
      const { access } = await loggedIn(bench)
      const answer = await bench.production.exchange({ subject: access, key: key(`change${index}`) })
      controls.withdrawEndpoint("production", "ting", "tings.send")
      change()
      expect(outcome(await bench.production.verify(textAt(answer.json, "access_proof")))).toBe(
        "410 obo_proof_revoked"
      )
      controls.restoreEndpoint("production", "ting", "tings.send")
    }
  })

  it("is revoked with its parent token", async () => {
    const { access } = await loggedIn(bench)
    const proof = await prove(access)
    await bench.production.revoke(access)
    expect(outcome(await bench.production.verify(proof))).toBe("410 obo_proof_revoked")
  })

  it("loses its authority when the endpoint is withdrawn, moved, or no longer approved or consented", async () => {
    const { controls } = bench.iam
    const { access } = await loggedIn(bench)
    const proof = await prove(access)
    const attempt = async () => outcome(await bench.production.verify(proof))
    controls.withdrawEndpoint("production", "ting", "tings.send")
    expect(await attempt()).toBe("403 obo_authority_revoked")
    controls.restoreEndpoint("production", "ting", "tings.send")
    controls.changeEndpointPath("production", "ting", "tings.send", "/v2/tings")
    expect(await attempt()).toBe("403 obo_authority_revoked")
    controls.changeEndpointPath("production", "ting", "tings.send", "/v1/tings")
    controls.setApprovedScopes("production", "music", ["self.identity.read"])
    expect(await attempt()).toBe("403 obo_authority_revoked")
    controls.setApprovedScopes("production", "music", ["self.identity.read", "obo:ting:tings.send"])
    controls.withdrawConsent("production", "si:deejay", "music", ["obo:ting:tings.send"])
    expect(await attempt()).toBe("403 obo_authority_revoked")
  })
})
