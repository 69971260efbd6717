import { assert, describe } from "vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { scopes } from "../../src/schema/Identity.ts"
import { Notifications } from "../../src/services/Notifications.ts"
import { Sessions } from "../../src/services/Sessions.ts"
import { Store } from "../../src/services/Store.ts"
import { prepared, settle } from "../support/Sending.ts"
import { SimulatedIam } from "../support/SimulatedIam.ts"
import { tingRefusal } from "../support/SimulatedTing.ts"
import { StoreSwitches } from "../support/TestStore.ts"
import { inRequest, scenario, signedIn } from "../support/UseCaseLayers.ts"

const deejay = { plane: "production", organisation: "acme", publicId: "si:deejay" }
describe("ting_ready", () => {
  const ready = Effect.flatMap(Store, (store) => store.recipients.isActive(deejay))

  scenario("turns false after a recipient_not_registered", function* () {
    const { send, ting } = yield* prepared()
    assert.isTrue(yield* ready)
    yield* ting.revokeGrant(deejay)
    assert.strictEqual((yield* Effect.flip(send())).code, "recipient_not_registered")
    assert.isFalse(yield* ready)
  })

  scenario("turns true after an accepted ting", function* () {
    const { send, store } = yield* prepared()
    yield* store.recipients.deactivate(deejay)
    yield* send()
    assert.isTrue(yield* ready)
  })

  scenario("does not change on a replay: Ting replays also after the grant was revoked", function* () {
    const { send, store, ting } = yield* prepared()
    yield* send()
    yield* ting.revokeGrant(deejay)
    yield* store.recipients.deactivate(deejay)
    assert.isTrue((yield* send()).replayed)
    assert.isFalse(yield* ready)
  })

  scenario("does not change on any other failure", function* () {
    const { send, ting } = yield* prepared()
    for (const [status, code] of [
      [403, "permission_denied"],
      [404, "not_found"],
      [429, "temporarily_rate_limited"]
    ] as const) {
      yield* ting.failNext("send", tingRefusal(status, code))
      yield* Effect.flip(send())
    }
    assert.isTrue(yield* ready)
  })

  scenario("is optional: a write that fails affects neither a ting nor its refusal", function* () {
    const { send, ting } = yield* prepared()
    const store = yield* StoreSwitches
    yield* store.breakDown("recipients.isActive")
    assert.isFalse((yield* send()).replayed)
    yield* ting.revokeGrant(deejay)
    const failure = yield* Effect.flip(send({ key: "si:deejay/another" }))
    assert.strictEqual(failure.code, "recipient_not_registered")
  })

  scenario("is written only when it changes: other tings cost no commit", function* () {
    const { send } = yield* prepared()
    const store = yield* StoreSwitches
    const before = (yield* store.seen("recipients.activate")).length
    yield* send()
    assert.strictEqual((yield* store.seen("recipients.activate")).length, before)
  })

  scenario("is separate for each plane", function* () {
    yield* prepared()
    const there = yield* prepared({ environment: "e2e", registered: false })
    yield* Effect.flip(there.send())
    assert.isTrue(yield* ready)
    yield* there.subscribe
    assert.isFalse((yield* there.send()).replayed)
  })
})

describe("the subscription", () => {
  scenario("registers the caller as a recipient and returns the subscription", function* () {
    const { subscribe, ting } = yield* prepared({ registered: false })
    const made = yield* subscribe
    assert.match(made.id, /^sub_/)
    deepStrictEqual({ ...made, id: "" }, { id: "", app_id: "music", for: "si:deejay", active: true })
    assert.isTrue(yield* ting.isRegistered(deejay))
    assert.strictEqual((yield* subscribe).id, made.id, "a second call retries")
  })

  scenario("restores a grant that the recipient revoked, because it is their explicit request", function* () {
    const { subscribe, ting } = yield* prepared()
    yield* ting.revokeGrant(deejay)
    yield* subscribe
    assert.isTrue(yield* ting.isRegistered(deejay))
  })

  scenario("is reconsent_required without its scope, before a proof is requested", function* () {
    const { caller, iam, plane, proofs } = yield* prepared({ registered: false })
    const held = caller.membership.scopes.filter((name) => name !== scopes.register)
    const notifications = yield* Notifications
    const lacking = { ...caller, membership: { ...caller.membership, scopes: held } }
    const failure = yield* Effect.flip(notifications.subscribe(plane, lacking))
    assert.strictEqual(failure.code, "reconsent_required")
    assert.strictEqual(yield* iam.calls("prove"), proofs)
  })

  scenario("shares one execution between two concurrent requests", function* () {
    const { subscribe, ting } = yield* prepared({ registered: false })
    const held = yield* ting.hold("register")
    const both = yield* Effect.fork(Effect.all([subscribe, subscribe], { concurrency: "unbounded" }))
    yield* held.arrived
    yield* settle
    yield* held.release
    const [first, second] = yield* Fiber.join(both)
    deepStrictEqual(first, second)
    assert.strictEqual(yield* ting.calls("register"), 1)
  })

  scenario("shares none with another caller or another organisation", function* () {
    const iam = yield* SimulatedIam
    iam.production.addActor("c:ana", ["zenith"])
    const { caller, plane, ting } = yield* prepared({ actor: "c:ana", registered: false })
    const sessions = yield* Sessions
    const elsewhere = yield* sessions.authenticate(plane, {
      ...caller.credential,
      organisation: "zenith"
    })
    const singer = yield* signedIn({ actor: "si:singer" })
    const notifications = yield* Notifications
    const held = yield* ting.hold("register")
    const all = yield* Effect.fork(
      Effect.forEach(
        [caller, elsewhere, singer.caller],
        (one) => notifications.subscribe(plane, one).pipe(inRequest()),
        { concurrency: "unbounded" }
      )
    )
    yield* held.arrived
    yield* settle
    yield* held.release
    const made = yield* Fiber.join(all)
    deepStrictEqual(
      made.map((subscription) => subscription.for),
      ["c:ana", "c:ana", "si:singer"]
    )
    assert.strictEqual(new Set(made.map(({ id }) => id)).size, 3)
  })
})
