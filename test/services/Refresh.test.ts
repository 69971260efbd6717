/** The two calls that end what they are given: a refresh rotates a pair, a logout ends a session. */
import { Effect, Redacted, TestClock } from "effect"
import { describe, expect } from "vitest"
import { scopes } from "../../src/schema/Identity.ts"
import { upstreamKey } from "../../src/services/combinators/Idempotency.ts"
import type { Plane } from "../../src/services/Plane.ts"
import { Sessions } from "../../src/services/usecases/Sessions.ts"
import { Refused } from "../../src/services/UpstreamFailure.ts"
import { isLive, login, loginAs, logout } from "../world/Logins.ts"
import { type Login, SimulatedIam } from "../world/SimulatedIam.ts"
import { callerKey, inRequest, production, scenario } from "../world/UseCaseLayers.ts"
import { codeOf } from "./Codes.ts"

const refresh = (token: string, key = callerKey("refresh"), plane: Plane = production) =>
  Effect.flatMap(Sessions, (sessions) => sessions.refresh(plane, { token: Redacted.make(token), key })).pipe(
    inRequest()
  )

/** A session; of the deejay by default. */
const session = (who: Partial<Login> = {}) =>
  Effect.gen(function* () {
    const iam = yield* SimulatedIam
    const made = yield* loginAs(who)
    return { iam, made, token: made.refresh_token, access: made.access_token }
  })
const x = (count: number) => "x".repeat(count)
const identities = [scopes.identity, "self.profile.read"]

describe("a refresh", () => {
  scenario("rotates the pair in two round trips, and returns the session without `ting`", function* () {
    const { access, iam, made, token } = yield* session()
    const before = [yield* iam.calls("introspect"), yield* iam.calls("prove")]
    const fresh = yield* refresh(token, callerKey("mine"))
    const { ting: _, ...shape } = made
    expect(fresh).toEqual({ ...shape, access_token: expect.any(String), refresh_token: expect.any(String) })
    expect([fresh.access_token === access, fresh.refresh_token === token]).toEqual([false, false])
    expect(yield* isLive(access)).toBe(true)
    expect(yield* iam.keys("refresh")).toEqual([upstreamKey("refresh", production, callerKey("mine"))])
    // The last one is that of `isLive`.
    expect([(yield* iam.calls("introspect")) - 2, yield* iam.calls("prove")]).toEqual(before)
    // Replayed for 10 minutes, with the rest of its lifetime.
    yield* TestClock.adjust("599 seconds")
    expect(yield* refresh(token, callerKey("mine"))).toEqual({ ...fresh, expires_in: 1201 })
    yield* TestClock.adjust("1 seconds")
    expect(yield* codeOf(refresh(token, callerKey("mine")))).toBe("idempotency_response_expired")
  })

  scenario("never adds scopes, and keeps its actor after the identity scope was withdrawn", function* () {
    const { iam, token } = yield* session({ scopes: identities })
    const fresh = yield* refresh(token)
    expect(fresh.scope).toBe(identities.join(" "))
    iam.production.withdrawScope(scopes.identity)
    expect(yield* refresh(fresh.refresh_token, callerKey("next"))).toMatchObject({
      actor: { public_id: "si:deejay" },
      scope: "self.profile.read"
    })
  })

  scenario("without an organisation or a public id is a refusal; the family stays alive", function* () {
    const { iam, token } = yield* session()
    iam.production.setMember("si:deejay", "acme", false)
    expect(yield* Effect.flip(refresh(token))).toMatchObject({
      code: "forbidden",
      details: { reason: "no_organization" }
    })
    iam.production.setMember("si:deejay", "acme", true)
    iam.production.withdrawScope(scopes.identity)
    yield* iam.alter((found) => ({ ...found, public_id: null }))
    expect(yield* codeOf(refresh(token))).toBe("reconsent_required")
    yield* iam.alter((found) => found)
    expect((yield* refresh(token)).actor.public_id).toBe("si:deejay")
  })

  scenario("of a consumed token under a new key revokes the family, and says to log in", function* () {
    const { access, iam, token } = yield* session()
    const fresh = yield* refresh(token)
    const details = { dependency: "iam", upstream_code: "invalid_grant" }
    for (const [refused, more] of [
      [refresh(token, callerKey("new")), { details }],
      [refresh("nonsense"), {}]
    ] as const)
      expect(yield* Effect.flip(refused)).toMatchObject({
        ...more,
        code: "unauthenticated",
        hint: expect.stringMatching(/^Log in again(?!.*(?:access token|refresh the session))/),
        message: expect.stringMatching(/refresh token/)
      })
    expect(yield* iam.calls("refresh")).toBe(2)
    for (const one of [access, fresh.access_token]) expect(yield* isLive(one)).toBe(false)
    expect(yield* codeOf(refresh(fresh.refresh_token, callerKey("next")))).toBe("unauthenticated")
  })

  scenario("of a string that is no well-formed token is 401 without a call", function* () {
    const { iam } = yield* session()
    const odd = ["", `ort_${x(27)}`, `ort_${x(8189)}`, `ort_${x(40)} `, `oat_${x(43)}`]
    for (const token of odd) expect(yield* codeOf(refresh(token))).toBe("unauthenticated")
    expect(yield* iam.calls("refresh")).toBe(0)
    for (const token of [`ort_${x(28)}`, `ort_${x(8_188)}`])
      expect(yield* codeOf(refresh(token, callerKey(String(token.length))))).toBe("unauthenticated")
    expect(yield* iam.calls("refresh")).toBe(2)
  })

  scenario("in a testing plane names the plane", function* () {
    const { plane, state } = yield* (yield* SimulatedIam).environment("e2e")
    state.addActor("si:tester", ["acme"])
    const made = yield* login(Redacted.make("si:tester"), callerKey("login"), plane)
    const fresh = yield* refresh(made.refresh_token, callerKey("refresh"), plane)
    expect(fresh.testing_environment_id).toBe(plane.environmentId)
  })
})

