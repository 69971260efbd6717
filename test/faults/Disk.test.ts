/** A full disk: the system limits the file size of the process. */
import { statSync } from "node:fs"
import { join } from "node:path"
import { assert, describe } from "vitest"
import { it } from "../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import { call } from "../../sandbox/HttpExchange.ts"
import { parse, scrape, sum } from "../observability/Exposition.ts"
import { run } from "../cli/Harness.ts"
import { freePort } from "../support/Process.ts"
import { readFromSqlite } from "./Databases.ts"
import { bundleBefore, environmentOf, serve, stop } from "./Processes.ts"
import { everyCall, healthy, issues, keptWhole, signIn, telemetry, unwritable, webhook } from "./Server.ts"
import { awaited, eventually } from "../support/Waiting.ts"
import { folder } from "../layers/store/Stores.ts"

bundleBefore()

/** Blocks of 512 bytes: the size of a new database and its log after a round of calls on a slow machine, and a little more. */
const blocks = 2_000
const limit = `ulimit -f ${blocks};`

describe("A full disk", () => {
  it.scopedLive(
    "fails writes that do not fit, loses no acknowledged write, and the server recovers after a start with room",
    function* () {
      const path = join(yield* folder, "music.sqlite")
      const admin = `127.0.0.1:${yield* Effect.promise(freePort)}`
      const environment = {
        MUSIC_DATABASE_PATH: path,
        MUSIC_ADMIN_BIND: admin
      }
      const first = yield* serve(environment, { shell: limit })
      const { world } = first
      const signed = yield* signIn(first)
      deepStrictEqual((yield* everyCall(first, signed)).round, healthy)
      yield* eventually("an issue", () => issues({ world }) === 1)
      let events = 1
      let answer = yield* telemetry(first)
      for (; answer.status === 204 && events < 100; answer = yield* telemetry(first)) events += 1
      assert.strictEqual(answer.status, 503)
      // Smaller writes may still fit for a while.
      let kept = yield* webhook(first)
      for (let at = 0; kept.status === 200 && at < 100; at += 1) kept = yield* webhook(first)
      // A probe of a few bytes may fit as well, and counts until the next write fails.
      const ready = Effect.gen(function* () {
        assert.strictEqual((yield* telemetry(first)).status, 503)
        yield* Effect.sleep(1_000)
        return (yield* call(`${first.base}/readyz`)).status
      })
      yield* ready
      assert.strictEqual(yield* ready, 503)

      // Metrics can be 2 s old. Reads still succeed, so they do not show the failure.
      const metrics = Effect.map(scrape(`http://${admin}`), parse)
      const samples = yield* awaited(
        "the failed check",
        metrics,
        (some) => sum(some, "music_check", { check: "database", state: "failed" }) === 1
      )
      const failedWrites = sum(samples, "music_store_writes_failed_total")
      assert.deepStrictEqual([sum(samples, "music_store_up"), failedWrites > 1], [1, true])

      const { round, slowest } = yield* everyCall(first, signed)
      deepStrictEqual(round, unwritable)
      // Far below the deadline of a request.
      assert.isBelow(slowest, 20_000)
      assert.match(first.server.output(), /Database unavailable.*(?:SQLITE_IOERR|SQLITE_FULL)/)
      // The limit is the server's alone: the check itself can write.
      const checked = yield* run(["check"], {
        ...environmentOf(world),
        ...environment,
        MUSIC_BIND: `127.0.0.1:${first.port}`
      })
      assert.match(
        checked.out,
        /^FAIL {2}server +runs at \S+, but is not ready: database failed\n +-> see its log/m
      )
      assert.strictEqual(checked.exit, 1)
      const { code } = yield* stop(first.server)
      assert.strictEqual(code, 0)
      assert.isBelow(statSync(path).size, blocks * 512 + 1)
      yield* keptWhole(readFromSqlite(path), { reports: 1, events })

      const second = yield* serve(environment, { world })
      deepStrictEqual((yield* everyCall(second, signed)).round, healthy)
      yield* eventually("two issues", () => issues({ world }) === 2)
      yield* eventually(
        "every event shipped",
        () => world.tables.rows("musicclidaemon").length === events + 1
      )
      yield* keptWhole(readFromSqlite(path), { reports: 2, events: events + 1 })
    }
  )
})
