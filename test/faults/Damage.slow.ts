/** SQLite under a server as a process: overwritten pages of one table. A disk that is full: Outages.ts and Start.test.ts. */
import * as Effect from "effect/Effect"
import { assert, beforeAll } from "vitest"
import { run } from "../cli/Harness.ts"
import { newPath, rawClient } from "../layers/store/Stores.ts"
import { parse, scrape, sum } from "../observability/Exposition.ts"
import { bundleBefore, environmentOf, freePort, serve, stop } from "../world/Fleet.ts"
import { it } from "../world/Test.ts"
import { garble } from "./Databases.ts"
import * as Server from "./Server.ts"

const { expectRound, signIn, untilReady } = Server

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

it.scopedLive("A corrupt table makes the server not ready, is said once, and check finds it", function* () {
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
})
