/**
 * Client events: queued, sent in batches, kept while the service is unavailable. Every event has an id, so a batch that may have
 * arrived is sent again and stored once.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Fiber from "effect/Fiber"
import * as Runtime from "effect/Runtime"
import type { CallFailure, Calls } from "../calls/Calls.ts"
import { type Deadline, deadlineIn, monotonicMillis, within } from "../calls/Deadline.ts"
import type { ClientEvent, ReportEvent } from "../Events.ts"
import { clientFailure, type MusicFailure, type OptionsProblem, toError } from "../failures/Failures.ts"
import { randomUuid } from "../calls/IdempotencyKeys.ts"
import type { MusicClientOptions } from "../Options.ts"
import { findOptionsProblem } from "../OptionsCheck.ts"
import { type Backoff, pauseAfter } from "../calls/Retry.ts"
import { runLater } from "../calls/Timers.ts"
import type { DeadlineOf } from "../calls/CallDeadline.ts"
import { batchLimits, nextBatch, toPayload, type QueuedEvent, prepareEvent } from "./TelemetryBatch.ts"
import type { ClientTable, TelemetryStats } from "../Types.ts"

/** Most bytes in the queue. */
const queueBytes = 4 * 1024 * 1024
/** Bytes of the requests that outlive a page: browsers allow 64 KiB, some of them with headers. */
const farewellBytes = 60_000
/** Deadline of the last flush, milliseconds. */
const closeMilliseconds = 5_000
const flushBackoff: Backoff = { first: 1_000, longest: 60_000 }

export type TelemetryFailure = CallFailure<"telemetry">

export interface Recorded {
  readonly id: string
  /** False: telemetry is off or the client is closed, and the event is dropped. */
  readonly queued: boolean
}

export interface Telemetry {
  readonly record: (
    table: ClientTable,
    event: unknown
  ) => Effect.Effect<Recorded, OptionsProblem | MusicFailure<"payload_too_large" | "queue_full">>
  /** Sends the queue. On a failure, events that can still be delivered stay in the queue. */
  readonly flush: (options?: {
    readonly deadlineMilliseconds?: number | undefined
  }) => Effect.Effect<TelemetryStats, TelemetryFailure>
  /** Sends the events that fit as requests that outlive the page. */
  readonly farewell: Effect.Effect<void>
  readonly stats: Effect.Effect<TelemetryStats>
  /** Flushes for at most 5 s; drops the rest; later events are not queued. */
  readonly close: Effect.Effect<TelemetryStats>
}

/** The service refused the events themselves, perhaps with a code of a later version: a repetition has the same result. */
const isPermanentRefusal = ({ code, retryable, status }: TelemetryFailure): boolean =>
  code !== "unexpected_answer" && status !== null && status < 500 && !retryable

/** Positions that the service refused, from `events.<position>…` in the fields of the failure. */
const readPositions = (failure: TelemetryFailure): ReadonlySet<number> =>
  new Set(
    (failure.details?.fields ?? []).flatMap(({ path }) => {
      const position = /^events\.(\d+)(?:\.|$)/.exec(path)?.[1]
      return position === undefined ? [] : [Number(position)]
    })
  )

const selectRefused = (
  batch: ReadonlyArray<QueuedEvent>,
  failure: TelemetryFailure
): ReadonlyArray<QueuedEvent> => {
  const positions = readPositions(failure)
  const refused = batch.filter((_, index) => positions.has(index))
  // Without a position in the batch the whole batch is refused: it would be sent again for ever.
  return refused.length === 0 ? batch : refused
}

/** The longest pause of the background after a failure, milliseconds, also when the service asks for a longer one. */
const longestPause = 3_600_000

