/** Attacks with many connections: those that send nothing, little, or slowly, and those that do not read. */
import { once } from "node:events"
import { setTimeout as pause } from "node:timers/promises"
import { bodyLimits } from "../../../src/schema/BodyLimits.ts"
import { defaultArrivingBodyLimits } from "../../../src/http/body/ArrivingBodies.ts"
import { defaultConnectionLimits } from "../../../src/http/transport/Connections.ts"
import type { Attack, AttackContext } from "./Attack.ts"
import { ask, type Line, open, readAnswers, type Target } from "./Wire.ts"

const probe = "GET /healthz HTTP/1.1\r\nHost: music.example\r\n\r\n"

/** Answers of a connection so far. */
const answersOf = (line: Line) => readAnswers(line.received()).answers

const openMany = async (
  target: Target,
  count: number,
  from: (at: number) => string,
  options: { readonly reading?: boolean } = {}
): Promise<ReadonlyArray<Line>> => {
  const lines: Array<Line> = []
  // In portions, because the queue of connections to accept is short.
  for (let at = 0; at < count; at += 100)
    lines.push(
      ...(await Promise.all(
        Array.from({ length: Math.min(100, count - at) }, (_, next) =>
          open(target, { from: from(at + next), ...options })
        )
      ))
    )
  return lines
}

const closeAll = (lines: ReadonlyArray<Line>): void => {
  for (const { socket } of lines) socket.destroy()
}

/** An honest request from an address that an attack crowds. */
const honestFrom = async (target: Target, from: string): Promise<ReadonlyArray<string>> => {
  const answer = await ask(target, { path: "/healthz", from })
  return answer?.status === 200 ? [] : [`a new connection from ${from} got ${answer?.status ?? "no answer"}`]
}

/**
 * Opens more idle connections than one address may have. Each has had an answer, so that no limit but that of the address ends it before
 * the count; some begin a further head after it.
 */
const idle: Attack = {
  name: "idle connections of one address",
  play: async ({ count, random, server }) => {
    const from = "127.0.0.21"
    const limit = defaultConnectionLimits.address
    const lines = await openMany(server, Math.max(count, limit + 100), () => from)
    for (const { socket } of lines) socket.write(probe)
    await Promise.all(lines.map((line) => line.until(() => answersOf(line).length > 0)))
    const countOpen = () => lines.filter((line) => !line.isClosed()).length
    for (let round = 0; round < 50 && countOpen() > limit; round += 1) await pause(200)
    const left = countOpen()
    for (const { socket } of lines) if (random.below(2) === 0) socket.write("GET / HTTP/1.1\r\nHo")
    const honest = [...(await honestFrom(server, from)), ...(await honestFrom(server, "127.0.0.22"))]
    closeAll(lines)
    return [
      ...honest,
      ...(left > limit ? [`${left} idle connections of one address stay open, the limit is ${limit}`] : []),
      ...(left === 0 ? ["no idle connection stays open"] : [])
    ]
  }
}

/** Opens more connections than all together may have, from many addresses with fewer than the limit of one. */
const many: Attack = {
  name: "idle connections of many addresses",
  play: async ({ count, server }) => {
    // Only in large: the limit of all is above what a slice opens.
    const wanted = Math.min(count * 2 + 400, defaultConnectionLimits.all + 400)
    const lines = await openMany(server, wanted, (at) => `127.0.3.${1 + Math.floor(at / 400)}`)
    const honest = [...(await honestFrom(server, "127.0.0.23")), ...(await honestFrom(server, "127.0.3.1"))]
    const countOpen = () => lines.filter((line) => !line.isClosed()).length
    for (let round = 0; round < 100 && countOpen() > defaultConnectionLimits.all; round += 1) await pause(100)
    const left = countOpen()
    closeAll(lines)
    return [
      ...honest,
      ...(left > defaultConnectionLimits.all ? [`${left} connections stay open in all`] : [])
    ]
  }
}

/** Opens and closes connections as fast as it can, also by a reset. */
const churn: Attack = {
  name: "connections that open and close",
  play: async ({ count, random, server }) => {
    for (let round = 0; round < 5; round += 1) {
      const lines = await openMany(server, count, () => `127.0.4.${1 + random.below(20)}`)
      for (const { socket } of lines) {
        if (random.below(2) === 0) socket.write(probe.slice(0, random.below(probe.length)))
        if (random.below(2) === 0) socket.resetAndDestroy()
        else socket.destroy()
      }
    }
    return honestFrom(server, "127.0.4.1")
  }
}

