/** The table service as a layer: stored records in memory, ids known for 300 s (table-service.md 4). */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { TableName } from "../../src/schema/Telemetry.ts"
import { type TableRecord, Tables, type WriteResult } from "../../src/services/Tables.ts"
import { makeFaultSwitches, type FaultSwitches } from "./FaultSwitches.ts"

/** Seconds for which a record id is refused as `duplicate`. */
export const dedupeWindow = 300

export interface SimulatedTablesService extends FaultSwitches<"write"> {
  readonly stored: Effect.Effect<ReadonlyArray<TableRecord>>
}

export class SimulatedTables extends Context.Tag("test/SimulatedTables")<
  SimulatedTables,
  SimulatedTablesService
>() {}

export const layer = (open: ReadonlyArray<TableName>): Layer.Layer<Tables | SimulatedTables> =>
  Layer.effectContext(
    Effect.sync(() => {
      const { gate, ...switches } = makeFaultSwitches<"write">()
      const stored: Array<TableRecord> = []
      const seenAt = new Map<string, number>()
      const admit = (records: ReadonlyArray<TableRecord>, now: number): WriteResult => {
        const duplicates: Array<string> = []
        for (const record of records) {
          const before = seenAt.get(record.recordId)
          if (before !== undefined && now - before < dedupeWindow * 1000) duplicates.push(record.recordId)
          else {
            seenAt.set(record.recordId, now)
            stored.push(record)
          }
        }
        return { duplicates, refused: [] }
      }
      return Context.make(Tables, {
        open: new Set(open),
        write: (records) =>
          Effect.map(Clock.currentTimeMillis, (now) => admit(records, now)).pipe(gate.through("write"))
      }).pipe(Context.add(SimulatedTables, { ...switches, stored: Effect.sync(() => [...stored]) }))
    })
  )
