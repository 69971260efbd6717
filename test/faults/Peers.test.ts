/** Peers that reset their connection at any time, on both servers of the process. */
import { connect } from "node:net"
import { join } from "node:path"
import { assert, describe } from "vitest"
import { it } from "../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import { call } from "../../sandbox/HttpExchange.ts"
import { bundleBefore, connection, metricsUrl, serve } from "./Processes.ts"
import { eventually } from "../support/Waiting.ts"
import { folder } from "../layers/store/Stores.ts"

bundleBefore()

const serving = (environment: Readonly<Record<string, string>> = {}) =>
  Effect.gen(function* () {
    const served = yield* serve({
      MUSIC_DATABASE_PATH: join(yield* folder, "music.sqlite"),
      MUSIC_ADMIN_BIND: "127.0.0.1:0",
      ...environment
    })
    return { ...served, adminPort: Number(new URL(yield* metricsUrl(served)).port) }
  })

const connectRequest = "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n"
const upgrading = (path: string) =>
  `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`
const ask = "GET /api/v1/version HTTP/1.1\r\nHost: a\r\n\r\n"
const post = "POST /api/v1/telemetry HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"

const openings: Readonly<Record<string, string>> = {
  connect: connectRequest,
  "connect behind a request": ask + connectRequest,
  "connect behind a body": `${post}Content-Length: 2\r\n\r\n{}${connectRequest}`,
  "connect twice": connectRequest + connectRequest,
  upgrade: upgrading("/metrics"),
  "upgrade with a body": `${post}Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 9\r\n\r\n{`,
  "upgrade behind a request": ask + upgrading("/healthz"),
  "a body that never arrives": `${post}Expect: 100-continue\r\nContent-Length: 9\r\n\r\n`,
  "another expectation": `${post}Expect: else\r\nContent-Length: 9\r\n\r\n`,
  garbage: "\x16\x03\x01\r\n\r\n",
  "garbage behind a request": `${ask}garbage\r\n\r\n`,
  "half a head": "GET / HT",
  "half a body": `${post}Content-Length: 9\r\n\r\n{`,
  "a badly chunked body": `${post}Transfer-Encoding: chunked\r\n\r\nzz\r\n`
}

/** Writes, waits so many milliseconds, and resets the connection. */
const reset = (port: number, text: string, milliseconds: number) =>
  Effect.async<void>((resume) => {
    const socket = connect(port, "127.0.0.1", () =>
      socket.write(text, () => {
        if (milliseconds === 0) socket.resetAndDestroy()
        else setTimeout(() => socket.resetAndDestroy(), milliseconds)
      })
    )
    socket.on("error", () => undefined)
    socket.on("close", () => resume(Effect.void))
  })

describe.concurrent("A peer that resets", () => {
  it.scopedLive("ends only its own connection, at any stage of a request and on both servers", function* () {
    const { adminPort, base, port, server } = yield* serving()
    for (const [name, text] of Object.entries(openings)) {
      const attempts = [0, 0, 1, 3, 10].flatMap((wait) => [
        reset(port, text, wait),
        reset(adminPort, text, wait)
      ])
      yield* Effect.all(attempts, { concurrency: "unbounded" })
      const alive = server.child.exitCode === null && server.child.signalCode === null
      assert.isTrue(alive, `${name}:\n${server.output().slice(-1_500)}`)
    }
    const answers = yield* Effect.all([
      call(`${base}/healthz`),
      call(`http://127.0.0.1:${adminPort}/healthz`),
      call(`${base}/api/v1/version`)
    ])
    deepStrictEqual(
      answers.map(({ status }) => status),
      [200, 200, 200]
    )
    assert.notMatch(server.output(), /"level":"(?:fatal|error)"|^\s+at /m)
  })

  it.scopedLive("an upgrade is answered as an ordinary request, and CONNECT is closed", function* () {
    const { adminPort, port } = yield* serving()
    const plain = yield* connection(port)
    plain.socket.write(upgrading("/healthz"))
    const metrics = yield* connection(adminPort)
    metrics.socket.write(upgrading("/healthz"))
    const tunnel = yield* connection(adminPort)
    tunnel.socket.write(connectRequest)
    yield* eventually("answers", () => plain.text().includes("}") && metrics.text().includes("}"))
    assert.match(plain.text(), /^HTTP\/1\.1 200 /)
    assert.match(metrics.text(), /^HTTP\/1\.1 200 /)
    yield* eventually("the end of the tunnel", () => tunnel.socket.destroyed || tunnel.socket.readableEnded)
  })
})

describe.concurrent("An uncaught defect", () => {
  it.scopedLive.each([
    ["thrown", "throw new Error('boom')"],
    ["rejected", "Promise.reject(new Error('boom'))"]
  ])("%s, is logged as one line with its stack, and ends the process with exit code 1", function* ([, code]) {
    const preload = `process.on("SIGUSR2", () => { ${code} })`
    const { server } = yield* serving({
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(preload)}`
    })
    server.child.kill("SIGUSR2")
    const { code: exit } = yield* Effect.promise(() => server.ended)
    deepStrictEqual(exit, 1)
    const lines = server
      .output()
      .split("\n")
      .filter((line) => line.includes('"level":"fatal"'))
      .map((line): unknown => JSON.parse(line))
    deepStrictEqual(lines.length, 1)
    const [last] = lines
    assert.isTrue(typeof last === "object" && last !== null && "cause" in last)
    assert.match(JSON.stringify(last), /Error: boom.*\\n\s+at /)
  })
})
