/** Requests behind others on a connection, and unusual ones. Malformed ones are in the table of inputs. */
import { expect } from "vitest"
import { Effect, Fiber } from "effect"
import { openPeer } from "../world/RawHttp.ts"
import { sharing } from "../world/Test.ts"
import { awaited, until } from "../world/Waiting.ts"
import { goodRequests, raw, requestLines, shared, sharedOnSocket, textOf, used } from "./support.ts"

const webhookHead = (version: string) =>
  `POST /webhook HTTP/${version}\r\nHost: a\r\nContent-Type: application/json\r\n`
const chunked = "Transfer-Encoding: chunked\r\n\r\n"
const get = "GET /healthz HTTP/1.1\r\nHost: a\r\n"
const close = "Connection: close\r\n\r\n"
const upgrade = "Connection: Upgrade\r\nUpgrade: h2c\r\n"

/** Bytes behind a request, the status, and the path of `details.fields`. */
const refused = [
  ["garbage\r\n\r\n", "400"],
  ["CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", "404"],
  [`${get}X: ${"x".repeat(17_000)}\r\n\r\n`, "431"],
  [`${webhookHead("1.1")}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`, "400", "Transfer-Encoding"],
  [`${webhookHead("1.0")}Connection: keep-alive\r\n${chunked}0\r\n\r\n`, "400", "Transfer-Encoding"],
  [`${webhookHead("2.0")}Content-Length: 0\r\n\r\n`, "400", "HTTP version"],
  [`${webhookHead("2.0")}Expect: 100-continue\r\nContent-Length: 0\r\n\r\n`, "400", "HTTP version"]
] as const

const statuses = (text: string) => text.match(/(?<=HTTP\/1\.1 )\d+/g)

sharing(sharedOnSocket())("Bytes on a connection", (it) => {
  it.effect("behind requests are refused after their answers, and no more is read", function* () {
    const server = yield* shared
    const { login } = yield* goodRequests(server)
    server.during.login = Effect.promise(() => new Promise<void>((resolve) => setTimeout(resolve, 20)))
    for (const [text, status, path] of refused) {
      server.reached.length = 0
      const answers = yield* raw(server, Buffer.from(textOf(login) + text + textOf(login) + text, "latin1"))
      expect([text, statuses(answers), used(server)]).toEqual([text, ["200", status], ["login"]])
      const last = answers.slice(answers.lastIndexOf("\r\n\r\n"))
      if (path !== undefined) expect(last).toContain(`"path":"${path}"`)
    }
  })

  it.scoped("whose client leaves before the answers leave nothing behind, and are recorded so", function* () {
    const server = yield* shared
    const { login } = yield* goodRequests(server)
    const fibers = Effect.map(Fiber.roots, (roots) => roots.length)
    const before = yield* fibers
    server.reached.length = 0
    let finish = () => {}
    server.during.login = Effect.async((resume) => {
      finish = () => resume(Effect.void)
    })
    const behind = ["GET /docs", "HEAD /docs", "GET /nowhere", "HEAD /nowhere", "OPTIONS /docs"]
    const texts = behind.map((line) => `${line} HTTP/1.1\r\nHost: a\r\n\r\n`)
    const peer = yield* openPeer(server.port, textOf(login) + texts.join("") + textOf(login).slice(0, -1))
    yield* until(() => server.reached.length > 0)
    peer.socket.resetAndDestroy()
    yield* until(() => peer.closed())
    finish()
    yield* awaited("no fiber of the connection", fibers, (count) => count <= before)
    const ends = requestLines(server).filter(({ fields }) => fields.method === "POST")
    expect(ends.map(({ fields }) => fields.status)).toEqual([499, 499])
  })

  it.effect("that are unusual and well-formed are served", function* () {
    const server = yield* shared
    const { receive } = yield* goodRequests(server)
    const { environmentId, musicSecret } = server.upstreams.seeded.environment
    const chunk = `${Buffer.byteLength(receive.body).toString(16)}\r\n${receive.body}\r\n0\r\n\r\n`
    const [head = ""] = textOf({ ...receive, body: "" }).split("\r\n\r\n")
    const many = Array.from({ length: 2_200 }, (_, at) => `a${at % 10}:\r\n`).join("")
    const refusedBody = `${webhookHead("1.1").replace("json", "x")}Content-Length: 5\r\n\r\nhello`
    for (const [text, expected, part = ""] of [
      [`${head}\r\nConnection: close\r\nTransfer-Encoding: CHUNKED\r\n\r\n${chunk}`, ["200"]],
      [`${get}Expect: 100-continue\r\n${close}`, ["100", "200"]],
      // A refused body of a known length is read to its end.
      [`${refusedBody}${get}${close}`, ["415", "200"]],
      // Node drops what arrives behind a request for an upgrade.
      [`${get}${upgrade}\r\n${get}\r\n`, ["200"], "connection: close"],
      [`${head}\r\n${upgrade}${chunked}${chunk}${get}\r\n`, ["200"], "connection: close"],
      // The selector is read behind many other headers.
      [
        `GET /api/v1/iam HTTP/1.1\r\nHost: a\r\n${many}X-TESTING-Environment-Key:\t${musicSecret}\t\r\n${close}`,
        ["200"],
        environmentId
      ]
    ] as const) {
      const answers = yield* raw(server, text)
      expect([text, statuses(answers), answers]).toEqual([text, expected, expect.stringContaining(part)])
    }
    // As long as the answer says, the next request may follow.
    const { headers } = yield* server.send({ path: "/healthz" })
    expect([headers.connection, headers["keep-alive"]]).toEqual(["keep-alive", "timeout=65"])
  })
})
