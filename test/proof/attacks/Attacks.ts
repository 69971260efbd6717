/** Attacks with many connections: those that send slowly, that do not read, and that send in the smallest pieces. */
import { once } from "node:events"
import { setTimeout as pause } from "node:timers/promises"
import type { Environment } from "../../world/Fleet.ts"
import { openRaw, type RawConnection } from "../../world/RawHttp.ts"
import type { Server } from "./Play.ts"

export interface Attack {
  readonly name: string
  /** Further settings of the server that it attacks, which is its own. */
  readonly environment?: Environment
  /** Milliseconds of the processor that it may cost. */
  readonly mostCpu?: number
  /** What broke; empty when the service held. `count`: connections of a flood. */
  readonly play: (server: Server, count: number) => Promise<ReadonlyArray<string>>
}

const openMany = async (
  { port }: Server,
  count: number,
  from: (at: number) => string,
  isReading = true
): Promise<ReadonlyArray<RawConnection>> => {
  const lines: Array<RawConnection> = []
  // In portions, because the queue of connections to accept is short.
  for (let at = 0; at < count; at += 100) {
    const portion = Array.from({ length: Math.min(100, count - at) }, (_, next) => from(at + next))
    lines.push(...(await Promise.all(portion.map((address) => openRaw(port, { from: address, isReading })))))
  }
  return lines
}

/** One request on a connection of its own, from a loopback address; what it got instead of 200. */
export const askFrom = async (port: number, from: string, path = "/healthz"): Promise<string | undefined> => {
  const { close, exchange } = await openRaw(port, { from })
  const text = `GET ${path} HTTP/1.1\r\nHost: music.example\r\n\r\n`
  const { answers } = await exchange({ pieces: [Buffer.from(text)], methods: ["GET"] })
  close()
  const status = answers[0]?.status
  return status === 200 ? undefined : `GET ${path} from ${from} got ${status ?? "no answer"}`
}

/** Bytes that the process may hold for clients that do not read; the kernel's buffers do not count. */
const unreadSlack = 96 * 1024 ** 2

/** Requests of a flood together, on however many connections. */
const unreadRequests = 1_600

/** Asks for the largest answer, many times on each of few connections, and reads nothing. */
const unread: Attack = {
  name: "answers that are not read",
  play: async (server, count) => {
    const { heap: before = 0 } = await server.holdings()
    const lines = await openMany(server, count, (at) => `127.0.5.${1 + Math.floor(at / 100)}`, false)
    const request = "GET /openapi.json HTTP/1.1\r\nHost: music.example\r\n\r\n"
    const requests = request.repeat(Math.max(1, Math.floor(unreadRequests / count)))
    for (const { socket } of lines) socket.write(requests)
    const fault = await askFrom(server.port, "127.0.5.1")
    await pause(2_000)
    const { heap = 0 } = await server.holdings()
    for (const { close } of lines) close()
    return [
      ...(fault === undefined ? [] : [fault]),
      ...(heap > before + unreadSlack ? [`the heap grows from ${before} to ${heap} bytes`] : [])
    ]
  }
}

const headOf = (path: string, framing: string, key: number) =>
  `POST ${path} HTTP/1.1\r\nHost: music.example\r\nContent-Type: application/json\r\n` +
  `Idempotency-Key: slow-body-0123456789-${key}\r\n${framing}\r\n\r\n`

/** A third sends heads, a third bodies with a length, a third chunks. */
const slowBegins: ReadonlyArray<(at: number) => string> = [
  () => "GET /healthz HTTP/1.1\r\nHost: music.example\r\nX-Slow: ",
  (at) => headOf("/api/v1/auth/login", "Content-Length: 1000", at),
  (at) => `${headOf("/api/v1/auth/login", "Transfer-Encoding: chunked", at)}3e8\r\n`
]
/** Bytes, one a second: a head has 15 s, and its body the deadline of 5 s after it, which Node checks every 5 s. */
const mostBytes = 45

/** Sends heads and bodies a byte a second, against a server whose requests have a short deadline. */
const slow: Attack = {
  name: "slow heads and bodies",
  environment: { MUSIC_REQUEST_DEADLINE_SECONDS: "5" },
  play: async (server, count) => {
    const address = (at: number) => `127.0.6.${1 + Math.floor(at / 50)}`
    const lines = await openMany(server, count, address)
    for (const [at, { socket }] of lines.entries()) socket.write(slowBegins[at % 3]?.(at) ?? "")
    let bytes = 0
    const dripping = setInterval(() => {
      bytes += 1
      for (const { socket } of lines) if (!socket.destroyed) socket.write("a")
    }, 1_000)
    const fault = await askFrom(server.port, address(0))
    const ends = await Promise.all(
      lines.map(async ({ answers, closed, socket }) => {
        const end = closed() ? undefined : new Promise((resolve) => socket.once("close", resolve))
        await Promise.race([end, pause(240_000, undefined, { ref: false })])
        return { at: bytes, status: answers()[0]?.status }
      })
    )
    clearInterval(dripping)
    for (const { close } of lines) close()
    const late = ends.filter(({ at }) => at > mostBytes).length
    const unanswered = ends.filter(({ status }) => status !== 408 && status !== 503).length
    return [
      ...(fault === undefined ? [] : [fault]),
      ...(late > 0 ? [`${late} slow requests arrive for more than ${mostBytes} s`] : []),
      ...(unanswered > 0 ? [`${unanswered} slow requests ended without 408 or 503`] : [])
    ]
  }
}

/** Sends a body in chunks of one byte, all but the last one, and measures what it holds. */
const crumbs: Attack = {
  name: "a body in chunks of one byte",
  // 2 to 4 s, and 11 s where the cost is quadratic.
  mostCpu: 7_000,
  play: async (server) => {
    const size = 900_000
    const { heap: before = 0 } = await server.holdings()
    const { socket } = await openRaw(server.port, { from: "127.0.7.210" })
    socket.write(headOf("/webhook", "Transfer-Encoding: chunked", 0))
    for (let sent = 0; sent < size; sent += 1_000)
      if (!socket.destroyed && !socket.write("1\r\na\r\n".repeat(1_000)))
        await Promise.race([once(socket, "drain"), once(socket, "close")])
    const { heap = 0 } = await server.holdings()
    socket.destroy()
    return heap - before > 5 * size + 16 * 1024 ** 2 ? [`the body holds ${heap - before} bytes`] : []
  }
}

export const attacks: ReadonlyArray<Attack> = [slow, unread, crumbs]
