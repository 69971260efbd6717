import { assert, describe } from "vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { requestedScopes, scopes } from "../../src/schema/Identity.ts"
import { type Plane, planeId } from "../../src/services/Plane.ts"
import { Sessions } from "../../src/services/Sessions.ts"
import { Store } from "../../src/services/Store.ts"
import { Refused } from "../../src/services/UpstreamFailure.ts"
import { authenticate, loggedIn, loginAs, unknownToken } from "../support/Logins.ts"
import {
  callerKey,
  inRequest,
  lost,
  advanceClockDuring,
  production,
  scenario,
  unreachable
} from "../support/UseCaseLayers.ts"

const refresh = (token: string) =>
  Effect.flatMap(Sessions, (sessions) =>
    sessions.refresh(production, { refreshToken: Redacted.make(token), key: callerKey("refresh") })
  ).pipe(inRequest())

describe("authenticating a bearer", () => {
  scenario("introspects live at every call, without naming an organisation", function* () {
    const { iam, session } = yield* loggedIn
    const before = yield* iam.calls("introspect")
    const caller = yield* authenticate(session.access_token)
    yield* authenticate(session.access_token)
    assert.strictEqual(yield* iam.calls("introspect"), before + 2)
    deepStrictEqual(caller.actor, { type: "silicon", public_id: "si:deejay" })
    assert.strictEqual(caller.membership.membershipId, "si:deejay[acme]")
  })

  scenario("answers 401 to a dead token: unknown, expired, revoked, or of another plane", function* () {
    const { iam, session } = yield* loggedIn
    const { plane } = yield* iam.environment("e2e")
    const dead = (token: string, where: Plane = production) =>
      Effect.map(Effect.flip(authenticate(token, "acme", where)), ({ code }) => code)
    assert.strictEqual(yield* dead(unknownToken), "unauthenticated")
    assert.strictEqual(yield* dead(session.access_token, plane), "unauthenticated")
    const revoked = yield* loginAs({}, callerKey("login again"))
    yield* authenticate(revoked.access_token)
    yield* Effect.flatMap(Sessions, (sessions) =>
      sessions.logout(production, {
        token: Redacted.make(revoked.refresh_token),
        key: callerKey("logout")
      })
    ).pipe(inRequest())
    assert.strictEqual(yield* dead(revoked.access_token), "unauthenticated")
    yield* authenticate(session.access_token)
    yield* TestClock.adjust("1800 seconds")
    assert.strictEqual(yield* dead(session.access_token), "unauthenticated")
  })

  scenario("answers 403 to a live token without the organisation, with a hint", function* () {
    const { session } = yield* loggedIn
    const failure = yield* Effect.flip(authenticate(session.access_token, "zenith"))
    assert.strictEqual(failure.code, "forbidden")
    deepStrictEqual(failure.details, { reason: "organization_not_granted" })
    assert.match(failure.hint, /choose one of your organisations/i)
  })

  scenario("shows a removal and a withdrawn scope at once", function* () {
    const { iam, session } = yield* loggedIn
    iam.production.withdrawScope(scopes.send)
    const caller = yield* authenticate(session.access_token)
    assert.notInclude(caller.membership.scopes, scopes.send)
    iam.production.setMember("si:deejay", "acme", false)
    assert.strictEqual((yield* Effect.flip(authenticate(session.access_token))).code, "forbidden")
  })

  scenario("selects the requested organisation from all of the token's", function* () {
    yield* loggedIn
    const { access_token } = yield* loginAs({ actor: "c:ana" }, callerKey("ana"))
    assert.strictEqual((yield* authenticate(access_token, "zenith")).membership.membershipId, "c:ana[zenith]")
    assert.strictEqual((yield* authenticate(access_token, "acme")).membership.membershipId, "c:ana[acme]")
  })

  scenario("names the caller by the token's own public id without the identity scope", function* () {
    const { iam, session } = yield* loggedIn
    iam.production.withdrawScope(scopes.identity)
    const caller = yield* authenticate(session.access_token)
    deepStrictEqual(caller.actor, { type: "silicon", public_id: "si:deejay" })
  })

  scenario("requires a new login when nothing names the caller", function* () {
    const { iam, session } = yield* loggedIn
    iam.production.withdrawScope(scopes.identity)
    yield* iam.alter((found) => ({ ...found, publicId: Option.none() }))
    assert.strictEqual((yield* Effect.flip(authenticate(session.access_token))).code, "reconsent_required")
  })

  scenario("retries after a lost answer, because introspection is a read", function* () {
    const { iam, session } = yield* loggedIn
    yield* iam.failNext("introspect", lost("iam"), { times: 2 })
    assert.strictEqual(
      (yield* advanceClockDuring(authenticate(session.access_token))).actor.public_id,
      "si:deejay"
    )
  })

  scenario("is never a logout in an outage (503) or at a limit (429, at once)", function* () {
    const { iam, session } = yield* loggedIn
    yield* iam.failNext("introspect", unreachable("iam"), { times: 3 })
    const outage = yield* advanceClockDuring(Effect.flip(authenticate(session.access_token)))
    assert.strictEqual(outage.code, "dependency_unavailable")
    const limited = new Refused({
      dependency: "iam",
      status: 429,
      code: "rate_limited",
      retryAfterSeconds: 9
    })
    yield* iam.failNext("introspect", limited)
    const failure = yield* Effect.flip(authenticate(session.access_token))
    assert.strictEqual(failure.code, "rate_limited")
    assert.strictEqual(failure.retryAfterSeconds, 9)
  })

  scenario("answers testing_secret_invalid in a testing plane whose secret was revoked", function* () {
    const { iam } = yield* loggedIn
    const environment = yield* iam.environment("e2e")
    yield* iam.deleteEnvironment(environment)
    const failure = yield* Effect.flip(authenticate(unknownToken, "acme", environment.plane))
    assert.strictEqual(failure.code, "testing_secret_invalid")
  })
})

