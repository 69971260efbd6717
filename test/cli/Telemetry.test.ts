import { expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { sampleEntry, sampleSpoolLease } from "../layers/store/Samples.ts"
import { onBoth } from "../layers/store/Stores.ts"
import { environmentOf, run } from "./Harness.ts"

const at = Date.parse("2026-11-21T07:30:00Z")

onBoth("music-backend telemetry", (kind) => {
  it.scopedLive("lists what waits by table, and the refused events with the service's code", function* () {
    const place = yield* kind.freshPath
    const telemetry = (line: string) => run(["telemetry", ...line.split(" ")], environmentOf(kind, place))
    const json = (line: string) => Effect.map(telemetry(`${line} --json`), (ran) => ran.json)
    const { spool } = yield* kind.openStore(place)
    expect(yield* json("list")).toEqual({ items: [], next: null })

    const events = ["a", "b", "c"].map((id, index) =>
      sampleEntry(id, { acceptedAt: at + index, bytes: 1_000 })
    )
    yield* spool.offer(events, { limitBytes: 1e6 })
    yield* spool.lease({ ...sampleSpoolLease(), count: 2, bytes: 1e6, owner: "me" })
    const refused = [
      { recordId: "a", code: "size_exceeded" },
      { recordId: "b", code: "invalid" }
    ]
    yield* spool.settle({ owner: "me", now: at, delivered: [], duplicates: [], refused })
    expect(yield* json("list")).toEqual({
      items: [
        {
          table: "musicclidaemon",
          waiting: 1,
          waiting_bytes: 1_000,
          oldest_at: "2026-11-21T07:30:00.002Z",
          accepted: 3,
          delivered: 0,
          duplicates: 0,
          expired: 0,
          refused: 2
        }
      ],
      next: null
    })
    const first = yield* telemetry("refused --limit 1")
    expect(first.out).toMatch(/^b +\S+Z +musicclidaemon +1000 +invalid$/m)
    const [, after = ""] = /More results: --after (\S+)/.exec(first.err) ?? []
    const last = { id: "a", table: "musicclidaemon", code: "size_exceeded", bytes: 1_000 }
    expect(yield* json(`refused --after ${after}`)).toMatchObject({ items: [last], next: null })
    expect(yield* json("refused --code invalid")).toMatchObject({ items: [{ id: "b" }] })
  })
})
