/** A process of this version on a database that a later version shares and has migrated. */
import { deepStrictEqual } from "@effect/vitest/utils"
import { Effect, Option, Redacted, type Scope } from "effect"
import { assert, beforeAll } from "vitest"
import { run } from "../cli/Harness.ts"
import { newPath, postgres, rawQuery } from "../layers/store/Stores.ts"
import { eventually } from "../world/Waiting.ts"
import { bundleBefore, serve, stop } from "../world/Fleet.ts"
import type { SettingsOverrides } from "../world/Settings.ts"
import { it } from "../world/Test.ts"
import { refusalOf } from "./Databases.ts"
import { expectRound, filed, shipped, signIn } from "./Server.ts"

beforeAll(bundleBefore)

interface Place {
  readonly environment: Readonly<Record<string, string>>
  readonly settings: SettingsOverrides
  readonly say: (statement: string) => Effect.Effect<ReadonlyArray<Readonly<Record<string, unknown>>>>
  /** Why a second server does not start. */
  readonly refused: string
}

const places: Readonly<Record<string, Effect.Effect<Place, never, Scope.Scope>>> = {
  SQLite: Effect.map(newPath, (path) => ({
    environment: { MUSIC_DATABASE_PATH: path },
    settings: { databasePath: path },
    say: (text) => rawQuery(path, text),
    refused: "in use by another server"
  })),
  PostgreSQL: Effect.map(postgres.emptyPath, (url) => ({
    environment: { MUSIC_DATABASE_URL: url },
    settings: { databaseUrl: Option.some(Redacted.make(url)) },
    say: (text) => postgres.rawQuery(url, text),
    refused: "newer schema"
  }))
}

const delivery = (id: string, lease: string) =>
  `INSERT INTO deliveries (id, kind, subject, state, attempts, available_at, looks, fence, created_at, lease_until)
  VALUES ('digest:${id}', 'digest', 'later', 'waiting', 0, 1, 0, 0, 1, ${lease})`
/** Rows that this version skips: of an unknown table and of an unknown kind. */
const laterRows = [
  "INSERT INTO spool (record_id, table_name, event_at, json, bytes, accepted_at) VALUES ('later', 'musicmobile', 1, '{}', 2, 1)",
  delivery("later", "NULL"),
  delivery("held", "9999999999999")
]

const tables =
  "spool spool_counts spool_delivered spool_refused deliveries reports webhook_inbox recipients login_outcomes destinations destination_writes known_planes"
/** A migration of a later version: columns with a default, a table, and the row of the migration. */
const laterSchema = [
  ...tables.split(" ").map((table) => `ALTER TABLE ${table} ADD COLUMN shade TEXT NOT NULL DEFAULT 'blue'`),
  "CREATE TABLE badges (id TEXT NOT NULL PRIMARY KEY)",
  "INSERT INTO badges (id) VALUES ('later')",
  "INSERT INTO migrations (migration_id, name) VALUES (9999, 'badges')"
]

const untouched = ({ say }: Place) =>
  Effect.forEach(
    [
      "record_id, table_name, bytes FROM spool WHERE table_name = 'musicmobile'",
      "id, state, fence FROM deliveries WHERE kind = 'digest' ORDER BY id"
    ],
    (rows) => say(`SELECT ${rows}`)
  )

it.scopedLive.each(Object.entries(places))(
  "A process beside a later version continues, and skips rows of unknown kinds, on %s",
  function* ([, makePlace]) {
    const place = yield* makePlace
    const served = yield* serve(place.environment)
    const signed = yield* signIn(served)
    /** Every call, and its background effects. */
    const works = (times: number) =>
      Effect.gen(function* () {
        yield* expectRound(served, signed)
        yield* filed(served, times)
        yield* eventually("the event shipped", () => shipped(served) === times)
      })

    yield* works(1)
    yield* Effect.forEach(laterRows, place.say)
    const before = yield* untouched(place)
    yield* works(2)
    const { exit, out } = yield* run(["deliveries", "list"], place.environment)
    assert.strictEqual(exit, 0)
    assert.match(out, /digest:later .*waiting/)

    yield* Effect.forEach(laterSchema, place.say)
    yield* works(3)
    deepStrictEqual(yield* untouched(place), before)
    assert.notMatch(served.server.output(), /Database unavailable|corrupt|"level":"(?:error|fatal)"/i)

    // A new start is refused, and an operator's command for the newer schema.
    assert.include(yield* refusalOf(place.settings), place.refused)
    const listed = yield* run(["deliveries", "list"], place.environment)
    assert.include(listed.err, "newer schema")
    yield* works(4)
    assert.strictEqual((yield* stop(served.server)).code, 0)
  }
)
