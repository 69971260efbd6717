import { describe } from "vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import { backendTable, clientTables, type TableName } from "../../src/schema/Telemetry.ts"
import { Notifications } from "../../src/services/Notifications.ts"
import { BackendTelemetry } from "../../src/services/BackendTelemetry.ts"
import { Store } from "../../src/services/Store.ts"
import { inRequest, scenario, signedIn } from "../support/UseCaseLayers.ts"

const tables: ReadonlyArray<TableName> = [...clientTables, backendTable]

const eventsOf = Effect.gen(function* () {
  yield* (yield* BackendTelemetry).flush
  const now = yield* TestClock.currentTimeMillis
  const entries = yield* (yield* Store).spool.lease({
    tables: new Set<TableName>(tables),
    count: 100,
    bytes: 1e6,
    now,
    leaseUntil: now,
    owner: "test"
  })
  return entries.map(({ json }): unknown => {
    const event: unknown = JSON.parse(json)
    return typeof event === "object" && event !== null && "event" in event && "error_code" in event
      ? [event.event, event.error_code]
      : event
  })
})

describe("The backend's own telemetry", () => {
  scenario(
    "records the outcome of a ting that was refused before any upstream call",
    function* () {
      const { plane, caller } = yield* signedIn()
      const notifications = yield* Notifications
      for (const [type, key] of [
        ["music.unknown.type", "si:deejay/1"],
        ["music.trigger.fired", "si:lyra/1"]
      ] as const) {
        yield* Effect.flip(notifications.send(plane, caller, { type, key, data: {} })).pipe(inRequest())
      }
      deepStrictEqual(yield* eventsOf, [
        ["ting.completed", "not_found"],
        ["ting.completed", "invalid_input"]
      ])
    },
    { tables }
  )
})