export const makeTelemetry = (
  options: MusicClientOptions,
  parts: { readonly calls: Calls; readonly report: ReportEvent; readonly deadlineOf: DeadlineOf }
): Effect.Effect<Telemetry> =>
  Effect.gen(function* () {
    const { calls, deadlineOf, report } = parts
    const problem = findOptionsProblem(options)
    const interval = options.telemetryIntervalMilliseconds ?? 10_000
    const queueLimit = options.telemetryQueueLimit ?? 1_000
    const inBackground = Runtime.runFork(yield* Effect.runtime<never>())
    const alone = yield* Effect.makeSemaphore(1)
    let queue: ReadonlyArray<QueuedEvent> = []
    let delivered = 0
    let dropped = 0
    let failures = 0
    /** No background flush before this monotonic time. */
    let pausedUntil = 0
    let inFlight = false
    let closed = false
    let cancel: (() => void) | undefined
    let running: Fiber.RuntimeFiber<void> | undefined

    const statsNow = (): TelemetryStats => ({ queued: queue.length, delivered, dropped })
    const bytesOf = (events: ReadonlyArray<QueuedEvent>) =>
      events.reduce((sum, event) => sum + event.bytes, 0)
    const without = (gone: ReadonlyArray<QueuedEvent>) => {
      const before = queue.length
      const names = new Set(gone)
      queue = queue.filter((event) => !names.has(event))
      return before - queue.length
    }

    type DropReason = Extract<ClientEvent, { readonly type: "telemetry_dropped" }>["reason"]
    const reportDropped = (events: number, reason: DropReason, failure?: MusicFailure) => {
      if (events > 0)
        report({
          type: "telemetry_dropped",
          events,
          reason,
          ...(failure === undefined ? {} : { error: toError(failure) })
        })
      return events
    }

    const sent = (batch: ReadonlyArray<QueuedEvent>, deadline: Deadline, keepalive: boolean) =>
      calls.run("telemetry", { deadline, once: true, keepalive, payload: toPayload(batch) })

    const drained = (deadline: Deadline): Effect.Effect<TelemetryStats, TelemetryFailure> =>
      Effect.gen(function* () {
        for (let batch = nextBatch(queue); batch.length > 0; batch = nextBatch(queue)) {
          const answer = yield* Effect.either(sent(batch, deadline, false))
          if (Either.isRight(answer)) {
            delivered += without(batch)
            failures = 0
            pausedUntil = 0
          } else if (isPermanentRefusal(answer.left)) {
            const refused = without(selectRefused(batch, answer.left))
            dropped += reportDropped(refused, "refused", answer.left)
          } else {
            failures += 1
            const pause = Math.min(pauseAfter(flushBackoff, failures, answer.left), longestPause)
            pausedUntil = (yield* monotonicMillis) + pause
            return yield* Effect.fail(answer.left)
          }
        }
        return statsNow()
      })

    const flush: Telemetry["flush"] = (given) =>
      Effect.flatMap(deadlineOf(given), (deadline) =>
        // The deadline includes the wait for another flush.
        within(deadline)(alone.withPermits(1)(drained(deadline)))
      )

    const schedule = (milliseconds: number) => {
      cancel?.()
      cancel = runLater(milliseconds, () => {
        cancel = undefined
        running = inBackground(background)
      })
    }

    // One at a time: flushes that wait for each other would ignore the pause that the first one causes.
    const background: Effect.Effect<void> = Effect.gen(function* () {
      if (inFlight || closed) return
      const rest = pausedUntil - (yield* monotonicMillis)
      if (rest > 0) return schedule(rest)
      inFlight = true
      yield* Effect.ignore(flush()).pipe(
        Effect.ensuring(
          Effect.sync(() => {
            inFlight = false
          })
        )
      )
      if (queue.length > 0) wake()
    })

    const isFull = (event: QueuedEvent) =>
      queue.length >= queueLimit || bytesOf(queue) + event.bytes > queueBytes

    // After a failure the next send waits for the pause; during a flush it waits for its end.
    const wake = () => {
      if (inFlight || closed) return
      const plenty = queue.length >= batchLimits.events || bytesOf(queue) >= batchLimits.bytes / 2
      if (failures === 0 && plenty) schedule(0)
      else if (cancel === undefined) schedule(failures === 0 ? interval : 0)
    }

    const record: Telemetry["record"] = (table, event) =>
      Effect.gen(function* () {
        if (problem !== undefined) return yield* problem
        const occurredAt = new Date(yield* Clock.currentTimeMillis).toISOString()
        const ready = prepareEvent(table, event, { id: yield* randomUuid, occurredAt })
        if ("code" in ready) return yield* ready
        if (options.telemetry && closed) dropped += reportDropped(1, "closed")
        if (!options.telemetry || closed) return { id: ready.id, queued: false }
        if (isFull(ready)) {
          dropped += reportDropped(1, "full")
          return yield* clientFailure("queue_full")
        }
        queue = [...queue, ready]
        wake()
        return { id: ready.id, queued: true }
      })

    let leaving = false
    const sendLast = Effect.gen(function* () {
      leaving = true
      const deadline = yield* deadlineIn(closeMilliseconds)
      let room = farewellBytes
      let rest = queue
      const batches: Array<ReadonlyArray<QueuedEvent>> = []
      for (let batch = nextBatch(rest, room); batch.length > 0; batch = nextBatch(rest, room)) {
        batches.push(batch)
        room -= bytesOf(batch) + batch.length + 64
        rest = rest.filter((event) => !batch.includes(event))
      }
      yield* Effect.forEach(
        batches,
        (batch) =>
          Effect.ignore(
            Effect.map(sent(batch, deadline, true), () => {
              delivered += without(batch)
            })
          ),
        { concurrency: "unbounded", discard: true }
      )
    }).pipe(
      Effect.ensuring(
        Effect.sync(() => {
          leaving = false
        })
      )
    )
    // A page that is left is hidden, too.
    const farewell = Effect.suspend(() => (leaving ? Effect.void : sendLast))

    const close = Effect.gen(function* () {
      closed = true
      cancel?.()
      // Its batch is sent again with the same ids; a request that hangs would keep the process alive.
      if (running !== undefined) yield* Fiber.interrupt(running)
      yield* Effect.ignore(flush({ deadlineMilliseconds: closeMilliseconds }))
      dropped += reportDropped(without(queue), "closed")
      return statsNow()
    })

    return { record, flush, farewell, stats: Effect.sync(statsNow), close }
  })
