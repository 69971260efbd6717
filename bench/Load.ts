/** Load over a pool of connections that are kept, each with one request in flight. Of a response only the status counts. */
import { setTimeout as pause } from "node:timers/promises"
import * as Undici from "@effect/platform-node/Undici"
import type { Outgoing } from "./Requests.ts"

/** `NaN` of nothing. */
export const quantile = (values: ReadonlyArray<number>, share: number): number => {
  const sorted = Float64Array.from(values).sort()
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}

/** The upper one of the two in the middle. */
export const median = (values: ReadonlyArray<number>): number => quantile(values, 0.5)

/** The status of the response, or 0 when the connection failed. */
const ask = (pool: Undici.Pool, { body, headers, method = "GET", path }: Outgoing): Promise<number> =>
  new Promise((resolve) => {
    let status = 0
    pool.dispatch(
      { method, path, headers, body: body ?? null },
      {
        onRequestStart: () => undefined,
        onResponseStart: (_, code) => {
          status = code
        },
        onResponseData: () => undefined,
        onResponseEnd: () => resolve(status),
        onResponseError: () => resolve(0)
      }
    )
  })

export interface Measured {
  /** Responses by their status. */
  readonly statuses: ReadonlyMap<number, number>
  /** Responses 2xx. */
  readonly answered: number
  /** Other responses, and lost connections. */
  readonly failed: number
  readonly perSecond: number
  /** Milliseconds of responses 2xx. */
  readonly p50: number
  readonly p99: number
  readonly p999: number
}

const makeCounts = () => {
  const began = performance.now()
  const latencies: Array<number> = []
  const statuses = new Map<number, number>()
  return {
    /** `since`: when the request was due. */
    count: (status: number, since: number): void => {
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      if (status >= 200 && status < 300) latencies.push(performance.now() - since)
    },
    summarise: (): Measured => ({
      statuses,
      answered: latencies.length,
      failed: [...statuses.values()].reduce((sum, value) => sum + value, 0) - latencies.length,
      perSecond: (latencies.length * 1_000) / (performance.now() - began),
      p50: quantile(latencies, 0.5),
      p99: quantile(latencies, 0.99),
      p999: quantile(latencies, 0.999)
    })
  }
}

const withPool = async <A>(
  url: string,
  connections: number,
  use: (pool: Undici.Pool) => Promise<A>
): Promise<A> => {
  const pool = new Undici.Pool(url, { connections })
  try {
    return await use(pool)
  } finally {
    await pool.destroy()
  }
}

/** What ends a closed loop: time, or a number of requests. */
export interface Length {
  readonly seconds: number
  readonly requests?: number
}

/** Closed loop: each connection sends its next request when the last one is answered. `next` is given the number of its connection. */
export const closedLoop = (
  url: string,
  connections: number,
  { requests = Number.POSITIVE_INFINITY, seconds }: Length,
  next: (connection: number) => Outgoing
): Promise<Measured> =>
  withPool(url, connections, async (pool) => {
    const { count, summarise } = makeCounts()
    const end = performance.now() + seconds * 1_000
    let left = requests
    const sendInTurn = async (connection: number): Promise<void> => {
      while (performance.now() < end && left > 0) {
        left -= 1
        const since = performance.now()
        count(await ask(pool, next(connection)), since)
      }
    }
    await Promise.all(Array.from({ length: connections }, (_, connection) => sendInTurn(connection)))
    return summarise()
  })

/**
 * Open loop: requests at a fixed rate, whatever the responses. Each is measured from the time at which it was due, so that a stall
 * shows in every request that it delays. A request that finds no free connection waits for one.
 */
export const openLoop = (
  url: string,
  rate: { readonly perSecond: number; readonly seconds: number; readonly connections?: number },
  next: () => Outgoing
): Promise<Measured> =>
  withPool(url, rate.connections ?? 64, async (pool) => {
    const { count, summarise } = makeCounts()
    const began = performance.now()
    const sent: Array<Promise<void>> = []
    while (sent.length < rate.perSecond * rate.seconds) {
      const due = began + (sent.length * 1_000) / rate.perSecond
      if (due > performance.now()) await pause(1)
      else sent.push(ask(pool, next()).then((status) => count(status, due)))
    }
    await Promise.all(sent)
    return summarise()
  })
