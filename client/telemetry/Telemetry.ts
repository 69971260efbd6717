/**
 * Client events: queued, sent in batches, kept while the service is unavailable. Every event has an id, so a batch that may have
 * arrived is sent again and stored once.
 */
import { orderedUuid } from "../../src/schema/Patterns.ts"
import { partsOf } from "../Client.ts"
import type { ClientEvent } from "../Events.ts"
import { type CallOptions, type Checks, duration, findWrong } from "../Options.ts"
import type { ClientTable, ErrorOf, MusicError, Result, TelemetryEvent, TelemetryStats } from "../Types.ts"
import { ignore, present } from "../Values.ts"
import { type Backoff, pauseAfter } from "../calls/Calls.ts"
import { type Deadline, noExchange, ownScope, type Scope, timedOut } from "../calls/Deadline.ts"
import type { CallError, LocalError } from "../calls/Endpoints.ts"
import { newIdempotencyKey } from "../calls/RandomKey.ts"
import { inTime } from "../calls/Time.ts"
import { clientFailure, failureOf, invalidInput } from "../failures/Failures.ts"
import { batchLimits, nextBatch, prepareEvent, type QueuedEvent, toPayload } from "./TelemetryBatch.ts"

/** Calls `run` when the browser hides or leaves the page; returns the function that removes the listeners. */
const onPageHide = (run: () => void): (() => void) => {
  // The same source compiles without DOM types.
  const page = globalThis as unknown as Partial<EventTarget> & {
    readonly document?: Partial<EventTarget> & { readonly visibilityState?: string }
  }
  const { document } = page
  if (document === undefined) return ignore
  // A hidden page may end without another event.
  const runWhenHidden = () => {
    if (document.visibilityState === "hidden") run()
  }
  page.addEventListener?.("pagehide", run)
  document.addEventListener?.("visibilitychange", runWhenHidden)
  return () => {
    page.removeEventListener?.("pagehide", run)
    document.removeEventListener?.("visibilitychange", runWhenHidden)
  }
}

/** Most bytes in the queue. */
const queueBytes = 4 * 1024 * 1024
/** Bytes of the requests that outlive a page: browsers allow 64 KiB, some of them with headers. */
const farewellBytes = 60_000
/** Deadline of the last flush, milliseconds. */
const closeMilliseconds = 5_000
const flushBackoff: Backoff = { first: 1_000, longest: 60_000 }
/** The longest pause of the background after a failure, milliseconds, also when the service asks for a longer one. */
const longestPause = 3_600_000

export interface TelemetryOptions {
  /** Most events in the queue; default 1,000. */
  readonly queueLimit?: number | undefined
  /** Longest time that an event waits for its batch, milliseconds; default 10,000. */
  readonly intervalMilliseconds?: number | undefined
}

export interface Recorded {
  readonly id: string
  /** False: telemetry is off or the queue is closed, and the event is dropped. */
  readonly queued: boolean
}

export interface Telemetry {
  /** Queues an event; never waits. */
  readonly record: (
    table: ClientTable,
    event: TelemetryEvent
  ) => Result<Recorded, LocalError | ErrorOf<"payload_too_large" | "queue_full">>
  /** Sends the queue now. On a failure, events that can still be delivered stay in the queue. */
  readonly flush: (options?: CallOptions) => Promise<Result<TelemetryStats, CallError<"telemetry">>>
  readonly stats: () => TelemetryStats
  /** Flushes for at most 5 s and drops the rest; later events are not queued. The end of the client does that, too. */
  readonly close: () => Promise<TelemetryStats>
}

/** The service refused the events themselves, perhaps with a code of a later version: a repetition has the same result. */
const isPermanentRefusal = ({ code, response, retryable, status }: MusicError): boolean =>
  // Without an answer the program's own hook has failed.
  response !== undefined && code !== "unexpected_answer" && Number(status) < 500 && !retryable

const selectRefused = (
  batch: ReadonlyArray<QueuedEvent>,
  { details }: MusicError
): ReadonlyArray<QueuedEvent> => {
  // Positions that the service refused, from `events.<position>…` in the fields of the failure.
  const positions = new Set(
    (details?.fields ?? []).map(({ path }) => Number(/^events\.(\d+)(?:\.|$)/.exec(path)?.[1]))
  )
  const refused = batch.filter((_, index) => positions.has(index))
  // Without a position in the batch the whole batch is refused: it would be sent again for ever.
  return refused.length === 0 ? batch : refused
}

const checks: Checks = {
  intervalMilliseconds: duration,
  queueLimit: [(value) => Number.isSafeInteger(value) && Number(value) > 0, "must be a whole number above 0"]
}

/**
 * Makes the queue of a client's events; the end of the client ends it. `client` is one that `createMusicClient` made. Construction
 * never throws.
 */
