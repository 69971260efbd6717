/** A process of this version on a database that a later version shares and has migrated. */
import { join } from "node:path"
import { assert, describe } from "vitest"
import { it } from "../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { call } from "../../sandbox/HttpExchange.ts"
import { run } from "../cli/Harness.ts"
import { folder, postgres, rawQuery } from "../layers/store/Stores.ts"
import { bundleBefore, metricsUrl, refuse, serve, stop } from "./Processes.ts"
import { everyCall, healthy, issues, signIn } from "./Server.ts"
import { eventually } from "../support/Waiting.ts"

bundleBefore()

type Row = Readonly<Record<string, unknown>>

interface Place {
  readonly environment: Readonly<Record<string, string>>
  readonly say: (statement: string) => Effect.Effect<ReadonlyArray<Row>, unknown>
  /** Why a second server does not start. */
  readonly refused: string
}

const places: Readonly<Record<string, Effect.Effect<Place, never, Scope.Scope>>> = {
  SQLite: Effect.map(folder, (folder) => {
    const path = join(folder, "music.sqlite")
    return {
      environment: { MUSIC_DATABASE_PATH: path },
      say: (text) => rawQuery(path, text),
      refused: "in use by another server"
    }
  }),
  PostgreSQL: Effect.map(postgres.emptyPath, (url) => ({
    environment: { MUSIC_DATABASE_URL: url },
    say: (text) => postgres.rawQuery(url, text),
    refused: "newer schema"
  }))
}

/** Rows of a later version with the same schema: unknown tables, kinds, states and reporters. */
const laterRows = [
  `INSERT INTO spool (record_id, table_name, event_at, json, bytes, accepted_at)
   VALUES ('later', 'musicmobile', 1, '{}', 2, 1)`,
  `INSERT INTO spool_counts
     (table_name, accepted, delivered, duplicates, expired, refused, waiting, waiting_bytes)
   VALUES ('musicmobile', 2, 0, 0, 0, 1, 1, 2)`,
  `INSERT INTO spool_refused (record_id, table_name, code, event_at, bytes, refused_at)
   VALUES ('refused later', 'musicmobile', 'quarantined', 1, 2, 1)`,
  `INSERT INTO deliveries (id, kind, subject, state, attempts, available_at, looks, fence, created_at)
   VALUES ('digest:later', 'digest', 'later', 'waiting', 0, 1, 0, 0, 1)`,
  `INSERT INTO deliveries
     (id, kind, subject, state, leased_from, attempts, available_at, looks, fence, lease_owner, lease_until, created_at)
   VALUES ('digest:held', 'digest', 'held', 'leased', 'deferred', 0, 1, 0, 0, 'later', 2, 1)`,
  `INSERT INTO deliveries (id, kind, subject, state, attempts, available_at, looks, fence, created_at)
   VALUES ('report:deferred', 'report', 'deferred', 'deferred', 0, 1, 0, 0, 1)`,
  `INSERT INTO deliveries (id, kind, subject, state, attempts, available_at, looks, fence, created_at, finished_at)
   VALUES ('digest:failed', 'digest', 'failed', 'failed', 1, 1, 0, 0, 1, 2)`,
  `INSERT INTO reports
     (id, plane, key_digest, content_digest, reporter, content, source, request_id, created_at, marker)
   VALUES ('later', 'production', 'later', 'later', 'application:acme',
     '{"message":"m","pr":null,"attachments":[],"context":null,"severity":3}', 'kiosk', 'later', 1, 'later')`,
  `INSERT INTO deliveries (id, kind, subject, state, attempts, available_at, looks, fence, created_at)
   VALUES ('report:later', 'report', 'later', 'waiting', 0, 1, 0, 0, 1)`,
  `INSERT INTO destinations (name, failures, stopped, paused_until, changed_at)
   VALUES ('table musicmobile', 3, 2, 1, 1)`,
  `INSERT INTO webhook_inbox
     (plane, event_id, event_type, occurred_at, aggregate_type, aggregate_id, aggregate_version, data, received_at)
   VALUES ('production', 'later', 'badge.awarded.v7', 'soon', 'badge', 'later', 1, '[]', 1)`,
  `INSERT INTO login_outcomes (upstream_key, plane, subscribed, refusal, transient, recorded_at)
   VALUES ('later', 'production', 0, 'suspended', 2, 1)`
]

