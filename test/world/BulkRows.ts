/** Fills a database with many valid rows, by a few statements of its own dialect. */
import { Effect } from "effect"
import type { Kind } from "../layers/store/Stores.ts"

const hour = 3_600_000
const day = 24 * hour

const content = JSON.stringify({
  message: `Playback stops after a seek near the end of a track. ${"The player shows the last frame. ".repeat(8)}`,
  pr: null,
  attachments: [{ name: "player.log", content: "12:00:01 seek 182\n".repeat(8) }],
  context: { os: "linux", version: "1.4.2", track: 7 }
})

const record = JSON.stringify({
  type: "playback.track.started",
  data: { track: 7, source: "library" },
  metadata: { version: "1.4.2", session: "0199a0aa-0000-7000-8000-000000000001" }
})

/** Reports, as many webhooks, those reports that wait for the tracker, and rows of each other table. */
interface Volumes {
  readonly reports: number
  readonly waiting: number
  readonly others: number
}

/** The statements that add rows, oldest first. */
export const bulkStatements = (isSqlite: boolean, now: number, volumes: Volumes): ReadonlyArray<string> => {
  const { others, reports, waiting } = volumes
  const hex = (bytes: 16 | 32, salt: string) =>
    isSqlite
      ? `lower(hex(randomblob(${bytes})))`
      : bytes === 16
        ? `md5(random()::text || i || '${salt}')`
        : `md5(random()::text || i || '${salt}') || md5(random()::text || i)`
  const series = (rows = others) =>
    isSqlite
      ? `(WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ${rows}) SELECT i FROM n) AS n`
      : `generate_series(0, ${rows}::bigint - 1) AS n(i)`
  /** Evenly spread over the last `span` milliseconds, oldest first. */
  const spread = (span: number, rows = others) => `${now - span} + i * ${Math.floor(span / rows)}`
  /** In the order of time, as the service and the client make them. */
  const ordered = (salt: string, millis: string) =>
    `${isSqlite ? `printf('%012x', ${millis})` : `lpad(to_hex(${millis}), 12, '0')`} || substr(${hex(16, salt)}, 13)`
  const text = (expression: string) => `CAST(${expression} AS TEXT)`
  // Those that wait are due. The finished deliveries are too young for retention, the failed ones too old.
  const firstWaiting = reports - waiting
  const firstFinished = firstWaiting - Math.floor(reports / 10)
  const firstFailed = firstFinished - Math.floor(reports / 100)
  const isFiled = `i < ${firstWaiting} AND NOT (i >= ${firstFailed} AND i < ${firstFinished})`
  const step = Math.floor((29 * day) / (firstWaiting - firstFinished))
  return [
    `INSERT INTO reports
      (id, plane, key_digest, content_digest, reporter, content, source, request_id, created_at, marker, issue_number, issue_url, holder, bytes)
    SELECT 'rep_' || ${ordered("id", spread(300 * day, reports))}, 'production', ${hex(32, "key")}, ${hex(32, "content")},
      CASE WHEN i % 3 = 0 THEN 'anonymous' ELSE 'verified:c:listener' || ${text("i % 10000")} END,
      '${content}', 'cli', 'bulk_' || ${text("i")}, ${spread(300 * day, reports)}, ${hex(16, "marker")},
      CASE WHEN ${isFiled} THEN i + 1 END,
      CASE WHEN ${isFiled} THEN 'https://github.com/harbor/music/issues/' || ${text("i + 1")} END,
      CASE WHEN i % 3 <> 0 THEN 'production verified:c:listener' || ${text("i % 10000")} END, ${content.length + 1_000}
    FROM ${series(reports)}`,
    `INSERT INTO deliveries
      (id, kind, subject, state, attempts, available_at, looks, last_failure, fence, created_at, finished_at, priority)
    SELECT 'report:' || id, 'report', id,
      CASE WHEN i >= ${firstWaiting} THEN 'waiting' WHEN i >= ${firstFinished} THEN 'delivered' ELSE 'failed' END,
      CASE WHEN i >= ${firstWaiting} THEN 0 ELSE 1 END, created_at, 0,
      CASE WHEN i < ${firstFinished} THEN 'the tracker refused it' END, 1, created_at,
      CASE WHEN i < ${firstFinished} THEN created_at + 2000 WHEN i < ${firstWaiting} THEN ${now - 29 * day} + (i - ${firstFinished}) * ${step} END,
      CASE WHEN reporter = 'anonymous' THEN 1 ELSE 0 END
    FROM (SELECT reports.*, ${isSqlite ? "CAST(SUBSTR(request_id, 6) AS INTEGER)" : "SUBSTR(request_id, 6)::bigint"} AS i
      FROM reports WHERE request_id LIKE 'bulk@_%' ESCAPE '@') AS numbered
    WHERE i >= ${firstFailed}`,
    `INSERT INTO webhook_inbox
      (plane, event_id, event_type, occurred_at, organisation_uuid, aggregate_type, aggregate_id, aggregate_version, data, received_at)
    SELECT 'production', ${hex(16, "event")}, 'organization.membership.updated.v1', '2026-09-25T10:15:30.123456Z',
      '0199a0aa-0000-7000-8000-000000000001', 'organization_membership', ${hex(16, "aggregate")}, 1,
      '{"public_id":"c:listener","status":"active","roles":["listener"]}', ${spread(45 * day, reports)}
    FROM ${series(reports)}`,
    `INSERT INTO spool (record_id, table_name, event_at, json, bytes, accepted_at)
    SELECT ${ordered("record", spread(12 * hour))}, 'musicclidaemon', ${spread(12 * hour)}, '${record}', ${record.length},
      ${spread(12 * hour)}
    FROM ${series()}`,
    `INSERT INTO spool_counts (table_name, accepted, delivered, duplicates, expired, refused, waiting, waiting_bytes)
    VALUES ('musicclidaemon', ${others}, 0, 0, 0, 0, ${others}, ${others * record.length})`,
    `INSERT INTO spool_delivered (record_id, delivered_at)
    SELECT ${ordered("delivered", spread(20 * hour))}, ${spread(20 * hour)} FROM ${series()}`,
    `INSERT INTO recipients (plane, organisation, organisation_uuid, public_id, subscription_id, active, changed_at)
    SELECT 'production', 'org' || ${text("i % 1000")}, '0199a0aa-0000-7000-8000-' || ${text("i % 1000")},
      'c:listener' || ${text("i")}, ${hex(16, "subscription")}, CASE WHEN i % 4 = 0 THEN 0 ELSE 1 END,
      ${spread(80 * day)}
    FROM ${series()}`,
    `INSERT INTO login_outcomes (upstream_key, outcome, transient, recorded_at)
    SELECT ${hex(32, "login")}, '{"_tag":"Refusal","reason":"no_organization"}', 0, ${spread(20 * hour)}
    FROM ${series()}`,
    `INSERT INTO session_digests (digest, login, actor, ends_at)
    SELECT ${hex(32, "digest")}, 'login' || ${text("i / 3")}, 'actor' || ${text("i / 6")}, ${spread(2 * day)} + ${day}
    FROM ${series()}`,
    `INSERT INTO spool_refused (record_id, table_name, code, event_at, bytes, refused_at)
    SELECT ${ordered("refused", spread(29 * day))}, 'musicclidaemon', 'record_too_large', ${now - day}, 300, ${spread(29 * day)}
    FROM ${series()}`
  ]
}

/** Adds the rows to a database that has the schema, without the store's rules. */
export const fill = ({ name, rawQuery }: Kind, place: string, rows: number) =>
  Effect.suspend(() => {
    const isSqlite = name === "SQLite"
    const volumes = { reports: rows, waiting: rows / 2, others: rows }
    // As autovacuum does some time later. SQLite has no statistics until somebody asks for them, and the store does not.
    const last = isSqlite ? [] : ["VACUUM ANALYZE"]
    return rawQuery(place, [...bulkStatements(isSqlite, Date.now(), volumes), ...last].join(";\n"))
  })
