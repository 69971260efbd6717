/** Who is registered: by logins and tings, by removals that webhooks announce, and by the outcomes of logins; and the known planes. */
import { assert } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import { Effect, Option, TestClock } from "effect"
import type { UpstreamKey } from "../../../../src/services/Iam.ts"
import { productionId } from "../../../../src/services/Plane.ts"
import { LoginOutcome, type StoreService } from "../../../../src/services/Store.ts"
import { sampleEvent } from "../Samples.ts"
import { onBoth } from "../Stores.ts"

const uuid = "0199a0aa-0000-7000-8000-000000000001"
const ana = { plane: productionId, organisation: "acme", organisationUuid: uuid, publicId: "c:ana" }
const registered = { ...ana, subscriptionId: "sub_1" }
/** After every registration. */
const later = Number.MAX_SAFE_INTEGER
const people = {
  ana,
  eva: { ...ana, publicId: "c:eva" },
  elsewhere: { ...ana, organisation: "other", organisationUuid: "another-uuid" },
  inPlane: { ...ana, plane: "env-1" }
}

const active = ({ recipients }: StoreService) =>
  Effect.map(
    Effect.filter(Object.entries(people), ([, person]) => recipients.isActive(person)),
    (found) => found.map(([name]) => name)
  )

onBoth("Registrations", ({ freshStore }) => {
  it.scoped("are per plane, organisation and person, end and begin again", function* () {
    const store = yield* freshStore
    const { recipients } = store
    yield* recipients.activate(registered)
    for (const other of [people.eva, people.elsewhere, people.inPlane])
      yield* recipients.deactivate(other, later)
    deepStrictEqual(yield* active(store), ["ana"])
    for (let twice = 0; twice < 2; twice += 1) yield* recipients.deactivate(ana, later)
    deepStrictEqual(yield* active(store), [])
    // An accepted ting is evidence, also in an organisation that was made anew under its name.
    for (const evidence of [ana, { ...ana, organisationUuid: "uuid-renewed" }]) {
      yield* recipients.activate(evidence)
      assert.isTrue(yield* recipients.isActive(evidence))
    }
    deepStrictEqual(yield* active(store), [])
  })
})

onBoth("Webhooks", ({ freshStore }) => {
  it.scoped("end a registration in their organisation and plane only", function* () {
    const store = yield* freshStore
    const { webhooks } = store
    yield* Effect.forEach(Object.values(people), store.recipients.activate)
    // The longest that the verifier lets through.
    const longest = String.fromCodePoint(...Array.from({ length: 255 }, (_, at) => 0x10_000 + at * 997))
    const named = { aggregateType: longest, aggregateId: longest }
    assert.isTrue(yield* webhooks.receive(sampleEvent({ organisationUuid: null, ...named }), ["c:ana"]))
    deepStrictEqual(yield* active(store), Object.keys(people))
    const again = sampleEvent({ eventId: "again" })
    assert.isTrue(yield* webhooks.receive(again, ["c:ana", "c:nobody"]))
    deepStrictEqual(yield* active(store), ["eva", "elsewhere", "inPlane"])
    assert.isTrue(yield* webhooks.receive({ ...again, plane: "env-1" }, ["c:ana"]))
    deepStrictEqual(yield* active(store), ["eva", "elsewhere"])
  })

  it.scoped("do not end one after a newer version of the same aggregate", function* () {
    const { recipients, webhooks } = yield* freshStore
    const cases = [
      [{}, false],
      [{ aggregateVersion: 3 }, true],
      [{ aggregateVersion: 4 }, true],
      [{ aggregateId: "other" }, true],
      [{ aggregateType: "other" }, true],
      [{ plane: "env-1" }, true]
    ] as const
    for (const [index, [change, removes]] of cases.entries()) {
      const event = sampleEvent({ eventId: `removal ${index}`, aggregateId: `${index}` })
      yield* recipients.activate(registered)
      yield* webhooks.receive({ ...event, eventId: `seen ${index}`, aggregateVersion: 5, ...change }, [])
      assert.isTrue(yield* webhooks.receive(event, ["c:ana"]))
      deepStrictEqual([change, yield* recipients.isActive(ana)], [change, !removes])
      assert.isFalse(yield* webhooks.receive(event, ["c:ana"]))
    }
  })

  // IAM delivers in order: an undelivered removal holds back the event that the person joined again.
  const happened = Date.parse("2026-09-25T10:15:30.123Z")
  it.scoped("that come late leave a registration that began after the removal", function* () {
    const { recipients, webhooks } = yield* freshStore
    for (const [after, stays] of [
      [-300_000, false],
      [0, false],
      [1, true],
      [300_000, true]
    ] as const) {
      // A registration is as new as the last request for it.
      for (const at of [-400_000, after]) {
        yield* TestClock.setTime(happened + at)
        yield* recipients.activate(registered)
      }
      const late = { occurredAt: "2026-09-25T10:15:30.123456Z", receivedAt: happened + 360_000 }
      assert.isTrue(yield* webhooks.receive(sampleEvent({ ...late, eventId: `${after}` }), ["c:ana"]))
      deepStrictEqual([after, yield* recipients.isActive(ana)], [after, stays])
      yield* recipients.deactivate(ana, later)
    }
  })
})

