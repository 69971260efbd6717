import { IncomingMessage } from "node:http"
import { connect, Socket } from "node:net"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { describe, expect } from "vitest"
import { it } from "../../world/Test.ts"
import * as Effect from "effect/Effect"
import { readBytes } from "../../../src/http/body/BodyReader.ts"
import { type Backend, sharedBackend, call, errorOf, good, parseRaw, type Sent } from "../support.ts"

const bounds = {
  login: 16_384,
  refresh: 16_384,
  logout: 16_384,
  subscribe: 16_384,
  send: 524_288,
  submit: 524_288,
  accept: 65_536,
  receive: 1_048_576
} as const

/** The good body, padded with white space to an exact size. */
const padded = (sent: Sent, size: number): string => String(sent.body).padEnd(size, " ")

const inChunks = (text: string): ReadonlyArray<string> => {
  const size = Math.ceil(text.length / 7)
  return Array.from({ length: 7 }, (_, at) => text.slice(at * size, (at + 1) * size)).filter(
    (part) => part !== ""
  )
}

const expectTooLarge = (answer: { status: number; headers: Record<string, unknown>; text: string }) => {
  expect([answer.status, answer.headers.connection]).toEqual([413, "close"])
  expect(JSON.parse(answer.text).error.code).toBe("payload_too_large")
  expect(answer.headers["x-request-id"]).toBeDefined()
}

describe("The bound of a body", () => {
  for (const [name, bound] of Object.entries(bounds) as ReadonlyArray<[keyof typeof bounds, number]>) {
    it.scoped(
      `${name}: ${bound} bytes pass, one more is 413, with a declared length and in chunks`,
      function* () {
        const server = yield* sharedBackend
        const sent = good[name]
        for (const size of [bound, bound + 1]) {
          const body = padded(sent, size)
          const declared = yield* call(server, { ...sent, body })
          const chunked = yield* call(server, {
            method: sent.method,
            path: sent.path,
            headers: sent.headers,
            chunks: inChunks(body)
          })
          if (size > bound) {
            expectTooLarge(declared)
            expectTooLarge(chunked)
          } else
            expect([declared.status, chunked.status]).toEqual([expect.toSatisfy(isSuccess), declared.status])
        }
        expect(server.reached.filter(({ useCase }) => useCase === name).length).toBe(2)
      }
    )
  }

  it.scoped("sends its 413 also to a client that writes 8 MiB before it reads", function* () {
    const server = yield* sharedBackend
    const body = "x".repeat(8 * 1_048_576)
    const head = "POST /api/v1/telemetry HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    const declared = parseRaw(
      yield* sentBlindly(server, `${head}Content-Length: ${body.length}\r\n\r\n${body}`)
    )
    expectTooLarge(declared)
    const chunk = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
    expectTooLarge(parseRaw(yield* sentBlindly(server, `${head}Transfer-Encoding: chunked\r\n\r\n${chunk}`)))
    expect(server.reached).toEqual([])
  })
})

describe("A body in chunks of one byte", () => {
  const size = 262_144

  it("is read exactly, and takes little more memory than its bytes while it arrives", async () => {
    setFlagsFromString("--expose-gc")
    const collect: () => void = runInNewContext("gc")
    const message = new IncomingMessage(new Socket())
    const bytes = Buffer.from(Array.from({ length: size }, (_, at) => at % 251))
    collect()
    const before = process.memoryUsage().heapUsed
    const read = Effect.runPromise(readBytes(message, 2 * size, () => () => undefined))
    for (let at = 0; at < size; at += 1) message.emit("data", bytes.subarray(at, at + 1))
    collect()
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(8 * size)
    message.emit("end")
    expect(bytes.equals(await read)).toBe(true)
  })
})

const isSuccess = (status: unknown) => status === 200 || status === 204

/** Writes the whole request before it reads, as simple clients do. */
const sentBlindly = (server: Backend, text: string): Effect.Effect<string> =>
  Effect.promise(
    () =>
      new Promise<string>((resolve, reject) => {
        const parts: Array<Buffer> = []
        const socket = connect(server.port, "127.0.0.1")
        socket.pause()
        socket.on("error", reject)
        socket.on("data", (part) => parts.push(part))
        socket.on("close", () => resolve(Buffer.concat(parts).toString("utf8")))
        socket.write(text, () => socket.resume())
      })
  )

describe("A body that is not valid", () => {
  const login = (body: string | Uint8Array): Sent => ({ ...good.login, body })

  it.scoped.each<[string, string | Uint8Array, string, string]>([
    ["truncated JSON", '{"slt":"oac_1"', "body", "is not valid JSON"],
    ["an unknown field", '{"slt":"a","for":"b"}', "for", "is not a known field"]
  ])("%s is 400 and names its field", function* ([, body, path, problem]) {
    const server = yield* sharedBackend
    const answer = yield* call(server, login(body))
    expect([answer.status, errorOf(answer).code]).toEqual([400, "invalid_input"])
    expect(errorOf(answer).details?.fields).toEqual([{ path, problem }])
    expect(server.reached).toEqual([])
  })
})

describe("The webhook's body", () => {
  it.scoped("reaches the use case byte by byte, with the raw list of headers", function* () {
    const server = yield* sharedBackend
    const body = Buffer.from([0x7b, 0x20, 0xff, 0x00, 0x0a])
    yield* call(server, {
      ...good.receive,
      headers: ["Content-Type", "application/json", "X-Twice", "a", "x-twice", "b"],
      chunks: [body.subarray(0, 2), body.subarray(2)]
    })
    const event = server.reached[0]?.input as { data: { rawHeaders: Array<string>; body: Uint8Array } }
    expect(Buffer.from(event.data.body)).toEqual(body)
    expect(event.data.rawHeaders.join("\n")).toContain("X-Twice\na\nx-twice\nb")
  })
})

describe("A body that never arrives completely", () => {
  it.scoped("is answered with 400 when the client cuts it off, and no use case runs", function* () {
    const server = yield* sharedBackend
    const answer = yield* Effect.promise(
      () =>
        new Promise<string>((resolve) => {
          const socket = connect({ port: server.port, host: "127.0.0.1", allowHalfOpen: true }, () => {
            socket.end(
              "POST /webhook HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{}"
            )
          })
          let text = ""
          socket.on("data", (part) => {
            text += part.toString()
          })
          socket.on("end", () => resolve(text))
          socket.on("error", () => resolve(text))
        })
    )
    expect([parseRaw(answer).status, errorOf(parseRaw(answer)).code]).toEqual([400, "invalid_input"])
    expect(server.reached).toEqual([])
  })
})
