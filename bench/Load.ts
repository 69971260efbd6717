/**
 * Load over raw sockets with prepared requests. Node's HTTP client costs more than the servers that are measured, so requests are
 * bytes, and of a response only the status and the length are read.
 */
import { connect, type Socket } from "node:net"
import type { Outgoing } from "./Requests.ts"

/** The next request as it goes over the wire. */
export type NextRequest = () => string

const head = ({ body = "", headers, method, path }: Outgoing): string =>
  [
    `${method} ${path} HTTP/1.1`,
    "host: 127.0.0.1",
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    ...(method === "GET" ? [] : [`content-length: ${Buffer.byteLength(body)}`]),
    "",
    ""
  ].join("\r\n")

export const serialise = (request: Outgoing): string => head(request) + (request.body ?? "")

/** Stands for a new id in every request that is made from a template. */
export const placeholder = "00000000-0000-4000-8000-000000000000"
let ids = Math.floor(performance.now())

/** A request in which every placeholder becomes a new UUID; far cheaper than making the request anew. */
export const template = (request: Outgoing): NextRequest => {
  const parts = serialise(request).split(placeholder)
  const [first = "", ...rest] = parts
  const run = process.hrtime.bigint().toString(16).slice(-8).padStart(8, "0")
  return () => {
    let text = first
    for (const part of rest) {
      ids += 1
      text += `${run}-0000-4000-8000-${ids.toString(16).padStart(12, "0")}${part}`
    }
    return text
  }
}

const headEnd = Buffer.from("\r\n\r\n")
const lengthPattern = /\r\ncontent-length: *(\d+)/i

/** One connection, with one request in flight. */
class Connection {
  private buffered: Buffer = Buffer.alloc(0)
  private done: ((status: number) => void) | undefined

  private constructor(private readonly socket: Socket) {
    socket.setNoDelay(true)
    socket.on("data", (chunk: Buffer) => this.read(chunk))
    socket.on("close", () => this.settle(0))
    socket.on("error", () => this.settle(0))
  }

  static open(url: string): Promise<Connection> {
    const { hostname, port } = new URL(url)
    return new Promise((resolve, reject) => {
      const socket = connect({ host: hostname, port: Number(port) })
      socket.once("error", reject)
      socket.once("connect", () => resolve(new Connection(socket)))
    })
  }

  /** Calls `done` with the status of the response, 0 when the connection ended. */
  send(request: string, done: (status: number) => void): void {
    if (this.socket.destroyed) done(0)
    else {
      this.done = done
      this.socket.write(request, "utf8")
    }
  }

  close(): void {
    this.socket.destroy()
  }

  private settle(status: number): void {
    const done = this.done
    this.done = undefined
    done?.(status)
  }

  private read(chunk: Buffer): void {
    const bytes = this.buffered.length === 0 ? chunk : Buffer.concat([this.buffered, chunk])
    const end = bytes.indexOf(headEnd)
    const text = end === -1 ? "" : bytes.toString("latin1", 0, end)
    const length = Number(lengthPattern.exec(text)?.[1] ?? 0)
    if (end === -1 || bytes.length < end + headEnd.length + length) {
      this.buffered = bytes
      return
    }
    this.buffered = Buffer.alloc(0)
    this.settle(Number(text.slice(9, 12)))
  }
}

export interface Measured {
  readonly answered: number
  /** Answers other than 2xx, and lost connections. */
  readonly failed: number
  /** Of those, answers 503. */
  readonly refused: number
  readonly perSecond: number
  /** Milliseconds. */
  readonly p50: number
  readonly p99: number
  readonly p999: number
}

const summarise = (
  latencies: Array<number>,
  { failed, refused }: { readonly failed: number; readonly refused: number },
  seconds: number
): Measured => {
  const sorted = Float64Array.from(latencies).sort()
  const at = (share: number) =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
  return {
    answered: sorted.length,
    failed,
    refused,
    perSecond: sorted.length / seconds,
    p50: at(0.5),
    p99: at(0.99),
    p999: at(0.999)
  }
}

const isSuccess = (status: number): boolean => status >= 200 && status < 300

/** What ends a closed loop: time, or a number of requests. */
export interface Length {
  readonly seconds: number
  readonly requests?: number
}

/** Closed loop: each connection sends its next request when the last one is answered. `nextOf` gives each connection its requests. */
export const closedLoop = async (
  url: string,
  connections: number,
  { requests = Number.POSITIVE_INFINITY, seconds }: Length,
  nextOf: (connection: number) => NextRequest
): Promise<Measured> => {
  const open = await Promise.all(Array.from({ length: connections }, () => Connection.open(url)))
  const latencies: Array<number> = []
  let failed = 0
  let refused = 0
  let left = requests
  const began = performance.now()
  const end = began + seconds * 1_000
  await Promise.all(
    open.map(
      (connection, index) =>
        new Promise<void>((resolve) => {
          const next = nextOf(index)
          const sendNext = (at: number): void => {
            left -= 1
            if (at >= end || left < 0) {
              resolve()
              return
            }
            connection.send(next(), (status) => {
              const now = performance.now()
              if (isSuccess(status)) latencies.push(now - at)
              else failed += 1
              if (status === 503) refused += 1
              if (status === 0) resolve()
              else sendNext(now)
            })
          }
          sendNext(performance.now())
        })
    )
  )
  const took = (performance.now() - began) / 1_000
  for (const connection of open) connection.close()
  return summarise(latencies, { failed, refused }, took)
}

/**
 * Open loop: requests at a fixed rate, whatever the answers. Each is measured from the time at which it was due, so that a stall
 * shows in every request that it delays.
 */
export const openLoop = async (
  url: string,
  rate: { readonly perSecond: number; readonly seconds: number; readonly connections?: number },
  next: NextRequest
): Promise<Measured> => {
  const { connections = 64 } = rate
  const idle = await Promise.all(Array.from({ length: connections }, () => Connection.open(url)))
  const all = [...idle]
  const waiting: Array<() => void> = []
  const latencies: Array<number> = []
  const total = Math.round(rate.perSecond * rate.seconds)
  let failed = 0
  let refused = 0
  let settled = 0
  const began = performance.now()
  await new Promise<void>((resolve) => {
    const finish = (connection: Connection): void => {
      idle.push(connection)
      waiting.shift()?.()
      settled += 1
      if (settled === total) resolve()
    }
    const sendDue = (due: number): void => {
      const connection = idle.pop()
      if (connection === undefined) {
        waiting.push(() => sendDue(due))
        return
      }
      connection.send(next(), (status) => {
        if (isSuccess(status)) latencies.push(performance.now() - due)
        else failed += 1
        if (status === 503) refused += 1
        finish(connection)
      })
    }
    let sent = 0
    const tick = (): void => {
      const now = performance.now()
      while (sent < total) {
        const due = began + (sent * 1_000) / rate.perSecond
        if (due > now) break
        sent += 1
        sendDue(due)
      }
      if (sent < total) setTimeout(tick, 1)
    }
    tick()
  })
  const took = (performance.now() - began) / 1_000
  for (const connection of all) connection.close()
  return summarise(latencies, { failed, refused }, took)
}
