/** Several processes on one database, and a killed process. */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { assert } from "vitest"
import { it } from "../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { onBoth, sampleSpoolLease } from "./Stores.ts"

const worker = fileURLToPath(new URL("./Worker.ts", import.meta.url))

const start = (...parameters: ReadonlyArray<string>): Effect.Effect<ChildProcess, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() =>
      spawn(process.execPath, ["--import", "tsx", worker, ...parameters], {
        stdio: ["ignore", "pipe", "inherit"]
      })
    ),
    (child) => Effect.sync(() => child.kill("SIGKILL"))
  )

/** Reads the output to its end, or until enough lines came, and then kills the process during its work. */
const linesOf = (child: ChildProcess, enough = Number.POSITIVE_INFINITY) =>
  Effect.promise(async () => {
    const lines: Array<string> = []
    if (child.stdout === null) return lines
    const closed = once(child, "close")
    for await (const line of createInterface({ input: child.stdout })) {
      lines.push(line)
      if (lines.length === enough) child.kill("SIGKILL")
    }
    deepStrictEqual(await closed, enough === Number.POSITIVE_INFINITY ? [0, null] : [null, "SIGKILL"])
    return lines
  })

onBoth("Processes that share a store", ({ freshPath, openStore, rawQuery }) => {
  it.scopedLive("store each report and record once, and lease each of them once", function* () {
    const path = yield* freshPath
    const children = yield* Effect.forEach(["one", "two"], (name) => start("compete", path, name))
    const lines = (yield* Effect.forEach(children, (child) => linesOf(child), {
      concurrency: "unbounded"
    })).flat()
    const leased = lines.filter((line) => line.startsWith("report:"))
    const { spool } = yield* openStore(path)
    // Concurrent leases may each return fewer rows than are due.
    const rest = yield* spool.lease(sampleSpoolLease({ now: 1_000, owner: "last" }))
    const records = [
      ...lines.filter((line) => line.startsWith("record-")),
      ...rest.map(({ recordId }) => recordId)
    ]
    deepStrictEqual(
      [
        lines.filter((line) => line === "Stored").length,
        lines.filter((line) => line === "Replayed").length,
        leased.length,
        new Set(leased).size,
        records.length,
        new Set(records).size
      ],
      [25, 25, 25, 25, 50, 50]
    )
  })

  it.scopedLive(
    "a killed process keeps everything that it acknowledged, and leaves no partial write",
    function* () {
      const path = yield* freshPath
      const lines = yield* linesOf(yield* start("accept", path), 30)
      const acknowledged = lines.length
      assert.isAtLeast(acknowledged, 30)

      const { deliveries, reports, spool } = yield* openStore(path)
      for (let index = 0; index < acknowledged; index += 1)
        assert.strictEqual((yield* reports.find(`rep_${index}`))._tag, "Some", `report ${index}`)
      const [waiting] = yield* deliveries.counts
      deepStrictEqual(yield* rawQuery(path, "SELECT COUNT(*) AS count FROM reports"), [
        { count: waiting?.count }
      ])

      const [counts] = yield* spool.counts
      const entries = yield* spool.lease(sampleSpoolLease())
      assert.isAtLeast(entries.length, acknowledged * 2)
      assert.strictEqual(counts?.waiting, entries.length)
      assert.strictEqual(counts?.duplicates, entries.length / 2)
      assert.strictEqual(counts?.accepted, entries.length + entries.length / 2)
    }
  )
})
