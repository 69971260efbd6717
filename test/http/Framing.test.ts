/** Bytes that are no request of this server: all of them are answered in the envelope, and none reaches a use case. */
import { expect } from "vitest"
import * as Effect from "effect/Effect"
import { sharing } from "../world/Test.ts"
import { expectEnvelope } from "./Envelope.ts"
import { errorOf, goodRequests, parseRaw, raw, shared, sharedOnSocket, textOf, used } from "./support.ts"

const webhookHead = (version: string) =>
  `POST /webhook HTTP/${version}\r\nHost: a\r\nContent-Type: application/json\r\n`
const selector = "X-Testing-Environment-Key"

/** Name, bytes, `details.fields[0].path`, status. */
const malformed: ReadonlyArray<readonly [string, string, (string | undefined)?, number?]> = [
  ["no HTTP at all", "hello\r\n\r\n"],
  ["an unknown method", "BREW / HTTP/1.1\r\nHost: a\r\n\r\n"],
  ["TLS", "\u0016\u0003\u0001\u0002\u0000\u0001"],
  ["a header without a name", "GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n"],
  ["a space before the colon", `GET /api/v1/iam HTTP/1.1\r\nHost: a\r\n${selector} : x\r\n\r\n`],
  ["a header in two lines", `GET /api/v1/iam HTTP/1.1\r\nHost: a\r\n${selector}:\r\n x\r\n\r\n`],
  ["no Host header", "GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n", "Host"],
  ["no Host header, of an unknown path", "PUT /nope HTTP/1.1\r\nConnection: close\r\n\r\n", "Host"],
  ["two Host headers", "GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n", "Host"],
  ["two lengths", `${webhookHead("1.1")}Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}`],
  ["a length and chunks", `${webhookHead("1.1")}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n`],
  [
    "another transfer coding before chunks",
    `${webhookHead("1.1")}Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
    "Transfer-Encoding"
  ],
  [
    "another transfer coding in a header of its own",
    `${webhookHead("1.1")}Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    "Transfer-Encoding"
  ],
  [
    "an empty transfer coding beside a length",
    `${webhookHead("1.1")}Transfer-Encoding:\r\nContent-Length: 2\r\n\r\n{}`
  ],
  [
    "chunks in HTTP/1.0",
    `${webhookHead("1.0")}Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
    "Transfer-Encoding"
  ],
  ["HTTP/2.0 in the form of HTTP/1.1", "GET /healthz HTTP/2.0\r\nHost: a\r\n\r\n", "HTTP version"],
  ["the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
  ["HTTP/0.9", "GET /healthz HTTP/0.9\r\nHost: a\r\n\r\n"],
  [
    "oversized headers",
    `GET /healthz HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(17_000)}\r\n\r\n`,
    undefined,
    431
  ],
  ["an oversized target", `GET /${"x".repeat(17_000)} HTTP/1.1\r\nHost: a\r\n\r\n`, undefined, 431]
]

const statuses = (text: string) => text.match(/(?<=HTTP\/1\.1 )\d+/g)
const slowly = Effect.promise(() => new Promise<void>((resolve) => setTimeout(resolve, 20)))

sharing(sharedOnSocket())("Bytes on a connection", (it) => {
  it.effect("that are malformed are answered with the envelope, and the connection is closed", function* () {
    const server = yield* shared
    for (const [name, text, path, status = 400] of malformed) {
      const answer = parseRaw(yield* raw(server, Buffer.from(text, "latin1")))
      expect([name, answer.status, answer.headers.connection]).toEqual([name, status, "close"])
      expectEnvelope(answer, status, "invalid_input")
      if (path !== undefined) expect([name, errorOf(answer).details?.fields?.[0]?.path]).toEqual([name, path])
      const id = answer.headers["x-request-id"]
      const logged = server.lines.filter(({ fields }) => fields.request_id === id && fields.status === status)
      expect([name, logged.length]).toEqual([name, 1])
    }
    expect(server.reached).toEqual([])
  })

  it.effect(
    "behind requests in flight are refused after these are answered, and what follows is not read",
    function* () {
      const server = yield* shared
      const { login } = yield* goodRequests(server)
      server.during.login = slowly
      for (const [text, status, path] of [
        ["garbage\r\n\r\n", "400"],
        ["CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", "404"],
        [`${webhookHead("1.1")}Transfer-Encoding: chunked\r\n\r\nzz\r\n`, "400"],
        [
          `${webhookHead("1.1")}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
          "400",
          "Transfer-Encoding"
        ],
        [
          `${webhookHead("1.0")}Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
          "400",
          "Transfer-Encoding"
        ],
        [`${webhookHead("2.0")}Content-Length: 0\r\n\r\n`, "400", "HTTP version"],
        [`${webhookHead("2.0")}Expect: 100-continue\r\nContent-Length: 0\r\n\r\n`, "400", "HTTP version"]
      ] as const) {
        server.reached.length = 0
        const answers = yield* raw(server, textOf(login) + text + textOf(login) + text)
        expect([text, statuses(answers)]).toEqual([text, ["200", status]])
        if (path !== undefined)
          expect(answers.slice(answers.lastIndexOf("\r\n\r\n"))).toContain(`"path":"${path}"`)
        expect([text, used(server)]).toEqual([text, ["login"]])
      }
    }
  )

  it.effect("that are unusual and well-formed are served", function* () {
    const server = yield* shared
    const { receive } = yield* goodRequests(server)
    const { environment } = server.upstreams.seeded
    const chunk = `${Buffer.byteLength(receive.body).toString(16)}\r\n${receive.body}\r\n0\r\n\r\n`
    const [head = ""] = textOf({ ...receive, body: "" }).split("\r\n\r\n")
    const close = "Connection: close\r\n\r\n"
    const get = "GET /healthz HTTP/1.1\r\nHost: a\r\n"
    for (const [text, expected] of [
      [`${head}\r\nConnection: close\r\nTransfer-Encoding: CHUNKED\r\n\r\n${chunk}`, ["200"]],
      [textOf(receive).replace("HTTP/1.1", "HTTP/1.0"), ["200"]],
      ["GET /healthz HTTP/1.0\r\n\r\n", ["200"]],
      [`${get}Expect: miracles\r\n${close}`, ["200"]],
      [`${get}Expect: 100-continue\r\n${close}`, ["100", "200"]],
      // A refused body of a known length is read to its end.
      [
        `${webhookHead("1.1").replace("json", "x")}Content-Length: 5\r\n\r\nhello${get}${close}`,
        ["415", "200"]
      ],
      [
        `GET /api/v1/iam HTTP/1.1\r\nHost: a\r\n${selector.toUpperCase()}:\t${environment.musicSecret}\t\r\n${close}`,
        ["200"]
      ]
    ] as const) {
      const answers = yield* raw(server, text)
      expect([text, statuses(answers)]).toEqual([text, expected])
      if (text.includes(environment.musicSecret)) expect(answers).toContain(environment.environmentId)
    }
  })

  it.effect(
    "get no interim response within the answer of a request that waits behind another one",
    function* () {
      const server = yield* shared
      // Node ends the connection after a final answer without the interim one.
      const expecting = "GET /openapi.json HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n"
      const answers = (yield* raw(server, `GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n${expecting}`)).split(
        /(?=HTTP\/1\.1 200 OK\r\n)/
      )
      expect(answers.length).toBe(2)
      for (const answer of answers) {
        const { headers, text } = parseRaw(answer)
        expect(Buffer.byteLength(text)).toBe(Number(headers["content-length"]))
      }
      expect(parseRaw(answers[1] ?? "").headers.connection).toBe("close")
    }
  )

  it.effect("reach the plane selector behind many other headers", function* () {
    const server = yield* shared
    const { environmentId, musicSecret } = server.upstreams.seeded.environment
    const many = Object.fromEntries(Array.from({ length: 10 }, (_, at) => [`a${at}`, Array(220).fill("")]))
    const answer = yield* server.send({
      path: "/api/v1/iam",
      headers: { ...many, "x-testing-environment-key": musicSecret }
    })
    expect([answer.status, answer.text]).toEqual([200, expect.stringContaining(environmentId)])
  })

  it.effect("may follow for 65 s on an idle connection, as the answer says", function* () {
    const { headers } = yield* (yield* shared).send({ path: "/healthz" })
    expect([headers.connection, headers["keep-alive"]]).toEqual(["keep-alive", "timeout=65"])
  })
})
