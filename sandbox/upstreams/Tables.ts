/** The simulated table service: HTTP ingest with per-record keys, rejections and a 300 s dedupe window (table-service.md). */
import { controlRefusal, faultControls } from "./Controls.ts"
import { headerOf, type Now, type Reply, type Seen, type Simulator, startSimulator } from "./Simulator.ts"
import { plain } from "./StrictJson.ts"
import {
  type Batch,
  bytesOf,
  type Entry,
  type Facts,
  nilUuid,
  readBatch,
  readFacts,
  recordLimit,
  refusal
} from "./tables/Batch.ts"
import { Registry, type Row, type Table } from "./tables/Registry.ts"

export type { Row } from "./tables/Registry.ts"

export type RejectionCode = "unauthorized" | "duplicate" | "size_exceeded" | "invalid"

/** What became of the records that arrived in batches that were read. */
export interface Received {
  readonly batches: number
  /** All of them: stored, duplicate and otherwise rejected. */
  readonly records: number
  readonly stored: number
  readonly duplicates: number
  readonly rejected: number
}

export interface TablesSimulator extends Simulator {
  /** Every table key made or given, so that a test can look for it where it must not be. */
  readonly minted: Array<string>
  /** Makes a table and returns its key; `key` fixes it beforehand. */
  readonly createTable: (name: string, key?: string) => string
  /** Makes a new key and returns it; the old one is refused at once. */
  readonly rotateKey: (name: string) => string
  /** Stops writes and keeps data. */
  readonly retire: (name: string) => void
  readonly restore: (name: string) => void
  readonly deleteTable: (name: string) => void
  /** Stored rows by cursor, those that the flusher has made queryable. */
  readonly rows: (name: string) => ReadonlyArray<Row>
  readonly received: () => Received
  /** How many times a record id arrived with a readable entry, duplicates included. */
  readonly timesReceived: (recordId: string) => number
  /** Remember key look-ups, hits and misses, for 60 s. Off by default. */
  readonly cacheKeys: (on: boolean) => void
  /** Reject every record with this code; `undefined` ends it. */
  readonly rejectAll: (code: RejectionCode | undefined) => void
  /** How long a staged record takes to become queryable, milliseconds; 0 by default. */
  readonly setFlushDelay: (milliseconds: number) => void
  /** What `GET /api/health` says. */
  readonly setReady: (ready: boolean) => void
  /** The next batches answer 500 `ingest_unavailable`, before staging or after it. */
  readonly failIngest: (when: "before" | "after", times?: number) => void
}

/** How long a record id stays known, milliseconds from its first sight. */
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

class Ingest {
  readonly counts = { batches: 0, records: 0, stored: 0, duplicates: 0, rejected: 0 }
  readonly sightings = new Map<string, number>()
  rejecting: RejectionCode | undefined
  flushDelay = 0
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
    const facts = readFacts(entry.metadata)
    if (facts === undefined) return rejection(nilUuid, "invalid")
    this.sightings.set(facts.recordId, (this.sightings.get(facts.recordId) ?? 0) + 1)
    if (this.rejecting !== undefined) return rejection(facts.recordId, this.rejecting)
    const table = this.registry.resolve(entry.key)
    if (table === undefined) return rejection(facts.recordId, "unauthorized")
    if (bytesOf(entry.record) > recordLimit) return rejection(facts.recordId, "size_exceeded")
    if (entry.record.kind !== "object") return rejection(facts.recordId, "invalid")
    return this.stage(table, facts, entry)
  }

  private stage(table: Table, facts: Facts, entry: Entry): Rejection | undefined {
    const first = this.firstSeen.get(facts.recordId)
    if (first !== undefined && this.now() - first < dedupeMilliseconds)
      return rejection(facts.recordId, "duplicate")
    this.firstSeen.set(facts.recordId, this.now())
    this.counts.stored += 1
    table.rows.push({
      cursor: table.rows.length + 1,
      record_id: facts.recordId,
      event_ts_ms: facts.eventMilliseconds,
      registered_ts_ms: this.now() + this.flushDelay,
      metadata: plain(entry.metadata),
      record: plain(entry.record)
    })
    return undefined
  }
}

/** Starts a table service with no tables. */
export const startTables = async (options: {
  readonly now: Now
  readonly port?: number
  /** Refuse callers without `User-Agent` with the edge's HTML 403, as the family's edge does (assumed here). Default true. */
  readonly requireUserAgent?: boolean
}): Promise<TablesSimulator> => {
  const minted: Array<string> = []
  const registry = new Registry(options.now, minted)
  const ingest = new Ingest(registry, options.now)
  let ready = true

  const queryable = (table: Table): ReadonlyArray<Row> =>
    table.rows.filter((row) => row.registered_ts_ms <= options.now())

  const control = (request: Seen): Reply => {
    const faults = faultControls(request, simulator.fail, simulator.clearFaults)
    if (faults !== undefined) return faults
    if (request.method === "GET" && request.path === "/_sandbox/tables")
      return { status: 200, body: { tables: registry.names() } }
    const name = /^\/_sandbox\/tables\/([a-z0-9]+)\/rows$/.exec(request.path)?.[1]
    if (request.method !== "GET" || name === undefined) return controlRefusal("no such control")
    const table = registry.find(name)
    return table === undefined
      ? refusal(404, "not_found", "no such table")
      : { status: 200, body: { items: queryable(table) } }
  }

  const handle = (request: Seen): Reply => {
    if (request.path.startsWith("/_sandbox/")) return control(request)
    if (options.requireUserAgent !== false && (headerOf(request, "user-agent") ?? "").trim() === "")
      return {
        status: 403,
        headers: { "content-type": "text/html" },
        body: "<html><body>Request blocked</body></html>"
      }
    switch (request.path) {
      case "/api/health":
        if (request.method !== "GET" && request.method !== "HEAD")
          return { status: 405, headers: { allow: "GET,HEAD" } }
        return ready
          ? { status: 200, body: { status: "ok" } }
          : refusal(503, "not_ready", "the service is not ready")
      case ingestPath: {
        if (request.method !== "POST") return { status: 405, headers: { allow: "POST" } }
        const batch = readBatch(request)
        return "status" in batch ? batch : ingest.acknowledge(batch)
      }
      default:
        return refusal(404, "not_found", "no such path")
    }
  }

  const simulator = await startSimulator({
    now: options.now,
    handle,
    ...(options.port === undefined ? {} : { port: options.port })
  })
  return {
    ...simulator,
    minted,
    createTable: (name, key) => registry.create(name, key),
    rotateKey: (name) => registry.rotate(name),
    retire: (name) => registry.retire(name),
    restore: (name) => registry.restore(name),
    deleteTable: (name) => registry.remove(name),
    rows: (name) => queryable(registry.get(name)),
    received: () => ({ ...ingest.counts }),
    timesReceived: (recordId) => ingest.sightings.get(recordId.toLowerCase()) ?? 0,
    cacheKeys: (on) => registry.cacheLookUps(on),
    rejectAll: (code) => {
      ingest.rejecting = code
    },
    setFlushDelay: (milliseconds) => {
      ingest.flushDelay = milliseconds
    },
    setReady: (value) => {
      ready = value
    },
    failIngest: (when, times = 1) =>
      simulator.fail({
        method: "POST",
        path: ingestPath,
        times,
        fault: { kind: when === "before" ? "reply" : "reply-after", reply: unavailable }
      })
  }
}
