/** The worker that brings stored reports to the tracker: one at a time, leased, woken by the store. */
import { randomUUID } from "node:crypto"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import { markerOf } from "../../services/IssueDraft.ts"
import { type Delivery, Store, type StoreUnavailable } from "../../services/Store.ts"
import { Tracker } from "../../services/Tracker.ts"
import { describe, makeDestination } from "./Destination.ts"
import { makeFiling } from "./ReportFiling.ts"
import { longestWait, untilWoken } from "./Worker.ts"

/** Milliseconds; longer than any one call to the tracker. */
const leaseMillis = 60_000
/** When a second look for duplicates is due after a report was sent again: the tracker's lists can lag (issue-tracker.md 4.6). */
const sweepDelay = Duration.hours(1)
/** Milliseconds between looks into the store when another process holds what is due. */
const shortestWait = 250

export const makeReportDelivery = (
  reconcileSeconds: ReadonlyArray<number>
): Effect.Effect<Effect.Effect<never, StoreUnavailable>, never, Store | Tracker | Scope.Scope> =>
  Effect.gen(function* () {
    const store = yield* Store
    const tracker = yield* Tracker
    const scope = yield* Effect.scope
    const destination = yield* makeDestination("The tracker")
    const turn = yield* Effect.makeSemaphore(1)
    const owner = yield* Effect.sync(() => `reports-${randomUUID()}`)

    const filing = makeFiling({
      store,
      tracker,
      destination,
      reconcileSeconds,
      sentAgain: (report, since) =>
        lateLook(markerOf(report), since).pipe(
          turn.withPermits(1),
          Effect.delay(sweepDelay),
          Effect.catchAll((failure) =>
            Effect.logWarning("No late look for duplicates", {
              report: report.id,
              failure: describe(failure)
            })
          ),
          Effect.forkIn(scope)
        )
    })

    const lateLook = (marker: string, since: number) =>
      Effect.gen(function* () {
        yield* destination.open
        const [original, ...copies] = yield* tracker.findByMarker(marker, since)
        if (original !== undefined) yield* filing.closeCopies(original, copies)
      })

    /** Ends when the lease is lost. */
    const heartbeat = ({ fence, id }: Delivery): Effect.Effect<void> =>
      Effect.gen(function* () {
        yield* Effect.sleep(leaseMillis / 3)
        const now = yield* Clock.currentTimeMillis
        return yield* store.deliveries.extend(id, fence, now + leaseMillis)
      }).pipe(
        // A failed extension is tried again; the lease may hold until then.
        Effect.catchAll(() => Effect.succeed(true)),
        Effect.repeat({ while: (held) => held }),
        Effect.zipRight(
          Effect.logWarning("A lease was lost while a report was being handled", { delivery: id })
        )
      )

    const handle = (delivery: Delivery) =>
      Effect.raceFirst(filing.handle(delivery), heartbeat(delivery)).pipe(
        Effect.annotateLogs({ report: delivery.subject })
      )

    /** False when nothing is due. */
    const next = Effect.gen(function* () {
      yield* destination.open
      const now = yield* Clock.currentTimeMillis
      const leased = yield* store.deliveries.lease({
        kind: "report",
        count: 1,
        now,
        leaseUntil: now + leaseMillis,
        owner
      })
      yield* Effect.forEach(leased, handle, { discard: true })
      return leased.length > 0
    }).pipe(turn.withPermits(1))

    const idle = Effect.gen(function* () {
      const dueAt = yield* store.deliveries.nextDueAt("report")
      const now = yield* Clock.currentTimeMillis
      const wait = Option.match(dueAt, {
        onNone: () => longestWait,
        onSome: (at) => Math.max(shortestWait, at - now)
      })
      yield* untilWoken(store.wakeups.deliveries, wait)
    })

    return Effect.forever(Effect.flatMap(next, (worked) => (worked ? Effect.void : idle)))
  })
