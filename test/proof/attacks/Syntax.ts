/** Attacks with the syntax of HTTP: two readings of one message, floods of headers and chunks, other protocols. */
import { routes } from "../../../src/http/middleware/Routes.ts"
import { securityHeadersOfEveryAnswer } from "../../support/SecurityHeaders.ts"
import type { Attack } from "./Attack.ts"
import { exchange, header, type Target, type WireAnswer } from "./Wire.ts"

const host = "Host: music.example\r\n"
/** The id of a request that hides in another one. It must never be answered. */
const hiddenId = "hidden-request-0123456789"
const hidden = `GET /api/v1/version HTTP/1.1\r\n${host}X-Request-Id: ${hiddenId}\r\n\r\n`

/** What an answer must be, whatever was sent. */
export const wrongIn = (answer: WireAnswer): ReadonlyArray<string> => {
  const { body, status } = answer
  const missing = [...securityHeadersOfEveryAnswer].filter(
    ([name, value]) => name !== "content-security-policy" && header(answer, name) !== value
  )
  const id = header(answer, "x-request-id") ?? ""
  return [
    ...(status >= 500 && status !== 503 ? [`status ${status}`] : []),
    ...(status < 200 ? [`status ${status}`] : []),
    ...missing.map(([name]) => `no ${name}`),
    ...(header(answer, "content-security-policy") === undefined ? ["no content-security-policy"] : []),
    ...(/^[A-Za-z0-9._-]{8,128}$/.test(id) ? [] : [`the request id ${JSON.stringify(id)}`]),
    ...["server", "x-powered-by"].filter((name) => answer.headers.has(name)),
    ...(status >= 400 && !/^\{"error":\{"code":"[a-z_]+","message":/.test(body)
      ? [`an error without the envelope: ${body.slice(0, 200)}`]
      : [])
  ]
}

interface Shape {
  readonly name: string
  readonly text: string
  /** `refused`: one error, and the end of the connection. `single`: one answer. */
  readonly expected: "refused" | "single"
}

/** Plays a shape and says what is wrong with its answers. */
const playShape = async (target: Target, { expected, name, text }: Shape): Promise<ReadonlyArray<string>> => {
  const { answers, hangs, isClosed, rest } = await exchange(target, text, "127.0.0.31")
  const ids = answers.map((answer) => header(answer, "x-request-id"))
  const faults = [
    ...answers.flatMap(wrongIn),
    ...(hangs ? ["the exchange does not end"] : []),
    ...(ids.includes(hiddenId) ? ["the hidden request is answered"] : []),
    ...(answers.length === 1 ? [] : [`${answers.length} answers: ${answers.map(({ status }) => status)}`]),
    ...(rest === "" ? [] : [`bytes that are no answer: ${JSON.stringify(rest.slice(0, 100))}`]),
    ...(expected === "refused" && (answers[0]?.status ?? 0) < 400 ? ["it is not refused"] : []),
    ...(expected === "refused" && !isClosed ? ["the connection stays open"] : [])
  ]
  return faults.map((fault) => `${name}: ${fault}; sent ${JSON.stringify(text.slice(0, 400))}`)
}

const playShapes =
  (make: () => ReadonlyArray<Shape>): Attack["play"] =>
  async ({ server }) => {
    const shapes = make()
    const broken: Array<string> = []
    // Some at once: each is a connection of its own.
    for (let at = 0; at < shapes.length; at += 8)
      broken.push(
        ...(await Promise.all(shapes.slice(at, at + 8).map((shape) => playShape(server, shape)))).flat()
      )
    return broken
  }

const chunkOf = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`
const lastChunk = "0\r\n\r\n"
const post = `POST /api/v1/telemetry HTTP/1.1\r\n${host}Content-Type: application/json\r\n`

/** Two framings in one head. With either reading alone, one of the two bodies ends before the hidden request. */
const ambiguous = (name: string, make: (length: number) => string): ReadonlyArray<Shape> => {
  const short = lastChunk + hidden
  const long = chunkOf(hidden)
  return [
    {
      name: `${name}, ends by chunks`,
      expected: "refused",
      text: `${post}${make(short.length)}\r\n${short}`
    },
    {
      name: `${name}, ends by length`,
      expected: "refused",
      text: `${post}${make(long.indexOf("\r\n") + 2)}\r\n${long}${lastChunk}`
    }
  ]
}

const length = (value: number | string) => `Content-Length: ${value}\r\n`
const chunked = "Transfer-Encoding: chunked\r\n"

const framings = (): ReadonlyArray<Shape> => [
  ...ambiguous("length and chunks", (size) => length(size) + chunked),
  ...ambiguous("chunks and length", (size) => chunked + length(size)),
  ...ambiguous("chunks in capitals", (size) => `${length(size)}TRANSFER-ENCODING: CHUNKED\r\n`),
  ...ambiguous("chunked, identity", (size) => `${length(size)}Transfer-Encoding: chunked, identity\r\n`),
  ...ambiguous("identity, chunked", (size) => `${length(size)}Transfer-Encoding: identity, chunked\r\n`),
  ...ambiguous("chunked twice", (size) => length(size) + chunked + chunked),
  ...ambiguous("chunked and identity", (size) => `${length(size)}${chunked}Transfer-Encoding: identity\r\n`),
  ...ambiguous("xchunked", (size) => `${length(size)}Transfer-Encoding: xchunked\r\n`),
  ...ambiguous("chunked with a quote", (size) => `${length(size)}Transfer-Encoding: "chunked"\r\n`),
  ...ambiguous("a tab before chunked", (size) => `${length(size)}Transfer-Encoding:\tchunked\r\n`),
  ...ambiguous("a vertical tab", (size) => `${length(size)}Transfer-Encoding: \u000bchunked\r\n`),
  ...ambiguous("a space before the colon", (size) => `${length(size)}Transfer-Encoding : chunked\r\n`),
  ...ambiguous("a folded line", (size) => `${length(size)}Transfer-Encoding:\r\n chunked\r\n`),
  ...ambiguous("a bare CR", (size) => `${length(size)}X: a\rTransfer-Encoding: chunked\r\n`),
  ...ambiguous("a bare LF", (size) => `${length(size)}X: a\nTransfer-Encoding: chunked\r\n`),
  ...ambiguous("a NUL", (size) => `${length(size)}X: a\u0000\r\n${chunked}`),
  ...[
    "chunked, identity",
    "xchunked",
    "chunked;q=1",
    "chunked chunked",
    "gzip, chunked, gzip",
    "identity",
    "\u0000chunked"
  ].map(
    (coding): Shape => ({
      name: `the coding ${JSON.stringify(coding)}`,
      expected: "refused",
      text: `${post}Transfer-Encoding: ${coding}\r\n\r\n${lastChunk}${hidden}`
    })
  ),
  ...["+5", "-5", "0x5", "5 5", "5,5", "5, 6", "", "5;", "1e2", "٥", "5\u0000", "18446744073709551617"].map(
    (value): Shape => ({
      name: `the length ${JSON.stringify(value)}`,
      expected: "refused",
      text: `${post}${length(value)}\r\n${hidden}`
    })
  ),
  {
    name: "two lengths",
    expected: "refused",
    text: `${post}${length(0)}${length(hidden.length)}\r\n${hidden}`
  },
  {
    name: "two lengths, the shorter one last",
    expected: "refused",
    text: `${post}${length(hidden.length)}${length(0)}\r\n${hidden}`
  },
  {
    name: "a space before the colon",
    expected: "refused",
    text: `${post}Content-Length : 0\r\n\r\n${hidden}`
  },
  { name: "a line that begins with a space", expected: "refused", text: `${post} X: a\r\n\r\n${hidden}` },
  {
    name: "a head with LF lines",
    expected: "refused",
    text: `${`${post}${length(hidden.length)}`.replaceAll("\r\n", "\n")}\n${hidden}`
  },
  ...["g\r\n", "-1\r\n", "0x1\r\na", "1 \r\na", "\r\n", "ffffffffffffffff1\r\n", "1\na\n", "1\r\nab\r\n"].map(
    (chunk): Shape => ({
      name: `the chunk ${JSON.stringify(chunk)}`,
      expected: "refused",
      text: `${post}${chunked}\r\n${chunk}${lastChunk}${hidden}`
    })
  ),
  {
    name: "chunks in HTTP/1.0",
    expected: "refused",
    text: `${post.replace("HTTP/1.1", "HTTP/1.0")}${chunked}\r\n${lastChunk}${hidden}`
  }
]

/** A request as the body of a request, to every path with every method: a body that no call reads is still a body. */
const nested = (): ReadonlyArray<Shape> =>
  [...routes.keys(), "/nowhere", "/healthz?x=1"].flatMap((path) =>
    ["GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"].flatMap((method) =>
      [`${length(hidden.length)}\r\n${hidden}`, `${chunked}\r\n${chunkOf(hidden)}${lastChunk}`].flatMap(
        (rest, at) =>
          [
            "",
            "Content-Type: application/json\r\n",
            "Expect: 100-continue\r\n",
            "Connection: upgrade\r\nUpgrade: h2c\r\n"
          ]
            // Not all of them everywhere: a connection for each takes time.
            .filter((_, kind) => (kind + at + path.length + method.length) % 4 === 0)
            .map(
              (more): Shape => ({
                name: `${method} ${path} with a request as its body`,
                expected: "single",
                text: `${method} ${path} HTTP/1.1\r\n${host}${more}${rest}`
              })
            )
      )
    )
  )

const get = (target: string, version = "HTTP/1.1") => `GET ${target} ${version}\r\n${host}\r\n`

const protocols = (): ReadonlyArray<Shape> => [
  {
    name: "the preface of HTTP/2",
    expected: "refused",
    text: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\u0000\u0000\u0000\u0004"
  },
  {
    name: "a TLS hello",
    expected: "refused",
    text: `\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001\u00fc\u0003\u0003${"\u0007".repeat(500)}`
  },
  { name: "SSH", expected: "refused", text: "SSH-2.0-OpenSSH_9.0\r\n" },
  {
    name: "a request of a proxy protocol",
    expected: "refused",
    text: `PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\n${get("/healthz")}`
  },
  { name: "HTTP/0.9", expected: "refused", text: "GET /healthz\r\n\r\n" },
  ...["HTTP/1.2", "HTTP/3.0", "HTTP/9.9", "http/1.1", "HTTP/1.1x", "HTTP/11", "ICE/1.1"].map(
    (version): Shape => ({ name: version, expected: "refused", text: get("/healthz", version) })
  ),
  { name: "CONNECT", expected: "refused", text: `CONNECT db.internal:5432 HTTP/1.1\r\n${host}\r\n${hidden}` },
  ...["h2c", "websocket", "TLS/1.0"].map(
    (protocol): Shape => ({
      name: `an upgrade to ${protocol}`,
      expected: "single",
      text:
        `GET /healthz HTTP/1.1\r\n${host}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: ${protocol}\r\n` +
        "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
    })
  ),
  ...[
    "http://other.example/healthz",
    "http://user:password@other.example:1/healthz",
    "//other.example/healthz",
    "/healthz#fragment",
    "/..%2fhealthz",
    "/%00",
    "/%0d%0aSet-Cookie:%20a=b",
    "/healthz%20HTTP/1.1%0d%0aX:%20y",
    "*",
    "?",
    "/?".padEnd(15_000, "a&"),
    `/${"../".repeat(4_000)}`,
    `/${"%25".repeat(4_000)}`
  ].map(
    (target): Shape => ({ name: `the target ${target.slice(0, 40)}`, expected: "single", text: get(target) })
  ),
  ...["/health z", "/healthz\t", "", "\\healthz", "/\u0000", "/\u007f\u0001", `/${"a".repeat(17_000)}`].map(
    (target): Shape => ({
      name: `the target ${JSON.stringify(target.slice(0, 40))}`,
      expected: "refused",
      text: get(target)
    })
  )
]

const withHeaders = (lines: string) => `GET /healthz HTTP/1.1\r\n${host}${lines}\r\n`

const headers = (): ReadonlyArray<Shape> => [
  { name: "16 KiB of empty headers", expected: "single", text: withHeaders("a:\r\n".repeat(3_900)) },
  { name: "repeated ids", expected: "single", text: withHeaders("X-Request-Id: 0123456789\r\n".repeat(600)) },
  { name: "repeated cookies", expected: "single", text: withHeaders("Cookie: a=b\r\n".repeat(1_200)) },
  { name: "two hosts", expected: "single", text: withHeaders(host) },
  // Node counts names and values only.
  { name: "15,000 headers", expected: "single", text: withHeaders("a:\r\n".repeat(15_000)) },
  { name: "a long name", expected: "single", text: withHeaders(`${"x".repeat(15_000)}: y\r\n`) },
  {
    name: "names of an object",
    expected: "single",
    text: withHeaders("__proto__: x\r\nconstructor: y\r\nhasOwnProperty: z\r\ntoString: 1\r\n")
  },
  ...[
    ["more than 16 KiB of headers", "ab: cd\r\n".repeat(4_200)],
    ["a name of more than 16 KiB", `${"x".repeat(17_000)}: y\r\n`],
    ["a value of 1 MiB", `X: ${"x".repeat(1_048_576)}\r\n`],
    ["a NUL in a value", "X: a\u0000b\r\n"],
    ["a NUL in a name", "X\u0000: a\r\n"],
    ["a bare CR in a value", "X: a\rb\r\n"],
    ["no colon", "X\r\n"],
    ["no name", ": x\r\n"],
    ["a space in a name", "X y: a\r\n"],
    ["a control character in a value", "X: a\u0001b\r\n"]
  ].map(([name = "", lines = ""]): Shape => ({ name, expected: "refused", text: withHeaders(lines) }))
]

const trailers = (): ReadonlyArray<Shape> => {
  const chunks = (body: string) => `${post}${chunked}\r\n${body}`
  return [
    ...[
      ["an extension of 20 KB", `2;${"x".repeat(20_000)}\r\n{}\r\n${lastChunk}`],
      ["trailers of 40 KB", `${chunkOf("{}")}0\r\n${`a: ${"b".repeat(40)}\r\n`.repeat(1_000)}\r\n`]
    ].map(([name = "", body = ""]): Shape => ({ name, expected: "refused", text: chunks(body) })),
    {
      name: "extensions of 1 KB each",
      expected: "single",
      text: chunks(`${`1;${"x".repeat(1_000)}\r\n \r\n`.repeat(40)}${lastChunk}`)
    },
    {
      name: "trailers that name a framing",
      expected: "single",
      text: chunks(
        `${chunkOf("{}")}0\r\nContent-Length: 5\r\nTransfer-Encoding: identity\r\nHost: other\r\n\r\n`
      )
    },
    {
      name: "a body in chunks of one byte",
      expected: "single",
      text: chunks(`${chunkOf(" ").repeat(20_000)}${lastChunk}`)
    }
  ]
}

/** Bytes that end lines, names and messages. */
const edges = [
  "\r\n",
  "\n",
  "\r",
  "\u0000",
  " ",
  "\t",
  ":",
  ",",
  ";",
  "0",
  "-",
  "chunked",
  "\r\n\r\n",
  "\u00ff",
  "HTTP/1.1",
  "\r\n "
]

/** Well-formed messages with a few wrong bytes: whatever they mean, every answer is a correct one, and none too many. */
const mutated: Attack["play"] = async ({ count, random, server }) => {
  const seeds = [
    get("/healthz"),
    get("/api/v1/version"),
    `${post}${length(2)}\r\n{}`,
    `${post}${chunked}\r\n${chunkOf("{}")}${lastChunk}`,
    `OPTIONS /api/v1/tings HTTP/1.1\r\n${host}Origin: https://a.example\r\nAccess-Control-Request-Method: POST\r\n\r\n`
  ]
  const playOne = async (at: number): Promise<ReadonlyArray<string>> => {
    let text = `${seeds[random.below(seeds.length)]}${seeds[random.below(seeds.length)]}`
    for (let edit = 0; edit <= random.below(4); edit += 1) {
      const place = random.below(text.length)
      const removed = random.below(3)
      text = text.slice(0, place) + (edges[random.below(edges.length)] ?? "") + text.slice(place + removed)
    }
    const { answers, hangs, rest } = await exchange(server, text, `127.0.8.${1 + (at % 200)}`, {
      ending: true
    })
    const faults = [
      ...answers.flatMap(wrongIn),
      ...(hangs ? ["the exchange does not end"] : []),
      // An inserted line break may make one message more, and its refusal one answer more.
      ...(answers.length > 5 ? [`${answers.length} answers`] : []),
      ...(rest === "" ? [] : [`bytes that are no answer: ${JSON.stringify(rest.slice(0, 100))}`])
    ]
    return faults.map((fault) => `message ${at}: ${fault}; sent ${JSON.stringify(text)}`)
  }
  const broken: Array<string> = []
  for (let at = 0; at < count; at += 20)
    broken.push(
      ...(
        await Promise.all(Array.from({ length: Math.min(20, count - at) }, (_, next) => playOne(at + next)))
      ).flat()
    )
  return broken
}

