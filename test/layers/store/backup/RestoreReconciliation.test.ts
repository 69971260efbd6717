import { assert } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { DeliveryUpdate, type StoreService } from "../../../../src/services/Store.ts"
import { sampleEntry, sampleLease, sampleReport, sampleSpoolLease } from "../Samples.ts"
import { onBoth, reconcile } from "../Stores.ts"

const failure = "no answer"
const issue = Option.some({ number: 57, url: "https://github.com/harbor/music/issues/57" })

/** Leases the only due delivery. */
const leaseOne = ({ deliveries }: StoreService, now: number) =>
  Effect.flatMap(deliveries.lease(sampleLease({ count: 1, now })), ([delivery]) =>
    delivery === undefined ? Effect.dieMessage("nothing was due") : Effect.succeed(delivery)
  )

/** A report whose delivery got these updates, and stays leased without a final one. */
const reach = (store: StoreService, id: string, ...updates: ReadonlyArray<DeliveryUpdate>) =>
  Effect.gen(function* () {
    yield* store.reports.admit(sampleReport({ id, keyDigest: id, createdAt: 1_000 }), true)
    const { fence, id: delivery } = yield* leaseOne(store, 2_000)
    for (const update of updates) assert.isTrue(yield* store.deliveries.update(delivery, fence, update))
  })

const sending = DeliveryUpdate.Sending({ at: 3_000 })

onBoth("After a restore", ({ freshPath, openStore, rawQuery }) => {
  it.scoped("each unfiled report counts as sent once more, and no other row changes", function* () {
    const place = yield* freshPath
    const store = yield* openStore(place)
    yield* reach(store, "leased")
    yield* reach(store, "sending", sending)
    yield* reach(
      store,
      "unknown",
      sending,
      DeliveryUpdate.Unknown({ availableAt: 99_000, failure, searches: 2 })
    )
    yield* reach(store, "refused", sending, DeliveryUpdate.Waiting({ availableAt: 99_000, failure }))
    yield* reach(store, "failed", sending, DeliveryUpdate.Failed({ at: 4_000, failure }))
    yield* reach(
      store,
      "filed",
      sending,
      DeliveryUpdate.Delivered({ at: 4_000, issue, sweepAt: Option.some(99_000) })
    )
    yield* store.reports.admit(sampleReport({ id: "waiting", keyDigest: "waiting", createdAt: 1_000 }), true)
    const untouched = Effect.forEach(["report:filed", "sweep:filed"], store.deliveries.find)
    const before = yield* untouched
    yield* store.spool.offer([sampleEntry("waiting")], { limitBytes: 1_000 })

    assert.strictEqual(yield* reconcile(place), 6)
    const rows = yield* Effect.forEach(
      ["leased", "sending", "unknown", "refused", "failed", "waiting"],
      (id) => Effect.map(store.deliveries.find(`report:${id}`), Option.getOrThrow)
    )
    deepStrictEqual(
      rows.map(({ attempts, availableAt, searches, sentAt, state, subject }) => [
        subject,
        state,
        attempts,
        searches,
        availableAt,
        Option.getOrNull(sentAt)
      ]),
      [
        ["leased", "unknown", 1, 0, 1_000, 1_000],
        ["sending", "unknown", 2, 0, 1_000, 1_000],
        ["unknown", "unknown", 2, 0, 1_000, 1_000],
        ["refused", "unknown", 2, 0, 1_000, 1_000],
        ["failed", "failed", 2, 0, 1_000, 1_000],
        ["waiting", "unknown", 1, 0, 1_000, 1_000]
      ]
    )
    deepStrictEqual(yield* untouched, before)
    // Telemetry is shipped as if for the first time.
    deepStrictEqual(
      (yield* store.spool.lease(sampleSpoolLease())).map(({ recordId }) => recordId),
      ["waiting"]
    )
  })

  it.scoped("a delivery in a state of a later version keeps the state and is marked", function* () {
    const place = yield* freshPath
    const store = yield* openStore(place)
    yield* reach(store, "deferred", DeliveryUpdate.Waiting({ availableAt: 9_000, failure }))
    yield* rawQuery(place, "UPDATE deliveries SET state = 'deferred'")
    yield* reconcile(place)
    const { attempts, sentAt, state } = Option.getOrThrow(yield* store.deliveries.find("report:deferred"))
    deepStrictEqual([state, attempts, sentAt], ["deferred", 1, Option.some(1_000)])
  })

  it.scoped("no session has a digest, and the holder of an earlier lease can write nothing", function* () {
    const place = yield* freshPath
    const store = yield* openStore(place)
    const login = { login: "login", actor: undefined }
    yield* store.sessionDigests.remember("production", login, [
      { digest: "digest", kind: "access", endsAt: Number.MAX_SAFE_INTEGER }
    ])
    yield* reach(store, "leased")
    yield* reconcile(place)
    deepStrictEqual(yield* rawQuery(place, "SELECT digest FROM session_digests"), [])
    assert.isFalse(yield* store.deliveries.update("report:leased", 1, sending))
  })
})
