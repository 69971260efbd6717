/** Bodies on a socket: their bounds, and those that stall, are cut off or arrive late. */
import { describe, expect } from "vitest"
import { Effect, Metric, TestClock } from "effect"
import { httpRequestsInFlight } from "../../src/services/Metrics.ts"
import { cpuMillisDuring } from "../world/CpuTime.ts"
import { openPeer } from "../world/RawHttp.ts"
import { eventually, until } from "../world/Waiting.ts"
import { it, sharing } from "../world/Test.ts"
import type { Answer } from "../world/Driver.ts"
import {
  backend,
  bounds,
  goodRequests,
  outcomeOf,
  type Sent,
  shared,
  sharedOnSocket,
  textOf,
  withHeaders
} from "./support.ts"

const inChunks = (body: string): ReadonlyArray<string> => {
  const size = Math.ceil(body.length / 7)
  return Array.from({ length: 7 }, (_, at) => body.slice(at * size, (at + 1) * size))
}

const expectTooLarge = (answer: Answer) =>
  expect([outcomeOf(answer), answer.headers["x-request-id"]]).toEqual([
    "payload_too_large",
    expect.any(String)
  ])

sharing(sharedOnSocket())("A body", (it) => {
  it.effect(
    "that fits nowhere, has one large value or a long media type is refused at little cost",
    function* () {
      const server = yield* shared
      const { accept, login, submit } = yield* goodRequests(server)
      const events = Array.from({ length: 8_000 }, () => 1)
      const attachments = Array.from({ length: 165_000 }, () => ({}))
      const longType = `application/json;charset=utf-8${" ".repeat(15_000)}x`
      for (const [sent, outcome, limit] of [
        [withHeaders({ "content-type": longType })(login), "unsupported_media_type", 500],
        [{ ...accept, body: JSON.stringify({ table: "musicclidaemon", events }) }, "invalid_input", 300],
        // Most of the time of the large one is that of the parser, here and in the client.
        [{ ...submit, body: JSON.stringify({ message: "It stops.", attachments }) }, "invalid_input", 1_500]
      ] as const) {
        const { answers, millis } = yield* cpuMillisDuring(Effect.forEach(Array(5).fill(sent), server.send))
        expect(new Set(answers.map(outcomeOf))).toEqual(new Set([outcome]))
        expect(millis).toBeLessThan(limit)
      }
    }
  )

  it.effect("of more than 64 KiB has at most 20,000 marks outside of its strings", function* () {
    const server = yield* shared
    const { send } = yield* goodRequests(server)
    const text = JSON.stringify(',:[{"\\'.repeat(10_000))
    for (const [more, outcome, filling] of [
      [0, 200, text],
      [1, "invalid_input", text],
      // In a smaller body.
      [1, 200, '""']
    ] as const) {
      // Eleven marks are outside of the list's own.
      const data = `{"text":${filling},"list":[0${",0".repeat(20_000 - 11 + more)}]}`
      const body = `{"type":"music.trigger.fired","key":"si:deejay/marks/${filling.length}","data":${data}}`
      expect([body.length, outcomeOf(yield* server.send({ ...send, body }))]).toEqual([body.length, outcome])
    }
  })

  it.effect("of the bound passes, and one byte more is 413, declared and in chunks", function* () {
    const server = yield* shared
    const good = yield* goodRequests(server)
    for (const [name, bound] of Object.entries(bounds) as ReadonlyArray<[keyof typeof bounds, number]>) {
      const { body, ...sent } = good[name]
      for (const more of [0, 1]) {
        server.reached.length = 0
        const whole = body.padEnd(bound + more, " ")
        const declared = yield* server.send({ ...sent, body: whole })
        const chunked = yield* server.send({ ...sent, chunks: inChunks(whole) })
        if (more === 1) {
          for (const answer of [declared, chunked]) expectTooLarge(answer)
          expect([name, server.reached]).toEqual([name, []])
          continue
        }
        // A padded delivery is one whose signature fails.
        const status = name === "receive" ? 401 : name === "logout" || name === "accept" ? 204 : 200
        expect([name, declared.status, chunked.status]).toEqual([name, status, status])
      }
    }
  })

  it.scoped("of 8 MiB is 413 also to a client that writes all of it before it reads", function* () {
    const server = yield* shared
    const body = "x".repeat(8 * 1_048_576)
    const head = "POST /api/v1/telemetry HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    for (const text of [
      `${head}Content-Length: ${body.length}\r\n\r\n${body}`,
      `${head}Transfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
    ]) {
      const peer = yield* openPeer(server.port, "")
      peer.socket.pause()
      peer.socket.write(text, () => peer.socket.resume())
      yield* until(() => peer.text().endsWith("}}"))
      expectTooLarge(peer.answer())
    }
    expect(server.reached).toEqual([])
  })

  it.effect("may be empty only of a subscription, also in chunks", function* () {
    const server = yield* shared
    const { login, subscribe } = yield* goodRequests(server)
    const { body: _, ...empty } = subscribe
    const untyped = withHeaders({ "content-type": undefined })
    for (const [sent, outcome] of [
      [{ ...login, chunks: [] }, "invalid_input"],
      [untyped(empty), 200],
      [untyped({ ...empty, chunks: [] }), 200],
      [untyped({ ...empty, chunks: ["{}"] }), "unsupported_media_type"],
      [{ ...empty, chunks: [" "] }, "invalid_input"]
    ] as const)
      expect([sent, outcomeOf(yield* server.send(sent))]).toEqual([sent, outcome])
  })

  it.scoped("that the client cuts off is 400, and no use case runs", function* () {
    const server = yield* shared
    const { receive } = yield* goodRequests(server)
    const peer = yield* openPeer(server.port, textOf(receive).slice(0, -10))
    peer.socket.end()
    yield* until(() => peer.closed())
    expect(outcomeOf(peer.answer())).toBe("invalid_input")
    expect(server.reached).toEqual([])
  })
})

/** A request that stops after the first byte of its body. */
const stalled = (port: number, sent: Sent) => {
  const body = String(sent.body)
  const text = textOf(withHeaders({ "x-forwarded-for": "203.0.113.1" })(sent))
  return Effect.map(openPeer(port, text.slice(0, 1 - body.length)), (peer) => ({
    ...peer,
    finish: () => peer.write(body.slice(1))
  }))
}

type Stalled = Effect.Effect.Success<ReturnType<typeof stalled>>

const inFlight = () => Effect.runSync(Metric.value(httpRequestsInFlight)).value
const arriving = (count: number) => eventually(`${count} bodies arriving`, () => inFlight() === count)

describe("A stalled body", () => {
  it.scoped("is 408 at the deadline of its request", function* () {
    const server = yield* backend({ settings: { requestDeadlineSeconds: 10 } })
    const { receive, submit } = yield* goodRequests(server)
    const first = yield* stalled(server.port, submit)
    yield* arriving(1)
    yield* TestClock.adjust("6 seconds")
    const second = yield* stalled(server.port, receive)
    yield* arriving(2)
    yield* TestClock.adjust("3999 millis")
    expect([first.answered(), second.answered()]).toEqual([false, false])
    yield* TestClock.adjust("1 millis")
    yield* until(() => first.text().endsWith("}}"))
    expect([first.answer().status, outcomeOf(first.answer())]).toEqual([408, "request_timeout"])
    expect(first.answer().headers).toMatchObject({
      "content-type": "application/json",
      "cache-control": "no-store",
      "x-request-id": expect.stringMatching(/^req_/)
    })
    expect([second.answered(), inFlight()]).toEqual([false, 1])
    // The rest is read and dropped, and the next request is served.
    first.finish()
    first.write("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
    yield* until(() => first.text().includes("HTTP/1.1 200 "))
    yield* TestClock.adjust("6 seconds")
    yield* until(() => second.answered())
    expect([second.answer().status, inFlight()]).toEqual([408, 0])
    // The limit of Node is later, and its log line has no route.
    const late = server.lines.filter(({ fields }) => fields.status === 408)
    expect(late.map(({ fields }) => fields.route)).toEqual(["/api/v1/reports", "/webhook"])
    // The duration begins with the head.
    expect(late[0]?.fields.duration_ms).toBe(10_000)
  })

  it.scoped("has a place among the requests in flight, and gives it back however it ends", function* () {
    const server = yield* backend({ bounds: { inFlight: 1 } })
    const { receive, submit } = yield* goodRequests(server)
    for (const end of [
      ({ socket }: Stalled) => socket.resetAndDestroy(),
      ({ socket }: Stalled) => socket.end(),
      ({ finish }: Stalled) => finish()
    ])
      for (const sent of [receive, submit]) {
        const slow = yield* stalled(server.port, sent)
        yield* arriving(1)
        expect(outcomeOf(yield* server.send({ path: "/api/v1/version" }))).toBe("overloaded")
        end(slow)
        yield* eventually("nothing in flight", () => inFlight() === 0)
      }
    expect((yield* server.send(submit)).status).toBe(200)
    expect(server.lines.filter(({ level }) => level === "ERROR")).toEqual([])
  })

  it.scoped("has its part of the bytes of all that arrive, and gives them back", function* () {
    const server = yield* backend({ bounds: { arrivingBytes: 3_000 } })
    const { submit } = yield* goodRequests(server)
    const body = submit.body.padEnd(2_000, " ")
    const part = textOf({ ...submit, body }).slice(0, -1)
    // One that is cut off gives back what it took, and no more.
    const gone = yield* openPeer(server.port, part)
    yield* arriving(1)
    gone.socket.resetAndDestroy()
    yield* arriving(0)
    const first = yield* openPeer(server.port, part)
    yield* arriving(1)
    const second = yield* openPeer(server.port, part)
    yield* until(() => second.text().endsWith("}}"))
    expect(outcomeOf(second.answer())).toBe("overloaded")
    first.write(body.slice(-1))
    yield* until(() => first.answered())
    expect(first.answer().status).toBe(200)
    expect((yield* server.send({ ...submit, body })).status).toBe(200)
  })
})
