import * as Schema from "effect/Schema"
import { strict } from "./Strict.ts"

/** The tables a client may name. */
export const clientTables = ["musicclidaemon", "musicfrontendanalytics", "musicfrontendevents"] as const
export type TableName = (typeof clientTables)[number]
export const daemonTable: TableName = "musicclidaemon"

const TelemetryEvent = Schema.Record({ key: Schema.String, value: Schema.Unknown })

export const TelemetryRequest = strict(
  Schema.Struct({
    table: Schema.String.annotations({
      description: `One of ${clientTables.join(", ")}`,
      examples: ["musicclidaemon"]
    }),
    events: Schema.Array(TelemetryEvent)
      .pipe(
        Schema.filter((events) => (events.length >= 1 && events.length <= 40) || "must hold 1 to 40 events")
      )
      .annotations({
        jsonSchema: { minItems: 1, maxItems: 40 },
        description:
          "1 to 40 JSON objects. An `id` that is a UUID makes a retry idempotent; any other value is kept in the event and identifies nothing. `metadata.occurred_at` (RFC 3339 or epoch milliseconds) is the time of the event",
        examples: [
          [
            {
              id: "01990c6e-5f0a-7c1e-8d3b-2a4f6b8c0d1e",
              type: "playback.track.started",
              data: {},
              metadata: {}
            }
          ]
        ]
      })
  })
).annotations({ identifier: "TelemetryRequest" })
export type TelemetryRequest = typeof TelemetryRequest.Type
