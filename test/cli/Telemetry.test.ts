import { expect } from "vitest"
import { it } from "../world/Test.ts"
import { onBoth, sampleEntry, sampleSpoolLease } from "../layers/store/Stores.ts"
import { run } from "./Harness.ts"

const at = Date.parse("2026-11-21T07:30:00Z")

onBoth("music-backend telemetry", ({ freshPath, name, openStore }) => {
  it.scopedLive(
    "lists what waits by table with the totals, and the refused events with the service's code",
    function* () {
      const place = yield* freshPath
      const environment: Record<string, string> =
        name === "SQLite" ? { MUSIC_DATABASE_PATH: place } : { MUSIC_DATABASE_URL: place }
      const { spool } = yield* openStore(place)
      const none = yield* run(["telemetry", "list"], environment)
      expect([none.exit, none.out, none.err]).toEqual([0, "", "No events were accepted."])

      const events = ["a", "b", "c"].map((id, index) =>
        sampleEntry(id, { acceptedAt: at + index, bytes: 1_000 })
      )
      yield* spool.offer(events, { limitBytes: 1e6 })
      yield* spool.lease({ ...sampleSpoolLease(), count: 2, bytes: 1e6, owner: "me" })
      yield* spool.settle({
        owner: "me",
        now: at,
        delivered: [],
        duplicates: [],
        refused: [
          { recordId: "a", code: "size_exceeded" },
          { recordId: "b", code: "invalid" }
        ]
      })
      const listed = yield* run(["telemetry", "list"], environment)
      expect(listed.out.split("\n").map((line) => line.split(/ {2,}/))).toEqual([
        ["TABLE", "WAITING", "BYTES", "OLDEST", "ACCEPTED", "DELIVERED", "DUPLICATE", "EXPIRED", "REFUSED"],
        ["musicclidaemon", "1", "1.0 kB", "2026-11-21T07:30:00Z", "3", "0", "0", "0", "2"]
      ])
      expect((yield* run(["telemetry", "list", "--json"], environment)).json).toEqual({
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

      const first = yield* run(["telemetry", "refused", "--limit", "1"], environment)
      expect(first.out).toMatch(
        /^EVENT +REFUSED +TABLE +BYTES +CODE\nb +2026-11-21T07:30:00Z +musicclidaemon +1000 +invalid$/
      )
      const [, after = ""] = /More results: --after (\S+)/.exec(first.err) ?? []
      const second = yield* run(["telemetry", "refused", "--after", after, "--json"], environment)
      expect(second.json).toMatchObject({
        items: [{ id: "a", table: "musicclidaemon", code: "size_exceeded", bytes: 1_000 }],
        next: null
      })
      const coded = yield* run(["telemetry", "refused", "--code", "invalid", "--json"], environment)
      expect(coded.json).toMatchObject({ items: [{ id: "b" }] })
    }
  )
})
