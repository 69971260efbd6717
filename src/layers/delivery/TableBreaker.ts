/**
 * Tables whose key the service does not know, for all processes and across restarts. Their records wait, and one of
 * them is tried now and then: the contract forbids to hammer (table-service.md 3).
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { TableName } from "../../schema/Telemetry.ts"
import { pauseLeft } from "../../services/ClockSkew.ts"
import type { Destinations, StoreUnavailable } from "../../services/Store.ts"

export interface TableBreaker {
  /** Tables that take records, and those that are closed and due for a try. */
  readonly look: Effect.Effect<
    { readonly open: ReadonlySet<TableName>; readonly due: ReadonlySet<TableName> },
    StoreUnavailable
  >
  /** Books the try of a closed table; false when another process was faster. */
  readonly book: (table: TableName) => Effect.Effect<boolean, StoreUnavailable>
  /** The service does not know the table's key. */
  readonly close: (table: TableName) => Effect.Effect<void, StoreUnavailable>
  /** A closed table took a record. */
  readonly reopen: (table: TableName) => Effect.Effect<void, StoreUnavailable>
  readonly anyClosed: Effect.Effect<boolean, StoreUnavailable>
}

const failure = "unauthorized"
const nameOf = (table: TableName): string => `table ${table}`

/** `pause` in milliseconds, from one try of a closed table to the next. */
export const makeTableBreaker = (
  destinations: Destinations,
  tables: ReadonlySet<TableName>,
  pause: number
): TableBreaker => {
  const states = Effect.forEach(tables, (table) =>
    Effect.map(destinations.find(nameOf(table)), (state) => ({ table, ...state }))
  )

  const shut = (table: TableName) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      destinations
        .failed(nameOf(table), { now, pausedUntil: now + pause, stopped: true, failure })
        .pipe(Effect.map((before) => ({ before, now })))
    )

  return {
    look: Effect.zipWith(states, Clock.currentTimeMillis, (all, now) => ({
      open: new Set(all.filter(({ stopped }) => !stopped).map(({ table }) => table)),
      due: new Set(
        all
          .filter(({ pausedUntil, stopped }) => stopped && pauseLeft(pausedUntil, now) === 0)
          .map(({ table }) => table)
      )
    })),
    // Noted as the failure that it will be, unless the record is taken.
    book: (table) => Effect.map(shut(table), ({ before, now }) => pauseLeft(before.pausedUntil, now) === 0),
    close: (table) =>
      Effect.flatMap(shut(table), ({ before }) =>
        before.stopped
          ? Effect.logDebug("The table service still does not know a table's key", { table })
          : Effect.logError("The table service does not know a table's key; its records wait", {
              table,
              advice:
                "set the table's key (MUSIC_…_TABLE_KEY) to a live one, or restore the table. One record is tried now and then"
            })
      ),
    reopen: (table) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const before = yield* destinations.answered(nameOf(table), { now, wrote: true })
        if (before.stopped) yield* Effect.logInfo("The table takes records again", { table })
      }),
    anyClosed: Effect.map(states, (all) => all.some(({ stopped }) => stopped))
  }
}
