/** The line `reports` of `music-backend check`. */
import { expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { Anonymous, type Reporter, Verified } from "../../src/services/Store.ts"
import { onBoth, sampleReport } from "../layers/store/Stores.ts"
import { run } from "./Harness.ts"

onBoth("music-backend check", ({ freshPath, name, openStore }) => {
  it.scopedLive("says how full the room is, and whose reports are refused", function* () {
    const place = yield* freshPath
    const store = yield* openStore(place)
    const line = (change: Record<string, string> = {}) =>
      Effect.gen(function* () {
        const { json } = yield* run(["check", "--json"], {
          ...(name === "SQLite" ? { MUSIC_DATABASE_PATH: place } : { MUSIC_DATABASE_URL: place }),
          MUSIC_REPORTS_MEGABYTES: "1",
          ...change
        })
        const { checks } = json as {
          readonly checks: ReadonlyArray<Record<"name" | "status" | "found" | "fix", string>>
        }
        const { found, fix, status } = checks.find((check) => check.name === "reports") ?? {}
        return { status, found, fix }
      })
    let stored = 0
    const add = (reporter: Reporter, bytes: number, network?: string) => {
      stored += 1
      return store.reports.admit(
        sampleReport({
          id: `rep_${stored}`,
          keyDigest: String(stored),
          reporter,
          network,
          content: { message: "x".repeat(bytes - 1_056), pr: null, attachments: [], context: null }
        }),
        false
      )
    }
    expect(yield* line()).toEqual({
      status: "PASS",
      found: "0 MB of 1 MB (0 %); 0 MB of them anonymous or removed; refused: none",
      fix: null
    })
    yield* add(Anonymous(), 400_000, "a")
    expect(yield* line()).toMatchObject({
      status: "PASS",
      found: expect.stringMatching(/0.4 MB of 1 MB \(40 %\); 0.4 MB.*none$/)
    })
    yield* add(Verified({ publicId: "c:ana" }), 200_000)
    const full = yield* line()
    expect(full).toMatchObject({
      status: "WARN",
      found: expect.stringMatching(/refused: those of a signed-in reporter and anonymous ones of a network$/)
    })
    expect(full.fix).toContain("music-backend reports remove --anonymous --dry-run")
    expect((yield* line({ MUSIC_REPORTS_ANONYMOUS: "off" })).found).toMatch(
      /anonymous reports are off; refused: those of a signed-in reporter$/
    )
    yield* add(Anonymous(), 200_000)
    expect((yield* line()).found).toMatch(
      /refused: all but those of signed-in reporters who have none stored$/
    )
    yield* add(Verified({ publicId: "c:eva" }), 199_900)
    expect((yield* line()).found).toMatch(/refused: all new ones$/)
  })
})
