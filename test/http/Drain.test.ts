/** A server that ends: what is in flight is answered, new requests are refused, and what hangs is cut. */
import { describe, expect } from "vitest"
import { Effect, Exit, Fiber, Metric, Scope, TestClock } from "effect"
import { httpRequestsInFlight } from "../../src/services/Metrics.ts"
import { openPeer, openRaw } from "../world/RawHttp.ts"
import { settle, until } from "../world/Waiting.ts"
import { it } from "../world/Test.ts"
import { type Backend, backend, goodRequests, makeGate, type Options } from "./support.ts"

/** A server in a scope that the test closes. */
const closable = (options: Options = {}) =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    const close = Scope.close(scope, Exit.void)
    const server = yield* Scope.extend(backend(options), scope)
    yield* Effect.addFinalizer(() => close)
    /** Begins to close it, and waits until it drains. */
    const begin = Effect.zipLeft(Effect.fork(close), until(server.drain.isDraining))
    return { server, begin, close, good: yield* goodRequests(server) }
  })

const refusesConnections = ({ port }: Backend) =>
  Effect.promise(async () => {
    const { close, closed } = await openRaw(port)
    const isRefused = closed()
    close()
    return isRefused
  })

const ask = "GET /api/v1/version HTTP/1.1\r\nHost: a\r\n\r\n"
const unkeyed = "POST /api/v1/auth/login HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
const refusal = /HTTP\/1\.1 503 .*connection: close.*shutting_down/is
const warnings = ({ lines }: Backend) => lines.filter(({ level }) => level === "WARN")

describe("Draining", () => {
  it.scoped("finishes requests in flight, refuses new ones, and closes connections", function* () {
    const gate = yield* makeGate
    const { begin, good, server } = yield* closable({ during: { login: gate.body } })
    const inHand = yield* Effect.fork(server.send(good.login))
    yield* gate.arrived
    const idle = yield* openPeer(server.port, ask)
    const silent = yield* openPeer(server.port, "")
    // In the middle of its head when the drain begins.
    const late = yield* openPeer(server.port, "GET /api/v1/version HTTP/1.1\r\nHost: a\r\n")
    yield* until(() => idle.text().includes("api_versions"))
    yield* settle
    // Sent, but unread when the drain begins.
    idle.write(ask)
    const closing = yield* begin
    yield* Effect.repeat(refusesConnections(server), { until: (refused) => refused })
    late.write("\r\n")
    yield* until(() => [idle, late].every(({ text }) => refusal.test(text())))
    yield* gate.release
    const answer = yield* Fiber.join(inHand)
    expect([answer.status, answer.headers.connection]).toEqual([200, "close"])
    yield* Fiber.join(closing)
    yield* until(() => [idle, late, silent].every(({ closed }) => closed()))
  })

  it.scoped("answers a body that still arrives, and waits shortly for what stalls", function* () {
    const { begin, good, server } = yield* closable()
    // The last one is refused before its body arrived, so no work remains.
    const heads = ["GET / HT", `${ask}PO`, `${unkeyed}Content-Length: 100\r\n\r\n{`]
    const peers = yield* Effect.forEach(heads, (text) => openPeer(server.port, text))
    const { body, headers } = good.login
    const head = `${unkeyed}Idempotency-Key: ${headers["idempotency-key"]}\r\nContent-Length: ${body.length}\r\n\r\n{`
    const slow = yield* openPeer(server.port, head)
    const stalled = yield* openPeer(server.port, head)
    yield* until(() => peers.filter(({ text }) => text().includes("}")).length === 2)
    yield* until(() => Effect.runSync(Metric.value(httpRequestsInFlight)).value === 2)
    const closing = yield* begin
    slow.write(body.slice(1))
    yield* until(() => slow.text().startsWith("HTTP/1.1 200 "))
    yield* TestClock.adjust("4999 millis")
    yield* settle
    expect([...peers, stalled].filter(({ closed }) => closed())).toEqual([])
    yield* TestClock.adjust("1 millis")
    yield* until(() => [...peers, stalled].every(({ closed }) => closed()))
    expect(stalled.text()).toBe("")
    yield* Fiber.join(closing)
    // None of them is a request that was cut.
    expect(warnings(server)).toEqual([])
  })

  it.scoped("cuts what remains 1.5 s before the end of the grace period, also commits", function* () {
    const [login, me] = [yield* makeGate, yield* makeGate]
    const { begin, good, server } = yield* closable({
      settings: { shutdownGraceSeconds: 30 },
      during: { login: login.body, me: me.body }
    })
    const answered = yield* Effect.fork(server.send(good.me))
    const hanging = yield* Effect.fork(Effect.exit(server.send(good.login)))
    yield* login.arrived
    yield* me.arrived
    const closing = yield* begin
    yield* Effect.repeat(refusesConnections(server), { until: (refused) => refused })
    yield* me.release
    yield* Fiber.join(answered)
    yield* TestClock.adjust("28499 millis")
    yield* settle
    expect(warnings(server)).toEqual([])
    yield* TestClock.adjust("1 millis")
    yield* settle
    expect(warnings(server)).toHaveLength(1)
    yield* TestClock.adjust("1500 millis")
    // Nothing else ends it: without the interruption this waits until the test is out of time.
    yield* Fiber.join(closing)
    expect(Exit.isFailure(yield* Fiber.join(hanging))).toBe(true)
    expect(login.state).toEqual({ finished: false, interrupted: true })
  })
})