/** Bytes that the process may hold for clients that do not read; the kernel's buffers do not count. */
const unreadSlack = 96 * 1024 ** 2

/** Asks for the largest answer many times on each connection, and reads nothing. */
const unread: Attack = {
  name: "answers that are not read",
  play: async ({ count, log, server }) => {
    const before = await server.holdings()
    const lines = await openMany(server, count, (at) => `127.0.5.${1 + Math.floor(at / 100)}`, {
      reading: false
    })
    const request = "GET /openapi.json HTTP/1.1\r\nHost: music.example\r\n\r\n".repeat(16)
    for (const { socket } of lines) socket.write(request)
    const honest = await honestFrom(server, "127.0.5.1")
    await pause(2_000)
    const during = await server.holdings()
    log(`heap ${before.heap} to ${during.heap}, resident ${before.resident} to ${during.resident}`)
    // In large, the limit of the time in which an answer is read is waited for as well.
    const stuck = count < 1_000 ? 0 : await waitForCut(server, before.descriptors)
    closeAll(lines)
    return [
      ...honest,
      ...(during.heap > before.heap + unreadSlack
        ? [`the heap grows from ${before.heap} to ${during.heap} bytes`]
        : []),
      ...(stuck > 0 ? [`${stuck} connections are held by clients that do not read`] : [])
    ]
  }
}

/** The descriptors that are still held after the time in which answers are read. */
const waitForCut = async (server: AttackContext["server"], before: number): Promise<number> => {
  const end = performance.now() + 3 * defaultConnectionLimits.unreadMillis
  let held = 0
  do {
    await pause(1_000)
    held = (await server.holdings()).descriptors - before
  } while (held > 50 && performance.now() < end)
  return held > 50 ? held : 0
}

const loginHead = (length: number, key: number) =>
  `POST /api/v1/auth/login HTTP/1.1\r\nHost: music.example\r\nContent-Type: application/json\r\n` +
  `Idempotency-Key: slow-body-0123456789-${key}\r\nContent-Length: ${length}\r\n\r\n`

/** Sends heads and bodies a byte a second, against a server whose requests have a short deadline. */
const slow: Attack = {
  name: "slow heads and bodies",
  apart: true,
  play: async ({ count, start }) => {
    const server = await start({
      MUSIC_REQUEST_DEADLINE_SECONDS: "5",
      MUSIC_IAM_TIMEOUT_SECONDS: "3",
      MUSIC_TING_TIMEOUT_SECONDS: "3"
    })
    const address = (at: number) => `127.0.6.${1 + Math.floor(at / 50)}`
    const lines = await openMany(server, count, address)
    let bytes = 0
    const drip = (texts: ReadonlyArray<string>) => {
      for (const [at, line] of lines.entries())
        if (!line.isClosed()) line.socket.write(texts[at] ?? "a", "latin1")
      bytes += 1
    }
    // A third sends heads, a third bodies with a length, a third chunks.
    const first = lines.map((_, at) =>
      at % 3 === 0
        ? "GET /healthz HTTP/1.1\r\nHost: music.example\r\nX-Slow: "
        : at % 3 === 1
          ? loginHead(1_000, at)
          : `${loginHead(0, at).replace(/Content-Length: 0/, "Transfer-Encoding: chunked")}3e8\r\n`
    )
    drip(first)
    const dripping = setInterval(() => drip([]), 1_000)
    const honest = [...(await honestFrom(server, address(0))), ...(await honestFrom(server, "127.0.6.250"))]
    const cut = await Promise.all(lines.map((line) => line.closed(240_000)))
    clearInterval(dripping)
    const unanswered = lines.filter((line) => ![408, 503].includes(answersOf(line)[0]?.status ?? 0)).length
    closeAll(lines)
    const left = cut.filter((isCut) => !isCut).length
    return [
      ...honest,
      ...(left > 0 ? [`${left} slow connections are still open after ${bytes} bytes`] : []),
      ...(unanswered > 0 ? [`${unanswered} slow requests ended without 408 or 503`] : [])
    ]
  }
}

