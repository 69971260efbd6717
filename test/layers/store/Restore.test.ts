/** What a restored copy cannot know: by the command on SQLite, and by the documented statements on PostgreSQL. */
import { readFileSync } from "node:fs"
import { assert, expect } from "vitest"
import { it } from "../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import { Effect, Option } from "effect"
import { DeliveryUpdate, type StoreService } from "../../../src/services/Store.ts"
import { run } from "../../cli/Harness.ts"
import { sampleEntry, sampleLease, sampleReport, sampleSpoolLease } from "./Samples.ts"
import { onBoth } from "./Stores.ts"

const failure = "no answer"
const issue = Option.some({ number: 57, url: "https://github.com/harbor/music/issues/57" })
const documented = () =>
  /<<'SQL'\n(DELETE FROM public\.session_digests;.*?)^SQL$/ms.exec(
    readFileSync("docs/operations.md", "utf8")
  )?.[1]

/** A report whose delivery got these updates, and stays leased without a final one. */
const reach = (
  { deliveries, reports }: StoreService,
  id: string,
  ...updates: ReadonlyArray<DeliveryUpdate>
) =>
  Effect.gen(function* () {
    yield* reports.admit(sampleReport({ id, keyDigest: id, createdAt: 1_000 }), true)
    const leased = Option.getOrThrow(yield* deliveries.lease(sampleLease()))
    for (const update of updates) assert.isTrue(yield* deliveries.update(leased, update))
    return leased
  })

const sending = DeliveryUpdate.Sending({ at: 3_000 })

onBoth("After a restore", ({ freshPath, name, rawQuery, withStore }) => {
  const reconcile = (place: string) =>
    name === "Postgres"
      ? rawQuery(place, documented() ?? assert.fail("docs/operations.md has no statement"))
      : Effect.gen(function* () {
          const environment = { MUSIC_DATABASE_PATH: place }
          expect((yield* run(["backup", `${place}.copy`], environment)).err).toBe("")
          const { json } = yield* run(["restore", `${place}.copy`, "--overwrite", "--json"], environment)
          expect(json).toMatchObject({ doubted: 6 })
        })

  it.scopedLive("each unfiled report counts as sent once more, and no session is known", function* () {
    const place = yield* freshPath
    const { Delivered, Failed, Unknown, Waiting } = DeliveryUpdate
    const later = { availableAt: 99_000, failure }
    const untouched = ({ deliveries }: StoreService) =>
      Effect.forEach(["report:filed", "sweep:filed"], deliveries.find)
    const before = yield* withStore(place, (store) =>
      Effect.gen(function* () {
        yield* reach(store, "unknown", sending, Unknown({ ...later, searches: 2 }))
        yield* reach(store, "refused", sending, Waiting(later))
        yield* reach(store, "failed", sending, Failed({ at: 4_000, failure }))
        yield* reach(store, "filed", sending, Delivered({ at: 4_000, issue, sweepAt: Option.some(99_000) }))
        const leased = yield* reach(store, "sending", sending)
        for (const id of ["leased", "waiting"])
          yield* store.reports.admit(sampleReport({ id, keyDigest: id, createdAt: 1_000 }), true)
        yield* rawQuery(place, "UPDATE deliveries SET lease_until = 9, fence = 1 WHERE subject = 'leased'")
        yield* store.spool.offer([sampleEntry("waiting")], { limitBytes: 1_000 })
        yield* store.sessionDigests.remember({ login: "login", actor: null }, [
          { digest: "digest", endsAt: Number.MAX_SAFE_INTEGER }
        ])
        return { leased, untouched: yield* untouched(store) }
      })
    )
    yield* reconcile(place)
    yield* withStore(place, (store) =>
      Effect.gen(function* () {
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
        deepStrictEqual(yield* untouched(store), before.untouched)
        // Telemetry is shipped as if for the first time.
        const shipped = yield* store.spool.lease(sampleSpoolLease())
        deepStrictEqual(
          [shipped.length, yield* rawQuery(place, "SELECT digest FROM session_digests")],
          [1, []]
        )
        // A holder can write nothing, also when its lease began after the backup.
        yield* store.deliveries.lease(sampleLease())
        for (const id of ["report:leased", "report:waiting"])
          assert.isFalse(yield* store.deliveries.update({ ...before.leased, id }, sending), id)
      })
    )
  })
})
