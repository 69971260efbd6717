/**
 * Bounds the work of one turn of the event loop. Node reads all readable connections in each turn, and accepts one new connection.
 * If each of 200 busy connections were served where it is read, a new connection would wait for 200 requests before it is
 * accepted, and again before its request is read. So requests wait here in order of arrival: each turn starts as many as its time
 * allows, and while connections are accepted, turns start none.
 */
import * as Context from "effect/Context"
import * as Layer from "effect/Layer"
import { httpRequestsWaiting, recordNow } from "../../services/Metrics.ts"

/** Milliseconds of a turn in which requests are started. */
const startMillis = 5
/** Milliseconds for which turns only accept connections. A flood of connections then leaves time for requests. */
const acceptMillis = 20

interface Waiting {
  readonly start: () => void
  readonly since: number
}

interface RequestQueueService {
  /** Calls `start` now, or in a later turn when this one has used its time. `start` must not throw. */
  readonly add: (start: () => void) => void
  /** Says that a connection was accepted: others may wait for the next turns. */
  readonly connectionAccepted: () => void
  /** The number of requests that wait. */
  readonly length: () => number
  /** Milliseconds for which the oldest one has waited; 0 when none waits. */
  readonly oldestWait: () => number
}

/** `now` is in milliseconds. */
export const makeRequestQueue = (now: () => number = () => performance.now()): RequestQueueService => {
  const waiting: Array<Waiting> = []
  /** A started request goes on; the next one follows in the same turn. */
  let starting = false
  /** While requests wait, the next turn is always scheduled. */
  let scheduled = false
  let startUntil = Number.NEGATIVE_INFINITY
  let accepted = false
  let acceptUntil: number | undefined

  const hasTime = (): boolean => now() < startUntil

  /** Whether the turn only accepts: one connection was accepted in the turn before, and not for too long. */
  const isForAccepting = (): boolean => {
    acceptUntil = accepted ? (acceptUntil ?? now() + acceptMillis) : undefined
    accepted = false
    if (acceptUntil === undefined || now() < acceptUntil) return acceptUntil !== undefined
    acceptUntil = undefined
    return false
  }

  const startNext = (): void => {
    waiting.shift()?.start()
    if (waiting.length === 0) return
    starting = true
    // The started request first goes on as far as it does not wait, so that this work counts.
    queueMicrotask(() => process.nextTick(continueTurn))
  }

  const continueTurn = (): void => {
    starting = false
    if (waiting.length > 0 && hasTime()) startNext()
  }

  const runTurn = (): void => {
    scheduled = false
    recordNow(httpRequestsWaiting, waiting.length)
    if (waiting.length === 0) return
    scheduleTurn()
    if (isForAccepting()) return
    startUntil = now() + startMillis
    if (!starting) startNext()
  }

  const scheduleTurn = (): void => {
    scheduled = true
    setImmediate(runTurn)
  }

  return {
    add: (start) => {
      waiting.push({ start, since: now() })
      if (!scheduled) {
        startUntil = now() + startMillis
        scheduleTurn()
      }
      if (!starting && hasTime()) startNext()
    },
    connectionAccepted: () => {
      accepted = true
    },
    length: () => waiting.length,
    oldestWait: () => {
      const oldest = waiting[0]
      return oldest === undefined ? 0 : now() - oldest.since
    }
  }
}

/** The queue of the requests of one server. */
export class RequestQueue extends Context.Tag("music/http/RequestQueue")<
  RequestQueue,
  RequestQueueService
>() {
  static readonly layer: Layer.Layer<RequestQueue> = Layer.sync(RequestQueue, () => makeRequestQueue())
}
