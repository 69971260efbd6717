/** The line `reports` of `music-backend check`. */
import { expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { Anonymous, type Reporter, Verified } from "../../src/services/Store.ts"
import { sampleReport } from "../layers/store/Samples.ts"
import { onBoth } from "../layers/store/Stores.ts"
import { environmentOf, run } from "./Harness.ts"

onBoth("music-backend check", (kind) => {
  it.scopedLive("says how full the room is, and whose reports are refused", function* () {
    const place = yield* kind.freshPath
    const store = yield* kind.openStore(place)
    const line = (change: Record<string, string> = {}) =>
      Effect.map(
        run(["check", "--json"], {
          ...environmentOf(kind, place),
          MUSIC_REPORTS_MEGABYTES: "1",
          ...change
        }),
        ({ json }) => {
          const { checks } = json as { readonly checks: ReadonlyArray<Record<string, string>> }
          const { found, fix, status } = checks.find(({ name }) => name === "reports") ?? {}
          return [status, found, fix]
        }
      )
    let stored = 0
    const add = (reporter: Reporter, bytes: number, network?: string) => {
      stored += 1
      const content = { message: "x".repeat(bytes - 1_056), pr: null, attachments: [], context: null }
      const id = `rep_${stored}`
      return store.reports.admit(sampleReport({ id, keyDigest: id, reporter, network, content }), false)
    }
    const says = (status: string, found: RegExp, fix: RegExp | null = /remove --anonymous --dry-run/) => [
      status,
      expect.stringMatching(found),
      fix && expect.stringMatching(fix)
    ]
    expect(yield* line()).toEqual(says("PASS", /^0 MB of 1 MB \(0 %\); 0 MB of them .*refused: none$/, null))
    yield* add(Anonymous(), 400_000, "a")
    expect(yield* line()).toEqual(says("PASS", /^0.4 MB of 1 MB \(40 %\); 0.4 MB.*none$/, null))
    yield* add(Verified({ publicId: "c:ana" }), 200_000)
    const reporter = "refused: those of a signed-in reporter"
    expect(yield* line()).toEqual(says("WARN", new RegExp(`${reporter} and anonymous ones of a network$`)))
    const off = yield* line({ MUSIC_REPORTS_ANONYMOUS: "off" })
    expect(off).toEqual(says("WARN", new RegExp(`anonymous reports are off; ${reporter}$`), /\w/))
    yield* add(Anonymous(), 200_000)
    expect(yield* line()).toEqual(says("WARN", /all but those of signed-in reporters who have none stored$/))
    yield* add(Verified({ publicId: "c:eva" }), 199_900)
    expect(yield* line()).toEqual(says("WARN", /refused: all new ones$/))
  })
})
