/**
 * Circuit breakers of single tables. A table is closed while the service does not know its key: its records wait, and one
 * of them is sent as a probe at each interval, because the contract forbids frequent retries (table-service.md 3). The state is
 * stored, so it holds for all processes and across restarts.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { TableName } from "../../schema/Telemetry.ts"
import { type Destinations, type StoreUnavailable, tableDestination } from "../../services/Store.ts"

export interface TableBreaker {
  /** Tables that take records, and closed tables that are due for a probe. */
  readonly states: Effect.Effect<
    { readonly open: ReadonlySet<TableName>; readonly due: ReadonlySet<TableName> },
    StoreUnavailable
  >
  /** Reserves the probe of a closed table; false when another process was faster. */
  readonly reserveProbe: (table: TableName) => Effect.Effect<boolean, StoreUnavailable>
  /** The service does not know the table's key. */
  readonly close: (table: TableName) => Effect.Effect<void, StoreUnavailable>
  /** A closed table accepted a record. */
  readonly reopen: (table: TableName) => Effect.Effect<void, StoreUnavailable>
  readonly anyClosed: Effect.Effect<boolean, StoreUnavailable>
}

const failure = "unauthorized"

/** `probeInterval` in milliseconds. */
export const makeTableBreaker = (
  destinations: Destinations,
  tables: ReadonlySet<TableName>,
  probeInterval: number
): TableBreaker => {
  const allStates = Effect.forEach(tables, (table) =>
    Effect.map(destinations.find(tableDestination(table)), (state) => ({ table, ...state }))
  )

  const recordFailure = (table: TableName) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      destinations
        .failed(tableDestination(table), { now, pausedUntil: now + probeInterval, stopped: true, failure })
        .pipe(Effect.map((before) => ({ before, now })))
    )

  return {
    states: Effect.zipWith(allStates, Clock.currentTimeMillis, (all, now) => ({
      open: new Set(all.filter(({ stopped }) => !stopped).map(({ table }) => table)),
      due: new Set(
        all.filter(({ pausedUntil, stopped }) => stopped && pausedUntil <= now).map(({ table }) => table)
      )
    })),
    // Stored as a failure in advance; `reopen` clears it when the record is taken.
    reserveProbe: (table) => Effect.map(recordFailure(table), ({ before, now }) => before.pausedUntil <= now),
    close: (table) =>
      Effect.flatMap(recordFailure(table), ({ before }) =>
        before.stopped
          ? Effect.logDebug("The table service still does not know a table's key", { table })
          : Effect.logError("The table service does not know a table's key; its records wait", {
              table,
              advice:
                "set the table's key (MUSIC_…_TABLE_KEY) to a live one, or restore the table. A single record is sent periodically as a probe"
            })
      ),
    reopen: (table) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const before = yield* destinations.answered(tableDestination(table), { now, wrote: true })
        if (before.stopped) yield* Effect.logInfo("The table accepts records again", { table })
      }),
    anyClosed: Effect.map(allStates, (all) => all.some(({ stopped }) => stopped))
  }
}
