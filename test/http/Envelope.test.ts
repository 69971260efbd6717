import { createServer } from "node:http"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { defaultConnectionLimits, trackConnections } from "../../src/http/transport/Connections.ts"
import { options } from "../../src/http/transport/NodeServer.ts"
import { answerClientErrors } from "../../src/http/transport/ClientErrors.ts"
import { securityHeaders } from "../../src/schema/SecurityHeaders.ts"
import { failureStatus, toEnvelope } from "../../src/schema/Envelope.ts"
import {
  DependencyUnavailable,
  type Failure,
  type FailureCode,
  failureClasses,
  failureTable,
  IdempotencyInProgress,
  NotReady,
  RateLimited,
  TemporarilyRateLimited,
  Unauthenticated
} from "../../src/schema/Failure.ts"
import {
  type Answer,
  backend,
  sharedBackend,
  call,
  errorOf,
  good,
  json,
  parseRaw,
  raw,
  type Sent
} from "./support.ts"

const codes = Object.keys(failureTable) as ReadonlyArray<FailureCode>

const expectEnvelope = (answer: Answer, status: number, code: FailureCode) => {
  expect([answer.status, errorOf(answer).code]).toEqual([status, code])
  expect(answer.headers["content-type"]).toBe("application/json")
  expect(answer.headers["cache-control"]).toBe("no-store")
  expect(answer.headers).toMatchObject(securityHeaders)
  expect(answer.headers["x-request-id"]).toMatch(/^[A-Za-z0-9._-]{8,128}$/)
  expect(Object.keys(JSON.parse(answer.text))).toEqual(["error"])
  expect(errorOf(answer)).toMatchObject({
    message: expect.stringMatching(/\S/),
    hint: expect.stringMatching(/\S/),
    retryable: failureTable[code].retryable
  })
}

describe("The envelope of a use case's failure", () => {
  it.scoped("holds code, message, hint and retryability under the failure's status", function* () {
    const server = yield* sharedBackend
    for (const code of codes) {
      const failure = new failureClasses[code]({ details: { reason: "because" } })
      server.during.login = Effect.fail(failure)
      const answer = yield* call(server, good.login)
      expectEnvelope(answer, failureStatus(failure), code)
      expect(json(answer)).toEqual(JSON.parse(JSON.stringify(toEnvelope(failure))))
      expect(answer.headers["www-authenticate"]).toBe(code === "unauthenticated" ? "Bearer" : undefined)
    }
  })

  it.scoped.each<[Failure, string | undefined]>([
    [new RateLimited({ retryAfterSeconds: 7 }), "7"],
    [new RateLimited({}), "1"],
    [new TemporarilyRateLimited({ retryAfterSeconds: 0.2 }), "1"],
    [new DependencyUnavailable({ retryAfterSeconds: 2.4 }), "3"],
    [new DependencyUnavailable({}), undefined],
    [new IdempotencyInProgress({ retryAfterSeconds: 1 }), "1"],
    [new Unauthenticated(), undefined]
  ])("Retry-After of %s is %s seconds", function* ([failure, expected]) {
    const server = yield* sharedBackend
    server.during.login = Effect.fail(failure)
    const answer = yield* call(server, good.login)
    expect(answer.headers["retry-after"]).toBe(expected)
    expect(answer.text).not.toContain("retryAfter")
  })
})

