import { describe, expect, it } from "vitest"
import { Effect, Metric, Option } from "effect"
import type { WebhookEvent } from "../../src/services/Iam.ts"
import { replays } from "../../src/services/Metrics.ts"
import { planeId } from "../../src/services/Plane.ts"
import { Sessions } from "../../src/services/usecases/Sessions.ts"
import { Store } from "../../src/services/Store.ts"
import { readRemovedPeople, Webhooks } from "../../src/services/usecases/Webhooks.ts"
import { SimulatedIam, type SimulatedIamService } from "../world/SimulatedIam.ts"
import { StoreSwitches } from "../world/TestStore.ts"
import { inRequest, scenario, start } from "../world/UseCaseLayers.ts"
import { codeOf } from "./Codes.ts"

const organisationUuid = "0199a0aa-0000-7000-8000-000000000001"
const removed = "organization.membership.removed.v1"

const resource = { type: "organization_membership", id: "0199a0bb-0000-7000-8000-000000000002", version: 4 }
const row = (publicId: string, status = "removed") => ({
  resource: { ...resource, status },
  principal: { type: "carbon", public_id: publicId, version: 2 }
})
const tombstone = { resource, authorization: "removed" }
const members = (...rows: ReadonlyArray<unknown>) => ({ changed_fields: [], current: { members: rows } })

const eventOf = (change: Partial<WebhookEvent> = {}): WebhookEvent => ({
  testing: Option.none(),
  eventId: "0199a0c4-5e2b-7a10-8c3d-1f2e3d4c5b6a",
  eventType: removed,
  occurredAt: "2026-11-21T10:00:01.123456Z",
  organisationUuid,
  ...{ aggregateType: resource.type, aggregateId: resource.id, aggregateVersion: resource.version },
  data: members(row("c:ana")),
  ...change
})

const deliver = (event: WebhookEvent, options?: Parameters<SimulatedIamService["delivery"]>[1]) =>
  Effect.gen(function* () {
    const iam = yield* SimulatedIam
    const webhooks = yield* Webhooks
    return yield* webhooks.receive(yield* webhooks.verify(yield* iam.delivery(event, options)))
  }).pipe(inRequest())

const ofAcme = { organisation: "acme", organisationUuid }
const register = (publicId: string, plane = "production") =>
  Effect.flatMap(Store, ({ recipients }) => recipients.activate({ ...ofAcme, plane, publicId }))
const isActive = (publicId: string, plane = "production") =>
  Effect.flatMap(Store, ({ recipients }) => recipients.isActive({ ...ofAcme, plane, publicId }))

const inbox = Effect.flatMap(StoreSwitches, (store) => store.seen("webhooks.receive"))

describe("a delivery", () => {
  scenario("is verified, committed, and then acknowledged", function* () {
    expect(yield* deliver(eventOf())).toEqual({ received: true })
    expect(yield* inbox).toEqual([
      [
        {
          plane: "production",
          ...{
            eventId: eventOf().eventId,
            eventType: removed,
            occurredAt: eventOf().occurredAt,
            organisationUuid
          },
          ...{ aggregateType: resource.type, aggregateId: resource.id, aggregateVersion: 4 },
          data: JSON.stringify(members(row("c:ana"))),
          receivedAt: start
        },
        ["c:ana"],
        [expect.stringMatching(/^[0-9a-f]{64}$/)]
      ]
    ])
  })

  scenario("that the database failed to store is 503, so that IAM sends it again", function* () {
    const store = yield* StoreSwitches
    yield* store.breakDown("webhooks.receive")
    expect(yield* Effect.flip(deliver(eventOf()))).toMatchObject({
      code: "dependency_unavailable",
      details: { dependency: "database" },
      retryAfterSeconds: 2
    })
    yield* store.repair("webhooks.receive")
    expect(yield* deliver(eventOf())).toEqual({ received: true })
  })

  scenario("of any type is stored; a removal ends registrations", function* () {
    yield* register("c:ana")
    const eventType = "organization.something.new.v9"
    yield* deliver(eventOf({ eventType, eventId: organisationUuid, organisationUuid: null }))
    expect(yield* isActive("c:ana")).toBe(true)
    yield* deliver(eventOf())
    expect(yield* isActive("c:ana")).toBe(false)
    expect((yield* inbox).slice(0, 1)).toMatchObject([
      [{ eventType, organisationUuid: null }, [], [expect.any(String)]]
    ])
  })

  scenario("is acknowledged without effect when it is a duplicate", function* () {
    const replayed = Effect.map(Metric.value(replays({ operation: "webhook" })), ({ count }) => count)
    const before = yield* replayed
    for (const isDuplicate of [false, true]) {
      yield* register("c:ana")
      expect(yield* deliver(eventOf())).toEqual({ received: true })
      expect([yield* isActive("c:ana"), (yield* replayed) - before]).toEqual(
        isDuplicate ? [true, 1] : [false, 0]
      )
    }
  })
})

