import { createServer } from "node:http"
import { connect } from "node:net"
import * as HttpApi from "@effect/platform/HttpApi"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Api } from "../../src/http/Api.ts"
import { trackConnections } from "../../src/http/transport/Connections.ts"
import { answerClientErrors } from "../../src/http/transport/ClientErrors.ts"
import {
  DependencyUnavailable,
  type Failure,
  type FailureCode,
  failureClasses,
  failureStatus,
  failureTable,
  IdempotencyInProgress,
  NotReady,
  RateLimited,
  TemporarilyRateLimited,
  toEnvelope,
  Unauthenticated
} from "../../src/schema/Failure.ts"
import {
  type Answer,
  type Backend,
  backend,
  sharedBackend,
  call,
  errorOf,
  good,
  json,
  parseRaw,
  raw,
  type UseCase
} from "./support.ts"

const codes = Object.keys(failureTable) as ReadonlyArray<FailureCode>

const expectEnvelope = (answer: Answer, status: number, code: FailureCode) => {
  expect([answer.status, errorOf(answer).code]).toEqual([status, code])
  expect(answer.headers["content-type"]).toBe("application/json")
  expect(answer.headers["cache-control"]).toBe("no-store")
  expect(answer.headers["x-request-id"]).toMatch(/^[A-Za-z0-9._-]{8,128}$/)
  expect(Object.keys(JSON.parse(answer.text))).toEqual(["error"])
  expect(errorOf(answer)).toMatchObject({
    message: expect.stringMatching(/\S/),
    hint: expect.stringMatching(/\S/),
    retryable: failureTable[code].retryable
  })
}

describe("The envelope of a use case's failure", () => {
  it.scoped("holds code, message, hint and retryability of every failure, under its status", () =>
    Effect.gen(function* () {
      const failing = { current: new failureClasses.internal({}) as Failure }
      const server = yield* backend({ during: { login: Effect.suspend(() => Effect.fail(failing.current)) } })
      for (const code of codes) {
        failing.current = new failureClasses[code]({ details: { reason: "because" } })
        const answer = yield* call(server, good.login)
        expectEnvelope(answer, failureStatus(failing.current), code)
        expect(json(answer)).toEqual(JSON.parse(JSON.stringify(toEnvelope(failing.current))))
      }
    })
  )

  it.scoped.each<[Failure, string | undefined]>([
    [new RateLimited({ retryAfterSeconds: 7 }), "7"],
    [new RateLimited({}), "1"],
    [new TemporarilyRateLimited({ retryAfterSeconds: 0.2 }), "1"],
    [new DependencyUnavailable({ retryAfterSeconds: 2.4 }), "3"],
    [new DependencyUnavailable({}), undefined],
    [new IdempotencyInProgress({ retryAfterSeconds: 1 }), "1"],
    [new Unauthenticated(), undefined]
  ])("Retry-After of %s is %s seconds", ([failure, expected]) =>
    Effect.gen(function* () {
      const server = yield* backend({ during: { login: Effect.fail(failure) } })
      const answer = yield* call(server, good.login)
      expect(answer.headers["retry-after"]).toBe(expected)
      expect(answer.text).not.toContain("retryAfter")
    })
  )

  it.scoped("only `unauthenticated` asks for a bearer", () =>
    Effect.gen(function* () {
      for (const code of ["unauthenticated", "slt_rejected", "testing_secret_invalid"] as const) {
        const server = yield* backend({ during: { refresh: Effect.fail(new failureClasses[code]({})) } })
        const answer = yield* call(server, good.refresh)
        expect(answer.headers["www-authenticate"]).toBe(code === "unauthenticated" ? "Bearer" : undefined)
      }
    })
  )

  it.scoped("readiness fails with its checks", () =>
    Effect.gen(function* () {
      const server = yield* backend()
      yield* server.drain.begin
      const answer = yield* call(server, good.readyz)
      expectEnvelope(answer, 503, "not_ready")
      expect(errorOf(answer)).toMatchObject({ details: { checks: { serving: "failed" } } })
    })
  )
})

