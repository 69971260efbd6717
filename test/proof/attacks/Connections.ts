/** Attacks with many connections: those that send nothing, little, or slowly, and those that do not read. */
import { once } from "node:events"
import { setTimeout as pause } from "node:timers/promises"
import { bodyLimits } from "../../../src/schema/BodyLimits.ts"
import { RawConnection } from "../../world/RawHttp.ts"
import type { Attack } from "./AttackedServer.ts"
import { ask, type Line, open, type Target } from "./Wire.ts"

const probe = "GET /healthz HTTP/1.1\r\nHost: music.example\r\n\r\n"

const openMany = async (
  target: Target,
  count: number,
  from: (at: number) => string,
  options: { readonly reading?: boolean } = {}
): Promise<ReadonlyArray<Line>> => {
  const lines: Array<Line> = []
  // In portions, because the queue of connections to accept is short.
  for (let at = 0; at < count; at += 100) {
    const portion = Array.from({ length: Math.min(100, count - at) }, (_, next) =>
      open(target, { from: from(at + next), ...options })
    )
    lines.push(...(await Promise.all(portion)))
  }
  return lines
}

const closeAll = (lines: ReadonlyArray<Line>): void => {
  for (const { socket } of lines) socket.destroy()
}

/** Honest requests from addresses that an attack crowds. */
const honestFrom = async (target: Target, ...addresses: ReadonlyArray<string>) => {
  const answers = await Promise.all(addresses.map((from) => ask(target, { path: "/healthz", from })))
  return answers.flatMap((answer, at) =>
    answer?.status === 200
      ? []
      : [`a new connection from ${addresses[at]} got ${answer?.status ?? "no answer"}`]
  )
}

/** Bytes that the process may hold for clients that do not read; the kernel's buffers do not count. */
const unreadSlack = 96 * 1024 ** 2

/** Asks for the largest answer many times on each connection, and reads nothing. */
const unread: Attack = {
  name: "answers that are not read",
  play: async ({ count, server }) => {
    const before = await server.holdings()
    const from = (at: number) => `127.0.5.${1 + Math.floor(at / 100)}`
    const lines = await openMany(server, count, from, { reading: false })
    const request = "GET /openapi.json HTTP/1.1\r\nHost: music.example\r\n\r\n".repeat(8)
    for (const { socket } of lines) socket.write(request)
    const broken = [...(await honestFrom(server, "127.0.5.1"))]
    await pause(2_000)
    const { heap } = await server.holdings()
    if (heap > before.heap + unreadSlack) broken.push(`the heap grows from ${before.heap} to ${heap} bytes`)
    // In large, the limit of the time in which an answer is read is waited for as well.
    if (count >= 1_000) {
      const end = performance.now() + 3 * 90_000
      const countHeld = async () => (await server.holdings()).descriptors - before.descriptors
      while ((await countHeld()) > 50 && performance.now() < end) await pause(1_000)
      const held = await countHeld()
      if (held > 50) broken.push(`${held} connections are held by clients that do not read`)
    }
    closeAll(lines)
    return broken
  }
}

const loginHead = (length: number, key: number) =>
  `POST /api/v1/auth/login HTTP/1.1\r\nHost: music.example\r\nContent-Type: application/json\r\n` +
  `Idempotency-Key: slow-body-0123456789-${key}\r\nContent-Length: ${length}\r\n\r\n`

/** Bytes of a head, one a second: its bound is 15 s, which Node checks every 5 s. Without it, the whole request has 60 s. */
const mostHeadBytes = 45

/** Sends heads and bodies a byte a second, against a server whose requests have a short deadline. */
const slow: Attack = {
  name: "slow heads and bodies",
  apart: true,
  play: async ({ count, start }) => {
    const server = await start({ MUSIC_REQUEST_DEADLINE_SECONDS: "5" })
    const address = (at: number) => `127.0.6.${1 + Math.floor(at / 50)}`
    const lines = await openMany(server, count, address)
    // A third sends heads, a third bodies with a length, a third chunks.
    const begins = [
      () => "GET /healthz HTTP/1.1\r\nHost: music.example\r\nX-Slow: ",
      (at: number) => loginHead(1_000, at),
      (at: number) => `${loginHead(0, at).replace("Content-Length: 0", "Transfer-Encoding: chunked")}3e8\r\n`
    ]
    for (const [at, { socket }] of lines.entries()) socket.write(begins[at % 3]?.(at) ?? "")
    let bytes = 0
    const dripping = setInterval(() => {
      bytes += 1
      for (const line of lines) if (!line.isClosed()) line.socket.write("a")
    }, 1_000)
    const broken = [...(await honestFrom(server, address(0), "127.0.6.250"))]
    const ends = await Promise.all(
      lines.map(async (line) => ({ line, isCut: await line.closed(240_000), at: bytes }))
    )
    clearInterval(dripping)
    const lateHeads = ends.filter(({ at }, index) => index % 3 === 0 && at > mostHeadBytes)
    const left = ends.filter(({ isCut }) => !isCut).length
    const isRefused = ({ line }: { readonly line: Line }) => [408, 503].includes(line.read()[0]?.status ?? 0)
    const unanswered = ends.filter((end) => !isRefused(end)).length
    closeAll(lines)
    if (lateHeads.length > 0)
      broken.push(
        `${lateHeads.length} slow heads arrive for up to ${Math.max(...lateHeads.map(({ at }) => at))} s, at most ${mostHeadBytes}`
      )
    if (left > 0) broken.push(`${left} slow connections are still open after ${bytes} bytes`)
    if (unanswered > 0) broken.push(`${unanswered} slow requests ended without 408 or 503`)
    return broken
  }
}

