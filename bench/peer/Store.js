/** SQLite with `synchronous = FULL`, in WAL, and one group commit under all writes. */
import { randomBytes } from "node:crypto"
import Database from "better-sqlite3"

const schema = `
  CREATE TABLE IF NOT EXISTS recipients (
    organisation TEXT NOT NULL, public_id TEXT NOT NULL, active INTEGER NOT NULL, changed_at INTEGER NOT NULL,
    PRIMARY KEY (organisation, public_id));
  CREATE TABLE IF NOT EXISTS reports (
    id TEXT NOT NULL PRIMARY KEY, key_digest TEXT NOT NULL, content_digest TEXT NOT NULL, reporter TEXT NOT NULL,
    content TEXT NOT NULL, source TEXT NOT NULL, request_id TEXT NOT NULL, created_at INTEGER NOT NULL,
    marker TEXT NOT NULL, issue_number INTEGER, issue_url TEXT);
  CREATE UNIQUE INDEX IF NOT EXISTS reports_by_key ON reports (key_digest, content_digest, reporter);
  CREATE INDEX IF NOT EXISTS reports_by_age ON reports (created_at);
  CREATE TABLE IF NOT EXISTS totals (name TEXT NOT NULL PRIMARY KEY, bytes INTEGER NOT NULL);
  CREATE TABLE IF NOT EXISTS deliveries (
    id TEXT NOT NULL PRIMARY KEY, subject TEXT NOT NULL, state TEXT NOT NULL, attempts INTEGER NOT NULL,
    available_at INTEGER NOT NULL, created_at INTEGER NOT NULL, finished_at INTEGER, last_failure TEXT);
  CREATE INDEX IF NOT EXISTS deliveries_by_turn ON deliveries (state, available_at, id);
  CREATE INDEX IF NOT EXISTS deliveries_by_subject ON deliveries (subject);
  CREATE TABLE IF NOT EXISTS spool (
    sequence INTEGER PRIMARY KEY, record_id TEXT NOT NULL UNIQUE, table_name TEXT NOT NULL, event_at INTEGER NOT NULL,
    json TEXT NOT NULL, bytes INTEGER NOT NULL, accepted_at INTEGER NOT NULL);
  CREATE INDEX IF NOT EXISTS spool_by_age ON spool (accepted_at);
  CREATE TABLE IF NOT EXISTS spool_delivered (record_id TEXT NOT NULL PRIMARY KEY, delivered_at INTEGER NOT NULL);
  CREATE TABLE IF NOT EXISTS webhook_inbox (
    event_id TEXT NOT NULL PRIMARY KEY, event_type TEXT NOT NULL, occurred_at TEXT NOT NULL, organisation_uuid TEXT,
    aggregate_type TEXT NOT NULL, aggregate_id TEXT NOT NULL, aggregate_version INTEGER NOT NULL, data TEXT NOT NULL,
    received_at INTEGER NOT NULL);
  CREATE INDEX IF NOT EXISTS webhook_inbox_by_aggregate
    ON webhook_inbox (aggregate_type, aggregate_id, aggregate_version);
  INSERT OR IGNORE INTO totals VALUES ('spool', 0), ('reports', 0);`

const bytesPerReport = 1_000
const reportsLimit = 1_000 * 1024 * 1024
const spoolLimit = 500 * 1024 * 1024
/** Jobs of one transaction, which holds up the event loop. */
const groupSize = 200

