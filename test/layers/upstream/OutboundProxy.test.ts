import { afterEach, describe, expect, vi } from "vitest"
import { it } from "../../world/Test.ts"
import * as HttpBody from "@effect/platform/HttpBody"
import { HttpClient } from "@effect/platform/HttpClient"
import { Context, Effect, Layer } from "effect"
import { Connections } from "../../../src/layers/upstream/Connections.ts"
import { makeSend } from "../../../src/layers/upstream/Upstream.ts"
import { tunnelProxy } from "../../world/Egress.ts"
import { rawServer } from "./Simulated.ts"

afterEach(() => vi.unstubAllEnvs())

/** Requests of a process with these proxies, each to a URL. */
const through = (proxies: Readonly<Record<string, string>>) =>
  Effect.suspend(() => {
    for (const name of ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"])
      vi.stubEnv(name, proxies[name])
    return Layer.build(Connections)
  }).pipe(
    Effect.map(
      (context) => (url: string) =>
        makeSend(Context.get(context, HttpClient), {
          dependency: "iam",
          url,
          timeoutSeconds: 60,
          maxResponseBytes: 100
        })({ method: "POST", path: "/", headers: {}, body: HttpBody.unsafeJson({}) })
    )
  )

const at = (port: number, user = "") => `http://${user}127.0.0.1:${port}`

it.scopedLive("A proxy follows the scheme, and neither NO_PROXY nor this machine has one", function* () {
  const http = yield* tunnelProxy({}, 403)
  const https = yield* tunnelProxy({}, 403)
  const send = yield* through({
    http_proxy: at(http.port),
    HTTPS_PROXY: at(https.port),
    NO_PROXY: "other.example, iam.example"
  })
  const direct = ["https://iam.example", "http://localhost:1", "http://127.0.0.2:1", "http://[::1]:1"]
  for (const url of ["https://ting.example", "http://collector.example:4318", ...direct])
    yield* Effect.flip(send(url))
  expect([https.targets, http.targets]).toEqual([["ting.example:443"], ["collector.example:4318"]])
})

const url = "http://iam.music.test"
const target = "iam.music.test:80"

const throughPort = (port: number) =>
  Effect.map(through({ HTTP_PROXY: at(port, "user:p%40ss@") }), (exchange) => exchange(url))

describe("A request through a proxy", () => {
  it.scopedLive("is sent in a tunnel that is kept, and credentials reach only the proxy", function* () {
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
  })

  it.scopedLive("that gives no tunnel was not sent", function* () {
    const refusals = [
      [407, "PROXY_407"],
      [502, "PROXY_502"],
      ["hang", "PROXY_UND_ERR_HEADERS_TIMEOUT"]
    ] as const
    for (const [refusal, code] of refusals) {
      const { port } = yield* tunnelProxy({}, refusal)
      const failure = yield* Effect.flip(yield* throughPort(port))
      expect(failure).toMatchObject({ _tag: "NotExecuted", reason: `no connection: ${code}` })
    }
    const away = yield* Effect.flip(yield* throughPort(1))
    const reason = "no connection: PROXY_ECONNREFUSED"
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
})