/** Begins many bodies from one address and from many, fewer than the places: a new body must still get in. */
const bodies: Attack = {
  name: "bodies that stall",
  play: async ({ server }) => {
    const stall = async (count: number, from: (at: number) => string, honest: string) => {
      const lines = await openMany(server, count, from)
      for (const [at, { socket }] of lines.entries()) socket.write(`${loginHead(100, at)}{`)
      const answer = await ask(server, { path: "/api/v1/telemetry", body: "{}", from: honest })
      const said = answer?.status ?? "no answer"
      return { lines, broken: said === 400 ? [] : [`a new body got ${said} instead of 400`] }
    }
    const one = await stall(300, () => "127.0.7.1", "127.0.7.1")
    const many = await stall(300, (at) => `127.0.7.${2 + Math.floor(at / 40)}`, "127.0.7.200")
    closeAll([...one.lines, ...many.lines])
    return [...one.broken, ...many.broken]
  }
}

const webhookHead = (framing: string) =>
  `POST /webhook HTTP/1.1\r\nHost: music.example\r\nContent-Type: application/json\r\nIdempotency-Key: endless-0123456789\r\n${framing}\r\n\r\n`

/** Sends bodies in chunks of one byte, all but the last one, and measures what they hold. */
const crumbs: Attack = {
  name: "bodies in chunks of one byte",
  play: async ({ server }) => {
    const [connections, size] = [8, 200_000]
    const before = await server.holdings()
    const lines = await openMany(server, connections, () => "127.0.7.210")
    const chunks = "1\r\na\r\n".repeat(1_000)
    const drip = async ({ socket }: Line) => {
      socket.write(webhookHead("Transfer-Encoding: chunked"))
      for (let sent = 0; sent < size; sent += 1_000)
        if (!socket.destroyed && !socket.write(chunks))
          await Promise.race([once(socket, "drain"), once(socket, "close")])
    }
    await Promise.all(lines.map(drip))
    const held = (await server.holdings()).heap - before.heap
    closeAll(lines)
    const most = 5 * connections * size + 16 * 1024 ** 2
    return held > most ? [`${connections * size} bytes of bodies hold ${held} bytes`] : []
  }
}

/** Sends bodies without end, in chunks and with a declared length. */
const endless: Attack = {
  name: "bodies over the bound",
  play: async ({ server }) => {
    const size = 4 * bodyLimits.webhook
    const part = Buffer.alloc(65_536, "a")
    const chunk = Buffer.concat([Buffer.from("10000\r\n"), part, Buffer.from("\r\n")])
    const send = async (head: string): Promise<ReadonlyArray<string>> => {
      const line = await open(server, { from: "127.0.0.24" })
      line.socket.write(head)
      const isOver = () => line.isClosed() || line.read().length > 0
      for (let sent = 0; sent < size && !isOver(); sent += part.length) {
        line.socket.write(head.includes("chunked") ? chunk : part)
        await pause(1)
      }
      const isEnded = await line.closed()
      line.socket.destroy()
      const status = line.read()[0]?.status
      const [name] = head.split("\r\n")
      // The server reads on for 5 s after the refusal; a client that goes on sending may lose the answer.
      return [
        ...(status === undefined || status === 413 ? [] : [`${name} answered ${status}`]),
        ...(isEnded ? [] : [`${name} is not ended`])
      ]
    }
    const framings = ["Transfer-Encoding: chunked", `Content-Length: ${size}`].map(webhookHead)
    const paths = ["/webhook", "/api/v1/auth/login", "/api/v1/telemetry", "/api/v1/reports"]
    const heads = paths.flatMap((path) => framings.map((head) => head.replace("/webhook", path)))
    return (await Promise.all(heads.map(send))).flat()
  }
}

/** Sends many requests at once on each connection, without reading the answers between them: each has its answer. */
const pipelined: Attack = {
  name: "floods of requests on one connection",
  play: async ({ count, server }) => {
    const requests = 500
    const send = async (from: string) => {
      const connection = await RawConnection.open(server.port, from)
      const pieces = [Buffer.from(probe.replace("/healthz", "/api/v1/version").repeat(requests))]
      const methods = Array.from({ length: requests }, () => "GET")
      const { answers, fault } = await connection.exchange({ pieces, methods })
      connection.close()
      return [
        ...(fault === undefined ? [] : [fault]),
        ...(answers.length === requests ? [] : [`${answers.length} answers to ${requests} requests`])
      ]
    }
    const connections = Array.from({ length: Math.min(20, count) }, (_, at) => `127.0.9.${1 + at}`)
    return (await Promise.all(connections.map(send))).flat().slice(0, 3)
  }
}

export const connectionAttacks: ReadonlyArray<Attack> = [slow, unread, bodies, crumbs, endless, pipelined]
