/** The simulated table service: HTTP ingest with per-record keys, rejections and a 300 s dedupe window (table-service.md). */
import { randomBytes } from "node:crypto"
import {
  canonical,
  type Contract,
  handleBy,
  headerOf,
  isRecord,
  type Now,
  parseJson,
  Refusal,
  type Reply,
  type Routes,
  type Seen,
  sha256
} from "./Contract.ts"
import { faults, type Listening, type Simulator, startSimulator } from "./Simulator.ts"

/** One stored record. `cursor` rises per table; times in milliseconds. */
interface Row {
  readonly cursor: number
  readonly record_id: string
  readonly event_ts_ms: number
  readonly registered_ts_ms: number
  readonly metadata: unknown
  readonly record: unknown
}

interface Table {
  keyDigest: string
  readonly rows: Array<Row>
}

/** How long a record id is known after its first arrival, milliseconds. */
const dedupeMilliseconds = 300_000
/** Largest batch, bytes of the body, and largest `record`, bytes of compact JSON. */
const batchLimit = 8_388_608
const recordLimit = 270_336
/** The id of a rejection when the record's own id is unreadable. */
const nilUuid = "00000000-0000-0000-0000-000000000000"
const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

const reasons = {
  unauthorized: "the key does not resolve to a table",
  duplicate: "this record_id was seen within the last 5 minutes",
  size_exceeded: "the record is over 264 KiB",
  invalid: "metadata or record is unusable"
} as const

type RejectionCode = keyof typeof reasons

/** Refuses the whole batch; only these two fields (table-service.md 3). */
const refuse = (status: number, code: string, message: string) =>
  new Refusal({ status, body: { error: { code, message } } })
const unavailable = refuse(500, "ingest_unavailable", "the batch could not be staged").reply

/** The edge before the service limits callers, which the service itself does not (table-service.md 6). */
export const rateLimited = (seconds: number) =>
  faults.status(429, "<html><body>Too many requests</body></html>", {
    "content-type": "text/html",
    "retry-after": String(seconds)
  })

interface Entry {
  readonly key: string
  readonly metadata: unknown
  readonly record: unknown
}

const isEntry = (value: unknown): value is Entry =>
  isRecord(value) &&
  typeof value.key === "string" &&
  value.metadata !== undefined &&
  value.record !== undefined

const readBatch = (request: Seen): { readonly batchId: string; readonly entries: ReadonlyArray<Entry> } => {
  const [type = ""] = (request.headers.get("content-type")?.[0] ?? "").split(";")
  const isJson = /^application\/(?:json|[^/\s]+\+json)$/i.test(type.trim())
  const json = isJson && request.body.length <= batchLimit ? parseJson(request.body) : undefined
  if (json === undefined) throw refuse(400, "bad_json", "the body is not JSON of at most 8 MiB")
  const { batch_id: batchId, records } = isRecord(json) ? json : {}
  if (typeof batchId !== "string" || !uuid.test(batchId) || !Array.isArray(records))
    throw refuse(400, "invalid_batch", "a batch needs batch_id, a UUID, and records, an array")
  if (!records.every(isEntry))
    throw refuse(400, "invalid_batch", "every record needs key, metadata and record")
  return { batchId, entries: records }
}