const both = { data: members(row("c:ana"), row("si:deejay")) }
const odd = [null, "row", {}, { principal: null }, { principal: { public_id: 7 } }, row("no public id")]
const ofType = (eventType: string) => ({ ...both, eventType })
const rows: ReadonlyArray<readonly [string, Partial<WebhookEvent>, ReadonlyArray<string>]> = [
  ["a member's removal", both, ["c:ana", "si:deejay"]],
  ["a silicon's removal", ofType("organization.silicon.removed.v1"), ["c:ana", "si:deejay"]],
  ...["membership.reactivated.v1", "membership.removed.v2"].map(
    (kind) => [kind, ofType(`organization.${kind}`), []] as const
  ),
  ["the end of a session", ofType("session.logout.v1"), []],
  ["a tombstone", { data: members(tombstone) }, []],
  ["a row beside a tombstone", { data: members(tombstone, row("c:ana")) }, ["c:ana"]],
  ["a row beside that of a member", { data: members(row("c:ben", "active"), row("c:ana")) }, ["c:ana"]],
  ["a row beside odd ones", { data: members(...odd, row("c:ana")) }, ["c:ana"]],
  ...[{}, { current: null }, { current: { members: {} } }].map(
    (data) => ["data of another shape", { data }, []] as const
  )
]
it.each(rows)("the people that a removal names in %s are %o %o", (_, change, people) => {
  expect(readRemovedPeople(eventOf(change))).toEqual(people)
})

describe("a testing delivery", () => {
  const prepared = Effect.gen(function* () {
    const environment = yield* (yield* SimulatedIam).environment("e2e")
    const { resolvePlane } = yield* Sessions
    return { environment, plane: environment.plane, resolve: resolvePlane(Option.some(environment.secret)) }
  })

  scenario("must belong to a plane that was resolved before, and is found by its key's digest", function* () {
    const { environment, plane, resolve } = yield* prepared
    expect(yield* codeOf(deliver(eventOf(), { environment }))).toBe("plane_mismatch")
    expect(yield* inbox).toEqual([])
    yield* resolve
    // An environment id beside the key must agree.
    for (const [from, to] of [
      [plane.environmentId, "0199b000-0000-7000-8000-00000000000f"],
      [environment.rootKey, "0".repeat(32)]
    ] as const) {
      const rewrite = (text: string) => text.replace(from, to)
      expect(yield* codeOf(deliver(eventOf(), { environment, rewrite }))).toBe("plane_mismatch")
    }
    yield* (yield* StoreSwitches).breakDown("planes.findByKeyDigest")
    expect(yield* codeOf(deliver(eventOf(), { environment }))).toBe("dependency_unavailable")
    yield* (yield* StoreSwitches).repair("planes.findByKeyDigest")
    expect(yield* deliver(eventOf(), { environment, withoutEnvironment: true })).toEqual({ received: true })
    expect(yield* inbox).toMatchObject([[{ plane: plane.environmentId }, ["c:ana"], [expect.any(String)]]])
  })

  scenario("never affects production, and production never affects it", function* () {
    const { environment, plane, resolve } = yield* prepared
    yield* resolve
    const active = Effect.all([isActive("c:ana"), isActive("c:ana", planeId(plane))])
    for (const where of ["production", planeId(plane)]) yield* register("c:ana", where)
    yield* deliver(eventOf(), { environment })
    expect(yield* active).toEqual([true, false])
    // The same event id in another plane is another event.
    yield* register("c:ana", planeId(plane))
    yield* deliver(eventOf())
    expect(yield* active).toEqual([false, true])
  })
})
