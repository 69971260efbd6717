/** Who calls: authentication and `me`. */
import { Clock, Effect, Fiber, Redacted, TestClock } from "effect"
import { describe, expect } from "vitest"
import { requestedScopes, scopes } from "../../src/schema/Identity.ts"
import { type Plane, planeId } from "../../src/services/Plane.ts"
import { Sessions } from "../../src/services/usecases/Sessions.ts"
import { Store } from "../../src/services/Store.ts"
import { authenticate, loggedIn, loginAs } from "../world/Logins.ts"
import { StoreSwitches } from "../world/TestStore.ts"
import { callerKey, inRequest, production, scenario } from "../world/UseCaseLayers.ts"
import { codeOf } from "./Codes.ts"

describe("authenticating a bearer", () => {
  scenario("introspects live at every call, and selects the requested organisation", function* () {
    const { iam, session } = yield* loggedIn
    const before = yield* iam.calls("introspect")
    yield* authenticate(session.access_token)
    const { actor, membership } = yield* authenticate(session.access_token)
    expect([actor.public_id, membership.membership_id]).toEqual(["si:deejay", "si:deejay[acme]"])
    expect(yield* iam.calls("introspect")).toBe(before + 2)
    const { access_token } = yield* loginAs({ actor: "c:ana" }, callerKey("ana"))
    for (const handle of ["zenith", "acme"]) {
      const { membership } = yield* authenticate(access_token, handle)
      expect(membership.membership_id).toBe(`c:ana[${handle}]`)
    }
  })

  scenario("answers 403 without the organisation or a public id, and shows a removal at once", function* () {
    const { iam, session } = yield* loggedIn
    expect(yield* Effect.flip(authenticate(session.access_token, "zenith"))).toMatchObject({
      code: "forbidden",
      details: { reason: "organization_not_granted" },
      hint: expect.stringMatching(/choose one of your organisations/i)
    })
    iam.production.withdrawScope(scopes.send)
    expect((yield* authenticate(session.access_token)).membership.scopes).not.toContain(scopes.send)
    iam.production.setMember("si:deejay", "acme", false)
    expect(yield* codeOf(authenticate(session.access_token))).toBe("forbidden")
    // A public id is that of the token, or of the membership.
    iam.production.setMember("si:deejay", "acme", true)
    iam.production.withdrawScope(scopes.identity)
    expect((yield* authenticate(session.access_token)).actor.public_id).toBe("si:deejay")
    yield* iam.alter((found) => ({ ...found, public_id: null }))
    expect(yield* codeOf(authenticate(session.access_token))).toBe("reconsent_required")
  })
})

describe("me", () => {
  const me = (token: string, organisation = "acme", plane: Plane = production) =>
    Effect.gen(function* () {
      const sessions = yield* Sessions
      return yield* sessions.me(plane, yield* authenticate(token, organisation, plane))
    })

  scenario("reports the live session with one introspection, with its scopes in order", function* () {
    const { iam, session } = yield* loggedIn
    const introspections = yield* iam.calls("introspect")
    yield* iam.alter(({ memberships, ...found }) => ({
      ...found,
      memberships: memberships.map((one) => ({ ...one, scopes: [...one.scopes].reverse() }))
    }))
    expect(yield* me(session.access_token)).toEqual({
      authenticated: true,
      session_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      actor: { type: "silicon", public_id: "si:deejay" },
      org_id: "acme",
      membership_id: "si:deejay[acme]",
      scopes: [...requestedScopes],
      ting_ready: true,
      testing_environment_id: null
    })
    expect(yield* iam.calls("introspect")).toBe(introspections + 1)
  })

  scenario("is ting_ready with an active registration and the send scope; needs the database", function* () {
    const { iam, session, store } = yield* loggedIn
    const ready = (token = session.access_token, organisation = "acme", plane: Plane = production) =>
      Effect.map(me(token, organisation, plane), (found) => [found.ting_ready, found.testing_environment_id])
    iam.production.withdrawScope(scopes.send)
    expect(yield* ready()).toEqual([false, null])
    iam.production.approveScope(scopes.send)
    const ana = yield* loginAs({ actor: "c:ana" }, callerKey("ana"))
    for (const organisation of ["acme", "zenith"])
      expect(yield* ready(ana.access_token, organisation)).toEqual([organisation === "acme", null])
    const { plane, state } = yield* iam.environment("e2e")
    state.withdrawScope(scopes.register)
    const request = { token: Redacted.make("si:deejay"), key: callerKey("there") }
    const there = yield* (yield* Sessions).login(plane, request).pipe(inRequest())
    expect(yield* ready(there.access_token, "acme", plane)).toEqual([false, plane.environmentId])
    const deejay = { plane: planeId(production), organisation: "acme", publicId: "si:deejay" }
    const again = { ...deejay, organisationUuid: "made anew" }
    yield* (yield* Store).recipients.deactivate(deejay, Number.MAX_SAFE_INTEGER)
    expect(yield* ready()).toEqual([false, null])
    // The organisation of today has that name, and is another one.
    yield* (yield* Store).recipients.activate(again)
    expect(yield* ready()).toEqual([false, null])
    yield* store.breakDown("recipients.isActive")
    expect(yield* codeOf(ready())).toBe("dependency_unavailable")
  })
})

scenario("A write that hangs, and may be lost, delays a login by 2 s", function* () {
  const held = yield* (yield* StoreSwitches).hold("recipients.activate")
  const startedAt = yield* Clock.currentTimeMillis
  const fiber = yield* Effect.fork(Effect.zipRight(loginAs(), Clock.currentTimeMillis))
  yield* held.arrived
  yield* TestClock.adjust("10 seconds")
  expect((yield* Fiber.join(fiber)) - startedAt).toBe(2_000)
})
