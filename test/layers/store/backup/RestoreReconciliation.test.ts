import { assert, expect } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { DeliveryUpdate, type StoreService } from "../../../../src/services/Store.ts"
import { sampleEntry, sampleLease, sampleReport, sampleSpoolLease } from "../Samples.ts"
import { waitFor } from "../../../world/Waiting.ts"
import { onBoth, postgres, reconcile, withPgClient } from "../Stores.ts"

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
  it.scoped("each unfiled report counts as sent once more, and no session is known", function* () {
    const place = yield* freshPath
    const store = yield* openStore(place)
    const { Delivered, Failed, Unknown, Waiting } = DeliveryUpdate
    const later = { availableAt: 99_000, failure }
    yield* reach(store, "leased")
    yield* reach(store, "sending", sending)
    yield* reach(store, "unknown", sending, Unknown({ ...later, searches: 2 }))
    yield* reach(store, "refused", sending, Waiting(later))
    yield* reach(store, "failed", sending, Failed({ at: 4_000, failure }))
    yield* reach(store, "filed", sending, Delivered({ at: 4_000, issue, sweepAt: Option.some(99_000) }))
    yield* store.reports.admit(sampleReport({ id: "waiting", keyDigest: "waiting", createdAt: 1_000 }), true)
    const untouched = Effect.forEach(["report:filed", "sweep:filed"], store.deliveries.find)
    const before = yield* untouched
    yield* store.spool.offer([sampleEntry("waiting")], { limitBytes: 1_000 })
    yield* store.sessionDigests.remember("production", { login: "login", actor: undefined }, [
      { digest: "digest", kind: "access", endsAt: Number.MAX_SAFE_INTEGER }
    ])

    assert.strictEqual(yield* reconcile(place), 6)
    const expected = [
      ["leased", "unknown", 1],
      ["sending", "unknown", 2],
      ["unknown", "unknown", 2],
      ["refused", "unknown", 2],
      ["failed", "failed", 2],
      ["waiting", "unknown", 1]
    ] as const
    for (const [id, state, attempts] of expected) {
      const row = Option.getOrThrow(yield* store.deliveries.find(`report:${id}`))
      const marked = { searches: 0, availableAt: 1_000, sentAt: Option.some(1_000) }
      expect(row).toMatchObject({ subject: id, state, attempts, ...marked })
    }
    deepStrictEqual(yield* untouched, before)
    // Telemetry is shipped as if for the first time.
    const shipped = yield* store.spool.lease(sampleSpoolLease())
    deepStrictEqual([shipped.length, yield* rawQuery(place, "SELECT digest FROM session_digests")], [1, []])
    // A holder can write nothing, also when its lease began after the backup.
    yield* store.deliveries.lease(sampleLease())
    for (const id of ["report:leased", "report:waiting"])
      assert.isFalse(yield* store.deliveries.update(id, 1, sending), id)
  })
})

it.scopedLive("The end of a restore waits for writes to sessions of another process", function* () {
  const place = yield* postgres.freshPath
  const ending = yield* withPgClient(place, async (client) => {
    await client.query("BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('music-backend people', 0))")
    const fiber = Effect.runFork(reconcile(place))
    await waitFor(async () => {
      const waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
      expect([(await client.query(waiting)).rowCount, fiber.unsafePoll()]).toEqual([1, null])
    })
    await client.query("COMMIT")
    return fiber
  })
  assert.strictEqual(yield* Fiber.join(ending), 0)
})
