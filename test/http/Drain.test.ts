import { version } from "../../src/schema/Release.ts"
import { Agent, request as httpRequest } from "node:http"
import { connect } from "node:net"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Metric from "effect/Metric"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import { leastInFlight } from "../../src/http/transport/EventLoopDelay.ts"
import { MethodNotAllowed } from "../../src/schema/Failure.ts"
import { bodiesArriving } from "../../src/services/Metrics.ts"
import {
  type Answer,
  type Backend,
  backend,
  call,
  errorOf,
  good,
  sharedBackend,
  type Options,
  json,
  type Sent
} from "./support.ts"
import { settle, until } from "../support/Waiting.ts"

/** Starts a server in a scope that the test closes. */
const closable = (options: Options) =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    const server = yield* Scope.extend(backend(options), scope)
    yield* Effect.addFinalizer(() => Scope.close(scope, Exit.void))
    return { server, close: Scope.close(scope, Exit.void) }
  })

/** A use case that waits until the test releases it. */
const gate = Effect.gen(function* () {
  const entered = yield* Deferred.make<void>()
  const released = yield* Deferred.make<void>()
  const inside = { finished: false }
  const body = Effect.zipRight(Deferred.succeed(entered, undefined), Deferred.await(released)).pipe(
    Effect.tap(() =>
      Effect.sync(() => {
        inside.finished = true
      })
    )
  )
  return { entered: Deferred.await(entered), release: Deferred.succeed(released, undefined), body, inside }
})

/** Requests over one kept-alive connection. */
const kept = (server: Backend) => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const send = (sent: Sent) =>
    Effect.promise(
      () =>
        new Promise<Answer>((resolve, reject) => {
          httpRequest(
            {
              host: "127.0.0.1",
              port: server.port,
              agent,
              method: sent.method,
              path: sent.path,
              headers: sent.headers as Record<string, string>
            },
            (response) => {
              let text = ""
              response.on("data", (part) => {
                text += String(part)
              })
              response.on("end", () =>
                resolve({ status: response.statusCode ?? 0, headers: response.headers, text })
              )
            }
          )
            .on("error", reject)
            .end(sent.body)
        })
    )
  return { send, end: Effect.sync(() => agent.destroy()) }
}

const refusesConnections = (server: Backend) =>
  Effect.promise(
    () =>
      new Promise<boolean>((resolve) => {
        const socket = connect(server.port, "127.0.0.1")
        socket.on("connect", () => {
          socket.destroy()
          resolve(false)
        })
        socket.on("error", () => resolve(true))
      })
  )

const ask = "GET /api/v1/version HTTP/1.1\r\nHost: a\r\n\r\n"
const unkeyed = "POST /api/v1/auth/login HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
const keyedLogin = `${unkeyed}Idempotency-Key: ${good.login.headers["idempotency-key"]}\r\n`

/** A connection for raw writes. */
const peer = (server: Backend, text: string) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const received = { text: "", closed: false }
      const socket = connect(server.port, "127.0.0.1", () => socket.write(text))
      socket.on("data", (part) => {
        received.text += part.toString()
      })
      socket.on("error", () => {})
      socket.on("close", () => {
        received.closed = true
      })
      return {
        text: () => received.text,
        closed: () => received.closed,
        write: (more: string) => socket.write(more),
        end: () => socket.end(),
        destroy: () => socket.destroy()
      }
    }),
    ({ destroy }) => Effect.sync(destroy)
  )

