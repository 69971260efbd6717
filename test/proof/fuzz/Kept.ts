/** What the service kept and did, as digests: read from the SQLite file beside it, from what arrived upstream, and from the journal of IAM. */
import { createHash } from "node:crypto"
import { closeSync, existsSync, openSync, readSync } from "node:fs"
import Database from "better-sqlite3"
import { findCanaries, type Found } from "./Canary.ts"
import type { World } from "./World.ts"

type Fields = Readonly<Record<string, unknown>>

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** The order of names has no meaning. */
const sorted = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(sorted)
  if (!isFields(value)) return value
  const members = Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1))
  return members.map(([name, member]) => [name, sorted(member)])
}

const digest = (value: unknown): string =>
  createHash("sha256")
    .update(JSON.stringify(sorted(value)))
    .digest("hex")

/** The members of a JSON object; none for any other text. */
export const fieldsOf = (text: string): Fields => {
  try {
    const value: unknown = JSON.parse(text)
    return isFields(value) ? value : {}
  } catch {
    return {}
  }
}

/** Everything of a report that a person sent. */
export const reportDigest = ({ attachments, context, message, pr }: Fields): string =>
  digest([message, pr ?? null, attachments ?? [], context ?? null])

/** Type and data of an event of the webhook inbox. */
const deliveryDigest = (type: unknown, data: unknown): string => digest([type, data])

/** The same of a delivery's body, in production's envelope or in that of a testing plane. */
export const deliveredDigest = ({ data, event_type, test }: Fields): string => {
  if (!isFields(test)) return deliveryDigest(event_type, data)
  return deliveryDigest(isFields(test.metadata) ? test.metadata.event_type : undefined, test.data)
}

export const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** A telemetry event or its record; an id that names the record is not part of its content. */
export const recordDigest = (event: Fields): string => {
  const { id, ...others } = event
  return digest(typeof id === "string" && uuid.test(id) ? others : event)
}

/** A ting as it was asked for, or as Ting has it. */
export const tingDigest = ({ data, metadata, type }: Fields, recipient: unknown): string =>
  digest([type, data, metadata ?? {}, recipient])

export interface Kept {
  /** Digests of the reports, and of the events of the webhook inbox, by id. */
  readonly reports: ReadonlyMap<string, string>
  readonly deliveries: ReadonlyMap<string, string>
  /** Digests of telemetry records by the request that brought them: in the spool and delivered. */
  readonly records: ReadonlyMap<number, ReadonlyArray<string>>
  /** What has the form of a credential, in the bytes of the file. */
  readonly credentials: ReadonlySet<string>
  /** Every canary, and where it was found. */
  readonly canaries: ReadonlyMap<string, Found & { readonly where: string }>
  /** Digests of the accepted tings by plane and key, one for each. */
  readonly tings: ReadonlyMap<string, ReadonlyArray<string>>
  /** Planes and public ids of the registered recipients. */
  readonly registered: ReadonlySet<string>
  /** SLTs and refresh tokens that IAM exchanged, and tokens that it revoked. */
  readonly spent: ReadonlySet<string>
  readonly revoked: ReadonlySet<string>
}

const credentials = /(?:oat|ort|oac|obo|ask)_[A-Za-z0-9_-]{28,}/g
const piece = 4 * 1_024 * 1_024

/** Every row of a table, in pages, because some rows are large. */
const rowsOf = function* (database: Pick<Database, "prepare">, table: string): Generator<Fields> {
  const page = database.prepare(
    `SELECT rowid AS row_number, * FROM "${table}" WHERE rowid > ? ORDER BY rowid LIMIT 200`
  )
  for (let rows = page.all(0); rows.length > 0; rows = page.all(Number(rows.at(-1)?.row_number))) yield* rows
}

/** Every piece of a file, also of its free pages, with the end of the piece before. */
const readPieces = function* (file: string): Generator<string> {
  if (!existsSync(file)) return
  const descriptor = openSync(file, "r")
  const buffer = Buffer.alloc(piece)
  let rest = ""
  for (let size = readSync(descriptor, buffer); size > 0; size = readSync(descriptor, buffer)) {
    const text = rest + buffer.toString("latin1", 0, size)
    yield text
    rest = text.slice(-60)
  }
  closeSync(descriptor)
}

const readUpstreams = ({
  planes,
  upstreams: { iam, ting }
}: World): Pick<Kept, "tings" | "registered" | "spent" | "revoked"> => {
  const tings = new Map<string, Array<string>>()
  const registered = new Set<string>()
  for (const [name, plane] of Object.entries(planes)) {
    for (const accepted of ting.accepted(plane)) {
      const slot = `${name} ${accepted.key}`
      tings.set(slot, [...(tings.get(slot) ?? []), tingDigest({ ...accepted }, accepted.for)])
    }
    for (const grant of ting.grants(plane)) registered.add(`${name} ${grant.for}`)
  }
  const done = { "/api/v1/app-auth/tokens": new Set<string>(), "/api/v1/oauth/revoke": new Set<string>() }
  for (const { body, method, path, status = 0 } of iam.seen) {
    const form = new URLSearchParams(body.toString())
    const token = form.get("slt") ?? form.get("refresh_token") ?? form.get("token")
    if (method === "POST" && status < 300 && token !== null && Object.hasOwn(done, path))
      done[path as keyof typeof done].add(token)
  }
  return { tings, registered, spent: done["/api/v1/app-auth/tokens"], revoked: done["/api/v1/oauth/revoke"] }
}

/** Reads everything, while nothing is in flight. */
export const readKept = (world: World): Kept => {
  const { databasePath, upstreams } = world
  const canaries = new Map<string, Found & { readonly where: string }>()
  const note = (text: string, where: string) => {
    for (const found of findCanaries(text)) {
      const key = `${found.place}${found.index}`
      if (!canaries.has(key)) canaries.set(key, { ...found, where })
    }
  }
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
  const database = new Database(databasePath)
  // One state of all tables.
  database.prepare("BEGIN").run()
  // A record that waits for its acknowledgement is perhaps delivered already.
  const delivered = new Set<string>()
  for (const table of upstreams.tableKeys.keys())
    for (const { record, record_id } of upstreams.tables.rows(table)) {
      delivered.add(record_id)
      count(JSON.stringify(record))
      note(JSON.stringify(record), `the table ${table}`)
    }
  const tables = database
    .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    .all()
  for (const table of tables.map(({ name }) => String(name)))
    for (const row of rowsOf(database, table)) {
      note(JSON.stringify(row), `a row of ${table}`)
      if (table === "spool" && !delivered.has(String(row.record_id))) count(String(row.json))
      if (table === "reports") reports.set(String(row.id), reportDigest(fieldsOf(String(row.content))))
      if (table === "webhook_inbox")
        deliveries.set(String(row.event_id), deliveryDigest(row.event_type, JSON.parse(String(row.data))))
    }
  database.prepare("COMMIT").run()
  database.close()
  for (const { body, title } of upstreams.tracker.issues("harbor/music"))
    note(`${title}\n${body}`, "an issue")
  const seen = new Set<string>()
  for (const suffix of ["", "-wal"])
    for (const text of readPieces(databasePath + suffix)) {
      note(text, "the bytes of the file")
      for (const { 0: found, index } of text.matchAll(credentials))
        seen.add(
          `${found.slice(0, 12)}… after ${JSON.stringify(text.slice(Math.max(0, index - 100), index))}`
        )
    }
  return { reports, deliveries, records, canaries, credentials: seen, ...readUpstreams(world) }
}