describe("The declared failures of an endpoint", () => {
  interface Endpoint {
    readonly name: string
    readonly errorSchema: Schema.Schema<unknown, unknown>
  }
  const endpoints: Array<Endpoint> = []
  HttpApi.reflect(Api, {
    onGroup: () => {},
    // Reflection gives endpoints without the types of their schemas.
    onEndpoint: ({ endpoint }) => endpoints.push(endpoint as unknown as Endpoint)
  })

  const useCases: Readonly<Record<string, UseCase>> = {
    iam: "resolve",
    login: "login",
    refresh: "refresh",
    logout: "logout",
    me: "authenticate",
    subscribe: "subscribe",
    send: "send",
    submit: "submit",
    accept: "accept",
    receive: "receive"
  }

  for (const { name, errorSchema } of endpoints) {
    const useCase = useCases[name]
    if (useCase === undefined) continue
    it.scoped(`${name}: its error schema decodes each of them`, () =>
      Effect.gen(function* () {
        const failing = { current: new failureClasses.internal({}) as Failure }
        const server = yield* backend({
          during: { [useCase]: Effect.suspend(() => Effect.fail(failing.current)) }
        })
        const sent = good[name as keyof typeof good]
        const headers = {
          ...("headers" in sent ? sent.headers : {}),
          ...(name === "iam" ? { "x-testing-environment-key": `ask_${"t".repeat(43)}` } : {})
        }
        let declared = 0
        for (const code of codes) {
          failing.current = new failureClasses[code]({})
          if (!Schema.is(errorSchema)(failing.current)) continue
          declared += 1
          const answer = yield* call(server, { ...sent, headers })
          expect(Schema.decodeUnknownSync(errorSchema)(json(answer))).toEqual(failing.current)
        }
        expect(declared).toBeGreaterThan(5)
      })
    )
  }
})

describe("An unexpected error", () => {
  it.scoped("a defect is 500 without its text, and is logged with its cause under the request id", () =>
    Effect.gen(function* () {
      const server = yield* backend({ during: { login: Effect.die(new Error("the secret detail")) } })
      const answer = yield* call(server, {
        ...good.login,
        headers: { ...good.login.headers, "x-request-id": "find-me-here" }
      })
      expectEnvelope(answer, 500, "internal")
      expect(answer.headers["x-request-id"]).toBe("find-me-here")
      expect(answer.text).not.toContain("secret detail")
      const line = server.lines.find(({ level }) => level === "ERROR")
      expect(line?.fields.request_id).toBe("find-me-here")
      expect(line?.cause).toContain("the secret detail")
    })
  )

  it.scoped("so are a thrown value and a value that looks like an error body", () =>
    Effect.gen(function* () {
      for (const defect of [
        "text",
        null,
        { _tag: "NotFound", message: "leak" },
        toEnvelope(new Unauthenticated())
      ]) {
        const server = yield* backend({ during: { login: Effect.die(defect) } })
        const answer = yield* call(server, good.login)
        expectEnvelope(answer, 500, "internal")
        expect(answer.text).not.toContain("leak")
      }
    })
  )

  it.scoped("a success that does not fit its schema is 500", () =>
    Effect.gen(function* () {
      const server = yield* sharedBackend
      const answer = yield* call(server, {
        ...good.me,
        headers: { ...good.me.headers, "x-org-id": "breaks-its-schema" }
      })
      expect(answer.status).toBe(200)
      const broken = yield* backend({ breaking: true })
      expectEnvelope(yield* call(broken, good.me), 500, "internal")
      expect(broken.lines.some(({ level }) => level === "ERROR")).toBe(true)
    })
  )

  it.scoped("a failure that its endpoint does not declare reaches the caller", () =>
    Effect.gen(function* () {
      const server = yield* backend({ during: { accept: Effect.fail(new NotReady({})) } })
      expectEnvelope(yield* call(server, good.accept), 503, "not_ready")
      expect(server.lines.some(({ level, fields }) => level === "WARN" && fields.code === "not_ready")).toBe(
        true
      )
    })
  )
})

