/** A process of this version on a database that a later version shares and has migrated. */
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { assert, beforeAll, describe } from "vitest"
import { call } from "../../sandbox/HttpExchange.ts"
import { run } from "../cli/Harness.ts"
import { postgres, rawQuery } from "../layers/store/Stores.ts"
import { eventually } from "../world/Waiting.ts"
import { bundleBefore, metricsUrl, serve, stop } from "../world/Fleet.ts"
import type { SettingsOverrides } from "../world/Settings.ts"
import { it } from "../world/Test.ts"
import { newPath, refusalOf } from "./Databases.ts"
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

type Values = Readonly<Record<string, string | number>>
const insert = (table: string, values: Values) =>
  `INSERT INTO ${table} (${Object.keys(values)}) VALUES (${Object.values(values).map((value) => (typeof value === "string" ? `'${value}'` : value))})`
const delivery = (kind: string, subject: string, state: string, more: Values = {}) =>
  insert("deliveries", {
    ...{ id: `${kind}:${subject}`, kind, subject, state },
    ...{ attempts: 0, available_at: 1, looks: 0, fence: 0, created_at: 1 },
    ...more
  })

/** Rows of a later version with the same schema: unknown tables, kinds, states and reporters. */
const laterRows = [
  insert("spool", {
    ...{ record_id: "later", table_name: "musicmobile", event_at: 1, json: "{}", bytes: 2, accepted_at: 1 }
  }),
  insert("spool_counts", {
    ...{ table_name: "musicmobile", accepted: 2, delivered: 0, duplicates: 0, expired: 0, refused: 1 },
    ...{ waiting: 1, waiting_bytes: 2 }
  }),
  delivery("digest", "later", "waiting"),
  delivery("digest", "held", "leased", { leased_from: "deferred", lease_owner: "later", lease_until: 2 }),
  delivery("report", "deferred", "deferred"),
  insert("reports", {
    ...{ id: "later", plane: "production", key_digest: "later", content_digest: "later" },
    ...{ reporter: "application:acme", source: "kiosk", request_id: "later", created_at: 1, marker: "later" },
    content: '{"message":"m","pr":null,"attachments":[],"context":null,"severity":3}'
  }),
  delivery("report", "later", "waiting"),
  insert("webhook_inbox", {
    ...{ plane: "production", event_id: "later", event_type: "badge.awarded.v7", occurred_at: "soon" },
    ...{ aggregate_type: "badge", aggregate_id: "later", aggregate_version: 1, data: "[]", received_at: 1 }
  })
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

/** Rows that only the later version may change. */
const untouched = ({ say }: Place) =>
  Effect.forEach(
    [
      "record_id, table_name, bytes FROM spool WHERE table_name = 'musicmobile'",
      "accepted, expired, refused, waiting FROM spool_counts WHERE table_name = 'musicmobile'",
      "id, state, leased_from, fence FROM deliveries WHERE kind = 'digest' OR state = 'deferred' ORDER BY id"
    ],
    (rows) => say(`SELECT ${rows}`)
  )

describe.concurrent("A process beside a later version", () => {
  it.scopedLive.each(Object.entries(places))(
    "continues, and does not change rows of unknown kinds, on %s",
    function* ([, makePlace]) {
      const place = yield* makePlace
      const served = yield* serve({ ...place.environment, MUSIC_ADMIN_BIND: "127.0.0.1:0" })
      const signed = yield* signIn(served)
      const metrics = Effect.map(call(yield* metricsUrl(served)), ({ text }) => text)
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
      const scraped = yield* metrics
      assert.match(scraped, /music_store_up 1\b/)
      assert.match(scraped, /music_spool_bytes\{table="musicmobile"\} 2\b/)

      for (const [noun, shown] of [
        ["deliveries", /digest:later .*waiting/],
        ["reports", /later .*application:acme/],
        ["webhooks", /badge\.awarded\.v7/]
      ] as const)
        for (const more of [[], ["--json"]]) {
          const { err, exit, out } = yield* run([noun, "list", ...more], place.environment)
          deepStrictEqual([exit, err], [0, ""])
          if (more.length === 0) assert.match(out, shown)
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
      assert.include(yield* refusalOf(place.settings), place.refused)
      const listed = yield* run(["deliveries", "list"], place.environment)
      assert.include(listed.err, "newer schema")
      yield* works(4)
      assert.strictEqual((yield* stop(served.server)).code, 0)
    }
  )
})
