/**
 * The kept actions, of the console and of other programs, with the upstream calls that they caused. A call belongs to an action by its
 * trace, or by what its trace carries.
 */
import { randomBytes } from "node:crypto"
import type { ServiceRequest } from "../ServiceClient.ts"
import { isRecord, parseJson } from "../upstreams/Contract.ts"
import { cut, longestBody } from "./BoundedText.ts"
import type { ActionRecord, Call, Exchange, Participant } from "./Protocol.ts"

type Writable<A> = { -readonly [Key in keyof A]: A[Key] }

type Beginning = Pick<ActionRecord, "action" | "title" | "plane" | "startedAt">

/** A request, and whose it is. */
export interface Outgoing {
  readonly from: Participant
  readonly to: Participant
  readonly request: ServiceRequest
}

/** One action while it is kept. */
interface Entry {
  readonly id: number
  readonly begin: Beginning
  endedAt: number | null
  /** What it sent, whole: it can be sent once more. */
  sent: Outgoing | null
  exchange: Exchange | null
  /** The call of the exchange itself. */
  first: Writable<Call> | null
  readonly calls: Array<Call>
}

/** Without a status the connection was lost before an answer. */
type Answer = Pick<Exchange, "status" | "responseHeaders" | "responseBody">

export const recordOf = ({ begin, calls, endedAt, exchange, first, id }: Entry): ActionRecord => {
  const { action, plane, startedAt, title } = begin
  const inOrder = calls.toSorted((one, other) => one.startedAt - other.startedAt)
  const all = first === null ? inOrder : [first, ...inOrder]
  // Without its answer an exchange would read as a lost one.
  const whole = endedAt === null ? null : exchange
  return { id, action, title, plane, startedAt, endedAt, exchange: whole, calls: all }
}

interface Trace {
  /** The action whose request began it; none of background delivery. */
  own: Entry | undefined
  readonly entries: Set<Entry>
  readonly calls: Array<Call>
  readonly contents: Set<string>
}

const keptActions = 200
const keptTraces = 1_000
/** Of an action, and of a trace: what is retried for days does not fill the memory. */
const keptCalls = 200

const fieldOf = (text: string, name: string): unknown => {
  const body = parseJson(Buffer.from(text))
  return isRecord(body) ? body[name] : undefined
}

/** Ids that a request gives to what it makes: the events of telemetry. */
const idsOf = ({ body = "", url }: ServiceRequest): ReadonlyArray<unknown> => {
  const events = url.endsWith("/telemetry") ? fieldOf(body, "events") : []
  return Array.isArray(events) ? events.map((event) => (isRecord(event) ? event.id : undefined)) : []
}

export class Journal {
  private readonly entries = new Map<number, Entry>()
  private readonly traces = new Map<string, Trace>()
  /** Which action made a content: a record or a report. */
  private readonly makers = new Map<string, Entry>()
  private readonly onChange: (id: number) => void
  private lastId = 0

  constructor(onChange: (id: number) => void) {
    this.onChange = onChange
  }

  begin(begin: Beginning): Entry {
    this.lastId += 1
    const nothing = { endedAt: null, sent: null, exchange: null, first: null }
    const entry: Entry = { id: this.lastId, begin, ...nothing, calls: [] }
    this.entries.set(entry.id, entry)
    this.forgetOldest()
    this.onChange(entry.id)
    return entry
  }

  /** The header that makes all upstream calls of the service for this action part of one trace. */
  traceOf(entry: Entry): string {
    const id = randomBytes(16).toString("hex")
    const trace = this.traceBy(id)
    trace.own = entry
    trace.entries.add(entry)
    return `00-${id}-${randomBytes(8).toString("hex")}-01`
  }

  /** Whether an action has a request in this trace. */
  hasTrace(traceparent: string): boolean {
    return this.traces.get(traceparent.split("-")[1] ?? "")?.own !== undefined
  }

