/** The table service as a layer that accepts every record. Tests of shipping use the simulator over HTTP. */
import { Effect, Layer } from "effect"
import type { TableName } from "../../src/schema/Telemetry.ts"
import { Tables } from "../../src/services/Tables.ts"

export const layer = (open: ReadonlyArray<TableName>): Layer.Layer<Tables> =>
  Layer.succeed(Tables, { open: new Set(open), write: () => Effect.succeed({ duplicates: [], refused: [] }) })
