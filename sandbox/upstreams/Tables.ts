/** The simulated table service: HTTP ingest with per-record keys, rejections and a 300 s dedupe window (table-service.md). */
import {
  controlRefusal,
  type Fault,
  headerOf,
  type Now,
  type Reply,
  type Seen,
  type Simulator,
  startSimulator
} from "./Simulator.ts"
import { isRecord } from "./Json.ts"
import {
  type Batch,
  bytesOf,
  type Entry,
  type RecordHeader,
  nilUuid,
  readBatch,
  readRecordHeader,
  recordLimit,
  refusal
} from "./tables/Batch.ts"
import { Registry, type Row, type Table } from "./tables/Registry.ts"

export type { Row } from "./tables/Registry.ts"

export type RejectionCode = "unauthorized" | "duplicate" | "size_exceeded" | "invalid"

/** Counts of records in readable batches. */
export interface Received {
  readonly batches: number
  /** Stored, duplicate and otherwise rejected ones. */
  readonly records: number
  readonly stored: number
  readonly duplicates: number
  readonly rejected: number
}

export interface TablesSimulator extends Simulator {
  /** Every table key ever made, so that a test can search logs and databases for leaks. */
  readonly minted: Array<string>
  /** Makes a table and returns its key. */
  readonly createTable: (name: string, key?: string) => string
  /** Makes a new key and returns it. The old one is refused at once. */
  readonly rotateKey: (name: string) => string
  /** Stops writes and keeps the data. */
  readonly retire: (name: string) => void
  readonly restore: (name: string) => void
  /** Stored rows by cursor. */
  readonly rows: (name: string) => ReadonlyArray<Row>
  readonly received: () => Received
  /** The next batches answer 500 `ingest_unavailable`, before staging or after it. */
  readonly failIngest: (when: "before" | "after", times?: number) => void
}

/** How long a record id is known after its first arrival, milliseconds. */
const dedupeMilliseconds = 300_000

interface Rejection {
  readonly record_id: string
  readonly code: RejectionCode
  readonly reason: string
}

const reasons: Readonly<Record<RejectionCode, string>> = {
  unauthorized: "the key does not resolve to a table",
  duplicate: "this record_id was seen within the last 5 minutes",
  size_exceeded: "the record is over 264 KiB",
  invalid: "metadata or record is unusable"
}

const rejection = (record_id: string, code: RejectionCode): Rejection => ({
  record_id,
  code,
  reason: reasons[code]
})

const ingestPath = "/api/ingest"
const unavailable = refusal(500, "ingest_unavailable", "the batch could not be staged")

/** Responses of the edge before the service, which itself limits nothing (table-service.md 6), as faults for `fail`. */
export const tableFaults = {
  rateLimited: (seconds: number): Fault => ({
    kind: "reply",
    reply: {
      status: 429,
      headers: { "content-type": "text/html", "retry-after": String(seconds) },
      body: "<html><body>Too many requests</body></html>"
    }
  })
} as const

class Ingest {
  readonly counts = { batches: 0, records: 0, stored: 0, duplicates: 0, rejected: 0 }
  private readonly firstSeen = new Map<string, number>()
  private readonly registry: Registry
  private readonly now: Now

  constructor(registry: Registry, now: Now) {
    this.registry = registry
    this.now = now
  }

  acknowledge(batch: Batch): Reply {
    this.counts.batches += 1
    const refused: Array<Rejection> = []
    // Listed after all other rejections (table-service.md 3).
    const duplicates: Array<Rejection> = []
    for (const entry of batch.entries) {
      const outcome = this.take(entry)
      if (outcome?.code === "duplicate") duplicates.push(outcome)
      else if (outcome !== undefined) refused.push(outcome)
    }
    this.counts.records += batch.entries.length
    this.counts.duplicates += duplicates.length
    this.counts.rejected += refused.length
    const rejected = [...refused, ...duplicates]
    return {
      status: 200,
      body: {
        batch_id: batch.batchId,
        status: rejected.length === 0 ? "ok" : "rejected",
        ...(rejected.length === 0 ? {} : { rejected })
      }
    }
  }

  /** The order of table-service.md 3: metadata, key, size, object, stage. */
  private take(entry: Entry): Rejection | undefined {
    const header = readRecordHeader(entry.metadata)
    if (header === undefined) return rejection(nilUuid, "invalid")
    const table = this.registry.resolve(entry.key)
    if (table === undefined) return rejection(header.recordId, "unauthorized")
    if (bytesOf(entry.record) > recordLimit) return rejection(header.recordId, "size_exceeded")
    if (!isRecord(entry.record)) return rejection(header.recordId, "invalid")
    return this.stage(table, header, entry)
  }

  private stage(table: Table, header: RecordHeader, entry: Entry): Rejection | undefined {
    const first = this.firstSeen.get(header.recordId)
    if (first !== undefined && this.now() - first < dedupeMilliseconds)
      return rejection(header.recordId, "duplicate")
    this.firstSeen.set(header.recordId, this.now())
    this.counts.stored += 1
    table.rows.push({
      cursor: table.rows.length + 1,
      record_id: header.recordId,
      event_ts_ms: header.eventMilliseconds,
      registered_ts_ms: this.now(),
      metadata: entry.metadata,
      record: entry.record
    })
    return undefined
  }
}

/** A table service without a socket and without tables. */
export const makeTables = (options: { readonly now: Now }) => {
  const minted: Array<string> = []
  const registry = new Registry(minted)
  const ingest = new Ingest(registry, options.now)

  const control = (request: Seen): Reply => {
    const name = /^\/_sandbox\/tables\/([a-z0-9]+)\/rows$/.exec(request.path)?.[1]
    if (request.method !== "GET" || name === undefined) return controlRefusal("no such control")
    const table = registry.find(name)
    return table === undefined
      ? refusal(404, "not_found", "no such table")
      : { status: 200, body: { items: table.rows } }
  }

  const handle = (request: Seen): Reply => {
    if (request.path.startsWith("/_sandbox/")) return control(request)
    // The edge refuses callers without User-Agent (assumed).
    if ((headerOf(request, "user-agent") ?? "").trim() === "")
      return {
        status: 403,
        headers: { "content-type": "text/html" },
        body: "<html><body>Request blocked</body></html>"
      }
    switch (request.path) {
      case "/api/health":
        if (request.method !== "GET" && request.method !== "HEAD")
          return { status: 405, headers: { allow: "GET,HEAD" } }
        return { status: 200, body: { status: "ok" } }
      case ingestPath: {
        if (request.method !== "POST") return { status: 405, headers: { allow: "POST" } }
        const batch = readBatch(request)
        return "status" in batch ? batch : ingest.acknowledge(batch)
      }
      default:
        return refusal(404, "not_found", "no such path")
    }
  }

  return {
    handle,
    minted,
    createTable: (name: string, key?: string) => registry.create(name, key),
    rotateKey: (name: string) => registry.rotate(name),
    retire: (name: string) => registry.retire(name),
    restore: (name: string) => registry.restore(name),
    rows: (name: string) => registry.get(name).rows,
    received: (): Received => ({ ...ingest.counts })
  }
}

/** Starts a table service with no tables. */
export const startTables = async (options: { readonly now: Now }): Promise<TablesSimulator> => {
  const { handle, ...rest } = makeTables(options)
  const simulator = await startSimulator({ now: options.now, handle })
  return {
    ...simulator,
    ...rest,
    failIngest: (when, times = 1) =>
      simulator.fail({
        method: "POST",
        path: ingestPath,
        times,
        fault: { kind: when === "before" ? "reply" : "reply-after", reply: unavailable }
      })
  }
}