  /** The request of the action is sent, in this form. An answer that it has already stays. */
  send(entry: Entry, sent: Outgoing): void {
    const { responseBody = "", responseHeaders = {}, status = null } = entry.exchange ?? {}
    const { startedAt } = entry.begin
    const { from, request, to } = sent
    const { body = "", headers, method, url } = request
    entry.sent = sent
    const arrow = { from, to, method, path: new URL(url).pathname, startedAt, fault: null, isLater: false }
    entry.first = { ...arrow, endedAt: entry.endedAt, status }
    entry.exchange = {
      method,
      url,
      requestHeaders: headers,
      requestBody: request.body === undefined ? null : cut(body, longestBody),
      isCut: body.length > longestBody,
      ...{ status, responseHeaders, responseBody }
    }
    for (const id of idsOf(request)) if (typeof id === "string") this.recordMade(entry, id)
    this.onChange(entry.id)
  }

  /** The action has ended, with the answer to what it sent. */
  end(entry: Entry, now: number, answer: Answer | null): void {
    entry.endedAt = now
    if (answer !== null && entry.exchange !== null && entry.first !== null) {
      const { responseBody, status } = answer
      entry.exchange = { ...entry.exchange, ...answer, responseBody: cut(responseBody, longestBody) }
      Object.assign(entry.first, { endedAt: now, status })
      // An issue names its report.
      const id = fieldOf(responseBody, "id")
      if (typeof id === "string") this.recordMade(entry, id)
    }
    this.onChange(entry.id)
  }

  /** A call of this trace carries the content. */
  recordCarried(traceId: string, content: string): void {
    const trace = this.traceBy(traceId)
    trace.contents.add(content)
    this.attribute(trace, content)
  }

  /** A call has arrived. The returned function records its end. */
  recordCall(
    traceId: string,
    call: Omit<Call, "endedAt" | "status" | "isLater">
  ): (endedAt: number, status: number | null) => void {
    const trace = this.traceBy(traceId)
    const isLater = trace.own === undefined || trace.own.endedAt !== null
    const arrow: Writable<Call> = { ...call, endedAt: null, status: null, isLater }
    if (trace.calls.length < keptCalls) trace.calls.push(arrow)
    for (const entry of trace.entries) this.add(entry, arrow)
    return (endedAt, status) => {
      arrow.endedAt = endedAt
      arrow.status = status
      for (const entry of trace.entries) this.onChange(entry.id)
    }
  }

  find(id: number): Entry | undefined {
    return this.entries.get(id)
  }

  /** All kept actions, oldest first. */
  ids(): ReadonlyArray<number> {
    return [...this.entries.keys()]
  }

  /** The action made this content: what carries it later was caused by the action. The first maker counts. */
  private recordMade(entry: Entry, content: string): void {
    if (this.makers.has(content)) return
    this.makers.set(content, entry)
    for (const trace of this.traces.values()) if (trace.contents.has(content)) this.attribute(trace, content)
  }

  private add(entry: Entry, call: Call): void {
    if (entry.calls.length >= keptCalls) return
    entry.calls.push(call)
    this.onChange(entry.id)
  }

  private attribute(trace: Trace, content: string): void {
    const entry = this.makers.get(content)
    if (entry === undefined || trace.entries.has(entry)) return
    trace.entries.add(entry)
    for (const call of trace.calls) this.add(entry, call)
  }

  private traceBy(id: string): Trace {
    const known = this.traces.get(id)
    if (known !== undefined) return known
    const trace: Trace = { own: undefined, entries: new Set(), calls: [], contents: new Set() }
    this.traces.set(id, trace)
    const [oldest] = this.traces.keys()
    if (this.traces.size > keptTraces && oldest !== undefined) this.traces.delete(oldest)
    return trace
  }

  private forgetOldest(): void {
    const [oldest] = this.entries.keys()
    if (this.entries.size <= keptActions || oldest === undefined) return
    for (const [content, maker] of this.makers) if (maker.id === oldest) this.makers.delete(content)
    this.entries.delete(oldest)
  }
}
