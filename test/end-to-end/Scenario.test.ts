import { readdirSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { StepFailed } from "../../sandbox/HttpExchange.ts"
import { makeScenario } from "../../sandbox/Scenario.ts"
import { rawQuery } from "../layers/store/Stores.ts"
import { startTestSandbox } from "../world/Sandbox.ts"

describe("The scenario, against the real server over HTTP", () => {
  it.scopedLive(
    "every step passes, and no credential and no text of a user reaches log or database",
    function* () {
      const sandbox = yield* startTestSandbox
      const steps = yield* makeScenario(sandbox.world, sandbox.base)
      for (const { name, run } of steps)
        yield* Effect.mapError(run, ({ problem }) => new StepFailed({ problem: `${name}: ${problem}` }))
      const log = sandbox.log.join("\n")
      const folder = dirname(sandbox.databasePath)
      const files = readdirSync(folder).map((name) => readFileSync(join(folder, name), "latin1"))
      const database = files.join("\n")
      const minted = sandbox.world.minted()
      expect(minted.length).toBeGreaterThan(20)
      expect(minted.filter((credential) => (log + database).includes(credential))).toEqual([])
      const texts = /Playback stops|@everyone|playback\.track|idempotency-key: |report-[0-9a-f]{8}-/
      expect(log).not.toMatch(texts)
      // The searches above are effective: log and database are not empty.
      expect(log).toContain("/api/v1/auth/login")
      expect(database).toContain("Playback stops after a seek")
      // Delivered twice by the scenario, stored once.
      expect(yield* rawQuery(sandbox.databasePath, "SELECT COUNT(*) AS kept FROM webhook_inbox")).toEqual([
        { kept: 1 }
      ])
    }
  )
})
