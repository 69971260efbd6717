import { assert, describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import type { WebhookEvent } from "../../src/services/Iam.ts"
import { replays } from "../../src/services/Metrics.ts"
import { planeId } from "../../src/services/Plane.ts"
import { Planes } from "../../src/services/Planes.ts"
import { Store } from "../../src/services/Store.ts"
import { readRemovedPeople, Webhooks } from "../../src/services/Webhooks.ts"
import { SimulatedIam, type SimulatedIamService } from "../support/SimulatedIam.ts"
import { StoreSwitches } from "../support/TestStore.ts"
import { inRequest, scenario, start } from "../support/UseCaseLayers.ts"

const organisationUuid = "0199a0aa-0000-7000-8000-000000000001"
const removed = "organization.membership.removed.v1"

const row = (publicId: string, status = "removed") => ({
  resource: {
    type: "organization_membership",
    id: "0199a0bb-0000-7000-8000-000000000002",
    status,
    version: 4
  },
  principal: { type: "carbon", public_id: publicId, version: 2 }
})
const tombstone = { resource: row("c:ana").resource, authorization: "removed" }
const members = (...rows: ReadonlyArray<unknown>) => ({ changed_fields: [], current: { members: rows } })

const eventOf = (change: Partial<WebhookEvent> = {}): WebhookEvent => ({
  plane: { _tag: "Production" },
  eventId: "0199a0c4-5e2b-7a10-8c3d-1f2e3d4c5b6a",
  eventType: removed,
  occurredAt: "2026-11-21T10:00:01.123456Z",
  organisationUuid: Option.some(organisationUuid),
  aggregate: { type: "organization_membership", id: "0199a0bb-0000-7000-8000-000000000002", version: 4 },
  data: members(row("c:ana")),
  ...change
})

const deliver = (event: WebhookEvent, options?: Parameters<SimulatedIamService["delivery"]>[1]) =>
  Effect.gen(function* () {
    const iam = yield* SimulatedIam
    const webhooks = yield* Webhooks
    return yield* webhooks.receive(yield* webhooks.verify(yield* iam.delivery(event, options)))
  }).pipe(inRequest())

const recipient = (publicId: string, plane = "production", organisation = "acme") => ({
  plane,
  organisation,
  publicId
})

const register = (publicId: string, plane = "production", organisation = "acme", uuid = organisationUuid) =>
  Effect.flatMap(Store, (store) =>
    store.recipients.activate({ ...recipient(publicId, plane, organisation), organisationUuid: uuid })
  )

const isActive = (publicId: string, plane = "production", organisation = "acme") =>
  Effect.flatMap(Store, (store) => store.recipients.isActive(recipient(publicId, plane, organisation)))

const inbox = Effect.flatMap(StoreSwitches, (store) => store.seen("webhooks.receive"))

describe("a delivery", () => {
  scenario("is verified, committed, and then acknowledged", function* () {
    deepStrictEqual(yield* deliver(eventOf()), { received: true })
    expect(yield* inbox).toEqual([
      [
        {
          plane: "production",
          eventId: "0199a0c4-5e2b-7a10-8c3d-1f2e3d4c5b6a",
          eventType: removed,
          occurredAt: "2026-11-21T10:00:01.123456Z",
          organisationUuid,
          aggregateType: "organization_membership",
          aggregateId: "0199a0bb-0000-7000-8000-000000000002",
          aggregateVersion: 4,
          data: JSON.stringify(members(row("c:ana"))),
          receivedAt: start
        },
        ["c:ana"],
        [expect.stringMatching(/^[0-9a-f]{64}$/)]
      ]
    ])
  })

  scenario("with an invalid signature is 401, and nothing is stored", function* () {
    const webhooks = yield* Webhooks
    const iam = yield* SimulatedIam
    const { rawHeaders, body } = yield* iam.delivery(eventOf())
    const spaced = new Uint8Array([...body, 0x20])
    const failure = yield* Effect.flip(webhooks.verify({ rawHeaders, body: spaced }))
    assert.strictEqual(failure.code, "webhook_signature_invalid")
    assert.isEmpty(yield* inbox)
  })

  scenario("that the database failed to store is 503, so that IAM sends it again", function* () {
    const store = yield* StoreSwitches
    yield* store.breakDown("webhooks.receive")
    const failure = yield* Effect.flip(deliver(eventOf()))
    assert.strictEqual(failure.code, "dependency_unavailable")
    yield* store.repair("webhooks.receive")
    deepStrictEqual(yield* deliver(eventOf()), { received: true })
  })

  scenario("without an organisation is stored without one", function* () {
    yield* deliver(eventOf({ eventType: "carbon.updated.v1", organisationUuid: Option.none(), data: {} }))
    const [[event] = []] = yield* inbox
    assert.propertyVal(event, "organisationUuid", null)
  })

  scenario("is acknowledged without effect when it is a duplicate", function* () {
    yield* register("c:ana")
    yield* deliver(eventOf())
    assert.isFalse(yield* isActive("c:ana"))
    yield* register("c:ana")
    const replayed = Effect.map(Metric.value(replays({ operation: "webhook" })), ({ count }) => count)
    const before = yield* replayed
    deepStrictEqual(yield* deliver(eventOf()), { received: true })
    assert.isTrue(yield* isActive("c:ana"))
    assert.strictEqual((yield* replayed) - before, 1)
  })

  scenario("of an unknown type is stored and acknowledged", function* () {
    yield* register("c:ana")
    const eventType = "organization.something.new.v9"
    deepStrictEqual(yield* deliver(eventOf({ eventType })), { received: true })
    assert.isTrue(yield* isActive("c:ana"))
    assert.strictEqual((yield* inbox).length, 1)
  })
})

describe("a removal", () => {
  scenario("deactivates the registrations of the named people, in that organisation only", function* () {
    yield* register("c:ana")
    yield* register("c:ben")
    yield* register("si:deejay")
    yield* register("c:ana", "production", "harbor", "0199a0aa-0000-7000-8000-000000000009")
    yield* deliver(eventOf({ data: members(row("c:ana"), row("si:deejay")) }))
    assert.isFalse(yield* isActive("c:ana"))
    assert.isFalse(yield* isActive("si:deejay"))
    assert.isTrue(yield* isActive("c:ben"))
    assert.isTrue(yield* isActive("c:ana", "production", "harbor"))
  })

  scenario("that is older than the newest event of the member has no effect", function* () {
    const { aggregate } = eventOf()
    yield* deliver(
      eventOf({
        eventId: "0199a0c4-5e2b-7a10-8c3d-1f2e3d4c5b6b",
        eventType: "organization.membership.reactivated.v1",
        aggregate: { ...aggregate, version: 5 }
      })
    )
    yield* register("c:ana")
    yield* deliver(eventOf())
    assert.isTrue(yield* isActive("c:ana"))
  })
})

describe("the people that a removal names", () => {
  it("are those of a member or a silicon removal, in ascending order", () => {
    deepStrictEqual(readRemovedPeople(eventOf({ data: members(row("c:ana"), row("si:deejay")) })), [
      "c:ana",
      "si:deejay"
    ])
    const eventType = "organization.silicon.removed.v1"
    deepStrictEqual(readRemovedPeople(eventOf({ eventType, data: members(row("si:deejay")) })), ["si:deejay"])
  })

  it("are none in any other event", () => {
    for (const eventType of [
      "organization.membership.created.v1",
      "organization.membership.updated.v1",
      "organization.membership.reactivated.v1",
      "organization.membership.removed.v2",
      "session.logout.v1"
    ]) {
      deepStrictEqual(readRemovedPeople(eventOf({ eventType })), [])
    }
  })

  it("are none in a tombstone", () => {
    deepStrictEqual(readRemovedPeople(eventOf({ data: members(tombstone) })), [])
    deepStrictEqual(readRemovedPeople(eventOf({ data: members(tombstone, row("c:ana")) })), ["c:ana"])
  })

  it("exclude a person who is still a member, also beside rows of others", () => {
    deepStrictEqual(readRemovedPeople(eventOf({ data: members(row("c:ben", "active"), row("c:ana")) })), [
      "c:ana"
    ])
  })

  it("are those of every readable row, whatever the other rows contain", () => {
    const odd = [null, "row", {}, { principal: null }, { principal: { public_id: 7 } }, row("no public id")]
    deepStrictEqual(readRemovedPeople(eventOf({ data: members(...odd, row("c:ana")) })), ["c:ana"])
  })

  it("are none in data of another shape", () => {
    for (const data of [{}, { current: null }, { current: { members: {} } }, { current: {} }]) {
      deepStrictEqual(readRemovedPeople(eventOf({ data })), [])
    }
  })
})

describe("a testing delivery", () => {
  const prepared = Effect.gen(function* () {
    const environment = yield* (yield* SimulatedIam).environment("e2e")
    const planes = yield* Planes
    return { environment, plane: environment.plane, resolve: planes.resolve(Option.some(environment.secret)) }
  })

  scenario("must belong to a plane that was resolved before, else 403", function* () {
    const { environment, plane, resolve } = yield* prepared
    const failure = yield* Effect.flip(deliver(eventOf(), { environment }))
    assert.strictEqual(failure.code, "plane_mismatch")
    assert.isEmpty(yield* inbox)
    yield* resolve
    deepStrictEqual(yield* deliver(eventOf(), { environment }), { received: true })
    const [[event] = []] = yield* inbox
    assert.propertyVal(event, "plane", plane.environmentId)
  })

  scenario("is found by its key's digest; an environment id beside it must agree", function* () {
    const { environment, plane, resolve } = yield* prepared
    yield* resolve
    const rewrite = (text: string) =>
      text.replace(plane.environmentId, "0199b000-0000-7000-8000-00000000000f")
    const elsewhere = deliver(eventOf(), { environment, rewrite })
    assert.strictEqual((yield* Effect.flip(elsewhere)).code, "plane_mismatch")
    const silent = deliver(eventOf(), { environment, withoutEnvironment: true })
    deepStrictEqual(yield* silent, { received: true })
  })

  scenario("with a key of another environment is 403, although its id is known", function* () {
    const { environment, resolve } = yield* prepared
    yield* resolve
    const rewrite = (text: string) => text.replace(environment.rootKey, "0".repeat(32))
    const forged = deliver(eventOf(), { environment, rewrite })
    assert.strictEqual((yield* Effect.flip(forged)).code, "plane_mismatch")
  })

  scenario("never affects production, and production never affects it", function* () {
    const { environment, plane, resolve } = yield* prepared
    yield* resolve
    yield* register("c:ana")
    yield* register("c:ana", planeId(plane))
    yield* deliver(eventOf(), { environment })
    assert.isTrue(yield* isActive("c:ana"))
    assert.isFalse(yield* isActive("c:ana", planeId(plane)))
    // The same event id in another plane is another event.
    yield* register("c:ana", planeId(plane))
    yield* deliver(eventOf())
    assert.isFalse(yield* isActive("c:ana"))
    assert.isTrue(yield* isActive("c:ana", planeId(plane)))
  })

  scenario("is not acknowledged while the database cannot resolve its plane", function* () {
    const { environment, resolve } = yield* prepared
    yield* resolve
    yield* (yield* StoreSwitches).breakDown("planes.findByKeyDigest")
    assert.strictEqual(
      (yield* Effect.flip(deliver(eventOf(), { environment }))).code,
      "dependency_unavailable"
    )
  })
})
