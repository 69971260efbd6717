/** SQLite under a server as a process: a disk that is full for its process alone, and overwritten pages of one table. */
import { statSync } from "node:fs"
import * as Effect from "effect/Effect"
import { assert, beforeAll, describe } from "vitest"
import { call } from "../../sandbox/HttpExchange.ts"
import { run } from "../cli/Harness.ts"
import { rawClient } from "../layers/store/Stores.ts"
import { parse, scrape, sum } from "../observability/Exposition.ts"
import { awaited, eventually } from "../world/Waiting.ts"
import { bundleBefore, environmentOf, freePort, serve, stop } from "../world/Fleet.ts"
import { it } from "../world/Test.ts"
import { garble, newPath, readFromSqlite } from "./Databases.ts"
import * as Server from "./Server.ts"

const { expectRound, filed, keptWhole, shipped, signIn, telemetry, untilReady, webhook } = Server

beforeAll(bundleBefore)

/** Settings of a server with metrics on a new database, the metrics, and the command that checks it. */
const place = Effect.gen(function* () {
  const path = yield* newPath
  const [port, adminPort] = yield* Effect.promise(() => Promise.all([freePort(), freePort()]))
  const environment = {
    MUSIC_DATABASE_PATH: path,
    MUSIC_BIND: `127.0.0.1:${port}`,
    MUSIC_ADMIN_BIND: `127.0.0.1:${adminPort}`
  }
  const metrics = Effect.map(scrape(`http://127.0.0.1:${adminPort}`), parse)
  const check = ({ world }: Server.Target) => run(["check"], { ...environmentOf(world), ...environment })
  return { environment, path, metrics, check }
})

/** Blocks of 512 bytes: the size of a new database and its log after a round of calls on a slow machine, and a little more. */
const blocks = 2_000

describe.concurrent("A damaged disk", () => {
  it.scopedLive(
    "that is full fails what does not fit, loses no acknowledged write, and has room after a start",
    function* () {
      const { environment, metrics, path } = yield* place
      const first = yield* serve(environment, { shell: `ulimit -f ${blocks};` })
      const signed = yield* signIn(first)
      yield* expectRound(first, signed)
      yield* filed(first, 1)
      let events = 1
      let answer = yield* telemetry(first)
      for (; answer.status === 204 && events < 100; answer = yield* telemetry(first)) events += 1
      assert.strictEqual(answer.status, 503)
      // Smaller writes may still fit for a while.
      let kept = yield* webhook(first)
      for (let at = 0; kept.status === 200 && at < 100; at += 1) kept = yield* webhook(first)
      // A probe of a few bytes may fit as well, and counts until the next write fails.
      const readiness = Effect.gen(function* () {
        assert.strictEqual((yield* telemetry(first)).status, 503)
        return (yield* call(`${first.base}/readyz`)).status
      })
      yield* awaited("unreadiness", readiness, (status) => status === 503)

      // Metrics can be 2 s old. Reads still succeed, so they do not show the failure.
      const failed = { check: "database", state: "failed" }
      const samples = yield* awaited(
        "the failed check",
        metrics,
        (all) => sum(all, "music_check", failed) === 1
      )
      assert.strictEqual(sum(samples, "music_store_up"), 1)
      assert.isAbove(sum(samples, "music_store_writes_failed_total"), 1)
      yield* expectRound(first, signed, Server.unwritable)
      assert.match(first.server.output(), /Database unavailable.*(?:SQLITE_IOERR|SQLITE_FULL)/)
      assert.strictEqual((yield* stop(first.server)).code, 0)
      assert.isBelow(statSync(path).size, blocks * 512 + 1)
      yield* keptWhole(readFromSqlite(path), { reports: 1, events })

      const second = yield* serve(environment, first)
      yield* expectRound(second, signed)
      yield* filed(second, 2)
      yield* eventually("every event", () => shipped(second) === events + 1)
      yield* keptWhole(readFromSqlite(path), { reports: 2, events: events + 1 })
    }
  )

  it.scopedLive(
    "with a corrupt table makes the server not ready until its end, says so once, and check finds it",
    function* () {
      const { check, environment, metrics, path } = yield* place
      // No call may end by its deadline on a busy machine.
      const patient = { MUSIC_REQUEST_DEADLINE_SECONDS: "60", MUSIC_SHUTDOWN_GRACE_SECONDS: "62" }
      const served = yield* serve({ ...environment, ...patient })
      const { server } = served
      const signed = yield* signIn(served)
      yield* expectRound(served, signed)
      const before = yield* check(served)
      assert.strictEqual(before.exit, 0, before.out)
      assert.match(before.out, /^PASS {2}integrity /m)

      // The first page of the table and of its indexes, which the server reads again.
      const other = yield* rawClient(path)
      const roots = yield* other<{ readonly rootpage: number }>`
      SELECT rootpage FROM sqlite_master WHERE tbl_name = 'recipients' AND rootpage > 0`
      yield* other.unsafe("PRAGMA wal_checkpoint(TRUNCATE)")
      for (const { rootpage } of roots) garble(path, (rootpage - 1) * 4_096, 4_096)
      yield* other.unsafe("PRAGMA user_version = 1")
      // A login succeeds without its note; the failed write shows the corruption.
      yield* signIn(served)
      yield* untilReady(served, 503)
      // What it accepted now would be missing in the backup that is restored.
      yield* expectRound(served, signed, Server.away)
      const said = server.output().match(/^.*The database is corrupt.*$/gm) ?? []
      assert.strictEqual(said.length, 1, said.join("\n"))
      assert.match(said[0] ?? "", /"level":"error".*restore a backup.*\(SQLITE_CORRUPT/i)
      assert.strictEqual(sum(yield* metrics, "music_store_corrupt"), 1)
      const after = yield* check(served)
      assert.match(after.out, /^FAIL {2}integrity +pages are damaged\n +-> .* restore a backup/m)
      assert.strictEqual(after.exit, 1)
      assert.strictEqual((yield* stop(server)).code, 0)
    }
  )
})
