import { renameSync } from "node:fs"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { startTestSandbox } from "../support/Sandbox.ts"
import { calls, codeOf, keyed } from "./Calls.ts"
import { waitFor } from "../support/Waiting.ts"

describe("A database that fails", () => {
  it.scopedLive("acknowledges nothing, and its reason is logged under the request id", function* () {
    const sandbox = yield* startTestSandbox
    const { post } = calls(sandbox)
    renameSync(sandbox.databasePath, `${sandbox.databasePath}.moved`)
    for (const [path, body] of [
      ["/api/v1/reports", { message: "The player stops after a seek." }],
      ["/api/v1/telemetry", { table: "musicclidaemon", events: [{}] }]
    ] as const) {
      const refused = yield* post(path, body, keyed())
      expect(codeOf(refused)).toBe("dependency_unavailable")
      const id = refused.headers.get("x-request-id") ?? "none"
      // Log lines are written after the turn of the event loop that answers.
      yield* Effect.promise(() =>
        waitFor(() => {
          const logged = sandbox.log.filter((line) => line.includes(id) && line.includes("moved or deleted"))
          expect(logged).toHaveLength(1)
        })
      )
      expect(refused.text).not.toContain("moved or deleted")
    }
  })
})
