import { connect } from "node:net"
import { describe, expect } from "vitest"
import { it } from "../../world/Test.ts"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Metric from "effect/Metric"
import * as TestClock from "effect/TestClock"
import { defaultArrivingBodyLimits } from "../../../src/http/body/ArrivingBodies.ts"
import { bodiesArriving, httpRequestsInFlight } from "../../../src/services/Metrics.ts"
import { type Answer, type Backend, backend, call, errorOf, good, parseRaw, type Sent } from "../support.ts"
import { eventually, settle } from "../../support/Waiting.ts"

const levels = Effect.all([Metric.value(httpRequestsInFlight), Metric.value(bodiesArriving)]).pipe(
  Effect.map((gauges) => gauges.map(({ value }) => value))
)

const arriving = () => Effect.runSync(levels)[1]

/** A request that stops in the middle of its body. */
const stalled = (server: Backend, sent: Sent, from?: string) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      let text = ""
      let closed = false
      const body = String(sent.body)
      const headers = Object.entries({
        Host: "a",
        ...(sent.headers as Record<string, string>),
        ...(from === undefined ? {} : { "X-Forwarded-For": from }),
        "Content-Length": String(body.length)
      })
      const socket = connect({ port: server.port, host: "127.0.0.1", allowHalfOpen: true }, () =>
        socket.write(
          `${sent.method} ${sent.path} HTTP/1.1\r\n${headers.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n${body.slice(0, 1)}`
        )
      )
      socket.on("data", (part) => {
        text += part.toString()
      })
      socket.on("error", () => undefined)
      socket.on("end", () => {
        closed = true
      })
      return {
        socket,
        answer: (): Answer => parseRaw(text),
        answered: () => text.endsWith("}}"),
        closed: () => closed,
        finish: () => socket.write(body.slice(1)),
        done: () => text.includes("\r\n\r\n")
      }
    }),
    ({ socket }) => Effect.sync(() => socket.destroy())
  )

type Stalled = Effect.Effect.Success<ReturnType<typeof stalled>>

const proxied = { rateLimit: true, trustedProxies: ["127.0.0.0/8"] }
const from = (address: string, sent: Sent): Sent => ({
  ...sent,
  headers: { ...(sent.headers as Record<string, string>), "x-forwarded-for": address }
})

describe("A stalled body", () => {
  it.scoped("takes no place among the requests in flight", function* () {
    const server = yield* backend({ inFlight: 1 })
    for (const name of ["submit", "accept", "receive", "login"] as const) yield* stalled(server, good[name])
    yield* eventually("four bodies arriving", () => arriving() === 4)
    expect((yield* call(server, good.version)).status).toBe(200)
    expect((yield* call(server, good.login)).status).toBe(200)
    expect((yield* call(server, good.receive)).status).toBe(200)
    expect(yield* levels).toEqual([0, 4])
  })

  it.scoped("is answered with 408 at the request's deadline, and its connection is closed", function* () {
    const server = yield* backend({ settings: { requestDeadlineSeconds: 10 } })
    const first = yield* stalled(server, good.submit)
    yield* eventually("one body arriving", () => arriving() === 1)
    yield* TestClock.adjust("6 seconds")
    const second = yield* stalled(server, good.receive)
    yield* eventually("two bodies arriving", () => arriving() === 2)
    yield* TestClock.adjust("3999 millis")
    yield* settle
    expect([first.answered(), second.answered()]).toEqual([false, false])
    yield* TestClock.adjust("1 millis")
    yield* eventually("the first answer", first.answered)
    expect([first.answer().status, errorOf(first.answer()).code]).toEqual([408, "invalid_input"])
    expect(first.answer().headers).toMatchObject({
      connection: "close",
      "content-type": "application/json",
      "cache-control": "no-store",
      "x-request-id": expect.stringMatching(/^req_/)
    })
    expect([second.answered(), arriving()]).toEqual([false, 1])
    // The rest is read and dropped.
    first.finish()
    yield* eventually("the end of the connection", first.closed)
    yield* TestClock.adjust("6 seconds")
    yield* eventually("the second answer", second.answered)
    expect(second.answer().status).toBe(408)
    expect(yield* levels).toEqual([0, 0])
    expect(server.reached).toEqual([])
    expect(server.lines.filter(({ fields }) => fields.status === 408)).toHaveLength(2)
  })

  it.scoped("that arrives before the deadline is served", function* () {
    const server = yield* backend()
    const slow = yield* stalled(server, good.submit)
    yield* eventually("one body arriving", () => arriving() === 1)
    yield* TestClock.adjust("24 seconds")
    slow.finish()
    yield* eventually("an answer", slow.done)
    expect(slow.answer().status).toBe(200)
    expect(yield* levels).toEqual([0, 0])
    // The duration begins with the head.
    const line = server.lines.find(({ fields }) => fields.route === "/api/v1/reports")
    expect(line?.fields.duration_ms).toBe(24_000)
  })

  it.scoped("releases its places at every end", function* () {
    const server = yield* backend({ inFlight: 2, bodies: { all: 3, address: 2 }, settings: proxied })
    const names = ["submit", "accept", "receive", "login", "refresh", "send"] as const
    // Deterministic: every ending follows every other, for every call.
    for (let at = 0; at < 48; at += 1) {
      const name = names[at % names.length] ?? "submit"
      const slow = yield* stalled(server, good[name], `203.0.113.${at % 3}`)
      if (at % 5 !== 0) yield* eventually("a body arriving", () => arriving() !== 0)
      switch (at % 4) {
        case 0:
          slow.socket.resetAndDestroy()
          break
        case 1:
          slow.socket.end()
          break
        case 2:
          slow.finish()
          break
        default:
      }
    }
    // The last ones may start to arrive only now.
    for (let at = 0; at < 100 && (at < 3 || arriving() !== 0); at += 1) {
      yield* settle
      yield* TestClock.adjust("25 seconds")
    }
    expect(arriving()).toBe(0)
    yield* eventually("nothing in flight", () => Effect.runSync(levels)[0] === 0)
    expect((yield* call(server, good.submit)).status).toBe(200)
    expect(server.lines.filter(({ level }) => level === "ERROR" || level === "WARN")).toEqual([])
  })
})

