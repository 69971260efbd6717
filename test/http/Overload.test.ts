/** A busy server: what it refuses, what it serves all the same, and whose work it ends. */
import { expect } from "vitest"
import { Effect, Metric } from "effect"
import { httpRequestsInFlight } from "../../src/services/Metrics.ts"
import { openPeer } from "../world/RawHttp.ts"
import { until } from "../world/Waiting.ts"
import { it } from "../world/Test.ts"
import type { Answer } from "../world/Driver.ts"
import { backend, type CallName, goodRequests, makeGate, outcomeOf, type Sent, textOf } from "./support.ts"

const expectOverloaded = (answer: Answer) =>
  expect([answer.status, outcomeOf(answer), answer.headers]).toMatchObject([
    503,
    "overloaded",
    { "retry-after": "1", connection: "keep-alive" }
  ])

const version: Sent = { path: "/api/v1/version" }
const health: Sent = { path: "/healthz" }

const inFlight = () => Effect.runSync(Metric.value(httpRequestsInFlight)).value

it.scoped("A client that disconnects interrupts a read, but no work that commits", function* () {
  const server = yield* backend({ bounds: { inFlight: 1 } })
  const good = yield* goodRequests(server)
  const committing = ["login", "refresh", "logout", "subscribe", "send", "submit", "accept", "receive"]
  for (const name of ["me", ...committing] as ReadonlyArray<CallName>) {
    const gate = yield* makeGate
    // Else a failed test would end only by its time limit: the server waits for the request.
    yield* Effect.addFinalizer(() => gate.release)
    server.during[name] = gate.body
    server.lines.length = 0
    const { socket } = yield* openPeer(server.port, textOf(good[name]))
    yield* gate.arrived
    socket.resetAndDestroy()
    yield* until(() => server.lines.some(({ fields }) => fields.status === 499))
    if (name !== "me") {
      // It keeps its place, which probes do not need.
      expect([name, gate.state]).toEqual([name, { finished: false, interrupted: false }])
      expectOverloaded(yield* server.send(version))
      for (const probe of [good.healthz, good.readyz]) expect((yield* server.send(probe)).status).toBe(200)
      yield* gate.release
    }
    const ended = name === "me" ? "interrupted" : "finished"
    yield* until(() => gate.state[ended] && inFlight() === 0)
    expect(server.lines.filter(({ level }) => level === "ERROR" || level === "WARN")).toEqual([])
  }
})

it.scoped("Connections whose client reads no answer are cut, and others are not", function* () {
  const server = yield* backend({
    bounds: { unreadMillis: 1_000 },
    settings: { requestDeadlineSeconds: 1 }
  })
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
