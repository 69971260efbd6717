import { describe, expect } from "vitest"
import { it } from "../../world/Test.ts"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { OutboundProxy, proxyFor } from "../../../src/layers/upstream/OutboundProxy.ts"
import { UndiciTransport } from "../../../src/layers/upstream/UndiciTransport.ts"
import {
  type Delivery,
  type Send,
  UpstreamTransport
} from "../../../src/layers/upstream/UpstreamTransport.ts"
import { unsafeMonotonicMillis } from "../../../src/services/MonotonicTime.ts"
import { tunnelProxy } from "../../world/Egress.ts"
import { rawServer } from "./Simulated.ts"

const http = Option.some(Redacted.make("http://proxy.music.test:1"))
const https = Option.some(Redacted.make("http://proxy.music.test:2"))

/** An entry of NO_PROXY, a URL, and the way there. This machine is reached without a proxy. */
const ways: ReadonlyArray<readonly [entry: string, url: string, way: string]> = [
  ["none.example", "https://iam.example", "https"],
  ["none.example", "http://collector.example:4318", "http"],
  ...["localhost", "127.0.0.1", "127.9.9.9", "[::1]"].map(
    (host) => ["none.example", `http://${host}:8080`, "direct"] as const
  ),
  ["none.example", "https://127.0.0.1.example", "https"],
  ["iam.example", "https://iam.example", "direct"],
  ["IAM.example", "https://iam.EXAMPLE", "direct"],
  [".iam.example", "https://iam.example", "direct"],
  ["*.iam.example", "https://eu.iam.example", "direct"],
  ["iam.example", "https://notiam.example", "https"],
  ["iam.example:443", "https://iam.example", "direct"],
  ["iam.example:8443", "https://iam.example", "https"],
  ["10.0.0.0/8", "https://10.1.2.3", "direct"],
  ["10.0.0.0/99", "https://10.1.2.3", "https"],
  ["fd00::/8", "https://[fd00::1]", "direct"],
  ["[fd00::]/8", "https://[fd00::1]", "direct"],
  ["[fd00::]/8", "https://[fe80::1]", "https"],
  ["[fd00::1]:443", "https://[fd00::1]", "direct"],
  ["*", "https://iam.example", "direct"]
]

it("The proxy of a connection follows the scheme and NO_PROXY", () => {
  for (const [entry, url, way] of ways) {
    const { hostname, port, protocol } = new URL(url)
    const target = { hostname, protocol, port: port === "" ? (protocol === "https:" ? "443" : "80") : port }
    const proxy = proxyFor({ http, https, except: ["other.example", entry] }, target)
    const found = proxy === https ? "https" : proxy === http ? "http" : "direct"
    expect([entry, url, found]).toEqual([entry, url, way])
  }
})

const through = (port: number) => {
  const proxy = Option.some(Redacted.make(`http://user:p%40ss@127.0.0.1:${port}`))
  const settings = Layer.succeed(OutboundProxy, { http: proxy, https: Option.none(), except: [] })
  return Effect.map(Layer.build(Layer.provide(UndiciTransport, settings)), (context) =>
    request(Context.get(context, UpstreamTransport).send)
  )
}

/** One request to a host that only the proxy knows. */
const request = (send: Send): Effect.Effect<Delivery> =>
  Effect.clockWith((clock) =>
    Effect.async<Delivery>((resume) => {
      send(
        {
          origin: "http://iam.music.test",
          path: "/",
          method: "POST",
          headers: {},
          body: "body",
          maxResponseBytes: 100,
          deadlineAt: unsafeMonotonicMillis(clock) + 60_000
        },
        (delivery) => resume(Effect.succeed(delivery))
      )
    })
  )

const target = "iam.music.test:80"

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
      const post = yield* through(port)
      for (let call = 0; call < 3; call += 1) {
        expect(yield* post).toMatchObject({ _tag: "Answered", status: 200 })
        // The connection is free once the callbacks of the answer are over.
        yield* Effect.promise(() => new Promise((wake) => setImmediate(wake)))
      }
      expect(targets).toEqual([target])
      expect(credentials).toEqual([`Basic ${Buffer.from("user:p@ss").toString("base64")}`])
      const once = [undefined, "iam.music.test"]
      expect(seen).toEqual([...once, ...once, ...once])
    }
  )

  it.scopedLive("that refuses was not sent", function* () {
    for (const refusal of [407, 403, 502]) {
      const { port } = yield* tunnelProxy({}, refusal)
      expect(yield* yield* through(port)).toEqual({ _tag: "NotSent", code: `PROXY_${refusal}` })
    }
  })

  it.scopedLive("whose tunnel breaks after the request may have arrived", function* () {
    let cut = (): void => undefined
    const server = yield* rawServer(() => cut())
    const proxy = yield* tunnelProxy({ [target]: Number(new URL(server.url).port) })
    cut = proxy.cut
    expect(yield* yield* through(proxy.port)).toMatchObject({ _tag: "Lost", withinResponse: false })
  })
})
