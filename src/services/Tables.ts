/** The port of the table service. Contract: table-service.md. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { TableName } from "../schema/Telemetry.ts"
import type { UpstreamFailure } from "./UpstreamFailure.ts"

export interface TableRecord {
  readonly table: TableName
  /** UUID, lower case; the service's dedupe key. */
  readonly recordId: string
  /** Milliseconds since the epoch. */
  readonly eventAt: number
  /** JSON text of one object, as it will be stored. */
  readonly json: string
}

/** Records that are not listed were accepted; `code` is why one was rejected for good. */
export interface WriteResult {
  readonly duplicates: ReadonlyArray<string>
  readonly refused: ReadonlyArray<{ readonly recordId: string; readonly code: string }>
}

export interface TablesService {
  /** Tables that have a key; writing to another is a defect of the caller. */
  readonly open: ReadonlySet<TableName>
  /** Writes one batch of at most 8 MiB. `Refused` 400 means that at least one record is invalid: split the batch. */
  readonly write: (records: ReadonlyArray<TableRecord>) => Effect.Effect<WriteResult, UpstreamFailure>
}

export class Tables extends Context.Tag("music/Tables")<Tables, TablesService>() {}
