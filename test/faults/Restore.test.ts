/** The real server before and after a restore, on a database that is older than its effects at the upstreams. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe } from "vitest"
import { it } from "../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { backup } from "../../src/layers/store/backup/Backup.ts"
import { restore } from "../../src/layers/store/backup/Restore.ts"
import { startUpstreams, settingsFor } from "../../sandbox/SimulatedUpstreams.ts"
import { folder, openStore, postgres, rawQuery, sampleReport, withStore } from "../layers/store/Stores.ts"
import { issues, startServer } from "./Server.ts"
import { eventually } from "../support/Waiting.ts"

/** A backup with a waiting report that no worker has leased yet, and a tracker that outlives every server. */
const waiting = Effect.gen(function* () {
  const path = join(yield* folder, "music.sqlite")
  const place = { databasePath: path, databaseUrl: Option.none() }
  yield* withStore(path, ({ reports }) =>
    reports.admit(sampleReport({ createdAt: Date.now() - 20 * 60_000 }), true)
  )
  const copy = `${path}.backup`
  yield* backup(place, copy)

  const world = yield* startUpstreams(() => Date.now())
  const { tracker } = settingsFor(world, {
    bind: { host: "127.0.0.1", port: 0 },
    databasePath: "unused",
    logLevel: LogLevel.Info,
    logFormat: "json"
  })
  const target = Option.map(tracker, (all) => ({ ...all, reconcileSeconds: [0.02, 0.04, 0.06] }))
  /** Serves until the report is delivered. */
  const serve = Effect.scoped(
    Effect.gen(function* () {
      const server = yield* startServer(openStore(path), { tracker: target })
      yield* eventually("the report is filed", () => server.log.some((line) => line.includes("Report filed")))
    })
  )
  const restored = restore(place, copy, { overwrite: true })
  const searches = () =>
    world.tracker.seen.filter(({ method, path: asked }) => method === "GET" && /issues$/.test(asked))
  const kinds = Effect.map(rawQuery(path, "SELECT kind, state FROM deliveries ORDER BY kind"), (rows) =>
    rows.map(({ kind, state }) => `${kind} ${state}`)
  )
  return { kinds, searches, restored, serve, world }
})

describe("A waiting report in a backup", () => {
  it.scopedLive("that was filed since is found, and not filed again", function* () {
    const { kinds, restored, serve, world } = yield* waiting
    yield* serve
    assert.strictEqual(issues({ world }), 1)
    const { unfiled } = yield* restored
    yield* serve
    assert.strictEqual(issues({ world }), 1)
    assert.strictEqual(unfiled, 1)
    deepStrictEqual(yield* kinds, ["report delivered"])
  })

  it.scopedLive("that was not filed since is filed after all searches, and gets a sweep", function* () {
    const { kinds, searches, restored, serve, world } = yield* waiting
    yield* restored
    yield* serve
    assert.strictEqual(issues({ world }), 1)
    assert.strictEqual(searches().length, 3)
    deepStrictEqual(yield* kinds, ["report delivered", "sweep waiting"])
  })
})

describe("The restore command for PostgreSQL", () => {
  /** Tables of the second version, as its dump has them. */
  const dump = readFileSync(new URL("../layers/store/migrations/fixtures/0002.sql", import.meta.url), "utf8")
    .replaceAll(/^--.*$/gm, "")
    .split(/;$/m)
    .filter((statement) => /^\s*CREATE|INSERT INTO (?:"?migrations|reports|deliveries)/.test(statement))
    .join(";\n")
    .replace("created_at datetime", "created_at TIMESTAMP WITH TIME ZONE")
    .replace("sequence INTEGER PRIMARY KEY", "sequence BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY")

  it.scopedLive("empties the database first, so that no newer table prevents the next upgrade", function* () {
    const url = yield* postgres.emptyPath
    const { openStore, rawQuery } = postgres
    yield* Effect.scoped(openStore(url))
    yield* rawQuery(url, "CREATE TABLE of_a_later_version (id TEXT NOT NULL PRIMARY KEY)")
    const { fix } = yield* Effect.flip(
      restore({ databasePath: "unused", databaseUrl: Option.some(Redacted.make(url)) }, "music.dump")
    )
    const emptying = Array.from(fix.matchAll(/--command='([^']*)'/g), ([, statement]) => statement)
    assert.isAtLeast(emptying.length, 1)
    yield* rawQuery(url, `${emptying.join(";\n")};\n${dump}`)
    deepStrictEqual(yield* rawQuery(url, "SELECT to_regclass('of_a_later_version') AS later"), [
      { later: null }
    ])
    const store = yield* openStore(url)
    yield* store.check
  })
})