// Keys are made by hashing; any text of their form will do.
const key = (digit: number) => String(digit).repeat(64) as UpstreamKey
const success = LoginOutcome.Registration({
  ting: { subscribed: true, subscription_id: "sub_1" },
  transient: false
})
const failure = LoginOutcome.Registration({
  ting: { subscribed: false, error: "forbidden" },
  transient: false
})
const outage = LoginOutcome.Registration({
  ting: { subscribed: false, error: "dependency_unavailable" },
  transient: true
})
const refusal = LoginOutcome.Refusal({ reason: "no_organization" })
const outcomes = [success, failure, outage, refusal]

onBoth("The outcome of a login", ({ freshStore }) => {
  it.scoped("is returned as it was recorded; the first lasting one stays", function* () {
    const { loginOutcomes } = yield* freshStore
    const pairs = outcomes.flatMap((earlier) => outcomes.map((later) => [earlier, later] as const))
    for (const [index, [earlier, later]] of pairs.entries()) {
      yield* loginOutcomes.record(key(index), earlier)
      deepStrictEqual(yield* loginOutcomes.find(key(index)), Option.some(earlier))
      yield* loginOutcomes.record(key(index), later)
      const stays = earlier === success || earlier === failure
      deepStrictEqual(yield* loginOutcomes.find(key(index)), Option.some(stays ? earlier : later))
    }
  })

  it.scoped("is forgotten after 12 hours, and overwritten", function* () {
    const { loginOutcomes } = yield* freshStore
    yield* loginOutcomes.record(key(1), success)
    yield* TestClock.adjust("43199999 millis")
    deepStrictEqual(yield* loginOutcomes.find(key(1)), Option.some(success))
    yield* TestClock.adjust("1 millis")
    deepStrictEqual(yield* loginOutcomes.find(key(1)), Option.none())
    yield* loginOutcomes.record(key(1), failure)
    deepStrictEqual(yield* loginOutcomes.find(key(1)), Option.some(failure))
  })
})

onBoth("A testing environment", ({ freshStore }) => {
  it.scoped("is found by its newest root key only; of those with one key the last one", function* () {
    const { planes } = yield* freshStore
    for (const [environmentId, keyDigest, ...expected] of [
      ["env-1", "one", "env-1", undefined, undefined],
      ["env-2", "two", "env-1", "env-2", undefined],
      ["env-1", "three", undefined, "env-2", "env-1"],
      ["env-2", "three", undefined, undefined, "env-2"],
      ["env-1", "one", "env-1", undefined, "env-2"],
      ["env-1", "three", undefined, undefined, "env-1"]
    ] as const) {
      yield* TestClock.adjust(1)
      yield* planes.remember(environmentId, keyDigest)
      const found = yield* Effect.forEach(["one", "two", "three"], planes.findByKeyDigest)
      deepStrictEqual(found.map(Option.getOrUndefined), expected)
    }
  })
})