describe("Malformed HTTP", () => {
  const cases: ReadonlyArray<readonly [string, string, number]> = [
    ["no HTTP at all", "hello\r\n\r\n", 400],
    ["an unknown method", "BREW / HTTP/1.1\r\nHost: a\r\n\r\n", 400],
    ["TLS", "\u0016\u0003\u0001\u0002\u0000\u0001", 400],
    ["a header without a name", "GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n", 400],
    ["a space before the colon", "GET / HTTP/1.1\r\nHost: a\r\nX-Org-ID : acme\r\n\r\n", 400],
    [
      "two lengths",
      "POST /webhook HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
      400
    ],
    [
      "a length and chunks",
      "POST /webhook HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
      400
    ],
    ["oversized headers", `GET /healthz HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(17_000)}\r\n\r\n`, 431],
    ["an oversized target", `GET /${"x".repeat(17_000)} HTTP/1.1\r\nHost: a\r\n\r\n`, 431]
  ]
  for (const [name, text, status] of cases) {
    it.scoped(`${name}: ${status} in the envelope, and the connection ends`, () =>
      Effect.gen(function* () {
        const server = yield* sharedBackend
        const answer = parseRaw(yield* raw(server, Buffer.from(text, "latin1")))
        expectEnvelope(answer, status, "invalid_input")
        expect(answer.headers.connection).toBe("close")
        expect(
          server.lines.some(
            ({ fields }) => fields.status === status && fields.request_id === answer.headers["x-request-id"]
          )
        ).toBe(true)
      })
    )
  }

  it.scoped.each(["", "Host: a\r\nHost: b\r\n"])("exactly one Host header is required: %j", (host) =>
    Effect.gen(function* () {
      const server = yield* sharedBackend
      const answer = parseRaw(yield* raw(server, `GET /healthz HTTP/1.1\r\n${host}Connection: close\r\n\r\n`))
      expectEnvelope(answer, 400, "invalid_input")
      expect(errorOf(answer).details?.fields?.[0]?.path).toBe("Host")
    })
  )

  it("a request that does not arrive in time is 408 in the envelope", async () => {
    const server = createServer({ headersTimeout: 60, requestTimeout: 80, connectionsCheckingInterval: 20 })
    const reports: Array<object> = []
    answerClientErrors(server, trackConnections(server), (facts) => reports.push(facts))
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    const address = server.address()
    const port = typeof address === "object" && address !== null ? address.port : 0
    const text = await Effect.runPromise(raw({ port }, "GET /healthz HTTP/1.1\r\nHost: a\r\n"))
    expectEnvelope(parseRaw(text), 408, "invalid_input")
    expect(reports).toEqual([
      { status: 408, code: "invalid_input", request_id: parseRaw(text).headers["x-request-id"] }
    ])
    server.close()
  })

  it.scoped("an expectation is ignored", () =>
    Effect.gen(function* () {
      const server = yield* sharedBackend
      const text = yield* raw(
        server,
        "GET /healthz HTTP/1.1\r\nHost: a\r\nExpect: miracles\r\nConnection: close\r\n\r\n"
      )
      expect(parseRaw(text).status).toBe(200)
    })
  )

  it.scoped("a second request on the connection is served after a first one that failed", () =>
    Effect.gen(function* () {
      const server = yield* sharedBackend
      const text = yield* pipelined(server, [
        "POST /api/v1/auth/login HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello",
        "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
      ])
      expect(text.match(/HTTP\/1\.1 (\d+)/g)).toEqual(["HTTP/1.1 415", "HTTP/1.1 200"])
    })
  )

  it.scoped.each<[string, string, string]>([
    ["what is no HTTP", "garbage\r\n\r\n", "400"],
    ["CONNECT", "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", "404"],
    ["a badly chunked body", `${loginHead}Transfer-Encoding: chunked\r\n\r\nzz\r\n`, "400"]
  ])("%s behind requests in flight is answered after them", ([, text, status]) =>
    Effect.gen(function* () {
      const server = yield* backend({ during: { login: Effect.promise(() => tick(20)) } })
      const login = `${loginHead}Content-Length: ${good.login.body.length}\r\n\r\n${good.login.body}`
      const answers = yield* pipelined(server, [login, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", text])
      expect(answers.match(/(?<=HTTP\/1\.1 )\d+/g)).toEqual(["200", "200", status])
      expect(server.reached.map(({ useCase }) => useCase).sort()).toEqual(["health", "login"])
    })
  )
})

const loginHead = `POST ${good.login.path} HTTP/1.1\r\nHost: a\r\n${Object.entries(good.login.headers)
  .map(([name, value]) => `${name}: ${value}\r\n`)
  .join("")}`

const tick = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds))

const pipelined = (server: Backend, requests: ReadonlyArray<string>) =>
  Effect.promise(
    () =>
      new Promise<string>((resolve) => {
        const socket = connect(server.port, "127.0.0.1", () => socket.write(requests.join("")))
        let text = ""
        socket.on("data", (part) => {
          text += part.toString()
        })
        socket.on("close", () => resolve(text))
      })
  )

describe("Caches", () => {
  it.scoped("are told to store no answer of an auth call and no error", () =>
    Effect.gen(function* () {
      const server = yield* sharedBackend
      for (const sent of [good.login, good.refresh, good.logout, good.me]) {
        expect((yield* call(server, sent)).headers["cache-control"]).toBe("no-store")
        expect((yield* call(server, { method: sent.method, path: sent.path })).headers["cache-control"]).toBe(
          "no-store"
        )
        expect((yield* call(server, { method: "PUT", path: sent.path })).headers["cache-control"]).toBe(
          "no-store"
        )
      }
      expect((yield* call(server, { path: "/nope" })).headers["cache-control"]).toBe("no-store")
    })
  )
})

describe("A body with many problems", () => {
  const problemsOf = (attachments: number) =>
    Effect.gen(function* () {
      const server = yield* sharedBackend
      const answer = yield* call(server, {
        ...good.submit,
        body: JSON.stringify({ message: "short", surplus: 1, attachments: Array(attachments).fill(0) })
      })
      expectEnvelope(answer, 400, "invalid_input")
      return (answer.text.match(/"problem"/g) ?? []).length
    })

  it.scoped("gets all of them when it is small", () =>
    Effect.map(problemsOf(3), (problems) => expect(problems).toBeGreaterThan(3))
  )

  it.scoped("gets only the first when it is large", () =>
    Effect.map(problemsOf(100_000), (problems) => expect(problems).toBe(1))
  )
})