describe("An unexpected error", () => {
  it.scoped("is 500 without its text, and is logged with its cause under the request id", function* () {
    const server = yield* sharedBackend
    for (const defect of [
      new Error("the secret detail"),
      "the secret detail",
      null,
      { _tag: "NotFound", message: "the secret detail" },
      toEnvelope(new Unauthenticated())
    ]) {
      server.during.login = Effect.die(defect)
      server.lines.length = 0
      const headers = { ...good.login.headers, "x-request-id": "find-me-here" }
      const answer = yield* call(server, { ...good.login, headers })
      expectEnvelope(answer, 500, "internal")
      expect(answer.headers["x-request-id"]).toBe("find-me-here")
      expect(answer.text).not.toContain("secret detail")
      const line = server.lines.find(({ level }) => level === "ERROR")
      expect(line?.fields.request_id).toBe("find-me-here")
      if (defect instanceof Error) expect(line?.cause).toContain("the secret detail")
    }
  })

  it.scoped("is a success that does not fit its schema", function* () {
    const broken = yield* backend({ breaking: true })
    expectEnvelope(yield* call(broken, good.me), 500, "internal")
    expect(broken.lines.some(({ level }) => level === "ERROR")).toBe(true)
  })

  it.scoped("is not an undeclared failure, which is returned under its own code and logged", function* () {
    const server = yield* sharedBackend
    server.during.accept = Effect.fail(new NotReady({}))
    expectEnvelope(yield* call(server, good.accept), 503, "not_ready")
    expect(server.lines.some(({ level, fields }) => level === "WARN" && fields.code === "not_ready")).toBe(
      true
    )
  })
})

const webhookHead = (version: string) =>
  `POST /webhook HTTP/${version}\r\nHost: a\r\nContent-Type: application/json\r\n`

const unbounded = { limits: defaultConnectionLimits, networkOf: () => undefined }

