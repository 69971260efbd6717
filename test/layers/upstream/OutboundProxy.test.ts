import { describe, expect } from "vitest"
import { it } from "../../world/Test.ts"
import { HttpClient } from "@effect/platform/HttpClient"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import {
  Connections,
  OutboundProxy,
  type OutboundProxySettings
} from "../../../src/layers/upstream/Connections.ts"
import { jsonBody, makeSend } from "../../../src/layers/upstream/Upstream.ts"
import { tunnelProxy } from "../../world/Egress.ts"
import { until } from "../../world/Waiting.ts"
import { rawServer, rawSocket } from "./Simulated.ts"

/** Requests of a process with these proxies, each to a URL. */
const through = (settings: OutboundProxySettings) =>
  Effect.map(
    Layer.build(Layer.provide(Connections, Layer.succeed(OutboundProxy, settings))),
    (context) => (url: string) =>
      makeSend(Context.get(context, HttpClient), {
        dependency: "iam",
        url,
        timeoutSeconds: 60,
        maxResponseBytes: 100
      })({ method: "POST", path: "/", headers: {}, body: jsonBody("{}") })
  )

const at = (port: number, user = "") => Option.some(Redacted.make(`http://${user}127.0.0.1:${port}`))

/** An entry of NO_PROXY, a URL, and the way there. This machine is reached without a proxy. */
const ways: ReadonlyArray<readonly [entry: string, url: string, way: string]> = [
  ["none.example", "https://iam.example", "https"],
  ["none.example", "http://collector.example:4318", "http"],
  ...["localhost", "127.0.0.1", "[::1]"].map(
    (host) => ["none.example", `http://${host}:1`, "direct"] as const
  ),
  ["none.example", "https://127.0.0.1.example", "https"],
  ["iam.example", "https://iam.example", "direct"],
  ["IAM.example", "https://iam.EXAMPLE", "direct"],
  [".iam.example", "https://iam.example", "direct"],
  ["*.iam.example", "https://eu.iam.example", "direct"],
  ["iam.example", "https://notiam.example", "https"],
  ["iam.example:443", "https://iam.example", "direct"],
  ["iam.example:8443", "https://iam.example", "https"],
  ["192.0.2.1", "https://192.0.2.1", "direct"],
  ["192.0.2.1", "https://192.0.2.2", "https"],
  ["fd00::1", "https://[fd00::1]", "direct"],
  ["[fd00::1]", "https://[fe80::1]", "https"],
  ["[fd00::1]:443", "https://[fd00::1]", "direct"],
  ["*", "https://iam.example", "direct"]
]

describe("The proxy of a connection", () => {
  it.scopedLive("follows the scheme and NO_PROXY", function* () {
    const wayOf = ([entry, url]: (typeof ways)[number]) =>
      Effect.gen(function* () {
        const http = yield* tunnelProxy({}, 403)
        const https = yield* tunnelProxy({}, 403)
        const proxies = { http: at(http.port), https: at(https.port), except: ["other.example", entry] }
        const exchange = yield* through(proxies)
        yield* Effect.flip(exchange(url))
        const way = https.targets.length > 0 ? "https" : http.targets.length > 0 ? "http" : "direct"
        return [entry, url, way]
      })
    expect(yield* Effect.forEach(ways, wayOf, { concurrency: "unbounded" })).toEqual(ways)
  })

  it.scopedLive("for http serves https as well where no other one is set", function* () {
    const proxy = yield* tunnelProxy({}, 403)
    const exchange = yield* through({ http: at(proxy.port), https: Option.none(), except: [] })
    yield* Effect.flip(exchange("https://iam.example"))
    expect(proxy.targets).toEqual(["iam.example:443"])
  })
})

const url = "http://iam.music.test"
const target = "iam.music.test:80"

const throughPort = (port: number) =>
  Effect.map(through({ http: at(port, "user:p%40ss@"), https: Option.none(), except: [] }), (exchange) =>
    exchange(url)
  )

describe("A request through a proxy", () => {
  it.scopedLive(
    "is sent in a tunnel, which later requests use too, and the credentials reach only the proxy",
    function* () {
      const seen: Array<string | undefined> = []
      const server = yield* rawServer((received, response) => {
        seen.push(received.headers["proxy-authorization"], received.headers.host)
        received.resume()
        response.end("answer")
      })
      const ports = { [target]: Number(new URL(server.url).port) }
      const { credentials, port, targets } = yield* tunnelProxy(ports)
      const post = yield* throughPort(port)
      for (let call = 0; call < 3; call += 1) {
        expect(yield* post).toMatchObject({ status: 200 })
        // The connection is free once the callbacks of the answer are over.
        yield* Effect.promise(() => new Promise((wake) => setImmediate(wake)))
      }
      expect(targets).toEqual([target])
      expect(credentials).toEqual([`Basic ${Buffer.from("user:p@ss").toString("base64")}`])
      const once = [undefined, "iam.music.test"]
      expect(seen).toEqual([...once, ...once, ...once])
    }
  )

  it.scopedLive("that gives no tunnel was not sent", function* () {
    const refusals = [
      [407, "the proxy refuses its credentials (407)"],
      [403, "the proxy refuses the connection (403)"],
      [502, "the proxy refuses the connection (502)"],
      ["hang", "the proxy cannot be reached (UND_ERR_HEADERS_TIMEOUT)"]
    ] as const
    for (const [refusal, reason] of refusals) {
      const { port } = yield* tunnelProxy({}, refusal)
      const failure = yield* Effect.flip(yield* throughPort(port))
      expect(failure).toMatchObject({ _tag: "NotExecuted", reason: `no connection: ${reason}` })
    }
    const away = yield* Effect.flip(yield* throughPort(1))
    const reason = "no connection: the proxy cannot be reached (ECONNREFUSED)"
    expect(away).toMatchObject({ _tag: "NotExecuted", reason })
  })

  it.scopedLive("whose tunnel breaks after the request may have arrived", function* () {
    let cut = (): void => undefined
    const server = yield* rawServer(() => cut())
    const proxy = yield* tunnelProxy({ [target]: Number(new URL(server.url).port) })
    cut = proxy.cut
    const failure = yield* Effect.flip(yield* throughPort(proxy.port))
    expect(failure).toMatchObject({
      _tag: "Unknown",
      reason: expect.stringMatching(/^lost the connection: /)
    })
  })

  it.scopedLive("is never sent when its caller leaves before there is a tunnel", function* () {
    let posts = 0
    const waiting: Array<() => void> = []
    const proxy = yield* rawSocket((socket) =>
      socket.on("data", (bytes) => {
        if (bytes.toString().startsWith("CONNECT"))
          waiting.push(() => socket.write("HTTP/1.1 200 Connection established\r\n\r\n"))
        else {
          posts += 1
          socket.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        }
      })
    )
    const post = yield* throughPort(proxy.port)
    const leaving = yield* Effect.fork(post)
    yield* until(() => waiting.length === 1)
    yield* Fiber.interrupt(leaving)
    const staying = yield* Effect.fork(post)
    yield* until(() => {
      for (const open of waiting.splice(0)) open()
      return posts > 0
    })
    yield* Fiber.join(staying)
    expect(posts).toBe(1)
  })
})