describe("a logout", () => {
  scenario("with a refresh token, also a spent one, ends its session; an access token itself", function* () {
    const { access, token } = yield* session()
    const other = yield* loginAs({}, callerKey("other"))
    const fresh = yield* refresh(token)
    yield* logout(access)
    for (const [one, alive] of [
      [access, false],
      [fresh.access_token, true]
    ] as const)
      expect(yield* isLive(one)).toBe(alive)
    yield* logout(token, callerKey("all"))
    expect([yield* isLive(fresh.access_token), yield* isLive(other.access_token)]).toEqual([false, true])
  })

  scenario("succeeds without a call for a token that IAM never issued", function* () {
    const { iam } = yield* session()
    const odd = ["", `obo_${x(43)}`, `Bearer oat_${x(43)}`, `oat_${x(27)}`, `ort_${x(4093)}`]
    for (const token of odd) yield* logout(token)
    expect(yield* iam.calls("revoke")).toBe(0)
    const possible = [`oat_${x(43)}`, `ort_${x(28)}`, `ort_${x(4_092)}`]
    for (const token of possible) yield* logout(token, callerKey(String(token.length)))
    expect(yield* iam.revoked).toEqual(possible)
  })

  scenario("is replayed under its derived key, and succeeds after the replay window", function* () {
    const { iam, token } = yield* session()
    yield* logout(token, callerKey("mine"))
    const expired = { status: 409, code: "idempotency_response_expired", requestId: "iam-request" }
    yield* iam.failNext("revoke", new Refused({ dependency: "iam", ...expired }))
    yield* logout(token, callerKey("mine"))
    const key = upstreamKey("logout", production, callerKey("mine"))
    expect(yield* iam.keys("revoke")).toEqual([key, key])
  })
})
