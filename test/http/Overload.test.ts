/** A busy server: what it refuses, what it serves all the same, and whose work it ends. */
import { describe, expect } from "vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Metric from "effect/Metric"
import { httpRequestsInFlight } from "../../src/services/Metrics.ts"
import { settle, until } from "../world/Waiting.ts"
import { it } from "../world/Test.ts"
import type { Answer } from "../world/Driver.ts"
import {
  backend,
  goodRequests,
  makeGate,
  openPeer,
  outcomeOf,
  parseRaw,
  raw,
  type Sent,
  textOf,
  used
} from "./support.ts"

const expectOverloaded = (answer: Answer) =>
  expect([answer.status, outcomeOf(answer), answer.headers["retry-after"]]).toEqual([503, "overloaded", "1"])

const version: Sent = { path: "/api/v1/version" }
const health: Sent = { path: "/healthz" }

describe("Requests in flight", () => {
  it.scoped("beyond the bound are refused at once, but not probes; places become free again", function* () {
    const gate = yield* makeGate
    const server = yield* backend({ inFlight: 1, during: { submit: gate.body } })
    const { accept, submit } = yield* goodRequests(server)
    // Refused when its body is complete, which is when it would take a place.
    const slow = yield* openPeer(server.port, textOf(accept).slice(0, -1))
    const first = yield* Effect.fork(server.send(submit))
    yield* gate.entered
    expectOverloaded(yield* server.send(version))
    for (const sent of [health, { path: "/readyz" }]) expect((yield* server.send(sent)).status).toBe(200)
    expect((yield* server.send({ ...version, method: "OPTIONS" })).status).toBe(204)
    slow.write(accept.body.slice(-1))
    yield* until(() => slow.text().endsWith("}}"))
    expectOverloaded(slow.answer())
    expect(slow.answer().headers.connection).toBe("keep-alive")
    yield* gate.release
    expect((yield* Fiber.join(first)).status).toBe(200)
    expect((yield* server.send(version)).status).toBe(200)
  })

  it.scoped(
    "are refused while the process runs late and many are in flight, and probes are served",
    function* () {
      const gate = yield* makeGate
      const server = yield* backend({ during: { submit: gate.body } })
      const { submit } = yield* goodRequests(server)
      const many = 64
      const waiting = yield* Effect.fork(
        Effect.replicateEffect(server.send(submit), many, { concurrency: "unbounded" })
      )
      yield* until(() => used(server).filter((useCase) => useCase === "submit").length === many)
      for (let turn = 0; turn < 2; turn += 1) {
        const end = performance.now() + 500
        while (performance.now() < end);
        yield* Effect.promise(() => new Promise((wake) => setTimeout(wake, 20)))
      }
      const [refused, probe] = yield* Effect.all([server.send(version), server.send(health)], {
        concurrency: "unbounded"
      })
      expectOverloaded(refused)
      expect(probe.status).toBe(200)
      yield* gate.release
      const answers = yield* Fiber.join(waiting)
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
      expect((yield* server.send(version)).status).toBe(200)
    }
  )
})

describe("A client that disconnects", () => {
  it.scoped("interrupts a read, but no work that commits, which keeps its place", function* () {
    const server = yield* backend({ inFlight: 1 })
    const good = yield* goodRequests(server)
    for (const name of [
      "me",
      "login",
      "refresh",
      "logout",
      "subscribe",
      "send",
      "submit",
      "accept",
      "receive"
    ] as const) {
      const gate = yield* makeGate
      server.during[name] = gate.body
      server.lines.length = 0
      const { socket } = yield* openPeer(server.port, textOf(good[name]))
      yield* gate.entered
      socket.resetAndDestroy()
      yield* until(() => server.lines.some(({ fields }) => fields.status === 499))
      if (name !== "me") {
        expect([name, gate.state]).toEqual([name, { finished: false, interrupted: false }])
        expectOverloaded(yield* server.send(version))
        yield* gate.release
      }
      const ended = name === "me" ? "interrupted" : "finished"
      yield* until(() => gate.state[ended] && Effect.runSync(Metric.value(httpRequestsInFlight)).value === 0)
      expect(server.lines.filter(({ level }) => level === "ERROR" || level === "WARN")).toEqual([])
    }
  })
})

