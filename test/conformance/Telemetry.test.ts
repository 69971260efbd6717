import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { startTestSandbox } from "../support/Sandbox.ts"
import { calls } from "./Calls.ts"

const uuid = "01990c6e-5f0a-7c1e-8d3b-2a4f6b8c0d1e"
const uuidForm = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

describe("The id of a telemetry event, over real HTTP", () => {
  it.scopedLive(
    "deduplicates when it is a UUID; anything else stays in the event, which gets a record id",
    () =>
      Effect.gen(function* () {
        const sandbox = yield* startTestSandbox
        const { post } = calls(sandbox)
        const send = (...events: ReadonlyArray<unknown>) =>
          Effect.map(post("/api/v1/telemetry", { table: "musicclidaemon", events }), ({ status, text }) => [
            status,
            text
          ])
        const ids = ["", "not-a-uuid", `{${uuid}}`, 7, 1.5, true, null, { of: "event" }, ["1"]]
        // Two clients, who count their events.
        expect(yield* send({ id: "1", client: "a" })).toEqual([204, ""])
        expect(yield* send({ id: "1", client: "b" })).toEqual([204, ""])
        expect(yield* send(...ids.map((id) => ({ id })))).toEqual([204, ""])
        expect(yield* send({ id: uuid, n: 1 }, { id: uuid.toUpperCase(), n: 1 })).toEqual([204, ""])
        expect(yield* send({ id: uuid, n: 1 })).toEqual([204, ""])

        const rows = yield* Effect.sync(() => sandbox.world.tables.rows("musicclidaemon")).pipe(
          Effect.delay("50 millis"),
          Effect.repeat({ until: (found) => found.length >= 2 + ids.length + 1, times: 200 })
        )
        const records = rows.map(({ record }) => record)
        expect(records).toHaveLength(2 + ids.length + 1)
        for (const record of [
          { id: "1", client: "a" },
          { id: "1", client: "b" },
          ...ids.map((id) => ({ id })),
          { id: uuid, n: 1 }
        ]) {
          expect(records).toContainEqual(record)
        }
        const recordIds = rows.map(({ record_id }) => record_id)
        expect(new Set(recordIds).size).toBe(rows.length)
        expect(recordIds.filter((id) => !uuidForm.test(id))).toEqual([])
        expect(recordIds).toContain(uuid)
      })
  )
})
