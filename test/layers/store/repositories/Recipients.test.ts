import { assert } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import { productionId } from "../../../../src/services/Plane.ts"
import { onBoth } from "../Stores.ts"

const ana = { plane: productionId, organisation: "acme", publicId: "c:ana" }
const registered = { ...ana, organisationUuid: "uuid-acme", subscriptionId: "sub_1" }

onBoth("Recipients", ({ freshPath, freshStore, rawQuery, withStore }) => {
  it.scoped("registering is per plane, organisation and person", function* () {
    const { recipients } = yield* freshStore
    yield* recipients.activate(registered)
    assert.isTrue(yield* recipients.isActive(ana))
    assert.isFalse(yield* recipients.isActive({ ...ana, plane: "env-1" }))
    assert.isFalse(yield* recipients.isActive({ ...ana, organisation: "other" }))
    assert.isFalse(yield* recipients.isActive({ ...ana, publicId: "si:ana" }))
  })

  it.scoped(
    "is deactivated and activated again; deactivating twice or for an unknown person has no effect",
    function* () {
      const { recipients } = yield* freshStore
      yield* recipients.deactivate(ana)
      assert.isFalse(yield* recipients.isActive(ana))
      yield* recipients.activate(registered)
      for (const another of [{ plane: "env-1" }, { organisation: "other" }, { publicId: "si:ana" }])
        yield* recipients.deactivate({ ...ana, ...another })
      assert.isTrue(yield* recipients.isActive(ana))
      yield* recipients.deactivate(ana)
      yield* recipients.deactivate(ana)
      assert.isFalse(yield* recipients.isActive(ana))
      yield* recipients.activate(registered)
      assert.isTrue(yield* recipients.isActive(ana))
    }
  )

  it.scoped("an accepted ting activates too, and keeps the subscription's id", function* () {
    const path = yield* freshPath
    const { subscriptionId: _, ...evidence } = registered
    yield* withStore(path, ({ recipients }) =>
      Effect.gen(function* () {
        yield* recipients.activate(registered)
        yield* recipients.deactivate(ana)
        yield* recipients.activate({ ...evidence, organisationUuid: "uuid-renewed" })
        assert.isTrue(yield* recipients.isActive(ana))
      })
    )
    deepStrictEqual(
      yield* rawQuery(path, "SELECT subscription_id, organisation_uuid, active FROM recipients"),
      [{ subscription_id: "sub_1", organisation_uuid: "uuid-renewed", active: 1 }]
    )
  })

  it.scoped(
    "without a change a ting or deactivation is not written; changes and registrations are",
    function* () {
      const path = yield* freshPath
      const { subscriptionId: _, ...evidence } = registered
      yield* withStore(path, ({ recipients }) =>
        Effect.gen(function* () {
          yield* recipients.activate(evidence)
          yield* TestClock.adjust("1 seconds")
          yield* recipients.activate(evidence)
        })
      )
      const changedAt = rawQuery(path, "SELECT changed_at, subscription_id FROM recipients")
      deepStrictEqual(yield* changedAt, [{ changed_at: 0, subscription_id: null }])
      yield* withStore(path, ({ recipients }) => recipients.activate(registered))
      deepStrictEqual(yield* changedAt, [{ changed_at: 1_000, subscription_id: "sub_1" }])
      yield* TestClock.adjust("1 seconds")
      yield* withStore(path, ({ recipients }) => recipients.activate(evidence))
      deepStrictEqual(yield* changedAt, [{ changed_at: 1_000, subscription_id: "sub_1" }])
      // A registration is as new as its request: earlier removals no longer apply.
      yield* withStore(path, ({ recipients }) => recipients.activate(registered))
      deepStrictEqual(yield* changedAt, [{ changed_at: 2_000, subscription_id: "sub_1" }])
      yield* TestClock.adjust("1 seconds")
      // The organisation was made anew under its name.
      yield* withStore(path, ({ recipients }) =>
        recipients.activate({ ...evidence, organisationUuid: "uuid-renewed" })
      )
      deepStrictEqual(yield* changedAt, [{ changed_at: 3_000, subscription_id: "sub_1" }])
      // The first deactivation counts.
      for (let times = 0; times < 2; times += 1) {
        yield* TestClock.adjust("1 seconds")
        yield* withStore(path, ({ recipients }) => recipients.deactivate(ana))
      }
      deepStrictEqual(yield* changedAt, [{ changed_at: 4_000, subscription_id: "sub_1" }])
    }
  )
})
