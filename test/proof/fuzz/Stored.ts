/** What the service kept, read from the SQLite file beside it and from what arrived upstream. */
import { closeSync, existsSync, openSync, readSync } from "node:fs"
import Database from "better-sqlite3"
import { findCanaries, type Found } from "./Canary.ts"
import { deliveryDigest, fieldsOf, recordDigest, reportDigest } from "./Content.ts"
import type { World } from "./World.ts"

export interface Stored {
  /** Digests of the reports by id. */
  readonly reports: ReadonlyMap<string, string>
  /** Digests of the events of the webhook inbox by id. */
  readonly deliveries: ReadonlyMap<string, string>
  /** Digests of telemetry records by the request that brought them: in the spool and delivered. */
  readonly records: ReadonlyMap<number, ReadonlyArray<string>>
  /** Beginnings of what has the form of a credential, in the bytes of the file. */
  readonly credentials: ReadonlySet<string>
  /** Every canary, and where it was found. */
  readonly canaries: ReadonlyMap<string, Found & { readonly where: string }>
}

const credentials = /(?:oat|ort|oac|obo|ask)_[A-Za-z0-9_-]{28,}/g

const piece = 4 * 1_024 * 1_024

/** Canaries in the bytes of a file, also in its free pages. */
const scanFile = (file: string, keep: (found: Found, where: string) => void, seen: Set<string>): void => {
  if (!existsSync(file)) return
  const descriptor = openSync(file, "r")
  const buffer = Buffer.alloc(piece)
  let rest = ""
  for (;;) {
    const size = readSync(descriptor, buffer)
    if (size === 0) break
    const text = rest + buffer.toString("latin1", 0, size)
    for (const found of findCanaries(text)) keep(found, "the bytes of the file")
    for (const [found] of text.matchAll(credentials))
      seen.add(
        `${found.slice(0, 12)}… in ${text.slice(Math.max(0, text.indexOf(found) - 200), text.indexOf(found))}`
      )
    rest = text.slice(-60)
  }
  closeSync(descriptor)
}

/** Reads everything. Requests in flight may be seen or not. */
export const readStored = ({ databasePath, upstreams }: World): Stored => {
  const canaries = new Map<string, Found & { readonly where: string }>()
  const keep = (found: Found, where: string) => {
    const key = `${found.place}${found.index}`
    if (!canaries.has(key)) canaries.set(key, { ...found, where })
  }
  const database = new Database(databasePath)
  const textOf = (sql: string): ReadonlyArray<string> =>
    database
      .prepare(sql)
      .all()
      .map((row) => String(Object.values(row)[0]))
  const records = new Map<number, Array<string>>()
  const count = (text: string) => {
    const [first] = findCanaries(text)
    if (first === undefined) return
    const known = records.get(first.index) ?? []
    records.set(first.index, known)
    known.push(recordDigest(fieldsOf(text)))
  }
  const reports = new Map<string, string>()
  const deliveries = new Map<string, string>()
  // One state of all tables.
  database.prepare("BEGIN").run()
  // A record that waits for its acknowledgement is perhaps delivered already.
  const delivered = new Set<string>()
  for (const table of upstreams.tableKeys.keys())
    for (const { record, record_id } of upstreams.tables.rows(table)) {
      const text = JSON.stringify(record)
      delivered.add(record_id)
      count(text)
      for (const found of findCanaries(text)) keep(found, `the table ${table}`)
    }
  for (const table of textOf(
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
  )) {
    const page = database.prepare(
      `SELECT rowid AS fuzz_row, * FROM "${table}" WHERE rowid > ? ORDER BY rowid LIMIT 200`
    )
    let rows = page.all(0)
    while (rows.length > 0) {
      for (const row of rows) {
        for (const found of findCanaries(JSON.stringify(row))) keep(found, `a row of ${table}`)
        if (table === "spool" && !delivered.has(String(row.record_id))) count(String(row.json))
        if (table === "reports") reports.set(String(row.id), reportDigest(fieldsOf(String(row.content))))
        if (table === "webhook_inbox")
          deliveries.set(String(row.event_id), deliveryDigest(row.event_type, JSON.parse(String(row.data))))
      }
      rows = page.all(Number(rows.at(-1)?.fuzz_row))
    }
  }
  const credentialsSeen = new Set<string>()
  database.prepare("COMMIT").run()
  database.close()
  for (const { body, title } of upstreams.tracker.issues("harbor/music"))
    for (const found of findCanaries(`${title}\n${body}`)) keep(found, "an issue")
  for (const suffix of ["", "-wal"]) scanFile(databasePath + suffix, keep, credentialsSeen)
  return { reports, deliveries, records, canaries, credentials: credentialsSeen }
}
