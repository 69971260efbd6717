import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { startTestSandbox } from "../support/Sandbox.ts"
import { calls } from "./Calls.ts"

/** The backend's own events about deliveries, by their error codes. */
const aboutDeliveries = (records: ReadonlyArray<unknown>) =>
  records.flatMap((record) => {
    const { error_code, event, context } = Object(record)
    return context?.route?.startsWith("/webhook") || event === "webhook.completed"
      ? [[event, error_code]]
      : []
  })

describe("A delivery with a bad signature, over real HTTP", () => {
  it.scopedLive("is none of production's own events when it claims to be of a testing plane", () =>
    Effect.gen(function* () {
      const sandbox = yield* startTestSandbox
      const { post } = calls(sandbox)
      const test = { testing_key: "K".repeat(32), metadata: {}, data: {} }
      const testing = [
        JSON.stringify({ test }),
        `${" ".repeat(200)}${JSON.stringify({ test })}`,
        JSON.stringify({ event_id: "0199a0c4-5e2b-7a10-8c3d-1f2e3d4c5b6a", more: "x".repeat(200), test }),
        JSON.stringify({ test }).replace("test", "\\u0074est"),
        `\ufeff${JSON.stringify({ test })}`,
        JSON.stringify({ test: null })
      ]
      for (const body of testing) expect((yield* post("/webhook/", body)).status).toBe(401)
      const unplaced = ["{}", '{"data":{"test":{}}}', "[]", "no JSON"]
      for (const body of unplaced) expect((yield* post("/webhook", body)).status).toBe(401)

      const found = yield* Effect.sync(() =>
        aboutDeliveries(sandbox.world.tables.rows("musicbackend").map(({ record }) => record))
      ).pipe(
        Effect.delay("50 millis"),
        // All were sent before these: what is missing now was never recorded.
        Effect.repeat({ until: (events) => events.length >= 2 * unplaced.length, times: 200 })
      )
      expect(found.sort()).toEqual([
        ...unplaced.map(() => ["request.completed", "webhook_signature_invalid"]),
        ...unplaced.map(() => ["webhook.completed", "webhook_signature_invalid"])
      ])
      const lines = sandbox.log.filter((line) => line.includes('"route":"/webhook/"'))
      expect(lines).toHaveLength(testing.length)
      for (const line of lines) expect(line).toContain('"plane":"testing"')
    })
  )
})