/** Requests at once that every client may send on one connection, those of a flood, and the answers that a flood may get at most. */
const [few, flooding, mostAnswered] = [20, 2_000, 500]

/** Sends requests at once on each connection, without reading the answers between them: a few are all answered, a flood is ended. */
const pipelined: Attack["play"] = async ({ count, server }) => {
  const broken: Array<string> = []
  const request = get("/api/v1/version")
  await Promise.all(
    Array.from({ length: Math.min(20, count) }, async (_, at) => {
      const from = `127.0.9.${1 + at}`
      const modest = await exchange(server, request.repeat(few), from)
      if (modest.answers.length !== few) broken.push(`${modest.answers.length} answers to ${few} requests`)
      const flood = await exchange(server, request.repeat(flooding), from)
      broken.push(...[...modest.answers, ...flood.answers].flatMap(wrongIn))
      if (modest.hangs || flood.hangs) broken.push("the exchange does not end")
      if (!flood.isClosed) broken.push(`a flood of ${flooding} requests does not end its connection`)
      if (flood.answers.length > mostAnswered)
        broken.push(`${flood.answers.length} answers to ${flooding} requests, at most ${mostAnswered}`)
    })
  )
  return broken.slice(0, 3)
}

export const syntaxAttacks: ReadonlyArray<Attack> = [
  { name: "two framings in one message", play: playShapes(framings) },
  { name: "a request inside a request", play: playShapes(nested) },
  { name: "other protocols and targets", play: playShapes(protocols) },
  { name: "floods and malformed headers", play: playShapes(headers) },
  { name: "floods of chunks and trailers", play: playShapes(trailers) },
  { name: "messages with wrong bytes", play: mutated },
  { name: "floods of requests on one connection", play: pipelined }
]
