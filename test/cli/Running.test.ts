import { expect } from "vitest"
import { it } from "../world/Test.ts"
import { Option, Redacted } from "effect"
import { upstreamEnvironment } from "../../sandbox/SimulatedUpstreams.ts"
import { sampleReport } from "../layers/store/Samples.ts"
import { postgres } from "../layers/store/Stores.ts"
import { run } from "./Harness.ts"
import { startServer } from "../world/Sandbox.ts"
import { awaited } from "../world/Waiting.ts"

it.scopedLive("Beside a running server: check finds it; a retried report is filed at once", function* () {
  const place = yield* postgres.freshPath
  // Stored while no tracker was set, so it has no delivery.
  const report = sampleReport({ id: "rep_1", createdAt: Date.now() })
  yield* postgres.withStore(place, ({ reports }) => reports.admit(report, false))
  const { base, world } = yield* startServer({ databaseUrl: Option.some(Redacted.make(place)) })
  const environment = {
    ...upstreamEnvironment(world),
    MUSIC_BIND: new URL(base).host,
    MUSIC_TRUSTED_PROXIES: "127.0.0.1",
    MUSIC_DATABASE_URL: place
  }

  const checked = yield* run(["check"], environment)
  expect(checked.out).toMatch(/^PASS +database +Postgres database 127\.0\.0\.1:\d+\/\w+, schema \d+$/m)
  expect(checked.out).toMatch(/^PASS +server +runs at 127\.0\.0\.1:\d+ with these settings$/m)
  expect(checked.exit).toBe(0)
  const other = { MUSIC_IAM_URL: world.ting.url, MUSIC_ORG_ID: "harbor" }
  const foreign = yield* run(["check"], { ...environment, ...other })
  expect(foreign.out).toMatch(
    /^FAIL +server +the server at \S+ runs with another MUSIC_IAM_URL, MUSIC_ORG_ID\n +-> restart it/m
  )
  expect(foreign.exit).toBe(1)
  // This server has no such file, as one whose file was moved away while it runs.
  const gone = { MUSIC_DATABASE_URL: "", MUSIC_DATABASE_PATH: "/nowhere/music.sqlite" }
  const moved = yield* run(["check"], { ...environment, ...gone })
  expect(moved.out).toMatch(
    /^FAIL +database +\/nowhere\/music.sqlite does not .* runs.*\n +-> correct MUSIC_DATABASE_PATH, or put it back/m
  )

  expect((yield* run(["reports", "retry", "rep_1"], environment)).exit).toBe(0)
  const filed = yield* awaited(
    "the filed report",
    run(["reports", "list", "--status", "filed", "--json"], environment),
    ({ json }) => JSON.stringify(json).includes("rep_1")
  )
  const item = { id: "rep_1", issue: { number: 1 }, delivery: { state: "delivered" } }
  expect(filed.json).toMatchObject({ items: [item] })
  expect(world.tracker.issues("harbor/music")).toHaveLength(1)
})