describe("Malformed HTTP", () => {
  const cases: ReadonlyArray<readonly [string, string, number]> = [
    ["no HTTP at all", "hello\r\n\r\n", 400],
    ["an unknown method", "BREW / HTTP/1.1\r\nHost: a\r\n\r\n", 400],
    ["TLS", "\u0016\u0003\u0001\u0002\u0000\u0001", 400],
    ["a header without a name", "GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n", 400],
    ["a space before the colon", "GET / HTTP/1.1\r\nHost: a\r\nX-Org-ID : acme\r\n\r\n", 400],
    ["no Host header", "GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n", 400],
    ["two Host headers", "GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n", 400],
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
    [
      "another transfer coding before chunks",
      `${webhookHead("1.1")}Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
      400
    ],
    [
      "another transfer coding in a header of its own",
      `${webhookHead("1.1")}Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      400
    ],
    [
      "an empty transfer coding beside a length",
      `${webhookHead("1.1")}Transfer-Encoding:\r\nContent-Length: 2\r\n\r\n{}`,
      400
    ],
    [
      "chunks in HTTP/1.0",
      `${webhookHead("1.0")}Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
      400
    ],
    ["HTTP/2.0 in the form of HTTP/1.1", "GET /healthz HTTP/2.0\r\nHost: a\r\n\r\n", 400],
    ["the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400],
    ["HTTP/0.9", "GET /healthz HTTP/0.9\r\nHost: a\r\n\r\n", 400],
    ["oversized headers", `GET /healthz HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(17_000)}\r\n\r\n`, 431],
    ["an oversized target", `GET /${"x".repeat(17_000)} HTTP/1.1\r\nHost: a\r\n\r\n`, 431]
  ]
  it.scoped.each(cases)(
    "%s: is answered with the envelope, and the connection is closed",
    function* ([name, text, status]) {
      const server = yield* sharedBackend
      const answer = parseRaw(yield* raw(server, Buffer.from(text, "latin1")))
      expectEnvelope(answer, status, "invalid_input")
      expect(answer.headers.connection).toBe("close")
      expect(
        server.lines.some(
          ({ fields }) => fields.status === status && fields.request_id === answer.headers["x-request-id"]
        )
      ).toBe(true)
      expect(server.reached).toEqual([])
      if (name.endsWith("Host header")) expect(errorOf(answer).details?.fields?.[0]?.path).toBe("Host")
    }
  )

  it.scoped.each<[string, string, string, string]>([
    ["another transfer coding", "1.1", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding"],
    [
      "chunks in HTTP/1.0",
      "1.0",
      "Connection: keep-alive\r\nTransfer-Encoding: chunked",
      "Transfer-Encoding"
    ],
    ["HTTP/2.0", "2.0", "Content-Length: 0", "HTTP version"],
    ["an awaited body in HTTP/2.0", "2.0", "Expect: 100-continue\r\nContent-Length: 0", "HTTP version"]
  ])(
    "%s is refused behind requests in flight, and what follows on its connection is not read",
    function* ([, version, header, path]) {
      const server = yield* sharedBackend
      server.during.login = Effect.promise(() => new Promise<void>((resolve) => setTimeout(resolve, 20)))
      const login = `${loginHead}Content-Length: ${good.login.body.length}\r\n\r\n${good.login.body}`
      const refused = `${webhookHead(version)}${header}\r\n\r\n${header.endsWith("0") ? "" : "0\r\n\r\n"}`
      const answers = yield* raw(server, login + refused + login + refused)
      expect(answers.match(/(?<=HTTP\/1\.1 )\d+/g)).toEqual(["200", "400"])
      expect(answers.slice(answers.lastIndexOf("\r\n\r\n"))).toContain(`"path":"${path}"`)
      expect(server.reached.map(({ useCase }) => useCase)).toEqual(["login"])
    }
  )

  it.scoped("is neither chunks in upper case nor HTTP/1.0 with a length", function* () {
    const server = yield* sharedBackend
    for (const text of [
      `${webhookHead("1.1")}Connection: close\r\nTransfer-Encoding: CHUNKED\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
      `${webhookHead("1.0")}Content-Length: 2\r\n\r\n{}`
    ])
      expect(parseRaw(yield* raw(server, text)).status).toBe(200)
  })

  it("that does not arrive in time is 408 in the envelope", async () => {
    const server = createServer({ headersTimeout: 60, requestTimeout: 80, connectionsCheckingInterval: 20 })
    const reports: Array<object> = []
    answerClientErrors(server, trackConnections(server, unbounded), (facts) => reports.push(facts))
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

  it("is a head that takes more than 15 s, a request that takes more than 60 s, or headers over 16 KiB", () => {
    expect(options).toMatchObject({
      headersTimeout: 15_000,
      requestTimeout: 60_000,
      connectionsCheckingInterval: 5_000,
      maxHeaderSize: 16_384
    })
  })

  it.scoped("is not an unknown Expect header, which is ignored", function* () {
    const server = yield* sharedBackend
    const text = yield* raw(
      server,
      "GET /healthz HTTP/1.1\r\nHost: a\r\nExpect: miracles\r\nConnection: close\r\n\r\n"
    )
    expect(parseRaw(text).status).toBe(200)
  })

  it.scoped(
    "does not prevent a second request on the connection after a first one that failed",
    function* () {
      const server = yield* sharedBackend
      const text = yield* raw(
        server,
        "POST /api/v1/auth/login HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello" +
          "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
      )
      expect(text.match(/HTTP\/1\.1 (\d+)/g)).toEqual(["HTTP/1.1 415", "HTTP/1.1 200"])
    }
  )

  it.scoped.each<[string, string, string]>([
    ["no HTTP", "garbage\r\n\r\n", "400"],
    ["CONNECT", "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", "404"],
    ["a badly chunked body", `${loginHead}Transfer-Encoding: chunked\r\n\r\nzz\r\n`, "400"]
  ])("%s behind requests in flight is answered after them", function* ([, text, status]) {
    const server = yield* sharedBackend
    server.during.login = Effect.promise(() => new Promise<void>((resolve) => setTimeout(resolve, 20)))
    const login = `${loginHead}Content-Length: ${good.login.body.length}\r\n\r\n${good.login.body}`
    const answers = yield* raw(server, `${login}GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n${text}`)
    expect(answers.match(/(?<=HTTP\/1\.1 )\d+/g)).toEqual(["200", "200", status])
    expect(server.reached.map(({ useCase }) => useCase)).toEqual(["login"])
  })
})

const loginHead = `POST ${good.login.path} HTTP/1.1\r\nHost: a\r\n${Object.entries(good.login.headers)
  .map(([name, value]) => `${name}: ${value}\r\n`)
  .join("")}`