describe("Draining", () => {
  it.scoped("finishes requests in flight, refuses new ones, and closes connections", function* () {
    const login = yield* gate
    const { server, close } = yield* closable({ during: { login: login.body } })
    const other = kept(server)
    expect((yield* other.send(good.version)).headers.connection).toBe("keep-alive")
    const inHand = yield* Effect.fork(call(server, good.login))
    yield* login.entered
    // A second connection is in the middle of its request's headers when the drain begins.
    const late = connect(server.port, "127.0.0.1")
    const lateText: Array<string> = []
    late.on("data", (part) => lateText.push(part.toString()))
    late.on("error", () => {})
    late.write("GET /api/v1/version HTTP/1.1\r\nHost: a\r\n")
    yield* settle
    const closing = yield* Effect.fork(close)
    yield* until(server.drain.isDraining)
    yield* Effect.repeat(refusesConnections(server), { until: (refused) => refused })
    late.write("\r\n")
    yield* until(() => lateText.join("").includes("shutting_down"))
    expect(lateText.join("")).toMatch(/^HTTP\/1\.1 503 /)
    expect(lateText.join("").toLowerCase()).toContain("connection: close")
    yield* login.release
    const answer = yield* Fiber.join(inHand)
    expect([answer.status, answer.headers.connection]).toEqual([200, "close"])
    yield* Fiber.join(closing)
    yield* other.end
  })

  it.scoped("refuses a request on an idle connection with 503", function* () {
    const { server, close } = yield* closable({})
    const socket = connect(server.port, "127.0.0.1")
    yield* Effect.addFinalizer(() => Effect.sync(() => socket.destroy()))
    let text = ""
    socket.on("data", (part) => {
      text += part.toString()
    })
    socket.on("error", () => {})
    socket.write(ask)
    yield* until(() => text.includes("api_versions"))
    text = ""
    // Sent, but unread when the drain begins.
    socket.write(ask)
    yield* close
    yield* until(() => text.includes("shutting_down"))
    expect(text).toMatch(/^HTTP\/1\.1 503 /)
    expect(text.toLowerCase()).toContain("connection: close")
  })

  it.scoped("fails readiness at once, but not liveness, on a connection that is still open", function* () {
    const server = yield* backend()
    yield* server.drain.begin
    const ready = yield* call(server, good.readyz)
    expect([ready.status, errorOf(ready).code, ready.headers.connection]).toEqual([503, "not_ready", "close"])
    expect(errorOf(ready)).toMatchObject({ details: { checks: { serving: "failed" } } })
    const alive = yield* call(server, good.healthz)
    expect([alive.status, json(alive)]).toEqual([200, { status: "ok", service: "music-backend", version }])
    // Refused with an unread body.
    const large = yield* call(server, { ...good.submit, body: " ".repeat(500_000) })
    expect([large.status, errorOf(large).code]).toEqual([503, "shutting_down"])
    const late = yield* call(server, good.login)
    expect([late.status, errorOf(late).code, errorOf(late).retryable]).toEqual([503, "shutting_down", true])
    expect(server.reached).toEqual([])
  })

  it.scoped("is not delayed by idle and silent connections", function* () {
    const { server, close } = yield* closable({})
    const idle = kept(server)
    yield* idle.send(good.version)
    const silent = connect(server.port, "127.0.0.1")
    silent.on("error", () => {})
    yield* settle
    yield* close
    expect(yield* refusesConnections(server)).toBe(true)
    silent.destroy()
    yield* idle.end
  })

  it.scoped("waits one second for a partial head, which does not count as a cut request", function* () {
    const { server, close } = yield* closable({})
    const halves = ["GET / HT", "GET /api/v1/version HTTP/1.1\r\nHost: a\r\nX-", `${ask}GET / HT`, `${ask}PO`]
    const peers = yield* Effect.forEach(halves, (text) => peer(server, text))
    // Refused before its body arrived, so no work remains.
    peers.push(yield* peer(server, `${unkeyed}Content-Length: 100\r\n\r\n{`))
    yield* until(() => peers.filter(({ text }) => text().includes("}")).length === 3)
    const closing = yield* Effect.fork(close)
    yield* until(server.drain.isDraining)
    yield* TestClock.adjust("999 millis")
    yield* settle
    const finished = peers[1]
    finished?.write("Y: z\r\n\r\n")
    yield* until(() => finished?.text().includes("shutting_down") === true && finished.closed())
    expect(peers.map(({ closed }) => closed())).toEqual([false, true, false, false, false])
    yield* TestClock.adjust("1 millis")
    yield* until(() => peers.every(({ closed }) => closed()))
    yield* Fiber.join(closing)
    expect(server.lines.filter(({ level }) => level === "WARN")).toEqual([])
  })

  it.scoped("refuses a stalled body after 5 s, and serves a body that arrives", function* () {
    const { server, close } = yield* closable({})
    const begun = `${keyedLogin}Content-Length: ${good.login.body.length}\r\n\r\n{`
    const slow = yield* peer(server, begun)
    const stalled = yield* peer(server, begun)
    yield* until(() => Effect.runSync(Metric.value(bodiesArriving)).value === 2)
    const closing = yield* Effect.fork(close)
    yield* until(server.drain.isDraining)
    yield* TestClock.adjust("4900 millis")
    slow.write(good.login.body.slice(1))
    yield* until(() => slow.text().startsWith("HTTP/1.1 200 "))
    expect(stalled.text()).toBe("")
    yield* TestClock.adjust("100 millis")
    yield* until(() => stalled.text().includes("shutting_down"))
    expect(stalled.text()).toMatch(/^HTTP\/1\.1 503 .*connection: close/is)
    stalled.end()
    yield* Fiber.join(closing)
    expect(server.lines.filter(({ level }) => level === "WARN")).toEqual([])
  })

  it.scopedLive("interrupts the remaining requests at the end of the grace period", function* () {
    const login = yield* gate
    const me = yield* gate
    const { server, close } = yield* closable({
      settings: { shutdownGraceSeconds: 0.2 },
      during: { login: login.body, me: me.body }
    })
    const hanging = [
      yield* Effect.fork(Effect.exit(call(server, good.login))),
      yield* Effect.fork(Effect.exit(call(server, good.me)))
    ]
    yield* login.entered
    yield* me.entered
    // Nothing else ends them: without the interruption this waits until the test is out of time.
    yield* close
    for (const fiber of hanging) expect(Exit.isFailure(yield* Fiber.join(fiber))).toBe(true)
    expect([login.inside.finished, me.inside.finished]).toEqual([false, false])
    expect(server.drain.countRequests()).toEqual({ finished: 0, cut: 2 })
  })

  it.scoped("cuts the remaining requests 1.5 s before the end of the grace period", function* () {
    const login = yield* gate
    const { server, close } = yield* closable({
      settings: { shutdownGraceSeconds: 30 },
      during: { login: login.body }
    })
    const hanging = yield* Effect.fork(Effect.exit(call(server, good.login)))
    yield* login.entered
    const closing = yield* Effect.fork(close)
    yield* Effect.repeat(refusesConnections(server), { until: (refused) => refused })
    const cuts = () => server.lines.filter(({ message }) => message.startsWith("Requests cut off")).length
    yield* TestClock.adjust("28499 millis")
    yield* settle
    const before = cuts()
    yield* TestClock.adjust("1 millis")
    yield* settle
    const after = cuts()
    yield* login.release
    yield* TestClock.adjust("1500 millis")
    yield* Fiber.join(closing)
    expect([before, after, Exit.isFailure(yield* Fiber.join(hanging))]).toEqual([0, 1, true])
  })

  it.scoped("counts at any time which requests in flight at its beginning were answered", function* () {
    const login = yield* gate
    const me = yield* gate
    const { server, close } = yield* closable({ during: { login: login.body, me: me.body } })
    yield* call(server, good.version)
    expect(server.drain.countRequests()).toEqual({ finished: 0, cut: 0 })
    const answered = yield* Effect.fork(call(server, good.login))
    const hanging = yield* Effect.fork(call(server, good.me))
    yield* login.entered
    yield* me.entered
    const closing = yield* Effect.fork(close)
    yield* until(server.drain.isDraining)
    expect(server.drain.countRequests()).toEqual({ finished: 0, cut: 2 })
    yield* login.release
    yield* Fiber.join(answered)
    yield* until(() => server.drain.countRequests().finished === 1)
    expect(server.drain.countRequests()).toEqual({ finished: 1, cut: 1 })
    yield* me.release
    yield* Fiber.join(hanging)
    yield* Fiber.join(closing)
    expect(server.drain.countRequests()).toEqual({ finished: 2, cut: 0 })
  })
})

