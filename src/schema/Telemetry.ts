import * as Schema from "effect/Schema"
import { described, JsonObject, request } from "./Fields.ts"

/** The tables a client may name. */
export const clientTables = ["musicclidaemon", "musicfrontendanalytics", "musicfrontendevents"] as const
export type TableName = (typeof clientTables)[number]
export const daemonTable: TableName = "musicclidaemon"

export const TelemetryRequest = request("TelemetryRequest", {
  table: described(`One of ${clientTables.join(", ")}`),
  events: Schema.Array(JsonObject)
    .pipe(
      Schema.filter((events) => (events.length >= 1 && events.length <= 40) || "must hold 1 to 40 events")
    )
    .annotations({
      jsonSchema: { minItems: 1, maxItems: 40 },
      description:
        "1 to 40 JSON objects. An `id` that is a UUID makes a retry idempotent; any other value is kept in the event and identifies nothing. `metadata.occurred_at` (RFC 3339 or epoch milliseconds) is the time of the event"
    })
})
export type TelemetryRequest = typeof TelemetryRequest.Type