export const createTelemetry = (client: object, given: TelemetryOptions = {}): Telemetry => {
  const parts = partsOf(client)
  if (parts === undefined) {
    const refused = { ok: false, error: invalidInput("client", "must be one of createMusicClient") } as const
    const nothing = { queued: 0, delivered: 0, dropped: 0 }
    return {
      record: () => refused,
      flush: async () => refused,
      stats: () => nothing,
      close: async () => nothing
    }
  }
  const { calls, closers, options, report, run, time } = parts
  const problem = parts.problem ?? findWrong(given ?? {}, checks)
  const interval = given?.intervalMilliseconds ?? 10_000
  const queueLimit = given?.queueLimit ?? 1_000
  let queue: Array<QueuedEvent> = []
  let queuedBytes = 0
  let delivered = 0
  let dropped = 0
  let failures = 0
  /** No background flush before this monotonic time. */
  let pausedUntil = 0
  let background: AbortController | undefined
  let closed = false
  let leaving = false
  let cancel: (() => void) | undefined
  /** The end of the flush before: one at a time. */
  let tail: Promise<unknown> = Promise.resolve()

  const stats = (): TelemetryStats => ({ queued: queue.length, delivered, dropped })
  const bytesOf = (events: ReadonlyArray<QueuedEvent>) => events.reduce((sum, event) => sum + event.bytes, 0)
  const without = (gone: ReadonlyArray<QueuedEvent>) => {
    const before = queue.length
    const names = new Set(gone)
    queue = queue.filter((event) => !names.has(event))
    queuedBytes = bytesOf(queue)
    return before - queue.length
  }

  type DropReason = Extract<ClientEvent, { readonly type: "telemetry_dropped" }>["reason"]
  const drop = (events: number, reason: DropReason, error?: MusicError) => {
    dropped += events
    if (events > 0) report({ type: "telemetry_dropped", events, reason, ...present({ error }) })
  }

  const send = (batch: ReadonlyArray<QueuedEvent>, scope: Scope, keepalive: boolean) =>
    calls.run("telemetry", scope, { once: true, keepalive, payload: toPayload(batch) })

  const drain = async (scope: Scope): Promise<TelemetryStats> => {
    for (let batch = nextBatch(queue); batch.length > 0; batch = nextBatch(queue)) {
      try {
        await send(batch, scope, false)
        delivered += without(batch)
        failures = 0
        pausedUntil = 0
      } catch (cause) {
        const failure = failureOf(cause)
        if (!isPermanentRefusal(failure)) {
          failures += 1
          pausedUntil = time.monotonic() + Math.min(pauseAfter(flushBackoff, failures, failure), longestPause)
          return Promise.reject(cause)
        }
        drop(without(selectRefused(batch, failure)), "refused", failure)
      }
    }
    return stats()
  }

  const flushIn = (scope: Scope): Promise<TelemetryStats> => {
    const { deadline } = scope
    const turn = tail.then(() =>
      // A flush whose caller has left begins nothing.
      scope.signal.aborted || deadline.at <= time.monotonic() ? stats() : drain(scope)
    )
    tail = turn.catch(ignore)
    // The deadline includes the wait for another flush.
    return inTime(time, deadline.at - time.monotonic(), turn, () => timedOut(deadline))
  }
  const flush: Telemetry["flush"] = (call) =>
    run(call, (scope) => (problem === undefined ? flushIn(scope) : Promise.reject(problem)))

  const schedule = (milliseconds: number) => {
    cancel?.()
    cancel = time.after(
      milliseconds,
      () => {
        cancel = undefined
        void flushInBackground()
      },
      true
    )
  }

  // One at a time: flushes that wait for each other would ignore the pause that the first one causes.
  const flushInBackground = async () => {
    if (background !== undefined || closed) return
    const rest = pausedUntil - time.monotonic()
    if (rest > 0) return schedule(rest)
    background = new AbortController()
    await flush({ signal: background.signal })
    background = undefined
    if (queue.length > 0) wake()
  }

  // After a failure the next send waits for the pause; during a flush it waits for its end.
  const wake = () => {
    if (background !== undefined || closed) return
    const plenty = queue.length >= batchLimits.events || queuedBytes >= batchLimits.bytes / 2
    if (failures === 0 && plenty) schedule(0)
    else if (cancel === undefined) schedule(failures === 0 ? interval : 0)
  }

  const recorded = (id: string, queued: boolean) =>
    ({ ok: true, value: { id, queued }, metadata: noExchange }) as const

  const record: Telemetry["record"] = (table, event) => {
    if (problem !== undefined) return { ok: false, error: problem }
    const now = time.now()
    const own = { id: orderedUuid(now, newIdempotencyKey()), occurredAt: new Date(now).toISOString() }
    const ready = prepareEvent(table, event, own)
    if ("code" in ready) return { ok: false, error: ready }
    if (options.telemetry && closed) drop(1, "closed")
    if (!options.telemetry || closed) return recorded(ready.id, false)
    if (queue.length >= queueLimit || queuedBytes + ready.bytes > queueBytes) {
      drop(1, "full")
      return { ok: false, error: clientFailure("queue_full") }
    }
    queue.push(ready)
    queuedBytes += ready.bytes
    wake()
    return recorded(ready.id, true)
  }

  /** Sends the events that fit as requests that outlive the page. A page that is left is hidden, too. */
  const sayFarewell = async () => {
    if (leaving || problem !== undefined) return
    leaving = true
    const deadline: Deadline = { at: time.monotonic() + closeMilliseconds }
    let room = farewellBytes
    let rest = queue
    const sent: Array<Promise<unknown>> = []
    for (let batch = nextBatch(rest, room); batch.length > 0; batch = nextBatch(rest, room)) {
      const one = batch
      sent.push(
        send(one, ownScope(deadline), true).then(() => {
          delivered += without(one)
        }, ignore)
      )
      room -= bytesOf(one) + one.length + 64
      rest = rest.filter((event) => !one.includes(event))
    }
    await Promise.all(sent)
    leaving = false
  }
  const letGo = onPageHide(() => void sayFarewell())

  const close = async (): Promise<TelemetryStats> => {
    letGo()
    closed = true
    cancel?.()
    // Its batch is sent again with the same ids; a request that hangs would keep the process alive.
    background?.abort()
    await flush({ deadlineMilliseconds: closeMilliseconds })
    drop(without(queue), "closed")
    return stats()
  }
  closers.add(close)

  return { record, flush, stats, close }
}
