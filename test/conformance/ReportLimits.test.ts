/** What strangers can store, seen from outside. */
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { storeAt } from "../../src/layers/store/sqlite/SqliteStore.ts"
import { iamFaults } from "../../sandbox/upstreams/Iam.ts"
import type { SettingsValues } from "../../src/services/Settings.ts"
import { freshFolder } from "../faults/Files.ts"
import { startServer } from "../faults/Server.ts"
import { calls, codeOf, keyed } from "./Calls.ts"

const started = (change: Partial<SettingsValues> = {}) =>
  Effect.gen(function* () {
    const server = yield* startServer(storeAt(join(yield* freshFolder, "music.sqlite")), change)
    const { login, post } = calls(server)
    /** About 475 KB, under a key of its own. */
    const report = (headers = keyed(), signed: Readonly<Record<string, string>> = {}) =>
      post(
        "/api/v1/reports",
        {
          message: "The player stops after a seek.",
          attachments: Array.from({ length: 5 }, (_, index) => ({
            name: `${index}.log`,
            content: "x".repeat(95_000)
          }))
        },
        { ...headers, ...signed }
      )
    return { login, report, world: server.world }
  })

describe("A stranger's reports", () => {
  it.scopedLive("end after ten, with the quota and the seconds to wait, while signed-in people go on", () =>
    Effect.gen(function* () {
      const { login, report, world } = yield* started()
      const { signed } = yield* login()
      const keys = Array.from({ length: 40 }, keyed)
      const begun = performance.now()
      const answers = yield* Effect.forEach(keys, (key) => report(key), { concurrency: 8 })
      const stored = keys.filter((_, index) => answers[index]?.status === 200)
      // One more comes free every 6 s, on a machine that is so slow.
      expect(stored.length).toBeGreaterThanOrEqual(10)
      expect(stored.length).toBeLessThanOrEqual(10 + Math.floor((performance.now() - begun) / 6_000))
      const refused = answers.find(({ status }) => status !== 200)
      expect(refused && [refused.status, codeOf(refused)]).toEqual([429, "rate_limited"])
      expect(Number(refused?.headers.get("retry-after"))).toBeGreaterThan(0)
      expect(Number(refused?.headers.get("retry-after"))).toBeLessThanOrEqual(6)
      expect(refused?.headers.get("ratelimit-policy")).toMatch(/, "reports";q=10;w=60$/)
      expect(refused?.headers.get("ratelimit")).toMatch(/, "reports";r=0;t=\d+$/)

      expect((yield* report(keyed(), signed)).status).toBe(200)
      // The answer that was lost is given again.
      expect((yield* report(stored[0])).text).toContain('"replayed":true')
      // A text of a token's form is nobody's name while IAM is away.
      const unverified = Effect.suspend(() => {
        world.iam.fail({ path: "/api/v1/oauth/introspect", fault: iamFaults.internalError() })
        return report(keyed(), signed)
      })
      const during = yield* Effect.replicateEffect(unverified, 3)
      expect(during.map(({ status }) => status)).toContain(429)
    })
  )

  it.scopedLive("fill four fifths of the room, and what was stored is answered for ever", () =>
    Effect.gen(function* () {
      const { login, report } = yield* started({ reportsBytes: 2_500_000 })
      const { signed } = yield* login()
      const key = keyed()
      const answers = [yield* report(key), ...(yield* Effect.replicateEffect(Effect.suspend(report), 4))]
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 503])
      const full = answers[4]
      expect(full && [codeOf(full), full.headers.get("retry-after")]).toEqual(["reports_full", "3600"])
      expect((yield* report(keyed(), signed)).status).toBe(200)
      expect((yield* report(keyed(), signed)).status).toBe(503)
      expect((yield* report(key)).text).toContain('"replayed":true')
    })
  )
})
