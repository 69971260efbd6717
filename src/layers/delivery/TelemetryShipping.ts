/** The worker that ships the telemetry spool to the table service: at least once, one request in flight (table-service.md 3 to 7). */
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import type { TableName } from "../../schema/Telemetry.ts"
import { Store, type StoreUnavailable, tablesDestination } from "../../services/Store.ts"
import { Tables } from "../../services/Tables.ts"
import type { DeliveryLimits } from "./DeliveryLimits.ts"
import { longestPausedSleep, makeDestinationBreaker } from "./DestinationBreaker.ts"
import { repeatThroughOutages } from "./Outages.ts"
import { makeTableBreaker } from "./TableBreaker.ts"
import { makeTelemetryBatch, Paused } from "./TelemetryBatch.ts"
import { isFull, leaseRecords, releaseRecords } from "./TelemetryLease.ts"

const batchCount = 200
/** Milliseconds: below the 5 minutes for which the service recognises a record whose answer was lost (table-service.md 4). */
const longestBackoff = 30_000

export interface TelemetryShipping {
  readonly run: Effect.Effect<never>
  /** Any process found that the service does not know the key of a table. */
  readonly anyClosed: Effect.Effect<boolean, StoreUnavailable>
}

/** What a round leads to: the next one at once, after the batch delay, or after a wake-up. */
type Next = "more" | "some" | "nothing"

export const makeTelemetryShipping = (
  limits: DeliveryLimits
): Effect.Effect<TelemetryShipping, never, Store | Tables> =>
  Effect.gen(function* () {
    const { destinations, spool, wakeups } = yield* Store
    const tables = yield* Tables
    const tableBreaker = makeTableBreaker(destinations, tables.open, limits.probeInterval)
    const breaker = makeDestinationBreaker(destinations, limits, {
      name: tablesDestination,
      title: "The table service",
      longestBackoff,
      // Refusals concern a batch or a table's key, and are handled there.
      advice: Effect.succeed("look at MUSIC_TABLES_URL")
    })
    const batch = yield* makeTelemetryBatch({ spool, tables, tableBreaker, breaker, limits })
    const lease = (from: ReadonlySet<TableName>, count: number) =>
      leaseRecords(spool, limits.telemetryLease, from, count)
    const release = releaseRecords(spool)
    /** Records of the next lease: fewer after a refused batch whose bad record was not found in time. */
    const leaseCount = yield* Ref.make(batchCount)

    const shipOpenTables = (open: ReadonlySet<TableName>): Effect.Effect<Next, Paused | StoreUnavailable> =>
      Effect.gen(function* () {
        const count = yield* Ref.get(leaseCount)
        return yield* Effect.acquireUseRelease(
          lease(open, count),
          (leased) =>
            Effect.gen(function* () {
              const { entries } = leased
              if (entries.length === 0) return "nothing" as const
              yield* batch.sendAll(leased, entries)
              yield* Ref.set(leaseCount, batchCount)
              return isFull(entries, count) ? ("more" as const) : ("some" as const)
            }).pipe(
              Effect.catchTag("LeaseOver", ({ size }) =>
                size < leased.entries.length
                  ? Effect.as(Ref.set(leaseCount, size), "more" as const)
                  : Effect.succeed("some" as const)
              )
            ),
          release
        )
      }).pipe(Effect.withSpan("TelemetryShipping.round"))

    /** Sends one record of a closed table. True when the table accepts records again. */
    const probeClosedTables = (due: ReadonlySet<TableName>) =>
      Effect.acquireUseRelease(
        lease(due, 1),
        (leased) =>
          Effect.gen(function* () {
            const [entry] = leased.entries
            if (entry === undefined || !(yield* tableBreaker.reserveProbe(entry.table))) return false
            const known = yield* batch.send(leased, [entry])
            if (known) yield* tableBreaker.reopen(entry.table)
            return known
          }).pipe(
            Effect.catchTags({
              // A refusal of the batch says nothing about the key.
              Refused: ({ code }) => Effect.as(batch.refuse(leased, leased.entries, code), false),
              LeaseOver: () => Effect.succeed(false)
            })
          ),
        release
      ).pipe(Effect.withSpan("TelemetryShipping.probeClosedTables"))

    const round: Effect.Effect<Next, StoreUnavailable> = Effect.gen(function* () {
      const pause = yield* breaker.pauseMillis
      if (pause > 0) return yield* new Paused({ millis: pause })
      const { due, open } = yield* tableBreaker.states
      const reopened = due.size > 0 && (yield* probeClosedTables(due))
      const found = yield* shipOpenTables(open)
      return reopened ? "more" : found
    }).pipe(
      Effect.catchTag("Paused", ({ millis }) =>
        Effect.as(Effect.sleep(Math.min(longestPausedSleep, millis)), "more" as const)
      )
    )

    /** Records of a dead holder come back without a wake-up, hence the poll interval. */
    const sleepUntilWoken = Effect.raceFirst(
      Effect.zipRight(wakeups.spool, Effect.sleep(limits.batchDelay)),
      Effect.sleep(limits.telemetryPollInterval)
    )

    const run = repeatThroughOutages("Telemetry")(
      Effect.flatMap(round, (next) => {
        if (next === "more") return Effect.void
        return next === "some" ? Effect.sleep(limits.batchDelay) : sleepUntilWoken
      })
    )

    return { run, anyClosed: tableBreaker.anyClosed }
  })
