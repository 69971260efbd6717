/** Attacks with the syntax of HTTP: two readings of one message, floods of headers and chunks, other protocols, text that answers could repeat. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { root } from "../../world/Fleet.ts"
import { securityHeadersOfEveryAnswer } from "../../world/Driver.ts"
import type { RawAnswer } from "../../world/RawHttp.ts"
import type { Attack, AttackedServer } from "./AttackedServer.ts"
import { exchange, header, textOf } from "./Wire.ts"

const host = "Host: music.example\r\n"
/** The id of a request that hides in another one. It must never be answered. */
const hiddenId = "hidden-request-0123456789"
const hidden = `GET /api/v1/version HTTP/1.1\r\n${host}X-Request-Id: ${hiddenId}\r\n\r\n`

/** What an answer must be, whatever was sent. */
const wrongIn = (answer: RawAnswer): ReadonlyArray<string> => {
  const { status } = answer
  const id = header(answer, "x-request-id") ?? ""
  return [
    ...(status < 200 || (status >= 500 && status !== 503) ? [`status ${status}`] : []),
    ...[...securityHeadersOfEveryAnswer].flatMap(([name, value]) => {
      const found = header(answer, name)
      const isRight = name === "content-security-policy" ? found !== undefined : found === value
      return isRight ? [] : [`no ${name}`]
    }),
    ...(/^[A-Za-z0-9._-]{8,128}$/.test(id) ? [] : [`the request id ${JSON.stringify(id)}`]),
    ...["server", "x-powered-by"].filter((name) => header(answer, name) !== undefined),
    ...(status >= 400 && !/^\{"error":\{"code":"[a-z_]+","message":/.test(textOf(answer))
      ? [`an error without the envelope: ${textOf(answer).slice(0, 200)}`]
      : [])
  ]
}

/** Plays so many at once: each is a connection of its own. */
const inGroups = async <A>(
  all: ReadonlyArray<A>,
  size: number,
  play: (one: A, at: number) => Promise<ReadonlyArray<string>>
): Promise<ReadonlyArray<string>> => {
  const broken: Array<string> = []
  for (let at = 0; at < all.length; at += size)
    broken.push(
      ...(await Promise.all(all.slice(at, at + size).map((one, next) => play(one, at + next)))).flat()
    )
  return broken
}

/** `isRefused`: one error, and the end of the connection; else one answer. */
type Shape = readonly [name: string, text: string, isRefused?: "refused"]

const refused = (texts: Readonly<Record<string, string>>): ReadonlyArray<Shape> =>
  Object.entries(texts).map(([name, text]) => [name, text, "refused"])

const playShapes =
  (shapes: () => ReadonlyArray<Shape>): Attack["play"] =>
  ({ server }) =>
    inGroups(shapes(), 8, async ([name, text, isRefused]) => {
      const { answers, faults, isClosed } = await exchange(server, text, "127.0.0.31")
      return [
        ...answers.flatMap(wrongIn),
        ...faults,
        ...(answers.some((answer) => header(answer, "x-request-id") === hiddenId)
          ? ["the hidden request is answered"]
          : []),
        ...(answers.length === 1 ? [] : [`${answers.length} answers`]),
        ...(isRefused && (answers[0]?.status ?? 0) < 400 ? ["it is not refused"] : []),
        ...(isRefused && !isClosed ? ["the connection stays open"] : [])
      ].map((fault) => `${name}: ${fault}; sent ${JSON.stringify(text.slice(0, 400))}`)
    })

const chunkOf = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`
const lastChunk = "0\r\n\r\n"
const post = `POST /api/v1/telemetry HTTP/1.1\r\n${host}Content-Type: application/json\r\n`
const get = (target: string, version = "HTTP/1.1") => `GET ${target} ${version}\r\n${host}\r\n`
const length = (value: number | string) => `Content-Length: ${value}\r\n`
const chunked = "Transfer-Encoding: chunked\r\n"
const coding = (value: string) => `Transfer-Encoding: ${value}\r\n`

/** Two framings in one head. With either reading alone, one of the two bodies ends before the hidden request. */
const ambiguous: Readonly<Record<string, (size: number) => string>> = {
  "length and chunks": (size) => length(size) + chunked,
  "chunks and length": (size) => chunked + length(size),
  "chunks in capitals": (size) => `${length(size)}TRANSFER-ENCODING: CHUNKED\r\n`,
  "chunked, identity": (size) => length(size) + coding("chunked, identity"),
  "identity, chunked": (size) => length(size) + coding("identity, chunked"),
  "chunked twice": (size) => length(size) + chunked + chunked,
  "chunked and identity": (size) => length(size) + chunked + coding("identity"),
  xchunked: (size) => length(size) + coding("xchunked"),
  "chunked with a quote": (size) => length(size) + coding('"chunked"'),
  "a tab before chunked": (size) => `${length(size)}Transfer-Encoding:\tchunked\r\n`,
  "a vertical tab": (size) => length(size) + coding("\u000bchunked"),
  "a space before the colon": (size) => `${length(size)}Transfer-Encoding : chunked\r\n`,
  "a folded line": (size) => `${length(size)}Transfer-Encoding:\r\n chunked\r\n`,
  "a bare CR": (size) => `${length(size)}X: a\r${chunked}`,
  "a bare LF": (size) => `${length(size)}X: a\n${chunked}`,
  "a NUL": (size) => `${length(size)}X: a\u0000\r\n${chunked}`
}
const badCodings = ["identity", "\u0000chunked", "chunked;q=1", "chunked chunked", "gzip, chunked, gzip"]
const badLengths = ["+5", "0x5", "5, 6", "", "٥", "5\u0000", `${2 ** 64}1`]
const badChunks = ["g\r\n", "0x1\r\na", "1 \r\na", `${"f".repeat(16)}1\r\n`, "1\na\n"]
const short = lastChunk + hidden
const long = chunkOf(hidden)

const framings = (): ReadonlyArray<Shape> =>
  refused({
    ...Object.fromEntries(
      Object.entries(ambiguous).flatMap(([name, make]) => [
        [`${name}, ends by chunks`, `${post}${make(short.length)}\r\n${short}`],
        [`${name}, ends by length`, `${post}${make(long.indexOf("\r\n") + 2)}\r\n${long}${lastChunk}`]
      ])
    ),
    ...Object.fromEntries([
      ...badCodings.map((value) => [
        `the coding ${JSON.stringify(value)}`,
        `${post}${coding(value)}\r\n${lastChunk}${hidden}`
      ]),
      ...badLengths.map((value) => [
        `the length ${JSON.stringify(value)}`,
        `${post}${length(value)}\r\n${hidden}`
      ]),
      ...badChunks.map((chunk) => [
        `the chunk ${JSON.stringify(chunk)}`,
        `${post}${chunked}\r\n${chunk}${lastChunk}${hidden}`
      ])
    ]),
    "two lengths": `${post}${length(0)}${length(hidden.length)}\r\n${hidden}`,
    "two lengths, the shorter one last": `${post}${length(hidden.length)}${length(0)}\r\n${hidden}`,
    "a space before the colon": `${post}Content-Length : 0\r\n\r\n${hidden}`,
    "a line that begins with a space": `${post} X: a\r\n\r\n${hidden}`,
    "a head with LF lines": `${`${post}${length(hidden.length)}`.replaceAll("\r\n", "\n")}\n${hidden}`,
    "chunks in HTTP/1.0": `${post.replace("HTTP/1.1", "HTTP/1.0")}${chunked}\r\n${lastChunk}${hidden}`
  })

const more = [
  "",
  "Content-Type: application/json\r\n",
  "Expect: 100-continue\r\n",
  "Connection: upgrade\r\nUpgrade: h2c\r\n"
]

/** A request as the body of a request, to every path with every method: a body that no call reads is still a body. */
const nested = (): ReadonlyArray<Shape> => {
  const contract: { readonly paths: object } = JSON.parse(
    readFileSync(join(root, "docs/openapi.json"), "utf8")
  )
  return [...Object.keys(contract.paths), "/webhook/", "/nowhere", "/healthz?x=1"].flatMap((path) =>
    ["GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"].flatMap((method) =>
      [`${length(hidden.length)}\r\n${hidden}`, `${chunked}\r\n${long}${lastChunk}`].map(
        (rest, at): Shape => [
          `${method} ${path} with a request as its body`,
          // Not all of them everywhere: a connection for each takes time.
          `${method} ${path} HTTP/1.1\r\n${host}${more[(at + path.length + method.length) % more.length]}${rest}`
        ]
      )
    )
  )
}

const withHeaders = (lines: string) => `GET /healthz HTTP/1.1\r\n${host}${lines}\r\n`
const chunks = (body: string) => `${post}${chunked}\r\n${body}`

const floods = (): ReadonlyArray<Shape> => [
  // Node counts names and values only.
  ["15,000 headers", withHeaders("a:\r\n".repeat(15_000))],
  ["a long name", withHeaders(`${"x".repeat(15_000)}: y\r\n`)],
  [
    "names of an object",
    withHeaders("__proto__: x\r\nconstructor: y\r\nhasOwnProperty: z\r\ntoString: 1\r\n")
  ],
  ["extensions of 1 KB each", chunks(`${`1;${"x".repeat(1_000)}\r\n \r\n`.repeat(40)}${lastChunk}`)],
  [
    "trailers that name a framing",
    chunks(`${chunkOf("{}")}0\r\n${length(5)}${coding("identity")}Host: other\r\n\r\n`)
  ],
  ["a body in chunks of one byte", chunks(`${chunkOf(" ").repeat(20_000)}${lastChunk}`)],
  ...refused({
    "more than 16 KiB of headers": withHeaders("ab: cd\r\n".repeat(4_200)),
    "a name of more than 16 KiB": withHeaders(`${"x".repeat(17_000)}: y\r\n`),
    "a value of 1 MiB": withHeaders(`X: ${"x".repeat(1_048_576)}\r\n`),
    "a NUL in a value": withHeaders("X: a\u0000b\r\n"),
    "a NUL in a name": withHeaders("X\u0000: a\r\n"),
    "a bare CR in a value": withHeaders("X: a\rb\r\n"),
    "no colon": withHeaders("X\r\n"),
    "no name": withHeaders(": x\r\n"),
    "a space in a name": withHeaders("X y: a\r\n"),
    "a control character in a value": withHeaders("X: a\u0001b\r\n"),
    "an extension of 20 KB": chunks(`2;${"x".repeat(20_000)}\r\n{}\r\n${lastChunk}`),
    "trailers of 40 KB": chunks(`${chunkOf("{}")}0\r\n${`a: ${"b".repeat(40)}\r\n`.repeat(1_000)}\r\n`)
  })
]

/** Requests at once that every client may send on one connection, those of a flood, and the answers that a flood may get at most. */
const [few, flooding, mostAnswered] = [20, 2_000, 500]

/** Sends requests at once on each connection, without reading the answers between them: a few are all answered, a flood is ended. */
const pipelined: Attack["play"] = async ({ count, server }) => {
  const request = get("/api/v1/version")
  const connections = Array.from({ length: Math.min(20, count) }, (_, at) => `127.0.9.${1 + at}`)
  const broken = await inGroups(connections, connections.length, async (from) => {
    const modest = await exchange(server, request.repeat(few), from)
    const flood = await exchange(server, request.repeat(flooding), from)
    return [
      ...[modest, flood].flatMap(({ answers, faults }) => [...answers.flatMap(wrongIn), ...faults]),
      ...(modest.answers.length === few ? [] : [`${modest.answers.length} answers to ${few} requests`]),
      ...(flood.isClosed ? [] : [`a flood of ${flooding} requests does not end its connection`]),
      ...(flood.answers.length > mostAnswered
        ? [`${flood.answers.length} answers to ${flooding} requests, at most ${mostAnswered}`]
        : [])
    ]
  })
  return broken.slice(0, 3)
}

/** Every injection holds it; nothing that the service writes may. */
const marker = "INJECTED"
/** Ends of lines in the forms that some program takes for one, and escapes, as only raw bytes can hold them. */
const injections = [
  `x\r\n X-${marker}: 1`,
  // U+560D and U+560A end in the bytes of CR and LF; U+0085 and U+2028 end lines for some readers.
  Buffer.from(`x\u560d\u560a\u0085\u2028X-${marker}: 1`).toString("latin1"),
  `x\u0085X-${marker}: 1`,
  `x\u009b31m${marker}`,
  `","level":"error","message":"${marker}`
]
const repeatable =
  "X-Request-Id Origin traceparent X-Music-Client-Version X-Org-ID Authorization Idempotency-Key X-Testing-Environment-Key Accept-Encoding Access-Control-Request-Headers Content-Type X-Forwarded-For Forwarded Expect Upgrade X-Silicon-IAM-Event-ID".split(
    " "
  )
const calls = ["GET /api/v1/auth/me", "OPTIONS /api/v1/tings", "DELETE /healthz", "POST /webhook"]

const injected = async (server: AttackedServer, from: string): Promise<ReadonlyArray<string>> => {
  const texts = injections.flatMap((value, next) => {
    const target = value.replace(/\s/g, "+")
    return [
      ...repeatable.map((name, at) => {
        const line = calls[(at + next) % calls.length] ?? ""
        return `${line} HTTP/1.1\r\n${host}${length(0)}${name}: ${value}\r\n\r\n`
      }),
      get(`/${target}`),
      get(`/api/v1/version?${target}`),
      get(`http://${target}/healthz`)
    ]
  })
  const broken = await inGroups(texts, 20, async (text) => {
    const { answers } = await exchange(server, text, from)
    const faults = answers.flatMap((answer) => [
      ...wrongIn(answer),
      ...answer.headers
        .filter((line) => JSON.stringify(line).toUpperCase().includes(marker))
        .map(([name]) => `the header ${name} repeats it`),
      ...(textOf(answer).includes(marker) ? ["the body repeats it"] : [])
    ])
    if (answers.length === 0) faults.push("no answer")
    return faults.map((fault) => `${fault}; sent ${JSON.stringify(text)}`)
  })
  const logged = server.lines().filter((line) => line.includes(marker) || line.includes("\u009b"))
  return [...broken, ...logged.map((line) => `the log repeats it: ${line}`)]
}

export const syntaxAttacks: ReadonlyArray<Attack> = [
  { name: "two framings in one message", play: playShapes(framings) },
  { name: "a request inside a request", play: playShapes(nested) },
  { name: "floods of headers, chunks and trailers", play: playShapes(floods) },
  { name: "floods of requests on one connection", play: pipelined },
  { name: "values that are repeated", play: ({ server }) => injected(server, "127.0.10.1") },
  {
    name: "values in a log for people",
    apart: true,
    play: async ({ start }) =>
      injected(await start({ MUSIC_LOG_FORMAT: "pretty", MUSIC_LOG_LEVEL: "debug" }), "127.0.11.1")
  }
]
