/** The kept actions with the upstream calls that they caused. A call belongs to an action by its trace, or by what its trace carries. */
import { randomBytes } from "node:crypto"
import type { Outgoing } from "./Outgoing.ts"
import type { Action, ActionRecord, Call, Exchange } from "./Protocol.ts"

type Writable<A> = { -readonly [Key in keyof A]: A[Key] }

/** One action while it is kept. */
export interface Entry {
  readonly id: number
  readonly action: Action
  readonly title: string
  readonly startedAt: number
  endedAt: number | null
  readonly outgoing: Outgoing | null
  exchange: Exchange | null
  /** The call of the exchange itself. */
  first: Writable<Call> | null
  readonly calls: Array<Call>
}

export const recordOf = (entry: Entry): ActionRecord => {
  const { action, calls, endedAt, exchange, first, id, startedAt, title } = entry
  const inOrder = calls.toSorted((one, other) => one.startedAt - other.startedAt)
  return {
    id,
    action,
    title,
    startedAt,
    endedAt,
    exchange,
    calls: first === null ? inOrder : [first, ...inOrder]
  }
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

  begin(action: Action, outgoing: Outgoing | null, title: string, now: number): Entry {
    this.lastId += 1
    const entry: Entry = {
      id: this.lastId,
      action,
      title,
      startedAt: now,
      endedAt: null,
      outgoing,
      exchange: null,
      first: null,
      calls: []
    }
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

  /** The action has changed. */
  notify(entry: Entry): void {
    this.onChange(entry.id)
  }

  /** The action made this content: what carries it later was caused by the action. The first maker counts. */
  recordMade(entry: Entry, content: string): void {
    if (this.makers.has(content)) return
    this.makers.set(content, entry)
    for (const trace of this.traces.values()) if (trace.contents.has(content)) this.attribute(trace, content)
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
      for (const entry of trace.entries) this.notify(entry)
    }
  }

  find(id: number): Entry | undefined {
    return this.entries.get(id)
  }

  /** All kept actions, oldest first. */
  ids(): ReadonlyArray<number> {
    return [...this.entries.keys()]
  }

  private add(entry: Entry, call: Call): void {
    if (entry.calls.length >= keptCalls) return
    entry.calls.push(call)
    this.notify(entry)
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
