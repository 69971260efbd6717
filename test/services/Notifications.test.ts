/** Tings and subscriptions, the proofs that they need, and what is known of their recipients. */
import { Effect, Fiber, TestClock } from "effect"
import { describe, expect } from "vitest"
import { toEnvelope } from "../../src/schema/Envelope.ts"
import { scopes } from "../../src/schema/Identity.ts"
import { type TingRequest, tingBodyLimit } from "../../src/schema/Ting.ts"
import { Notifications } from "../../src/services/usecases/Notifications.ts"
import type { Caller } from "../../src/services/Iam.ts"
import { Sessions } from "../../src/services/usecases/Sessions.ts"
import type { PreparedCall } from "../../src/services/Ting.ts"
import { Refused } from "../../src/services/UpstreamFailure.ts"
import { fired, prepared, settle } from "../world/Sending.ts"
import { StoreSwitches } from "../world/TestStore.ts"
import {
  advanceClockDuring,
  inRequest,
  lost,
  production,
  scenario,
  signedIn
} from "../world/UseCaseLayers.ts"
import { codeOf } from "./Codes.ts"

const read = (body: Uint8Array | undefined): unknown => JSON.parse(new TextDecoder().decode(body))
const deejay = { plane: "production", organisation: "acme", publicId: "si:deejay" }
const unregistered = prepared({ registered: false })

const without = ({ membership, ...caller }: Caller, scope: string): Caller => ({
  ...caller,
  membership: { ...membership, scopes: membership.scopes.filter((name) => name !== scope) }
})

describe("a ting", () => {
  scenario("is that of the verified session; the same again is a replay with a new proof", function* () {
    const { iam, proofs, send, sends } = yield* prepared()
    const sent = yield* send({ metadata: { mood: "calm" } })
    expect(sent).toEqual({
      id: expect.stringMatching(/^msg_/),
      created_at: "2026-11-21T10:00:00.400001Z",
      key: fired.key,
      silent: false,
      replayed: false
    })
    expect(read((yield* sends)[0])).toEqual({
      org_id: "acme",
      type: fired.type,
      for: "si:deejay",
      key: fired.key,
      data: { trigger: 7 },
      metadata: { mood: "calm" }
    })
    expect(yield* send({ metadata: { mood: "calm" } })).toEqual({ ...sent, replayed: true })
    yield* send({ key: "si:deejay/plain" })
    expect(read((yield* sends)[2])).not.toHaveProperty("metadata")
    expect(yield* iam.calls("prove")).toBe(proofs + 3)
  })

  const keys = ["trigger/7", "si:deejay", "si:deejay2/x", "si:other/x", " si:deejay/x", "SI:deejay/x"]
  const refused: ReadonlyArray<readonly [Partial<TingRequest>, string]> = [
    ...keys.map((key) => [{ key }, "invalid_input"] as const),
    [{ type: "music.trigger.other" }, "not_found"]
  ]
  scenario("with the key of another or an unknown type is refused before a proof is requested", function* () {
    const { iam, proofs, send } = yield* prepared()
    for (const [request, code] of refused) {
      const failure = yield* Effect.flip(send(request))
      expect([failure.code, yield* iam.calls("prove")]).toEqual([code, proofs])
      if (request.key === undefined) continue
      expect(failure.details?.fields?.map(({ path }) => path)).toEqual(["key"])
      expect(JSON.stringify(toEnvelope(failure))).not.toContain(request.key)
    }
    yield* send({ type: "music.trigger.expired" })
  })

  scenario("has at most 262,144 bytes; a larger one is refused before a proof is requested", function* () {
    const { iam, proofs, send, sends } = yield* prepared()
    yield* send()
    const room = tingBodyLimit - ((yield* sends)[0]?.length ?? 0) - ',"note":""'.length
    const filled = (bytes: number) => ({
      key: "si:deejay/trigger/7/large",
      // Two bytes a character: the limit counts bytes, not characters or UTF-16 units.
      data: { trigger: 7, note: "é".repeat(Math.floor(bytes / 2)) + "x".repeat(bytes % 2) }
    })
    yield* send(filled(room))
    expect((yield* sends).at(-1)?.length).toBe(262_144)
    expect(yield* codeOf(send(filled(room + 1)))).toBe("payload_too_large")
    expect(yield* iam.calls("prove")).toBe(proofs + 2)
  })

  scenario("whose answer is lost is sent again with another proof, and accepted once", function* () {
    const { send, ting } = yield* prepared()
    yield* ting.failNext("send", lost("ting"), { when: "after" })
    expect((yield* advanceClockDuring(send())).replayed).toBe(true)
  })

  scenario("shares one call with an equal one; other content under its key is a conflict", function* () {
    const { send, ting } = yield* prepared()
    const held = yield* ting.hold("send")
    const first = yield* Effect.fork(send())
    yield* held.arrived
    const second = yield* Effect.fork(send())
    yield* settle
    yield* held.release
    const sent = yield* Fiber.join(first)
    expect(yield* Fiber.join(second)).toEqual({ ...sent, replayed: true })
    expect([sent.replayed, yield* ting.calls("send")]).toEqual([false, 1])
    const { code, details } = yield* Effect.flip(send({ data: { trigger: 8 } }))
    expect([code, details?.upstream_code]).toEqual(["idempotency_conflict", "idempotency_conflict"])
  })
})