export const openStore = (path) => {
  const db = new Database(path)
  for (const pragma of ["journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"]) db.pragma(pragma)
  db.exec(schema)

  const begin = db.prepare("BEGIN IMMEDIATE")
  const commit = db.prepare("COMMIT")
  const rollback = db.prepare("ROLLBACK")
  const savepoint = db.prepare("SAVEPOINT job")
  const release = db.prepare("RELEASE job")
  const undo = db.prepare("ROLLBACK TO job")

  const pending = []
  let isScheduled = false

  /** One transaction for all jobs that wait, each in a savepoint; answers leave after the commit. */
  const runGroup = () => {
    const group = pending.splice(0, groupSize)
    isScheduled = pending.length > 0
    if (isScheduled) setImmediate(runGroup)
    const settled = []
    try {
      begin.run()
      for (const { job, reject, resolve } of group) {
        savepoint.run()
        try {
          const value = job()
          settled.push(() => resolve(value))
        } catch (error) {
          undo.run()
          settled.push(() => reject(error))
        }
        release.run()
      }
      commit.run()
    } catch (error) {
      if (db.inTransaction) rollback.run()
      for (const { reject } of group) reject(error)
      return
    }
    for (const settle of settled) settle()
  }

  const write = (job) =>
    new Promise((resolve, reject) => {
      pending.push({ job, resolve, reject })
      if (!isScheduled) setImmediate(runGroup)
      isScheduled = true
    })

  const addBytes = db.prepare("UPDATE totals SET bytes = bytes + ? WHERE name = ?")
  const total = db.prepare("SELECT bytes FROM totals WHERE name = ?").pluck()

  const reportsUnderKey = db.prepare("SELECT * FROM reports WHERE key_digest = ? ORDER BY created_at, id")
  const insertReport = db.prepare(`
    INSERT INTO reports (id, key_digest, content_digest, reporter, content, source, request_id, created_at, marker)
    VALUES (@id, @keyDigest, @contentDigest, @reporter, @content, @source, @requestId, @createdAt, @marker)`)
  const insertDelivery = db.prepare(`
    INSERT INTO deliveries (id, subject, state, attempts, available_at, created_at) VALUES (?, ?, 'waiting', 0, ?, ?)`)

  const admitReport = (report) =>
    write(() => {
      const rows = reportsUnderKey.all(report.keyDigest)
      const same = rows.find(
        (row) => row.content_digest === report.contentDigest && row.reporter === report.reporter
      )
      if (same !== undefined) return { kind: "replayed", row: same }
      if (rows.some(({ reporter }) => reporter === report.reporter)) return { kind: "conflict" }
      const bytes = Buffer.byteLength(report.content) + bytesPerReport
      if (total.get("reports") + bytes > reportsLimit) return { kind: "full" }
      insertReport.run(report)
      addBytes.run(bytes, "reports")
      insertDelivery.run(
        `dlv_${randomBytes(16).toString("hex")}`,
        report.id,
        report.createdAt,
        report.createdAt
      )
      return { kind: "stored" }
    })

  const isDelivered = db.prepare("SELECT 1 FROM spool_delivered WHERE record_id = ?").pluck()
  const insertRecord = db.prepare(`
    INSERT INTO spool (record_id, table_name, event_at, json, bytes, accepted_at)
    VALUES (@recordId, @table, @eventAt, @json, @bytes, @acceptedAt) ON CONFLICT (record_id) DO NOTHING`)

  const offerRecords = (records) =>
    write(() => {
      const offered = records.reduce((sum, { bytes }) => sum + bytes, 0)
      if (total.get("spool") + offered > spoolLimit) return "full"
      let added = 0
      for (const record of records)
        if (isDelivered.get(record.recordId) === undefined && insertRecord.run(record).changes === 1)
          added += record.bytes
      addBytes.run(added, "spool")
      return "accepted"
    })

  const insertEvent = db.prepare(`
    INSERT INTO webhook_inbox VALUES
      (@eventId, @eventType, @occurredAt, @organisationUuid, @aggregateType, @aggregateId, @aggregateVersion, @data,
       @receivedAt) ON CONFLICT (event_id) DO NOTHING`)

  const recipient = db
    .prepare("SELECT active FROM recipients WHERE organisation = ? AND public_id = ?")
    .pluck()
  const activate = db.prepare(`
    INSERT INTO recipients VALUES (?, ?, 1, ?)
    ON CONFLICT DO UPDATE SET active = 1, changed_at = excluded.changed_at WHERE active = 0`)

  const waitingRecords = db.prepare("SELECT * FROM spool ORDER BY sequence LIMIT ?")
  const deleteRecord = db.prepare("DELETE FROM spool WHERE sequence = ?")
  const remember = db.prepare("INSERT OR REPLACE INTO spool_delivered VALUES (?, ?)")
  const dueReport = db.prepare(`
    SELECT deliveries.id AS delivery, reports.* FROM deliveries JOIN reports ON reports.id = deliveries.subject
    WHERE state = 'waiting' AND available_at <= ? ORDER BY state, available_at, deliveries.id LIMIT 1`)
  const setDelivery = db.prepare(`
    UPDATE deliveries SET state = ?, attempts = attempts + 1, available_at = ?, finished_at = ?, last_failure = ?
    WHERE id = ?`)
  const setIssue = db.prepare("UPDATE reports SET issue_number = ?, issue_url = ? WHERE id = ?")

  return {
    admitReport,
    offerRecords,
    receiveEvent: (event) => write(() => insertEvent.run(event).changes === 1),
    isRecipient: (organisation, publicId) => recipient.get(organisation, publicId) === 1,
    activateRecipient: (organisation, publicId) =>
      write(() => activate.run(organisation, publicId, Date.now())),
    waitingRecords: (count) => waitingRecords.all(count),
    recordShipped: (records) =>
      write(() => {
        const now = Date.now()
        for (const { record_id, sequence } of records) {
          deleteRecord.run(sequence)
          remember.run(record_id, now)
        }
        addBytes.run(-records.reduce((sum, { bytes }) => sum + bytes, 0), "spool")
      }),
    dueReport: () => dueReport.get(Date.now()),
    markSending: (delivery) => write(() => setDelivery.run("sending", Date.now(), null, null, delivery)),
    recordFiled: (delivery, report, issue) =>
      write(() => {
        const now = Date.now()
        setDelivery.run("done", now, now, null, delivery)
        setIssue.run(issue.number, issue.html_url, report)
      }),
    recordNotFiled: (delivery, failure) =>
      write(() => setDelivery.run("waiting", Date.now() + 60_000, null, failure, delivery)),
    isReady: () => total.get("spool") !== undefined,
    close: async () => {
      await write(() => undefined)
      db.close()
    }
  }
}
