/** Pages of one table are overwritten below a running server; the others are whole. */
import { closeSync, openSync, writeSync } from "node:fs"
import { join } from "node:path"
import { assert, describe } from "vitest"
import { it } from "../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import { call } from "../../sandbox/HttpExchange.ts"
import { run } from "../cli/Harness.ts"
import { folder, rawClient } from "../layers/store/Stores.ts"
import { parse, scrape, sum } from "../observability/Exposition.ts"
import { freePort } from "../support/Process.ts"
import { bundleBefore, environmentOf, serve, stop } from "./Processes.ts"
import { away, everyCall, healthy, signIn } from "./Server.ts"

bundleBefore()

/** Overwrites the first page of a table and of its indexes, and makes the server read them again. */
const damage = (path: string, table: string) =>
  Effect.gen(function* () {
    const other = yield* rawClient(path)
    const roots = yield* other<{ readonly rootpage: number }>`
      SELECT rootpage FROM sqlite_master WHERE tbl_name = ${table} AND rootpage > 0`
    yield* other.unsafe("PRAGMA wal_checkpoint(TRUNCATE)")
    const descriptor = openSync(path, "r+")
    for (const { rootpage } of roots)
      writeSync(descriptor, Buffer.alloc(4_096, 0xa5), 0, 4_096, (rootpage - 1) * 4_096)
    closeSync(descriptor)
    yield* other.unsafe("PRAGMA user_version = 1")
  }).pipe(Effect.scoped)

describe("A corrupt table", () => {
  it.scopedLive(
    "makes the server not ready until its end, with one line in the log; check fails, and names the table",
    function* () {
      const path = join(yield* folder, "music.sqlite")
      const environment = {
        MUSIC_DATABASE_PATH: path,
        // No call may end by its deadline on a busy machine.
        MUSIC_REQUEST_DEADLINE_SECONDS: "60",
        MUSIC_SHUTDOWN_GRACE_SECONDS: "62",
        MUSIC_BIND: `127.0.0.1:${yield* Effect.promise(freePort)}`,
        MUSIC_ADMIN_BIND: `127.0.0.1:${yield* Effect.promise(freePort)}`
      }
      const served = yield* serve(environment)
      const { base, server, world } = served
      const check = run(["check"], { ...environmentOf(world), ...environment })
      const signed = yield* signIn(served)
      deepStrictEqual((yield* everyCall(served, signed)).round, healthy)
      const before = yield* check
      assert.match(before.out, /^PASS {2}integrity +\d+ tables read, none is damaged$/m)
      assert.match(before.out, /^PASS {2}server +runs at \S+ and is ready$/m)
      assert.match(before.out, /^PASS {2}metrics +served at /m)
      assert.strictEqual(before.exit, 0, before.out)

      yield* damage(path, "recipients")
      // A login succeeds without its note; the failed write shows the corruption.
      yield* signIn(served)
      yield* Effect.sleep(1_000)
      assert.strictEqual((yield* call(`${base}/readyz`)).status, 503)
      // What it accepted now would be missing in the backup that is restored.
      deepStrictEqual((yield* everyCall(served, signed)).round, away)
      const said = server
        .output()
        .split("\n")
        .filter((line) => line.includes("The database is corrupt"))
      assert.strictEqual(said.length, 1, said.join("\n"))
      assert.match(
        said[0] ?? "",
        /"level":"error".*restore a backup.*is corrupt, or not a database \(SQLITE_CORRUPT/i
      )
      const samples = parse(yield* scrape(`http://${environment.MUSIC_ADMIN_BIND}`))
      assert.strictEqual(sum(samples, "music_store_corrupt"), 1)

      const after = yield* check
      assert.match(
        after.out,
        /^FAIL {2}integrity +damaged: recipients\n +-> stop all servers, and restore a backup/m
      )
      assert.match(after.out, /^FAIL {2}server +runs at \S+, but is not ready: database failed/m)
      assert.strictEqual(after.exit, 1)
      assert.strictEqual((yield* stop(server)).code, 0)
    }
  )
})
