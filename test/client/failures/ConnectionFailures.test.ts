/** Failures of the network: their cause in words and in `details`, and whether they are retried. Real sockets where loopback has the fault. */
import { once } from "node:events"
import { readFileSync } from "node:fs"
import { createServer } from "node:http"
import { createServer as createTlsServer } from "node:https"
import type { AddressInfo, Server } from "node:net"
import { afterEach, describe, expect, it } from "vitest"
import { describeConnectionFailure } from "../../../client/failures/ConnectionFailures.ts"
import { type ClientEvent, createMusicClient, type MusicError } from "../../../client/index.ts"
import type { ConnectionReason } from "../../../client/Types.ts"
import { stubService } from "../support/StubService.ts"

const servers: Array<Server> = []
afterEach(() => {
  for (const server of servers.splice(0)) server.close()
})

const portOf = async (server: Server): Promise<number> => {
  servers.push(server)
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const { port } = server.address() as AddressInfo
  return port
}

/** The error of a call, and how many attempts it had. */
const call = async (
  baseUrl: string,
  fetch: typeof globalThis.fetch = globalThis.fetch
): Promise<{ readonly error: MusicError | undefined; readonly attempts: number }> => {
  const events: Array<ClientEvent> = []
  const controller = new AbortController()
  const attempts = () => events.filter(({ type }) => type === "request").length
  const client = createMusicClient({
    baseUrl,
    source: "cli",
    telemetry: false,
    fetch,
    random: () => 0,
    onEvent: (event) => {
      events.push(event)
      if (attempts() > 1) controller.abort()
    }
  })
  await client.version({ signal: controller.signal })
  const first = events.find((event) => event.type === "response")
  return {
    error: first?.error,
    attempts: attempts()
  }
}

const rejecting =
  (cause: unknown): typeof globalThis.fetch =>
  () =>
    Promise.reject(new TypeError("fetch failed", { cause }))

const withCode = (code: string) => Object.assign(new Error("m"), { code })

describe("A network failure", () => {
  it("is named and retried when nothing listens at the port", async () => {
    const gone = createServer()
    const port = await portOf(gone)
    gone.close()
    await once(gone, "close")
    const { attempts, error } = await call(`http://127.0.0.1:${port}`)
    expect(error).toMatchObject({
      code: "transport_failed",
      retryable: true,
      details: { reason: "refused" },
      message: expect.stringContaining(`127.0.0.1:${port}`)
    })
    expect(attempts).toBeGreaterThan(1)
  })

  it("is named and retried when the connection breaks before the answer", async () => {
    const port = await portOf(createServer((request) => request.socket.destroy()))
    const { attempts, error } = await call(`http://127.0.0.1:${port}`)
    expect(error).toMatchObject({ details: { reason: "connection_lost" }, retryable: true })
    expect(attempts).toBeGreaterThan(1)
  })

  it("is not retried when the certificate is not accepted", async () => {
    const pem = (name: string) => readFileSync(new URL(`../fixtures/${name}`, import.meta.url))
    const port = await portOf(
      createTlsServer({ key: pem("self-signed-key.pem"), cert: pem("self-signed.pem") })
    )
    const { attempts, error } = await call(`https://localhost:${port}`)
    expect(error).toMatchObject({
      code: "transport_failed",
      retryable: false,
      details: { reason: "certificate" },
      hint: expect.stringContaining("certificate")
    })
    expect(attempts).toBe(1)
  })

  it("is not retried when the port does not speak TLS", async () => {
    const port = await portOf(createServer())
    const { attempts, error } = await call(`https://127.0.0.1:${port}`)
    expect(error).toMatchObject({ retryable: false, details: { reason: "tls" } })
    expect(attempts).toBe(1)
  })

  it("is not retried when the name is not known", async () => {
    const { attempts, error } = await call("https://music.example", rejecting(withCode("ENOTFOUND")))
    expect(error).toMatchObject({
      retryable: false,
      details: { reason: "name_not_found" },
      message: "music.example: the host name is not known. (ENOTFOUND)"
    })
    expect(attempts).toBe(1)
  })

  it.each<[string, ConnectionReason, boolean]>([
    ["EAI_AGAIN", "name_lookup_failed", true],
    ["EHOSTUNREACH", "unreachable", true],
    ["UND_ERR_CONNECT_TIMEOUT", "unreachable", true],
    ["ECONNRESET", "connection_lost", true],
    ["CERT_HAS_EXPIRED", "certificate", false],
    ["ERR_TLS_CERT_ALTNAME_INVALID", "certificate", false],
    ["DEPTH_ZERO_SELF_SIGNED_CERT", "certificate", false],
    ["ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION", "tls", false],
    ["SOMETHING_NEW", "network", true],
    ["constructor", "network", true]
  ])("with the code %s has the reason %s", (code, reason, retryable) => {
    const problem = describeConnectionFailure(
      { cause: withCode(code), originRefused: false },
      "music.example"
    )
    expect(problem).toMatchObject({ reason, retryable })
    expect(problem.message).toContain(code)
  })

  it("is found among the causes, and among the errors of several addresses", () => {
    const both = new AggregateError([withCode("EHOSTUNREACH"), withCode("ECONNREFUSED")])
    const nested = { reason: "Transport", cause: new TypeError("fetch failed", { cause: both }) }
    expect(describeConnectionFailure({ cause: nested, originRefused: false }, "h").reason).toBe("unreachable")
    const circular: { cause?: unknown } = {}
    circular.cause = circular
    expect(describeConnectionFailure({ cause: circular, originRefused: false }, "h").reason).toBe("network")
  })

  it("names the setting when the service does not allow the page's origin", () => {
    const problem = describeConnectionFailure({ cause: new TypeError("m"), originRefused: true }, "h")
    expect(problem).toMatchObject({ reason: "cors", retryable: false })
    expect(problem.hint).toContain("MUSIC_WEB_ORIGINS")
  })
})

describe("A header that cannot be sent", () => {
  it("is refused before it is sent, and the parameter is named", async () => {
    const { calls, fetch } = stubService()
    const client = createMusicClient({
      baseUrl: "https://music.example",
      source: "cli",
      telemetry: false,
      fetch
    })
    await client.login("oac_1")
    calls.length = 0
    const refusal = (path: string) => ({
      ok: false,
      error: { code: "invalid_input", requestId: null, details: { fields: [{ path }] } }
    })
    expect(await client.me({ org: "acme\nevil" })).toMatchObject(refusal("org"))
    expect(await client.me({ org: "❤" })).toMatchObject(refusal("org"))
    const report = { message: "Playback stops after a seek." }
    expect(await client.report(report, { idempotencyKey: "key\r\nx: y" })).toMatchObject(
      refusal("idempotencyKey")
    )
    expect(calls).toEqual([])
  })
})
