import { assert } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import { productionId } from "../../../../src/services/Plane.ts"
import type { StoreService } from "../../../../src/services/Store.ts"
import { onBoth, sampleEvent } from "../Stores.ts"

const uuid = "0199a0aa-0000-7000-8000-000000000001"
const ana = { plane: productionId, organisation: "acme", publicId: "c:ana" }
const eva = { ...ana, publicId: "c:eva" }
const elsewhere = { ...ana, organisation: "other" }
const inPlane = { ...ana, plane: "env-1" }

const register = ({ recipients }: StoreService) =>
  Effect.all([
    recipients.activate({ ...ana, organisationUuid: uuid }),
    recipients.activate({ ...eva, organisationUuid: uuid }),
    recipients.activate({ ...elsewhere, organisationUuid: "another-uuid" }),
    recipients.activate({ ...inPlane, organisationUuid: uuid })
  ])

const states = ({ recipients }: StoreService) =>
  Effect.all({
    ana: recipients.isActive(ana),
    eva: recipients.isActive(eva),
    elsewhere: recipients.isActive(elsewhere),
    inPlane: recipients.isActive(inPlane)
  })

const allActive = { ana: true, eva: true, elsewhere: true, inPlane: true }

onBoth("Webhooks", ({ freshPath, freshStore, rawQuery, withStore }) => {
  it.scoped("stores text that has a meaning in SQL as it is", function* () {
    const path = yield* freshPath
    const odd = "it's \\'; ROLLBACK; -- /* $1 ? */"
    yield* withStore(path, ({ webhooks }) =>
      webhooks.receive(sampleEvent({ aggregateType: odd, aggregateId: odd, data: odd }), [])
    )
    deepStrictEqual(yield* rawQuery(path, "SELECT aggregate_type, aggregate_id, data FROM webhook_inbox"), [
      { aggregate_type: odd, aggregate_id: odd, data: odd }
    ])
  })

  it.scoped(
    "the first delivery of an event is stored whole; a second one is reported and changes nothing",
    function* () {
      const path = yield* freshPath
      yield* withStore(path, (store) =>
        Effect.gen(function* () {
          yield* register(store)
          const event = sampleEvent({ data: '{"current":{}}' })
          assert.isTrue(yield* store.webhooks.receive(event, []))
          assert.isFalse(yield* store.webhooks.receive({ ...event, data: "{}" }, ["c:ana"]))
          deepStrictEqual(yield* states(store), allActive)
        })
      )
      deepStrictEqual(yield* rawQuery(path, "SELECT * FROM webhook_inbox"), [
        {
          plane: productionId,
          event_id: "0199a0c4-5e2b-7a10-8c3d-1f2e3d4c5b6a",
          event_type: "organization.membership.removed.v1",
          occurred_at: "2026-09-25T10:15:30.123456Z",
          organisation_uuid: uuid,
          aggregate_type: "organization_membership",
          aggregate_id: "0199a0bb-0000-7000-8000-000000000002",
          aggregate_version: 4,
          data: '{"current":{}}',
          received_at: 1_000
        }
      ])
    }
  )

  it.scoped("the same event id in another plane is another event", function* () {
    const { webhooks } = yield* freshStore
    assert.isTrue(yield* webhooks.receive(sampleEvent(), []))
    assert.isTrue(yield* webhooks.receive(sampleEvent({ plane: "env-1" }), []))
  })

  it.scoped("a removed person turns inactive in the event's organisation and plane only", function* () {
    const store = yield* freshStore
    yield* register(store)
    assert.isTrue(yield* store.webhooks.receive(sampleEvent(), ["c:ana", "c:nobody"]))
    deepStrictEqual(yield* states(store), { ...allActive, ana: false })
    assert.isTrue(yield* store.webhooks.receive(sampleEvent({ plane: "env-1" }), ["c:ana"]))
    deepStrictEqual(yield* states(store), { ...allActive, ana: false, inPlane: false })
  })

  it.scoped("a removed person is inactive since the first removal arrived, for retention", function* () {
    const store = yield* freshStore
    yield* register(store)
    yield* store.webhooks.receive(sampleEvent({ receivedAt: 1_000 }), ["c:ana"])
    yield* store.webhooks.receive(sampleEvent({ eventId: "again", receivedAt: 2_000 }), ["c:ana"])
    assert.strictEqual(yield* store.retention.recipients(1_000), 0)
    assert.strictEqual(yield* store.retention.recipients(1_001), 1)
  })

  it.scoped("an event without an organisation removes no recipient", function* () {
    const store = yield* freshStore
    yield* register(store)
    assert.isTrue(yield* store.webhooks.receive(sampleEvent({ organisationUuid: null }), ["c:ana"]))
    deepStrictEqual(yield* states(store), allActive)
  })

  const newer = sampleEvent({
    eventId: "newer",
    eventType: "organization.membership.reactivated.v1",
    aggregateVersion: 5
  })
  const cases = [
    { name: "a newer version of the same aggregate", seen: newer, removes: false },
    { name: "an older version of it", seen: { ...newer, aggregateVersion: 3 }, removes: true },
    { name: "the same version of it", seen: { ...newer, aggregateVersion: 4 }, removes: true },
    { name: "a newer one of another aggregate", seen: { ...newer, aggregateId: "other" }, removes: true },
    { name: "a newer one of another type", seen: { ...newer, aggregateType: "other" }, removes: true },
    { name: "a newer one in another plane", seen: { ...newer, plane: "env-1" }, removes: true }
  ]
  for (const { name, seen, removes } of cases)
    it.scoped(
      `after ${name}, a removal ${removes ? "still counts" : "is kept without effect"}`,
      function* () {
        const store = yield* freshStore
        yield* register(store)
        assert.isTrue(yield* store.webhooks.receive(seen, []))
        assert.isTrue(yield* store.webhooks.receive(sampleEvent(), ["c:ana"]))
        deepStrictEqual(yield* states(store), { ...allActive, ana: !removes })
        assert.isFalse(yield* store.webhooks.receive(sampleEvent(), ["c:ana"]))
      }
    )

  // IAM delivers in order: an undelivered removal holds back the event that the person joined again.
  const happened = Date.parse("2026-09-25T10:15:30.123Z")
  const removal = { ...sampleEvent(), occurredAt: "2026-09-25T10:15:30.123456Z" }
  const registered = { ...ana, organisationUuid: uuid, subscriptionId: "sub_1" }
  const late = [
    { name: "5 minutes before it", at: happened - 300_000, stays: false },
    { name: "in its millisecond", at: happened, stays: false },
    { name: "a millisecond after it", at: happened + 1, stays: true },
    { name: "5 minutes after it", at: happened + 300_000, stays: true }
  ]
  for (const { name, at, stays } of late)
    it.scoped(
      `a late removal ${stays ? "does not undo" : "undoes"} a registration made ${name}`,
      function* () {
        const { recipients, webhooks } = yield* freshStore
        yield* TestClock.setTime(at)
        yield* recipients.activate(registered)
        const receivedAt = happened + 360_000
        yield* TestClock.setTime(receivedAt)
        assert.isTrue(yield* webhooks.receive({ ...removal, receivedAt }, ["c:ana"]))
        assert.strictEqual(yield* recipients.isActive(ana), stays)
      }
    )
})
