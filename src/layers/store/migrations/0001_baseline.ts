/**
 * Times are epoch milliseconds, flags 0 or 1, JSON is text: the same in SQLite and Postgres. Keys are digests. An index in the order
 * of a list has all columns of that order: without the later ones SQLite sorts all rows for a page.
 */
import type { SqlClient } from "@effect/sql/SqlClient"

export default (sql: SqlClient): ReadonlyArray<string> => [
  `
    CREATE TABLE recipients (
      plane TEXT NOT NULL,
      organisation TEXT NOT NULL,
      organisation_uuid TEXT NOT NULL,
      public_id TEXT NOT NULL,
      subscription_id TEXT,
      active INTEGER NOT NULL,
      changed_at BIGINT NOT NULL,
      PRIMARY KEY (plane, organisation, public_id)
    )`,
  `CREATE INDEX recipients_by_uuid ON recipients (plane, organisation_uuid, public_id)`,
  `CREATE INDEX recipients_by_change ON recipients (active, changed_at)`,

  `
    CREATE TABLE login_outcomes (
      upstream_key TEXT NOT NULL PRIMARY KEY,
      outcome TEXT NOT NULL,
      transient INTEGER NOT NULL,
      recorded_at BIGINT NOT NULL
    )`,
  `CREATE INDEX login_outcomes_by_age ON login_outcomes (recorded_at)`,

  // `holder` has the bytes: a signed-in reporter of a plane, else a network as a keyed digest, if it is known. The row of a report that an
  // operator removed stays without its content until retention removes it, so that every version recognises a repetition.
  `
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
      issue_url TEXT,
      holder TEXT,
      bytes BIGINT NOT NULL,
      removed_at BIGINT,
      removal_reason TEXT
    )`,
  `CREATE INDEX reports_by_key ON reports (plane, key_digest)`,
  `CREATE INDEX reports_in_order ON reports (created_at, id)`,
  `
    CREATE INDEX reports_anonymous ON reports (created_at, id, reporter) WHERE reporter IN ('anonymous', 'unverified')`,
  `
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
    )`,
  `
    CREATE INDEX webhook_inbox_by_aggregate
    ON webhook_inbox (plane, aggregate_type, aggregate_id, aggregate_version)`,
  `CREATE INDEX webhook_inbox_in_order ON webhook_inbox (received_at, plane, event_id)`,

  `
    CREATE TABLE spool (
      sequence ${spoolSequence(sql)},
      record_id TEXT NOT NULL UNIQUE,
      table_name TEXT NOT NULL,
      event_at BIGINT NOT NULL,
      json TEXT NOT NULL,
      bytes BIGINT NOT NULL,
      accepted_at BIGINT NOT NULL,
      lease_owner TEXT,
      lease_until BIGINT
    )`,
  `CREATE INDEX spool_by_age ON spool (accepted_at)`,
  `CREATE INDEX spool_by_table ON spool (table_name, sequence)`,
  `
    CREATE TABLE spool_delivered (
      record_id TEXT NOT NULL PRIMARY KEY,
      delivered_at BIGINT NOT NULL
    )`,
  `CREATE INDEX spool_delivered_by_age ON spool_delivered (delivered_at)`,
  `
    CREATE TABLE spool_refused (
      record_id TEXT NOT NULL PRIMARY KEY,
      table_name TEXT NOT NULL,
      code TEXT NOT NULL,
      event_at BIGINT NOT NULL,
      bytes BIGINT NOT NULL,
      refused_at BIGINT NOT NULL
    )`,
  `CREATE INDEX spool_refused_in_order ON spool_refused (refused_at, record_id)`,
  `
    CREATE TABLE spool_counts (
      table_name TEXT NOT NULL PRIMARY KEY,
      accepted BIGINT NOT NULL,
      delivered BIGINT NOT NULL,
      duplicates BIGINT NOT NULL,
      expired BIGINT NOT NULL,
      refused BIGINT NOT NULL,
      waiting BIGINT NOT NULL,
      waiting_bytes BIGINT NOT NULL
    )`,

  `
    CREATE TABLE known_planes (
      environment_id TEXT NOT NULL PRIMARY KEY,
      webhook_key_digest TEXT NOT NULL,
      remembered_at BIGINT NOT NULL
    )`,
  `CREATE INDEX known_planes_by_digest ON known_planes (webhook_key_digest)`,

  // `lease_until` is set while one is leased.
  // The lower priority comes first: 0 for verified reporters, sweeps and retries by an operator, 1 for all others.
  `
    CREATE TABLE deliveries (
      id TEXT NOT NULL PRIMARY KEY,
      kind TEXT NOT NULL,
      subject TEXT NOT NULL,
      state TEXT NOT NULL,
      attempts BIGINT NOT NULL,
      available_at BIGINT NOT NULL,
      sent_at BIGINT,
      looks BIGINT NOT NULL,
      last_failure TEXT,
      fence BIGINT NOT NULL,
      lease_until BIGINT,
      created_at BIGINT NOT NULL,
      finished_at BIGINT,
      priority INTEGER NOT NULL DEFAULT 1
    )`,
  `CREATE INDEX deliveries_by_turn ON deliveries (state, priority, available_at, id, kind, lease_until) WHERE finished_at IS NULL`,
  `CREATE INDEX deliveries_leased ON deliveries (lease_until) WHERE lease_until IS NOT NULL`,
  // Their numbers by state are read from it alone.
  `CREATE INDEX deliveries_by_state ON deliveries (state, kind, lease_until)`,
  `CREATE INDEX deliveries_by_subject ON deliveries (subject, kind)`,
  `CREATE INDEX deliveries_by_creation ON deliveries (created_at, id)`,
  `CREATE INDEX deliveries_open ON deliveries (created_at) WHERE kind = 'report' AND finished_at IS NULL`,
  `CREATE INDEX deliveries_delivered ON deliveries (finished_at) WHERE state = 'delivered'`,

  `
    CREATE TABLE destinations (
      name TEXT NOT NULL PRIMARY KEY,
      failures BIGINT NOT NULL,
      stopped INTEGER NOT NULL,
      paused_until BIGINT NOT NULL,
      last_failure TEXT
    )`,
  `
    CREATE TABLE destination_writes (
      destination TEXT NOT NULL,
      written_at BIGINT NOT NULL,
      PRIMARY KEY (destination, written_at)
    )`,

  // Digests of the tokens of sessions, so that a session is no stranger after a restart or at another instance.
  `
    CREATE TABLE session_digests (
      digest TEXT NOT NULL PRIMARY KEY,
      login TEXT NOT NULL,
      actor TEXT,
      ends_at BIGINT NOT NULL
    )`,
  `CREATE INDEX session_digests_of_login ON session_digests (login)`,
  `CREATE INDEX session_digests_of_actor ON session_digests (actor)`,
  `CREATE INDEX session_digests_by_end ON session_digests (ends_at)`,
  // The calls to IAM of the last minute, which a process that stops leaves to its successor.
  `CREATE TABLE iam_calls (id TEXT NOT NULL PRIMARY KEY, calls TEXT NOT NULL)`,

  `CREATE TABLE last_backup (id INTEGER NOT NULL PRIMARY KEY, completed_at BIGINT NOT NULL)`,

  // The bytes of the reports of each holder, and without a name of all.
  `CREATE TABLE report_sums (holder TEXT NOT NULL PRIMARY KEY, bytes BIGINT NOT NULL)`
]

const spoolSequence = (sql: SqlClient): string =>
  sql.onDialectOrElse({
    pg: () => "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    orElse: () => "INTEGER PRIMARY KEY"
  })