/** Begins more bodies than may arrive at once, from one address and from many: a new body must still get in. */
const bodies: Attack = {
  name: "bodies that stall",
  play: async ({ server }) => {
    const { address, all } = defaultArrivingBodyLimits
    const crowd = await openMany(server, address + 30, () => "127.0.7.1")
    for (const [at, { socket }] of crowd.entries()) socket.write(`${loginHead(100, at)}{`)
    const crowded = await ask(server, { path: "/api/v1/telemetry", body: "{}", from: "127.0.7.1" })
    const spread = await openMany(server, all + 30, (at) => `127.0.7.${2 + Math.floor(at / 40)}`)
    for (const [at, { socket }] of spread.entries()) socket.write(`${loginHead(100, at)}{`)
    const other = await ask(server, { path: "/api/v1/telemetry", body: "{}", from: "127.0.7.200" })
    const oldest = await crowd[0]?.until(() => crowd[0] !== undefined && answersOf(crowd[0]).length > 0)
    closeAll([...crowd, ...spread])
    return [
      ...[crowded, other].flatMap((answer) =>
        answer?.status === 400 ? [] : [`a new body got ${answer?.status ?? "no answer"} instead of 400`]
      ),
      ...(oldest === true ? [] : ["the oldest of the stalled bodies keeps its place"])
    ]
  }
}

/** Sends bodies in chunks of one byte, all but the last one, and measures what they hold. */
const crumbs: Attack = {
  name: "bodies in chunks of one byte",
  play: async ({ log, server }) => {
    const [connections, size] = [16, 200_000]
    const before = await server.holdings()
    const lines = await openMany(server, connections, () => "127.0.7.210")
    const chunks = "1\r\na\r\n".repeat(1_000)
    await Promise.all(
      lines.map(async ({ socket }) => {
        socket.write(
          "POST /webhook HTTP/1.1\r\nHost: music.example\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for (let sent = 0; sent < size; sent += 1_000)
          if (!socket.destroyed && !socket.write(chunks))
            await Promise.race([once(socket, "drain"), once(socket, "close")])
      })
    )
    const during = await server.holdings()
    log(`heap ${before.heap} to ${during.heap}`)
    closeAll(lines)
    return during.heap - before.heap > 5 * connections * size + 16 * 1024 ** 2
      ? [`${connections * size} bytes of bodies hold ${during.heap - before.heap} bytes`]
      : []
  }
}

/** Sends bodies without end, in chunks and with a declared length, to every call with a body and to one without. */
const endless: Attack = {
  name: "bodies over the bound",
  play: async ({ server }) => {
    const size = 4 * bodyLimits.webhook
    const common = `Host: music.example\r\nContent-Type: application/json\r\nIdempotency-Key: endless-0123456789\r\n`
    const part = Buffer.alloc(65_536, "a")
    const chunk = Buffer.concat([Buffer.from("10000\r\n"), part, Buffer.from("\r\n")])
    const send = async (path: string, framing: string): Promise<ReadonlyArray<string>> => {
      const line = await open(server, { from: "127.0.0.24" })
      line.socket.write(`POST ${path} HTTP/1.1\r\n${common}${framing}\r\n\r\n`)
      for (
        let sent = 0;
        sent < size && !line.isClosed() && answersOf(line).length === 0;
        sent += part.length
      ) {
        line.socket.write(framing.startsWith("T") ? chunk : part)
        await pause(1)
      }
      const isClosed = await line.closed()
      line.socket.destroy()
      const status = answersOf(line)[0]?.status
      // The server reads on for 5 s after the refusal; a client that goes on sending may lose the answer.
      return [
        ...(status === undefined || status === 413 ? [] : [`${path} with ${framing} answered ${status}`]),
        ...(isClosed ? [] : [`${path} with ${framing} is not ended`])
      ]
    }
    const framings = ["Transfer-Encoding: chunked", `Content-Length: ${size}`]
    const all = targets.flatMap((path) => framings.map((framing) => send(path, framing)))
    return (await Promise.all(all)).flat()
  }
}

const targets = [
  "/api/v1/auth/login",
  "/api/v1/auth/refresh",
  "/api/v1/auth/logout",
  "/api/v1/telemetry",
  "/api/v1/reports",
  "/webhook"
]

export const connectionAttacks: ReadonlyArray<Attack> = [
  slow,
  idle,
  many,
  churn,
  unread,
  bodies,
  crumbs,
  endless
]
