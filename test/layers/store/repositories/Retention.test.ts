import { assert, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import type { UpstreamKey } from "../../../../src/services/Iam.ts"
import { productionId } from "../../../../src/services/Plane.ts"
import { DeliveryUpdate, LoginOutcome } from "../../../../src/services/Store.ts"
import { onBoth, sampleEntry, sampleEvent, sampleLease, sampleReport, sampleSpoolLease } from "../Stores.ts"

const filed = (at: number) =>
  DeliveryUpdate.Delivered({
    at,
    issue: Option.some({ number: 57, url: "https://github.com/harbor/music/issues/57" }),
    sweepAt: Option.none()
  })

onBoth("Retention", ({ freshStore }) => {
  it.scoped("removes webhooks received before the bound, and only those", () =>
    Effect.gen(function* () {
      const { webhooks, retention } = yield* freshStore
      const old = sampleEvent({ eventId: "old", receivedAt: 999 })
      const young = sampleEvent({ eventId: "young", receivedAt: 1_000 })
      yield* Effect.forEach([old, young], (event) => webhooks.receive(event, []))
      assert.strictEqual(yield* retention.webhooks(1_000), 1)
      assert.strictEqual(yield* retention.webhooks(1_000), 0)
      assert.isTrue(yield* webhooks.receive(old, []))
      assert.isFalse(yield* webhooks.receive(young, []))
    })
  )

  it.scoped("keeps a report of any age until its delivery is over", () =>
    Effect.gen(function* () {
      const { reports, deliveries, retention } = yield* freshStore
      yield* reports.admit(sampleReport({ id: "rep_waiting", keyDigest: "one" }), true)
      yield* reports.admit(sampleReport({ id: "rep_alone", keyDigest: "two" }), false)
      assert.strictEqual(yield* retention.reports(5_000), 1)
      assert.isTrue(Option.isSome(yield* reports.find("rep_waiting")))
      assert.isTrue(Option.isNone(yield* reports.find("rep_alone")))

      const [leased] = yield* deliveries.lease(sampleLease())
      if (leased === undefined) return assert.fail("nothing was leased")
      yield* deliveries.update(leased.id, leased.fence, DeliveryUpdate.Failed({ at: 3_000, failure: "gone" }))
      assert.strictEqual(yield* retention.reports(5_000), 1)
    })
  )

  it.scoped("removes deliveries that ended before the bound, never an open one", () =>
    Effect.gen(function* () {
      const { reports, deliveries, retention } = yield* freshStore
      yield* reports.admit(sampleReport({ id: "rep_1", keyDigest: "one" }), true)
      const [leased] = yield* deliveries.lease(sampleLease())
      if (leased === undefined) return assert.fail("nothing was leased")
      yield* reports.admit(sampleReport({ id: "rep_2", keyDigest: "two" }), true)
      yield* deliveries.update(leased.id, leased.fence, filed(3_000))
      assert.strictEqual(yield* retention.deliveries(3_000), 0)
      assert.strictEqual(yield* retention.deliveries(3_001), 1)
      deepStrictEqual(yield* deliveries.counts, [{ kind: "report", state: "waiting", count: 1 }])
    })
  )

  it.scoped("keeps the delivery of an unfiled report as long as the report", () =>
    Effect.gen(function* () {
      const { reports, deliveries, retention } = yield* freshStore
      const kept = Effect.forEach(["rep_failed", "rep_discarded", "rep_filed"], (id) =>
        Effect.map(
          deliveries.find(`report:${id}`),
          Option.flatMap(({ lastFailure }) => lastFailure)
        )
      )
      for (const id of ["rep_failed", "rep_discarded", "rep_filed"])
        yield* reports.admit(sampleReport({ id, keyDigest: id }), true)
      for (const { fence, id, subject } of yield* deliveries.lease(sampleLease())) {
        if (subject === "rep_failed")
          yield* deliveries.update(id, fence, DeliveryUpdate.Failed({ at: 3_000, failure: "refused: 422" }))
        if (subject === "rep_filed") yield* deliveries.update(id, fence, filed(3_000))
        if (subject === "rep_discarded")
          yield* deliveries.update(
            id,
            fence,
            DeliveryUpdate.Waiting({ availableAt: 9_000, failure: "rate limited" })
          )
      }
      yield* deliveries.discard("report:rep_discarded", 3_000, "spam")
      assert.strictEqual(yield* retention.deliveries(9_000), 1)
      deepStrictEqual(yield* kept, [Option.some("refused: 422"), Option.some("spam"), Option.none()])

      assert.strictEqual(yield* retention.reports(9_000), 3)
      assert.strictEqual(yield* retention.deliveries(9_000), 2)
      deepStrictEqual(yield* kept, [Option.none(), Option.none(), Option.none()])
    })
  )

  it.scoped("removes registrations that became inactive before the bound, never an active one", () =>
    Effect.gen(function* () {
      const { recipients, retention } = yield* freshStore
      const person = (publicId: string) => ({ plane: productionId, organisation: "acme", publicId })
      const register = (publicId: string) =>
        recipients.activate({ ...person(publicId), organisationUuid: "uuid-acme" })
      yield* Effect.forEach(["c:ana", "c:eva", "c:leo"], register)
      yield* TestClock.setTime(1_000)
      yield* recipients.deactivate(person("c:ana"))
      yield* TestClock.setTime(2_000)
      yield* recipients.deactivate(person("c:eva"))
      assert.strictEqual(yield* retention.recipients(1_000), 0)
      assert.strictEqual(yield* retention.recipients(2_000), 1)
      assert.strictEqual(yield* retention.recipients(9_000), 1)
      assert.isTrue(yield* recipients.isActive(person("c:leo")))
      assert.isFalse(yield* recipients.isActive(person("c:ana")))
    })
  )

  it.scoped("removes outcomes of logins recorded before the bound", () =>
    Effect.gen(function* () {
      const { loginOutcomes, retention } = yield* freshStore
      // Keys are made by hashing; any text of their form will do.
      const key = (digit: string) => digit.repeat(64) as UpstreamKey
      const record = (digit: string) =>
        loginOutcomes.record(key(digit), productionId, LoginOutcome.Refusal({ reason: "no_organization" }))
      yield* record("a")
      yield* TestClock.setTime(1_000)
      yield* record("b")
      assert.strictEqual(yield* retention.loginOutcomes(1_000), 1)
      assert.isTrue(Option.isNone(yield* loginOutcomes.find(key("a"))))
      assert.isTrue(Option.isSome(yield* loginOutcomes.find(key("b"))))
    })
  )

  it.scoped("removes refusals listed before the bound, a few hundred a call", () =>
    Effect.gen(function* () {
      const { spool, retention } = yield* freshStore
      const refuse = (ids: ReadonlyArray<string>, now: number) =>
        Effect.gen(function* () {
          yield* spool.offer(
            ids.map((id) => sampleEntry(id)),
            { limitBytes: 1_000_000 }
          )
          yield* spool.lease(sampleSpoolLease({ now }))
          const refused = ids.map((recordId) => ({ recordId, code: "invalid" }))
          yield* spool.settle({ owner: "worker", now, delivered: [], duplicates: [], refused })
        })
      yield* refuse(
        Array.from({ length: 250 }, (_, index) => `old-${index}`),
        1_999
      )
      yield* refuse(["young"], 2_000)
      assert.strictEqual(yield* retention.refusals(2_000), 200)
      assert.strictEqual(yield* retention.refusals(2_000), 50)
      assert.strictEqual(yield* retention.refusals(2_000), 0)
    })
  )
})
