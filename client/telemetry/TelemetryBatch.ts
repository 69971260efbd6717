/** Checks events against the service's limits and composes batches. Plain functions without a clock. */
import { uuidPattern } from "../../src/schema/Patterns.ts"
import type { ClientTable, ErrorOf } from "../Types.ts"
import { isRecord } from "../Values.ts"
import { invalidInput, serviceFailure } from "../failures/Failures.ts"
import { memberOf } from "../failures/StoreFailures.ts"

type JsonObject = Readonly<Record<string, unknown>>

/** Limits of one request (specification, section 8). */
export const batchLimits = { events: 40, bytes: 65_536 } as const

/** The service accepts 64 levels; the batch around an event takes three of them. */
const depthLimit = 60

const utf8 = new TextEncoder()

export interface QueuedEvent {
  readonly table: ClientTable
  readonly id: string
  /** JSON of the event at the time of `record`; later changes to the caller's object have no effect. */
  readonly text: string
  /** Of the text in UTF-8. */
  readonly bytes: number
}

/** Bytes of a batch without its events. */
const frameBytes = (table: string): number => utf8.encode(JSON.stringify({ table, events: [] })).length

// A lone surrogate is no UTF-8: the service refuses the whole body.
const isWhole = (text: string): boolean => !/\p{Surrogate}/u.test(text)

const findProblem = (value: unknown, depth: number): string | undefined => {
  if (typeof value === "string") return isWhole(value) ? undefined : "must be valid Unicode"
  if (typeof value !== "object" || value === null) return undefined
  if (depth >= depthLimit) return `must not nest deeper than ${depthLimit} levels`
  for (const [name, member] of Object.entries(value)) {
    if (name === "__proto__" || !isWhole(name)) return "has a field whose name is not allowed"
    const problem = findProblem(member, depth + 1)
    if (problem !== undefined) return problem
  }
  return undefined
}

const refusal = (problem: string, path = "event") =>
  invalidInput(path, problem, `Correct the ${path}; the event was not queued.`)

const complete = (event: JsonObject, id: string, occurredAt: string): JsonObject => {
  const { metadata } = event
  if (metadata !== undefined && !isRecord(metadata)) return { ...event, id }
  return { ...event, id, metadata: { occurred_at: occurredAt, ...metadata } }
}

/** The text of an event and its value; undefined when it is no JSON object. */
const toJson = (event: JsonObject, id: string, occurredAt: string) => {
  // A cycle, a BigInt, a getter or a `toJSON` of the caller can throw.
  try {
    const text = JSON.stringify(complete(event, id, occurredAt))
    const value: unknown = JSON.parse(text)
    return isRecord(value) && value.id === id ? { text, value } : undefined
  } catch {
    return undefined
  }
}

const tables: ReadonlyArray<unknown> = [
  "musicclidaemon",
  "musicfrontendanalytics",
  "musicfrontendevents"
] satisfies ReadonlyArray<ClientTable>

/** Prepares an event for the queue. An event that the service would refuse fails here, alone and at once. */
export const prepareEvent = (
  table: ClientTable,
  event: unknown,
  own: { readonly id: string; readonly occurredAt: string }
): QueuedEvent | ErrorOf<"invalid_input" | "payload_too_large"> => {
  if (!tables.includes(table)) return refusal(`must be one of ${tables.join(", ")}`, "table")
  if (!isRecord(event)) return refusal("must be an object")
  const id = memberOf(event, "id") ?? own.id
  if (typeof id !== "string" || !uuidPattern.test(id)) return refusal("id must be a UUID")
  const json = toJson(event, id, own.occurredAt)
  if (json === undefined) return refusal("must be a JSON object")
  const { text, value } = json
  const problem = findProblem(value, 0)
  if (problem !== undefined) return refusal(problem)
  const bytes = utf8.encode(text).length
  return bytes + frameBytes(table) > batchLimits.bytes
    ? serviceFailure("payload_too_large", { hint: "Make the event smaller; a batch holds at most 64 KiB." })
    : { table, id, text, bytes }
}

/** The oldest events of the first event's table that fit one request. */
export const nextBatch = (
  queue: ReadonlyArray<QueuedEvent>,
  bytesLimit: number = batchLimits.bytes
): ReadonlyArray<QueuedEvent> => {
  const first = queue[0]
  if (first === undefined) return []
  const batch: Array<QueuedEvent> = []
  let bytes = frameBytes(first.table)
  for (const event of queue) {
    if (event.table !== first.table) continue
    const more = event.bytes + (batch.length === 0 ? 0 : 1)
    if (batch.length === batchLimits.events || bytes + more > bytesLimit) break
    batch.push(event)
    bytes += more
  }
  return batch
}

/** The request of a batch. */
export const toPayload = (batch: ReadonlyArray<QueuedEvent>) => ({
  table: batch[0]?.table ?? "",
  events: batch.map(({ text }): JsonObject => JSON.parse(text))
})
