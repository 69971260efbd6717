/** Peers that reset their connection at any time, on both servers of the process, and defects that nothing catches. */
import { connect } from "node:net"
import { Effect } from "effect"
import { assert, beforeAll } from "vitest"
import { call } from "../../sandbox/HttpExchange.ts"
import { eventually } from "../world/Waiting.ts"
import { bundleBefore, metricsUrl, serve } from "../world/Fleet.ts"
import { openPeer } from "../world/RawHttp.ts"
import { it } from "../world/Test.ts"
import { newPath } from "../layers/store/Stores.ts"

beforeAll(bundleBefore)

const serving = (environment: Readonly<Record<string, string>> = {}) =>
  Effect.gen(function* () {
    const database = { MUSIC_DATABASE_PATH: yield* newPath }
    const served = yield* serve({ ...database, MUSIC_ADMIN_BIND: "127.0.0.1:0", ...environment })
    return { ...served, adminPort: Number(new URL(yield* metricsUrl(served)).port) }
  })

const tunnel = "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n"
const upgrading = (path: string) =>
  `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`
const ask = "GET /api/v1/version HTTP/1.1\r\nHost: a\r\n\r\n"
const post = "POST /api/v1/telemetry HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"

const openings: Readonly<Record<string, string>> = {
  connect: tunnel,
  "connect behind a request": ask + tunnel,
  upgrade: upgrading("/metrics"),
  "upgrade with a body": `${post}Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 9\r\n\r\n{`,
  "a body that never arrives": `${post}Expect: 100-continue\r\nContent-Length: 9\r\n\r\n`,
  "garbage behind a request": `${ask}garbage\r\n\r\n`,
  "half a head": "GET / HT",
  "half a body": `${post}Content-Length: 9\r\n\r\n{`,
  "a badly chunked body": `${post}Transfer-Encoding: chunked\r\n\r\nzz\r\n`
}

/** Writes, waits so many milliseconds, and resets the connection. */
const reset = (port: number, text: string, milliseconds: number) =>
  Effect.async<void>((resume) => {
    const socket = connect(port, "127.0.0.1", () =>
      socket.write(text, () => setTimeout(() => socket.resetAndDestroy(), milliseconds))
    )
    socket.on("error", () => undefined)
    socket.on("close", () => resume(Effect.void))
  })

it.scopedLive("A peer's reset ends only its own connection; an upgrade is a plain request", function* () {
  const { adminPort, base, port, server } = yield* serving()
  for (const [name, text] of Object.entries(openings)) {
    const resets = [port, adminPort].flatMap((target) =>
      [0, 0, 1, 3, 10].map((wait) => reset(target, text, wait))
    )
    yield* Effect.all(resets, { concurrency: "unbounded" })
    const isAlive = server.child.exitCode === null && server.child.signalCode === null
    assert.isTrue(isAlive, `${name}:\n${server.output().slice(-1_500)}`)
  }
  for (const url of [`${base}/api/v1/version`, `http://127.0.0.1:${adminPort}/healthz`])
    assert.strictEqual((yield* call(url)).status, 200)
  for (const target of [port, adminPort]) {
    const plain = yield* openPeer(target, upgrading("/healthz"))
    yield* eventually("an answer", () => plain.text().includes("}"))
    assert.match(plain.text(), /^HTTP\/1\.1 200 /)
  }
  const { closed } = yield* openPeer(adminPort, tunnel)
  yield* eventually("the end of the tunnel", closed)
  assert.notMatch(server.output(), /"level":"(?:fatal|error)"|^\s+at /m)
})

it.scopedLive("A defect that nothing catches is one line with its stack, and exit code 1", function* () {
  // Node throws a rejection that nothing handles.
  const code = "Promise.reject(new Error('boom'))"
  const preload = `process.on("SIGUSR2", () => { ${code} })`
  const { server } = yield* serving({
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(preload)}`
  })
  server.child.kill("SIGUSR2")
  assert.strictEqual((yield* Effect.promise(() => server.ended)).code, 1)
  const [line = "{}", ...more] = server.output().match(/^.*"level":"fatal".*$/gm) ?? []
  assert.isEmpty(more)
  assert.match(JSON.stringify(JSON.parse(line).cause), /Error: boom.*\\n\s+at /)
})