describe("Overload", () => {
  it.scoped(
    "refuses requests beyond the bound at once, but not probes; places become free again",
    function* () {
      const me = yield* gate
      const server = yield* backend({ inFlight: 1, during: { me: me.body } })
      const first = yield* Effect.fork(call(server, good.me))
      yield* me.entered
      const refused = yield* call(server, good.version)
      expect([refused.status, errorOf(refused).code, refused.headers["retry-after"]]).toEqual([
        503,
        "overloaded",
        "1"
      ])
      expect((yield* call(server, good.healthz)).status).toBe(200)
      expect((yield* call(server, good.readyz)).status).toBe(200)
      expect((yield* call(server, { method: "OPTIONS", path: "/api/v1/version" })).status).toBe(204)
      yield* me.release
      expect((yield* Fiber.join(first)).status).toBe(200)
      expect((yield* call(server, good.version)).status).toBe(200)
    }
  )

  it.scoped(
    "refuses requests while the event loop runs late and many are in flight, and serves probes",
    function* () {
      const me = yield* gate
      const server = yield* backend({ during: { me: me.body } })
      const waiting = yield* Effect.fork(
        Effect.all(
          Array.from({ length: leastInFlight }, () => call(server, good.me)),
          { concurrency: "unbounded" }
        )
      )
      yield* until(() => server.reached.filter(({ useCase }) => useCase === "me").length === leastInFlight)
      for (let turn = 0; turn < 2; turn += 1) {
        const end = performance.now() + 500
        while (performance.now() < end);
        yield* Effect.promise(() => new Promise((wake) => setTimeout(wake, 20)))
      }
      const [refused, probe] = yield* Effect.all([call(server, good.version), call(server, good.healthz)], {
        concurrency: "unbounded"
      })
      expect([refused.status, errorOf(refused).code, refused.headers["retry-after"]]).toEqual([
        503,
        "overloaded",
        "1"
      ])
      expect(probe.status).toBe(200)
      yield* me.release
      expect((yield* Fiber.join(waiting)).map(({ status }) => status)).toEqual(
        Array.from({ length: leastInFlight }, () => 200)
      )
      expect((yield* call(server, good.version)).status).toBe(200)
    }
  )

  it.scoped("frees the place of a request whose response cannot be written, and logs why", function* () {
    const server = yield* backend({
      inFlight: 1,
      during: { me: Effect.fail(new MethodNotAllowed({ allow: "GET\nPOST" })) }
    })
    const answered = yield* Effect.exit(Effect.sandbox(call(server, good.me)))
    expect(answered._tag).toBe("Failure")
    expect(server.lines.some(({ message }) => message === "Response failed")).toBe(true)
    expect((yield* call(server, good.version)).status).toBe(200)
  })

  it.scoped("counts work whose client has disconnected", function* () {
    const login = yield* gate
    const server = yield* backend({ inFlight: 1, during: { login: login.body } })
    yield* abandon(server, good.login, login.entered)
    const refused = yield* call(server, good.version)
    expect([refused.status, errorOf(refused).code]).toEqual([503, "overloaded"])
    yield* login.release
    yield* until(() => login.inside.finished)
  })
})