const work = Effect.sync(() => {
  const end = performance.now() + 6
  while (performance.now() < end);
})

describe("A server whose connections are all busy", () => {
  it.scopedLive(
    "answers the probe of a new connection before one more request of each busy one",
    function* () {
      const server = yield* backend({ during: { resolve: work } })
      const request = textOf({ path: "/api/v1/iam" })
      const busy = yield* Effect.replicateEffect(openPeer(server.port, request.repeat(20)), 20)
      const served = () => busy.reduce((sum, { text }) => sum + text().split("HTTP/1.1 200").length - 1, 0)
      yield* until(() => served() > busy.length)
      const before = served()
      expect(before).toBeLessThan(3 * busy.length)
      const probe = yield* openPeer(server.port, textOf(health))
      yield* until(() => probe.answered())
      expect(served() - before).toBeLessThan(busy.length)
    }
  )

  it.scopedLive(
    "refuses what one connection sends beyond its bound, and ends it; probes need no place",
    function* () {
      const server = yield* backend({ during: { resolve: work } })
      // The first one is started at once and takes the time of the turn.
      const sent = textOf({ path: "/api/v1/iam" }) + textOf(version).repeat(32 + 1_000)
      const answers = (yield* raw(server, sent)).split(/(?=HTTP\/1\.1 )/)
      expect(answers.map((answer) => parseRaw(answer).status)).toEqual([...Array(33).fill(200), 503])
      expect(answers.at(-1)).toMatch(/connection: close.*"overloaded"/is)
      const full = yield* backend({ waiting: 1, during: { resolve: work } })
      const last = textOf({ ...version, headers: { connection: "close" } })
      const some = yield* raw(full, textOf({ path: "/api/v1/iam" }) + textOf(version).repeat(4) + last)
      expect(some).toMatch(/^HTTP\/1\.1 200 .*HTTP\/1\.1 503 .*"overloaded"/s)
      for (const sent of [health, { path: "/readyz" }]) expect((yield* full.send(sent)).status).toBe(200)
    }
  )
})

describe("Connections", () => {
  it.scoped(
    "beyond the bound of an address close its longest idle one, and none with a request",
    function* () {
      const gate = yield* makeGate
      const server = yield* backend({
        during: { resolve: gate.body },
        settings: { rateLimit: true },
        connections: { address: 3, all: 100, unreadMillis: 60_000 }
      })
      const working = yield* openPeer(server.port, textOf({ path: "/api/v1/iam" }))
      yield* gate.entered
      const idle = yield* openPeer(server.port, textOf(health))
      yield* until(() => idle.answered())
      const recent = yield* openPeer(server.port, textOf(health))
      yield* until(() => recent.answered())
      const next = yield* openPeer(server.port, textOf(health))
      yield* until(() => next.answered())
      yield* settle
      // Long before an idle connection ends by itself.
      const ended = [idle, working, recent, next].map(({ closed }) => closed())
      expect(ended).toEqual([true, false, false, false])
      yield* gate.release
      yield* until(() => working.answered())
    }
  )

  it.scoped("whose client reads no answer are cut, and others are not", function* () {
    const server = yield* backend({ connections: { address: 100, all: 100, unreadMillis: 240 } })
    // Without a consumer the answers fill the buffers of both ends.
    const stalled = yield* openPeer(server.port, "")
    stalled.socket.pause()
    stalled.socket.write(textOf({ path: "/openapi.json" }).repeat(30))
    const reading = yield* openPeer(server.port, textOf(health))
    yield* until(() => reading.answered())
    yield* Effect.forkScoped(
      Effect.forever(
        Effect.promise(() => new Promise((wake) => setTimeout(wake, 20))).pipe(
          Effect.tap(() => Effect.sync(() => stalled.write(textOf({ path: "/openapi.json" }).repeat(8))))
        )
      )
    )
    // The end of a paused stream is not seen; a write to the closed connection is.
    yield* until(() => stalled.socket.destroyed)
    expect(reading.closed()).toBe(false)
    expect((yield* server.send(health)).status).toBe(200)
  })
})
