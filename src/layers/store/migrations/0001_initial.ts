/** Times are epoch milliseconds, flags 0 or 1, JSON is text: the same in SQLite and Postgres. Keys are digests. */
import { SqlClient } from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

export default Effect.gen(function* () {
  const sql = yield* SqlClient
  const spoolSequence = sql.onDialectOrElse({
    pg: () => sql.literal("BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"),
    orElse: () => sql.literal("INTEGER PRIMARY KEY")
  })

  yield* sql`
    CREATE TABLE recipients (
      plane TEXT NOT NULL,
      organisation TEXT NOT NULL,
      organisation_uuid TEXT NOT NULL,
      public_id TEXT NOT NULL,
      subscription_id TEXT,
      active INTEGER NOT NULL,
      changed_at BIGINT NOT NULL,
      PRIMARY KEY (plane, organisation, public_id)
    )`
  yield* sql`CREATE INDEX recipients_by_uuid ON recipients (plane, organisation_uuid, public_id)`

  yield* sql`
    CREATE TABLE login_outcomes (
      upstream_key TEXT NOT NULL PRIMARY KEY,
      plane TEXT NOT NULL,
      subscribed INTEGER NOT NULL,
      subscription_id TEXT,
      error TEXT,
      transient INTEGER NOT NULL,
      recorded_at BIGINT NOT NULL
    )`
  yield* sql`CREATE INDEX login_outcomes_by_age ON login_outcomes (recorded_at)`

  yield* sql`
    CREATE TABLE reports (
      id TEXT NOT NULL PRIMARY KEY,
      plane TEXT NOT NULL,
      key_digest TEXT NOT NULL,
      content_digest TEXT NOT NULL,
      reporter TEXT NOT NULL,
      content TEXT NOT NULL,
      source TEXT NOT NULL,
      request_id TEXT NOT NULL,
      created_at BIGINT NOT NULL,
      marker TEXT NOT NULL,
      issue_number BIGINT,
      issue_url TEXT
    )`
  yield* sql`CREATE UNIQUE INDEX reports_by_key ON reports (plane, key_digest, content_digest, reporter)`
  yield* sql`CREATE INDEX reports_by_age ON reports (created_at)`

  yield* sql`
    CREATE TABLE webhook_inbox (
      plane TEXT NOT NULL,
      event_id TEXT NOT NULL,
      event_type TEXT NOT NULL,
      occurred_at TEXT NOT NULL,
      organisation_uuid TEXT,
      aggregate_type TEXT NOT NULL,
      aggregate_id TEXT NOT NULL,
      aggregate_version BIGINT NOT NULL,
      data TEXT NOT NULL,
      received_at BIGINT NOT NULL,
      PRIMARY KEY (plane, event_id)
    )`
  yield* sql`
    CREATE INDEX webhook_inbox_by_aggregate
    ON webhook_inbox (plane, aggregate_type, aggregate_id, aggregate_version)`
  yield* sql`CREATE INDEX webhook_inbox_by_age ON webhook_inbox (received_at)`

  yield* sql`
    CREATE TABLE spool (
      sequence ${spoolSequence},
      record_id TEXT NOT NULL UNIQUE,
      table_name TEXT NOT NULL,
      event_at BIGINT NOT NULL,
      json TEXT NOT NULL,
      bytes BIGINT NOT NULL,
      accepted_at BIGINT NOT NULL,
      lease_owner TEXT,
      lease_until BIGINT
    )`
  yield* sql`CREATE INDEX spool_by_age ON spool (accepted_at)`
  yield* sql`
    CREATE TABLE spool_delivered (
      record_id TEXT NOT NULL PRIMARY KEY,
      delivered_at BIGINT NOT NULL
    )`
  yield* sql`CREATE INDEX spool_delivered_by_age ON spool_delivered (delivered_at)`
  yield* sql`
    CREATE TABLE spool_counts (
      table_name TEXT NOT NULL PRIMARY KEY,
      accepted BIGINT NOT NULL,
      delivered BIGINT NOT NULL,
      duplicates BIGINT NOT NULL,
      expired BIGINT NOT NULL,
      refused BIGINT NOT NULL,
      waiting BIGINT NOT NULL,
      waiting_bytes BIGINT NOT NULL
    )`

  yield* sql`
    CREATE TABLE known_planes (
      environment_id TEXT NOT NULL PRIMARY KEY,
      webhook_key_digest TEXT NOT NULL,
      remembered_at BIGINT NOT NULL
    )`
  yield* sql`CREATE INDEX known_planes_by_digest ON known_planes (webhook_key_digest)`

  yield* sql`
    CREATE TABLE deliveries (
      id TEXT NOT NULL PRIMARY KEY,
      kind TEXT NOT NULL,
      subject TEXT NOT NULL,
      state TEXT NOT NULL,
      leased_from TEXT,
      attempts BIGINT NOT NULL,
      available_at BIGINT NOT NULL,
      sending_at BIGINT,
      sent_at BIGINT,
      looks BIGINT NOT NULL,
      last_failure TEXT,
      fence BIGINT NOT NULL,
      lease_owner TEXT,
      lease_until BIGINT,
      created_at BIGINT NOT NULL,
      finished_at BIGINT
    )`
  yield* sql`CREATE INDEX deliveries_by_due ON deliveries (kind, state, available_at)`
})