/** Sends a request and hangs up once the use case has begun. */
const abandon = (server: Backend, sent: Sent, entered: Effect.Effect<void>) =>
  Effect.gen(function* () {
    const request = httpRequest({
      host: "127.0.0.1",
      port: server.port,
      agent: false,
      method: sent.method,
      path: sent.path,
      headers: sent.headers as Record<string, string>
    })
    request.on("error", () => {})
    request.end(sent.body)
    yield* entered
    request.destroy()
    yield* until(() => server.lines.some(({ fields }) => fields.status === 499))
  })

describe("A client that disconnects", () => {
  const committing = [
    "login",
    "refresh",
    "logout",
    "subscribe",
    "send",
    "submit",
    "accept",
    "receive"
  ] as const
  for (const name of committing) {
    it.scoped(`${name}: does not interrupt work that commits`, function* () {
      const inside = yield* gate
      const server = yield* sharedBackend
      server.during[name] = inside.body
      yield* abandon(server, good[name], inside.entered)
      expect(inside.inside.finished).toBe(false)
      yield* inside.release
      yield* until(() => inside.inside.finished)
      expect(server.lines.filter(({ level }) => level === "ERROR" || level === "WARN")).toEqual([])
    })
  }

  it.scoped("interrupts a read", function* () {
    let interrupted = false
    const inside = yield* gate
    const server = yield* sharedBackend
    server.during.me = Effect.onInterrupt(inside.body, () =>
      Effect.sync(() => {
        interrupted = true
      })
    )
    yield* abandon(server, good.me, inside.entered)
    yield* until(() => interrupted)
  })
})
