/** A busy server: what it refuses, what it serves all the same, and whose work it ends. */
import { once } from "node:events"
import { createServer } from "node:http"
import { Worker } from "node:worker_threads"
import { describe, expect } from "vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Metric from "effect/Metric"
import { answerClientErrors } from "../../src/http/transport/ClientErrors.ts"
import { defaultConnectionLimits, trackConnections } from "../../src/http/transport/Connections.ts"
import { options } from "../../src/http/transport/NodeServer.ts"
import { MethodNotAllowed } from "../../src/schema/Failure.ts"
import { httpRequestsInFlight } from "../../src/services/Metrics.ts"
import { until } from "../support/Waiting.ts"
import { it } from "../world/Test.ts"
import { expectEnvelope } from "./Envelope.ts"
import {
  type Answer,
  type Backend,
  backend,
  goodRequests,
  makeGate,
  openPeer,
  outcomeOf,
  parseRaw,
  raw,
  type Sent,
  sendTo,
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

  it.scoped("give back their place when the response cannot be written, which is logged", function* () {
    const server = yield* backend({
      inFlight: 1,
      during: { me: Effect.fail(new MethodNotAllowed({ allow: "GET\nPOST" })) }
    })
    const { me } = yield* goodRequests(server)
    const answered = yield* Effect.exit(Effect.sandbox(server.send(me)))
    expect(answered._tag).toBe("Failure")
    expect(server.lines.some(({ message }) => message === "Response failed")).toBe(true)
    expect((yield* server.send(version)).status).toBe(200)
  })
})

/** Sends a request and hangs up once the use case has begun. */
const abandon = (server: Backend, sent: Sent, entered: Effect.Effect<void>) =>
  Effect.gen(function* () {
    const from = server.lines.length
    const { socket } = yield* openPeer(server.port, textOf(sent))
    yield* entered
    socket.resetAndDestroy()
    yield* until(() => server.lines.slice(from).some(({ fields }) => fields.status === 499))
  })

describe("A client that disconnects", () => {
  it.scoped("does not interrupt work that commits, which keeps its place", function* () {
    const server = yield* backend({ inFlight: 1 })
    const good = yield* goodRequests(server)
    for (const name of [
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
      yield* abandon(server, good[name], gate.entered)
      expect([name, gate.state]).toEqual([name, { finished: false, interrupted: false }])
      expectOverloaded(yield* server.send(version))
      yield* gate.release
      yield* until(
        () => gate.state.finished && Effect.runSync(Metric.value(httpRequestsInFlight)).value === 0
      )
    }
    expect(server.lines.filter(({ level }) => level === "ERROR" || level === "WARN")).toEqual([])
  })

  it.scoped("interrupts a read", function* () {
    const gate = yield* makeGate
    const server = yield* backend({ during: { me: gate.body } })
    const { me } = yield* goodRequests(server)
    yield* abandon(server, me, gate.entered)
    yield* until(() => gate.state.interrupted)
  })
})

/** Each of them sends its next request as soon as it has the answer to the one before. */
const busyConnections = 60
const newConnections = 10

/** A client in a thread of its own: work of the server does not delay it, and its own delays do not give the server more work. */
const client = `
  const { parentPort, workerData: { port, request, busyConnections, newConnections } } = require("node:worker_threads")
  const { connect } = require("node:net")
  let answered = 0
  let probed = false
  const probe = () => {
    probed = true
    const before = answered
    let left = newConnections
    for (let count = 0; count < newConnections; count += 1) {
      const socket = connect(port, "127.0.0.1", () => socket.write("GET /healthz HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n"))
      socket.once("data", (part) => {
        left -= 1
        if (!String(part).startsWith("HTTP/1.1 200")) throw new Error(String(part))
        if (left === 0) parentPort.postMessage(answered - before)
      })
    }
  }
  for (let count = 0; count < busyConnections; count += 1) {
    const socket = connect(port, "127.0.0.1", () => socket.write(request))
    socket.on("data", () => {
      answered += 1
      if (!probed && answered >= busyConnections) probe()
      socket.write(request)
    })
  }`

const work = Effect.sync(() => {
  const end = performance.now() + 6
  while (performance.now() < end);
})

describe("A server whose connections are all busy", () => {
  it.scopedLive(
    "answers the probes of new connections before one more request of each busy one",
    function* () {
      const server = yield* backend({ during: { resolve: work } })
      const workerData = {
        port: server.port,
        request: textOf({ path: "/api/v1/iam" }),
        busyConnections,
        newConnections
      }
      const worker = yield* Effect.acquireRelease(
        Effect.sync(() => new Worker(client, { eval: true, workerData })),
        (worker) => Effect.promise(() => worker.terminate())
      )
      const [served]: ReadonlyArray<unknown> = yield* Effect.promise(() => once(worker, "message"))
      expect(Number(served)).toBeLessThan(busyConnections)
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
      const full = yield* backend({ waiting: 0 })
      expectOverloaded(yield* full.send(version))
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
      yield* until(() => idle.closed() && next.answered())
      expect([working, recent, next].map(({ closed }) => closed())).toEqual([false, false, false])
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
    expect((yield* sendTo(server.port, health, false)).status).toBe(200)
  })
})

describe("A head or a request that does not arrive in time", () => {
  it("is one of more than 15 s, and 60 s with its body, and is looked for every 5 s", () => {
    expect(options).toMatchObject({
      headersTimeout: 15_000,
      requestTimeout: 60_000,
      connectionsCheckingInterval: 5_000,
      maxHeaderSize: 16_384
    })
  })

  it("is 408 in the envelope, and its connection is closed", async () => {
    const server = createServer({ headersTimeout: 60, requestTimeout: 80, connectionsCheckingInterval: 20 })
    const reports: Array<object> = []
    const connections = trackConnections(server, {
      limits: defaultConnectionLimits,
      networkOf: () => undefined
    })
    answerClientErrors(server, connections, (facts) => reports.push(facts))
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    const address = server.address()
    const port = typeof address === "object" && address !== null ? address.port : 0
    const answer = parseRaw(await Effect.runPromise(raw({ port }, "GET /healthz HTTP/1.1\r\nHost: a\r\n")))
    expectEnvelope(answer, 408, "invalid_input")
    expect(answer.headers.connection?.toLowerCase()).toBe("close")
    expect(reports).toEqual([
      { status: 408, code: "invalid_input", request_id: answer.headers["x-request-id"] }
    ])
    server.close()
  })
})