/** A table service without a socket and without tables. */
export const makeTables = ({ now }: { readonly now: Now }) => {
  const minted: Array<string> = []
  const tables = new Map<string, Table>()
  const firstSeen = new Map<string, number>()
  const received = { batches: 0, stored: 0, rejected: 0 }

  const tableOf = (name: string): Table => {
    const table = tables.get(name)
    if (table === undefined) throw new Error(`no table ${name}`)
    return table
  }
  const newKey = (name: string): string => {
    const key = `table-${name}-${randomBytes(16).toString("hex")}`
    minted.push(key)
    return key
  }

  /** The order of table-service.md 3: metadata, key, size, object, stage. Gives the id, and the code of a rejection. */
  const take = ({ key, metadata, record }: Entry): readonly [id: string, code: RejectionCode | undefined] => {
    const { record_id: id, event_ts_ms: at } = isRecord(metadata) ? metadata : {}
    if (typeof id !== "string" || !uuid.test(id) || !Number.isSafeInteger(at)) return [nilUuid, "invalid"]
    const digest = sha256(key)
    const table = [...tables.values()].find(({ keyDigest }) => keyDigest === digest)
    if (table === undefined) return [id, "unauthorized"]
    if (Buffer.byteLength(canonical(record)) > recordLimit) return [id, "size_exceeded"]
    if (!isRecord(record)) return [id, "invalid"]
    if (now() - (firstSeen.get(id) ?? Number.NEGATIVE_INFINITY) < dedupeMilliseconds) return [id, "duplicate"]
    firstSeen.set(id, now())
    received.stored += 1
    const times = { event_ts_ms: Number(at), registered_ts_ms: now() }
    table.rows.push({ cursor: table.rows.length + 1, record_id: id, ...times, metadata, record })
    return [id, undefined]
  }

  const ingest = (request: Seen): Reply => {
    const { batchId, entries } = readBatch(request)
    received.batches += 1
    const all = entries
      .map(take)
      .flatMap(([record_id, code]) =>
        code === undefined ? [] : [{ record_id, code, reason: reasons[code] }]
      )
    received.rejected += all.filter(({ code }) => code !== "duplicate").length
    // Duplicates are listed after all other rejections (table-service.md 3).
    const rejected = all.toSorted(
      (one, other) => Number(one.code === "duplicate") - Number(other.code === "duplicate")
    )
    const body =
      rejected.length === 0
        ? { batch_id: batchId, status: "ok" }
        : { batch_id: batchId, status: "rejected", rejected }
    return { status: 200, body }
  }

  const routes: Routes<Seen> = {
    "GET /api/health": () => ({ status: 200, body: { status: "ok" } }),
    "POST /api/ingest": ingest
  }
  const control: Routes<Seen> = {
    "GET /_sandbox/tables/{name}/rows": (_, name = "") => ({
      status: 200,
      body: { items: tableOf(name).rows }
    })
  }
  /** The edge refuses callers without User-Agent (assumed). */
  const read = (request: Seen): Seen => {
    if ((headerOf(request, "user-agent") ?? "").trim() !== "") return request
    const headers = { "content-type": "text/html" }
    throw new Refusal({ status: 403, headers, body: "<html>Request blocked</html>" })
  }
  const otherwise = (_: Seen, allowed: ReadonlyArray<string>): Reply => {
    if (allowed.length === 0) throw refuse(404, "not_found", "no such path")
    return { status: 405, headers: { allow: allowed.join(", ") } }
  }

  return {
    handle: handleBy(routes, read, otherwise),
    control,
    routes: Object.keys(routes),
    /** Every table key ever made, so that a test can search logs and databases for leaks. */
    minted,
    /** Makes a table and returns its key. */
    createTable: (name: string): string => {
      const key = newKey(name)
      tables.set(name, { keyDigest: sha256(key), rows: [] })
      return key
    },
    /** Makes a new key and returns it. The old one is refused at once (table-service.md 5). */
    rotateKey: (name: string): string => {
      const key = newKey(name)
      tableOf(name).keyDigest = sha256(key)
      return key
    },
    /** Stored rows by cursor. */
    rows: (name: string): ReadonlyArray<Row> => tableOf(name).rows,
    /** Counts of readable batches, and of their records: stored ones, and those rejected for another reason than a duplicate. */
    received: () => ({ ...received })
  }
}

export interface TablesSimulator extends Simulator, Omit<ReturnType<typeof makeTables>, keyof Contract> {
  /** The next batches answer 500 `ingest_unavailable`, before staging or after it. */
  readonly failIngest: (when: "before" | "after", times?: number) => void
}

/** Starts a table service with no tables. */
export const startTables = async (options: Listening & { readonly now: Now }): Promise<TablesSimulator> => {
  const tables = makeTables(options)
  const simulator = await startSimulator({ ...options, ...tables })
  return {
    ...tables,
    ...simulator,
    failIngest: (when, times = 1) => {
      const kind = when === "before" ? "reply" : "reply-after"
      simulator.fail({ method: "POST", path: "/api/ingest", times, fault: { kind, reply: unavailable } })
    }
  }
}
