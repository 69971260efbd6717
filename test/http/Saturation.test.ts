import { once } from "node:events"
import { connect } from "node:net"
import { Worker } from "node:worker_threads"
import { assert, describe } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { mostOfConnection } from "../../src/http/transport/RequestQueue.ts"
import { accessToken, backend, call, errorOf, good } from "./support.ts"
import { waitFor } from "../support/Waiting.ts"

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

const request = `GET /api/v1/auth/me HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${accessToken}\r\nX-Org-Id: acme\r\n\r\n`

/** Milliseconds of one request. */
const cost = 6

const work = Effect.sync(() => {
  const end = performance.now() + cost
  while (performance.now() < end);
})

describe("A server whose connections are all busy", () => {
  it.scopedLive(
    "answers the liveness probes of new connections before one more request of each busy one",
    function* () {
      const { port } = yield* backend({ during: { me: work }, settings: { rateLimit: false } })
      const worker = yield* Effect.acquireRelease(
        Effect.sync(
          () =>
            new Worker(client, {
              eval: true,
              workerData: { port, request, busyConnections, newConnections }
            })
        ),
        (worker) => Effect.promise(() => worker.terminate())
      )
      const [served]: ReadonlyArray<unknown> = yield* Effect.promise(() => once(worker, "message"))
      assert.isBelow(Number(served), busyConnections)
    }
  )

  it.scopedLive("begins nothing for a client that leaves while its request waits", function* () {
    const { lines, port, reached } = yield* backend({
      during: { me: work },
      settings: { rateLimit: false }
    })
    const sockets = yield* Effect.promise(() =>
      Promise.all(
        Array.from({ length: 12 }, async () => {
          const socket = connect(port, "127.0.0.1")
          // A connection that has an answer is accepted.
          socket.write("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
          await once(socket, "data")
          return socket
        })
      )
    )
    const [leaving, ...staying] = sockets.toReversed()
    const answers = staying.map((socket) => once(socket, "data"))
    for (const socket of staying) socket.write(request)
    leaving?.write(request)
    // The server has read all requests then, and begun the first one.
    yield* Effect.promise(() => Promise.race(answers))
    leaving?.resetAndDestroy()
    yield* Effect.promise(() => Promise.all(answers))
    yield* Effect.promise(() => waitFor(() => assert.include(JSON.stringify(lines), '"status":499')))
    assert.strictEqual(reached.filter(({ useCase }) => useCase === "me").length, staying.length)
    for (const socket of sockets) socket.destroy()
  })

  /** The answers until the server ends the connection. */
  const answersTo = (port: number, text: string) =>
    Effect.promise(
      () =>
        new Promise<ReadonlyArray<string>>((resolve) => {
          let received = ""
          const socket = connect(port, "127.0.0.1", () => socket.write(text))
          socket.on("error", () => undefined)
          socket.on("data", (part) => {
            received += String(part)
          })
          socket.once("close", () => resolve(received.split(/(?=HTTP\/1\.1 )/)))
        })
    )
  const version = "GET /api/v1/version HTTP/1.1\r\nHost: a\r\n\r\n"
  const isAnswered = (answer: string) => answer.startsWith("HTTP/1.1 200")
  const closing = /^HTTP\/1\.1 503 .*connection: close.*"overloaded"/is

  it.scopedLive(
    "answers what a connection sends within its bound, refuses the next request with the end of the connection, and drops the rest",
    function* () {
      const { port } = yield* backend({ during: { me: work }, settings: { rateLimit: false } })
      for (const more of [1, 1_000]) {
        // The first one is started at once and takes the time of the turn.
        const answers = yield* answersTo(port, request + version.repeat(mostOfConnection + more))
        assert.strictEqual(answers.length, mostOfConnection + 2)
        assert.match(answers.at(-1) ?? "", closing)
        assert.isTrue(answers.slice(0, -1).every(isAnswered))
      }
    }
  )

  it.scopedLive(
    "answers what a connection has in the queue, and refuses two more while it is full",
    function* () {
      const { port } = yield* backend({ waiting: 1, during: { me: work }, settings: { rateLimit: false } })
      const answers = yield* answersTo(port, request + version.repeat(100))
      assert.deepStrictEqual(answers.map(isAnswered), [true, true, false, false])
      assert.match(answers.at(-1) ?? "", closing)
    }
  )

  it.scopedLive("refuses requests that find no place in the queue, and serves probes", function* () {
    const server = yield* backend({ waiting: 0 })
    const refused = yield* call(server, good.version)
    assert.deepStrictEqual(
      [refused.status, errorOf(refused).code, refused.headers["retry-after"], refused.headers.connection],
      [503, "overloaded", "1", "keep-alive"]
    )
    for (const probe of [good.healthz, good.readyz])
      assert.strictEqual((yield* call(server, probe)).status, 200)
  })
})
