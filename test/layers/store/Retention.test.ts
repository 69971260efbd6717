import { assert, describe, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { DeliveryUpdate } from "../../../src/services/Store.ts"
import { freshStore, sampleEvent, sampleReport } from "./Stores.ts"

const lease = { kind: "report", count: 10, now: 2_000, leaseUntil: 9_000, owner: "worker" } as const

describe("Retention", () => {
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

  it.scoped("keeps a report, however old, until its delivery is over", () =>
    Effect.gen(function* () {
      const { reports, deliveries, retention } = yield* freshStore
      yield* reports.admit(sampleReport({ id: "rep_waiting", keyDigest: "one" }), true)
      yield* reports.admit(sampleReport({ id: "rep_alone", keyDigest: "two" }), false)
      assert.strictEqual(yield* retention.reports(5_000), 1)
      assert.isTrue(Option.isSome(yield* reports.find("rep_waiting")))
      assert.isTrue(Option.isNone(yield* reports.find("rep_alone")))

      const [leased] = yield* deliveries.lease(lease)
      if (leased === undefined) return assert.fail("nothing was leased")
      yield* deliveries.update(leased.id, leased.fence, DeliveryUpdate.Failed({ at: 3_000, failure: "gone" }))
      assert.strictEqual(yield* retention.reports(5_000), 1)
    })
  )

  it.scoped("removes deliveries that ended before the bound, never one that still waits", () =>
    Effect.gen(function* () {
      const { reports, deliveries, retention } = yield* freshStore
      yield* reports.admit(sampleReport({ id: "rep_1", keyDigest: "one" }), true)
      const [leased] = yield* deliveries.lease(lease)
      if (leased === undefined) return assert.fail("nothing was leased")
      yield* reports.admit(sampleReport({ id: "rep_2", keyDigest: "two" }), true)
      yield* deliveries.update(leased.id, leased.fence, DeliveryUpdate.Failed({ at: 3_000, failure: "gone" }))
      assert.strictEqual(yield* retention.deliveries(3_000), 0)
      assert.strictEqual(yield* retention.deliveries(3_001), 1)
      deepStrictEqual(yield* deliveries.counts, [{ kind: "report", state: "waiting", count: 1 }])
    })
  )
})
