/**
 * Bounds the work of one turn of the event loop. Node reads all readable connections in each turn, and accepts one new connection.
 * If each of 200 busy connections were served where it is read, a new connection would wait for 200 requests before it is
 * accepted, and again before its request is read. So requests wait here in order of arrival: each turn starts as many as its time
 * allows, and while connections are accepted, turns start none.
 */
import type { Socket } from "node:net"
import * as Context from "effect/Context"
import * as Layer from "effect/Layer"
import { httpRequestsWaiting, recordNow } from "../../services/Metrics.ts"

/** Milliseconds of a turn in which requests are started. */
const startMillis = 5
/** Milliseconds for which turns only accept connections. A flood of connections then leaves time for requests. */
const acceptMillis = 20

/** Requests that wait at once: all, and those of one connection, which sends them without waiting for answers. */
export const mostWaiting = 1_000
export const mostOfConnection = 32

/**
 * `full`: the queue has no place. `crowded`: its connection has too many requests in it, or a second one that finds no place in the same turn;
 * `flooding`: and sends still more, which is dropped.
 */
export type Admittance = "admitted" | "full" | "crowded" | "flooding"

interface Waiting {
  readonly socket: Socket
  readonly start: () => void
  readonly since: number
}

interface RequestQueueService {
  /**
   * Calls `start` now, or in a later turn when this one has used its time; never when the request is not admitted. `start` must
   * not throw.
   */
  readonly add: (socket: Socket, start: () => void) => Admittance
  /** Says that a connection was accepted: others may wait for the next turns. */
  readonly connectionAccepted: () => void
  /** The number of requests that wait. */
  readonly length: () => number
  /** Milliseconds for which the oldest one has waited; 0 when none waits. */
  readonly oldestWait: () => number
}

/** `now` is in milliseconds; `most` requests wait at once. */
export const makeRequestQueue = (
  now: () => number = () => performance.now(),
  most: number = mostWaiting
): RequestQueueService => {
  const waiting: Array<Waiting> = []
  const ofConnection = new Map<Socket, number>()
  const crowded = new WeakSet<Socket>()
  /** Connections with a request of this turn that found no place. */
  const refused = new Set<Socket>()
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

  const count = (socket: Socket, change: 1 | -1): void => {
    const left = (ofConnection.get(socket) ?? 0) + change
    if (left === 0) ofConnection.delete(socket)
    else ofConnection.set(socket, left)
  }

  const startNext = (): void => {
    const next = waiting.shift()
    if (next === undefined) return
    count(next.socket, -1)
    next.start()
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
    refused.clear()
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
    add: (socket, start) => {
      if (crowded.has(socket)) return "flooding"
      const isFull = waiting.length >= most
      // A refusal costs as much as a small request, and all that have arrived are refused in the same turn.
      if ((ofConnection.get(socket) ?? 0) >= mostOfConnection || (isFull && refused.has(socket))) {
        crowded.add(socket)
        return "crowded"
      }
      if (isFull) {
        refused.add(socket)
        return "full"
      }
      waiting.push({ socket, start, since: now() })
      count(socket, 1)
      if (!scheduled) {
        startUntil = now() + startMillis
        scheduleTurn()
      }
      if (!starting && hasTime()) startNext()
      return "admitted"
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
  static readonly layer = (most?: number): Layer.Layer<RequestQueue> =>
    Layer.sync(RequestQueue, () => makeRequestQueue(undefined, most))
}
