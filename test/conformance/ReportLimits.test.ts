/** The limits of reports without a verified reporter, over HTTP. */
import { join } from "node:path"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { iamFaults } from "../../sandbox/upstreams/Iam.ts"
import type { SettingsValues } from "../../src/services/Settings.ts"
import { startServer } from "../faults/Server.ts"
import { calls, codeOf, keyed } from "./Calls.ts"
import { folder, openStore } from "../layers/store/Stores.ts"

const start = (change: Partial<SettingsValues> = {}) =>
  Effect.gen(function* () {
    const server = yield* startServer(openStore(join(yield* folder, "music.sqlite")), change)
    const { login, post } = calls(server)
    /** Sends a report of `attachments` times 95 KB under a new key. */
    const report = (headers = keyed(), signed: Readonly<Record<string, string>> = {}, attachments = 0) =>
      post(
        "/api/v1/reports",
        {
          message: "The player stops after a seek.",
          attachments: Array.from({ length: attachments }, (_, index) => ({
            name: `${index}.log`,
            content: "x".repeat(95_000)
          }))
        },
        { ...headers, ...signed }
      )
    return { login, report, world: server.world }
  })

describe("Reports without a verified reporter", () => {
  it.scopedLive(
    "are limited to ten a minute, with quota and Retry-After, while signed-in callers are served",
    function* () {
      const { login, report, world } = yield* start()
      const { signed } = yield* login()
      const keys = Array.from({ length: 16 }, keyed)
      const begun = performance.now()
      const answers = yield* Effect.forEach(keys, (key) => report(key), { concurrency: 8 })
      const stored = keys.filter((_, index) => answers[index]?.status === 200)
      // The quota refills by one every 6 s, which a slow machine may reach.
      expect(stored.length).toBeGreaterThanOrEqual(10)
      expect(stored.length).toBeLessThanOrEqual(10 + Math.floor((performance.now() - begun) / 6_000))
      const refused = answers.find(({ status }) => status !== 200)
      expect(refused && [refused.status, codeOf(refused)]).toEqual([429, "rate_limited"])
      expect(Number(refused?.headers.get("retry-after"))).toBeGreaterThan(0)
      expect(Number(refused?.headers.get("retry-after"))).toBeLessThanOrEqual(6)
      expect(refused?.headers.get("ratelimit-policy")).toMatch(/, "reports";q=10;w=60$/)
      expect(refused?.headers.get("ratelimit")).toMatch(/, "reports";r=0;t=\d+$/)

      expect((yield* report(keyed(), signed)).status).toBe(200)
      // A retry under the same key is replayed.
      expect((yield* report(stored[0])).text).toContain('"replayed":true')
      // While IAM is unavailable, a token does not identify a reporter.
      const unverified = Effect.suspend(() => {
        world.iam.fail({ path: "/api/v1/oauth/introspect", fault: iamFaults.internalError() })
        return report(keyed(), signed)
      })
      // More of them than the quota refills in the meantime.
      const during = yield* Effect.replicateEffect(unverified, 12)
      expect(during.map(({ status }) => status)).toContain(429)
    }
  )
})