/** A migration of a later version: columns with a default, a table, and the row of the migration. */
const laterSchema = [
  ...[
    "spool",
    "spool_counts",
    "spool_delivered",
    "spool_refused",
    "deliveries",
    "reports",
    "webhook_inbox",
    "recipients",
    "login_outcomes",
    "destinations",
    "destination_writes",
    "known_planes"
  ].map((table) => `ALTER TABLE ${table} ADD COLUMN shade TEXT NOT NULL DEFAULT 'blue'`),
  "CREATE TABLE badges (id TEXT NOT NULL PRIMARY KEY)",
  "INSERT INTO badges (id) VALUES ('later')",
  "INSERT INTO migrations (migration_id, name) VALUES (9999, 'badges')"
]

/** Rows that only the later version may change. */
const untouched = ({ say }: Place) =>
  Effect.all([
    say("SELECT record_id, table_name, bytes FROM spool WHERE table_name = 'musicmobile'"),
    say("SELECT record_id, code FROM spool_refused WHERE table_name = 'musicmobile'"),
    say("SELECT accepted, expired, refused, waiting FROM spool_counts WHERE table_name = 'musicmobile'"),
    say(`SELECT id, state, leased_from, fence, available_at FROM deliveries
         WHERE kind = 'digest' OR state = 'deferred' ORDER BY id`),
    say("SELECT failures, stopped FROM destinations WHERE name = 'table musicmobile'")
  ])

describe.concurrent("A process beside a later version", () => {
  for (const [name, makePlace] of Object.entries(places))
    it.scopedLive(`continues, and does not change rows of unknown kinds, on ${name}`, function* () {
      const place = yield* makePlace
      const environment = {
        ...place.environment,
        MUSIC_ADMIN_BIND: "127.0.0.1:0"
      }
      const served = yield* serve(environment)
      const signed = yield* signIn(served)
      const shipped = () => served.world.tables.rows("musicclidaemon").length
      const url = yield* metricsUrl(served)
      const metrics = Effect.map(call(url), ({ text }) => text)
      /** Every call, and its background effects. */
      const works = (times: number) =>
        Effect.gen(function* () {
          deepStrictEqual((yield* everyCall(served, signed)).round, healthy)
          yield* eventually("the report filed", () => issues(served) === times)
          yield* eventually("the event shipped", () => shipped() === times)
        })

      yield* works(1)
      yield* Effect.forEach(laterRows, place.say)
      const before = yield* untouched(place)
      yield* works(2)
      const scraped = yield* metrics
      assert.match(scraped, /music_store_up 1\b/)
      assert.match(scraped, /music_spool_bytes\{table="musicmobile"\} 2\b/)

      const lists = [
        ["deliveries", /digest:later .*waiting/],
        ["reports", /later .*application:acme/],
        ["webhooks", /badge\.awarded\.v7/]
      ] as const
      for (const [noun, shown] of lists) {
        const { err, exit, out } = yield* run([noun, "list"], place.environment)
        deepStrictEqual([exit, err], [0, ""])
        assert.match(out, shown)
        assert.strictEqual((yield* run([noun, "list", "--json"], place.environment)).exit, 0)
      }
      for (const command of ["retry", "discard"]) {
        const { err, exit } = yield* run(["deliveries", command, "digest:later"], place.environment)
        assert.strictEqual(exit, 1)
        assert.match(err, /later version/)
      }

      yield* Effect.forEach(laterSchema, place.say)
      yield* works(3)
      deepStrictEqual(yield* untouched(place), before)
      deepStrictEqual(
        yield* place.say("SELECT issue_number FROM reports WHERE id = 'later'"),
        [{ issue_number: null }],
        "only the later version can anonymise its reporter"
      )
      assert.match(yield* metrics, /music_store_up 1\b/)
      assert.notMatch(served.server.output(), /Database unavailable|corrupt|"level":"(?:error|fatal)"/i)

      // A new start is refused, and an operator's command for the newer schema.
      const { code, output } = yield* refuse(place.environment)
      assert.strictEqual(code, 69)
      assert.include(output, place.refused)
      const listed = yield* run(["deliveries", "list"], place.environment)
      assert.include(listed.err, "newer schema")
      yield* works(4)
      assert.strictEqual((yield* stop(served.server)).code, 0)
    })
})