describe("me", () => {
  const me = (token: string, organisation = "acme", plane: Plane = production) =>
    Effect.gen(function* () {
      const sessions = yield* Sessions
      return yield* sessions.me(plane, yield* authenticate(token, organisation, plane))
    })

  scenario("reports the live session with one introspection", function* () {
    const { iam, session } = yield* loggedIn
    const introspections = yield* iam.calls("introspect")
    const { session_id, ...rest } = yield* me(session.access_token)
    assert.match(session_id, /^[0-9a-f-]{36}$/)
    deepStrictEqual(rest, {
      authenticated: true,
      actor: { type: "silicon", public_id: "si:deejay" },
      org_id: "acme",
      membership_id: "si:deejay[acme]",
      scopes: [...requestedScopes],
      ting_ready: true,
      testing_environment_id: null
    })
    assert.strictEqual(yield* iam.calls("introspect"), introspections + 1)
  })

  scenario("keeps its session id across a refresh", function* () {
    const { session } = yield* loggedIn
    const fresh = yield* refresh(session.refresh_token)
    assert.strictEqual(
      (yield* me(fresh.access_token)).session_id,
      (yield* me(session.access_token)).session_id
    )
  })

  scenario("sorts the scopes", function* () {
    const { iam, session } = yield* loggedIn
    yield* iam.alter((found) => ({
      ...found,
      memberships: found.memberships.map((membership) => ({
        ...membership,
        scopes: [...membership.scopes].reverse()
      }))
    }))
    deepStrictEqual((yield* me(session.access_token)).scopes, [...requestedScopes])
  })

  scenario("is ting_ready only with both an active registration and the send scope", function* () {
    const { iam, session } = yield* loggedIn
    assert.isTrue((yield* me(session.access_token)).ting_ready)
    iam.production.withdrawScope(scopes.send)
    assert.isFalse((yield* me(session.access_token)).ting_ready)
    iam.production.approveScope(scopes.send)
    const store = yield* Store
    const deejay = { plane: planeId(production), organisation: "acme", publicId: "si:deejay" }
    yield* store.recipients.deactivate(deejay)
    assert.isFalse((yield* me(session.access_token)).ting_ready)
  })

  scenario("reports ting_ready per organisation", function* () {
    yield* loggedIn
    const { access_token } = yield* loginAs({ actor: "c:ana" }, callerKey("ana"))
    assert.isTrue((yield* me(access_token, "acme")).ting_ready, "where the login registered")
    assert.isFalse((yield* me(access_token, "zenith")).ting_ready)
  })

  scenario("reports ting_ready per plane, and names its plane", function* () {
    const { iam } = yield* loggedIn
    const sessions = yield* Sessions
    const { plane, state } = yield* iam.environment("e2e")
    const request = { slt: Redacted.make("si:deejay"), key: callerKey("there") }
    state.withdrawScope(scopes.register)
    const there = yield* sessions.login(plane, request).pipe(inRequest())
    const found = yield* me(there.access_token, "acme", plane)
    assert.isFalse(found.ting_ready)
    assert.strictEqual(found.testing_environment_id, plane.environmentId)
  })

  scenario("is 503 when the database does not answer", function* () {
    const { session, store } = yield* loggedIn
    yield* store.breakDown("recipients.isActive")
    const failure = yield* Effect.flip(me(session.access_token))
    assert.strictEqual(failure.code, "dependency_unavailable")
    deepStrictEqual(failure.details, { dependency: "database" })
  })
})