describe("Many stalled bodies", () => {
  it("are limited to 256, and to 64 from one address", () => {
    expect(defaultArrivingBodyLimits).toEqual({ all: 256, address: 64 })
  })

  it.scoped(
    "from one address cause the refusal of its oldest, and do not affect other addresses",
    function* () {
      const server = yield* backend({ settings: proxied, bodies: { all: 100, address: 3 } })
      const other = yield* stalled(server, good.submit, "198.51.100.1")
      yield* eventually("one", () => arriving() === 1)
      const many: Array<Stalled> = []
      for (let at = 0; at < 8; at += 1) {
        many.push(yield* stalled(server, good.receive, `2001:db8:1:2::${at}`))
        yield* eventually(`${at} of the network`, () => arriving() === Math.min(at + 2, 4))
      }
      yield* eventually("five answers", () => many.filter(({ answered }) => answered()).length === 5)
      expect(many.map(({ answered }) => answered())).toEqual([
        true,
        true,
        true,
        true,
        true,
        false,
        false,
        false
      ])
      const [first] = many
      expect(first?.answer()).toMatchObject({
        status: 503,
        headers: { connection: "close", "retry-after": "1" }
      })
      expect(first === undefined || errorOf(first.answer()).code).toBe("overloaded")
      // A complete request of the same network is served too: a stalled body makes room for it.
      expect((yield* call(server, from("2001:db8:1:2::99", good.login))).status).toBe(200)
      expect((yield* call(server, from("198.51.100.7", good.login))).status).toBe(200)
      other.finish()
      yield* eventually("the other's answer", other.done)
      expect(other.answer().status).toBe(200)
    }
  )

  it.scoped(
    "from many addresses cause the refusal of the oldest one of the address with the most",
    function* () {
      const server = yield* backend({ settings: proxied, bodies: { all: 4, address: 3 } })
      const lone = yield* stalled(server, good.submit, "198.51.100.1")
      yield* eventually("one", () => arriving() === 1)
      const many: Array<Stalled> = []
      for (let at = 0; at < 3; at += 1) {
        many.push(yield* stalled(server, good.receive, "203.0.113.1"))
        yield* eventually("more", () => arriving() === at + 2)
      }
      yield* stalled(server, good.login, "198.51.100.2")
      yield* eventually("an answer", () => many[0]?.answered() === true)
      expect(many[0]?.answer().status).toBe(503)
      expect([many[1]?.answered(), many[2]?.answered(), lone.answered(), arriving()]).toEqual([
        false,
        false,
        false,
        4
      ])
    }
  )

  it.scoped("with MUSIC_RATE_LIMIT=off have only the total limit", function* () {
    const server = yield* backend({ bodies: { all: 3, address: 1 } })
    for (let at = 0; at < 3; at += 1) yield* stalled(server, good.receive)
    yield* eventually("three", () => arriving() === 3)
    const last = yield* stalled(server, good.submit)
    yield* settle
    expect(arriving()).toBe(3)
    last.finish()
    yield* eventually("an answer", last.done)
    expect(last.answer().status).toBe(200)
  })
})

describe("A place among the requests in flight", () => {
  it.scoped("is taken when the body is complete; requests beyond the bound are refused then", function* () {
    const entered = yield* Deferred.make<void>()
    const released = yield* Deferred.make<void>()
    const server = yield* backend({
      inFlight: 1,
      during: { submit: Effect.zipRight(Deferred.succeed(entered, undefined), Deferred.await(released)) }
    })
    const slow = yield* stalled(server, good.accept)
    yield* eventually("one body arriving", () => arriving() === 1)
    const working = yield* Effect.fork(call(server, good.submit))
    yield* Deferred.await(entered)
    expect(yield* levels).toEqual([1, 1])
    slow.finish()
    yield* eventually("an answer", slow.answered)
    expect([slow.answer().status, errorOf(slow.answer()).code]).toEqual([503, "overloaded"])
    // The body was read to its end, so the connection stays open.
    expect(slow.answer().headers).toMatchObject({ connection: "keep-alive", "retry-after": "1" })
    // A refusal on arrival reads nothing.
    const refused = yield* call(server, good.login)
    expect([refused.status, errorOf(refused).code]).toEqual([503, "overloaded"])
    yield* Deferred.succeed(released, undefined)
    expect((yield* Fiber.join(working)).status).toBe(200)
    expect((yield* call(server, good.accept)).status).toBe(204)
    expect(yield* levels).toEqual([0, 0])
  })
})