describe("A success", () => {
  it.scoped(
    "is 200, or 204 for logout and telemetry; its credentials are not stored on the way",
    function* () {
      const server = yield* sharedBackend
      for (const [name, sent] of Object.entries(good)) {
        const { headers, status, text } = yield* call(server, sent)
        const isEmpty = name === "logout" || name === "accept"
        expect([name, status, text === ""]).toEqual([name, isEmpty ? 204 : 200, isEmpty])
        if (/"(?:oat|ort)_/.test(text)) expect([name, headers["cache-control"]]).toEqual([name, "no-store"])
      }
    }
  )
})

describe("Every response", () => {
  it.scoped("has a request id: successes, refusals, preflights and documents", function* () {
    const server = yield* sharedBackend
    for (const sent of [
      ...Object.values(good),
      { path: "/docs" },
      { path: "/openapi.json" },
      { path: "/nope" },
      { path: "/healthz", method: "DELETE" },
      { path: "/api/v1/version", method: "OPTIONS" }
    ]) {
      const { headers } = yield* call(server, sent)
      expect([sent.path, headers["x-request-id"]]).toEqual([
        sent.path,
        expect.stringMatching(/^req_[0-9a-f]{32}$/)
      ])
    }
  })
})

describe("Security headers", () => {
  it.scoped("are on every answer, and nothing names the program", function* () {
    const server = yield* sharedBackend
    for (const [sent, status] of [
      ...Object.values(good).map((sent) => [sent, undefined] as const),
      [{ method: "HEAD", path: "/healthz" }, 200],
      [{ method: "OPTIONS", path: "/api/v1/version" }, 204],
      [{ path: "/openapi.json" }, 200],
      [{ path: "/openapi.json", headers: { "if-none-match": "*" } }, 304],
      [{ path: "/nope" }, 404],
      [{ method: "DELETE", path: "/healthz" }, 405]
    ] as ReadonlyArray<readonly [Sent, number | undefined]>) {
      const { headers, ...answer } = yield* call(server, sent)
      expect([sent.path, answer.status]).toEqual([sent.path, status ?? answer.status])
      expect(headers).toMatchObject({
        "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
        "cross-origin-resource-policy": "cross-origin",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY"
      })
      for (const name of ["server", "x-powered-by"]) expect(headers).not.toHaveProperty(name)
    }
  })
})

describe("Cache-Control", () => {
  it.scoped("is no-store on every answer of an auth call and on every error", function* () {
    const server = yield* sharedBackend
    for (const sent of [good.login, good.refresh, good.logout, good.me]) {
      for (const one of [
        sent,
        { method: sent.method, path: sent.path },
        { method: "PUT", path: sent.path }
      ]) {
        expect((yield* call(server, one)).headers["cache-control"]).toBe("no-store")
      }
    }
    expect((yield* call(server, { path: "/nope" })).headers["cache-control"]).toBe("no-store")
  })
})

describe("A body with many problems", () => {
  it.scoped.each([
    ["all of them when it is small", 3, 3],
    ["only the first when it is large", 100_000, 1]
  ] as const)("is answered with %s", function* ([, attachments, problems]) {
    const server = yield* sharedBackend
    const answer = yield* call(server, {
      ...good.submit,
      body: JSON.stringify({ message: "short", surplus: 1, attachments: Array(attachments).fill(0) })
    })
    expectEnvelope(answer, 400, "invalid_input")
    const found = (answer.text.match(/"problem"/g) ?? []).length
    if (problems === 1) expect(found).toBe(1)
    else expect(found).toBeGreaterThan(problems)
  })

  it.scoped("of 16 KiB or more is refused for its first one", function* () {
    const server = yield* sharedBackend
    for (const [size, problems] of [
      [16_383, 2],
      [16_384, 1]
    ] as const) {
      const body = JSON.stringify({ message: "short", surplus: 1 }).padEnd(size)
      const { text } = yield* call(server, { ...good.submit, body })
      expect([size, text.match(/"problem"/g)?.length]).toEqual([size, problems])
    }
  })
})