scenario("the scopes of a session are checked before a proof is requested", function* () {
  const { caller, iam, plane, proofs } = yield* unregistered
  const notifications = yield* Notifications
  const refused = "reconsent_required"
  for (const scope of [scopes.identity, scopes.send])
    expect(yield* codeOf(notifications.send(plane, without(caller, scope), fired))).toBe(refused)
  for (const scope of [scopes.identity, scopes.register])
    expect(yield* codeOf(notifications.subscribe(plane, without(caller, scope)))).toBe(refused)
  expect(yield* iam.calls("prove")).toBe(proofs)
  yield* notifications.subscribe(plane, without(caller, scopes.send))
  yield* notifications.send(plane, without(caller, scopes.register), fired)
})

scenario("a subscription registers the caller, also after a revoked grant, and is recorded", function* () {
  const { caller, store, subscribe, ting } = yield* unregistered
  const { organization_id: organisationUuid } = caller.membership
  const recorded = store.recipients.isActive({ ...deejay, organisationUuid })
  expect(yield* recorded).toBe(false)
  const made = yield* subscribe
  expect(made).toEqual({
    id: expect.stringMatching(/^sub_/),
    app_id: "music",
    for: "si:deejay",
    active: true
  })
  const [[call] = []] = yield* ting.seen<[PreparedCall]>("register")
  expect(read(call?.body)).toEqual({ org_id: "acme", app_id: "music", for: "si:deejay" })
  expect(yield* ting.isRegistered(deejay)).toBe(true)
  expect(yield* recorded).toBe(true)
  expect(yield* (yield* StoreSwitches).seen("recipients.activate")).toEqual([
    [{ ...deejay, organisationUuid, subscriptionId: made.id }]
  ])
  yield* ting.revokeGrant(deejay)
  yield* (yield* StoreSwitches).breakDown("recipients.activate")
  expect((yield* subscribe).id).toBe(made.id)
  expect(yield* ting.isRegistered(deejay)).toBe(true)
})

describe("ting_ready", () => {
  const ready = Effect.gen(function* () {
    const { me } = yield* Sessions
    const { caller, plane } = yield* signedIn()
    return (yield* me(plane, caller)).ting_ready
  })

  scenario("turns false after a recipient_not_registered, and true after an accepted ting", function* () {
    const { send, store, ting } = yield* prepared()
    // Without the database it is not known, and the ting is sent all the same.
    yield* (yield* StoreSwitches).breakDown("recipients.isActive")
    expect((yield* send()).replayed).toBe(false)
    yield* (yield* StoreSwitches).repair("recipients.isActive")
    yield* ting.revokeGrant(deejay)
    expect(yield* codeOf(send({ key: "si:deejay/other" }))).toBe("recipient_not_registered")
    expect(yield* ready).toBe(false)
    expect((yield* send()).replayed).toBe(true)
    expect(yield* ready).toBe(false)
    yield* (yield* Notifications).subscribe(production, (yield* signedIn()).caller)
    // On no other failure, and written only when it changes.
    const writes = (yield* StoreSwitches).seen("recipients.activate")
    const before = yield* writes
    const denied = { status: 403, code: "permission_denied", requestId: "req_ting" }
    yield* ting.failNext("send", new Refused({ dependency: "ting", ...denied }))
    const details = { dependency: "ting", upstream_code: denied.code, upstream_request_id: denied.requestId }
    expect((yield* Effect.flip(send())).details).toEqual(details)
    yield* send()
    expect([yield* ready, yield* writes]).toEqual([true, before])
    yield* store.recipients.deactivate(deejay, Number.MAX_SAFE_INTEGER)
    yield* send({ key: "si:deejay/third" })
    expect(yield* ready).toBe(true)
  })

  scenario("stays true after a recipient_not_registered that a subscription overtook", function* () {
    const { send, subscribe, ting } = yield* prepared()
    yield* ting.revokeGrant(deejay)
    const held = yield* (yield* StoreSwitches).hold("recipients.deactivate")
    const refused = yield* Effect.fork(codeOf(send()))
    yield* held.arrived
    yield* TestClock.adjust("1 second")
    yield* subscribe
    yield* held.release
    expect(yield* Fiber.join(refused)).toBe("recipient_not_registered")
    expect(yield* ready).toBe(true)
  })

  scenario("is that of the organisation in which the ting was accepted", function* () {
    const { caller, plane, store } = yield* prepared()
    const membership = { ...caller.membership, organization_id: "made anew" }
    yield* (yield* Notifications).send(plane, { ...caller, membership }, fired).pipe(inRequest())
    expect(yield* store.recipients.isActive({ ...deejay, organisationUuid: "made anew" })).toBe(true)
  })
})
