/** Failures of the network and of stores: their reason in `details`, whether they are retried, and nothing quoted that is unknown. */
import { createServer } from "node:http"
import { createServer as createSocketServer } from "node:net"
import { inspect } from "node:util"
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import { Effect, Layer } from "effect"
import { afterEach, describe, expect, vi } from "vitest"
import { MusicClient } from "../../client/effect.ts"
import { hasCode, isUnknownCode, SessionStoreError } from "../../client/index.ts"
import { listening, tlsFront } from "../world/Egress.ts"
import { it } from "../world/Test.ts"
import { defaults, failed, makeClient, storeWith, systemError } from "./support/ClientWorld.ts"
import { failure, makeService } from "./support/Service.ts"

afterEach(() => {
  vi.unstubAllGlobals()
})

/** The error of a call that makes one attempt. */
const errorOf = async (given: Parameters<typeof makeClient>[0]) =>
  (await makeClient(given).client.readyz()).error
const rejectingWith = (cause: unknown) =>
  errorOf({ fetch: () => Promise.reject(new TypeError("fetch failed", { cause })) })

describe("A failure of the network", () => {
  const fetch = globalThis.fetch
  it.scopedLive.each([
    ["connection_lost", true, "http", listening(createServer((request) => request.socket.destroy()))],
    ["tls", false, "https", listening(createServer())],
    ["certificate", false, "https", tlsFront(1)]
  ] as const)(
    "of a real socket is named: %s (retryable: %s)",
    function* ([reason, retryable, scheme, start]) {
      const host = `127.0.0.1:${yield* start}`
      const error = yield* Effect.promise(() => errorOf({ baseUrl: `${scheme}://${host}`, fetch }))
      expect(error).toMatchObject({ code: "transport_failed", retryable, details: { reason } })
      expect(error?.message).toContain(host)
      expect(error?.hint).not.toBe("")
    }
  )

  const secureShell = listening(
    createSocketServer((socket) => socket.once("data", () => socket.end("SSH-2.0-OpenSSH_9.6\r\n")))
  )
  it.scopedLive.each([
    ["of a port that fetch blocks", "not_sent", Effect.succeed(6_000), fetch],
    ["of a fetch that returns nothing", "not_sent", Effect.succeed(1), async () => undefined as never],
    ["of an answer in another protocol", "not_http", secureShell, fetch]
  ] as const)("%s is final at once: %s", function* ([, reason, start, fetch]) {
    const { client } = makeClient({ baseUrl: `http://127.0.0.1:${yield* start}`, fetch })
    const result = yield* Effect.promise(() => client.version())
    expect(result).toMatchObject(failed("transport_failed", reason, { retryable: false }))
    expect(result.error?.cause).toBeInstanceOf(TypeError)
  })

  it("is repeated by the Effect client when its HttpClient has no cause for it, as in a worker", async () => {
    const { calls, fetch, once } = makeService()
    once("version", () => Promise.reject(new TypeError("Failed to fetch")))
    await Effect.flatMap(MusicClient, (client) => client.version()).pipe(
      Effect.provide(Layer.provide(MusicClient.layer(defaults), FetchHttpClient.layer)),
      Effect.provideService(FetchHttpClient.Fetch, fetch),
      Effect.runPromise
    )
    expect(calls()).toEqual(["version", "version"])
  })

  it("in a worker is repeated, also with a fetch of the program's own: there it has no cause, either", async () => {
    vi.stubGlobal("location", { origin: "https://music.example" })
    const { calls, client, once } = makeClient()
    once("version", () => Promise.reject(new TypeError("Failed to fetch")))
    expect(await client.version()).toMatchObject({ ok: true })
    expect(calls()).toEqual(["version", "version"])
  })

  it.each([
    ["ENOTFOUND", "name_not_found", false],
    ["EAI_AGAIN", "name_lookup_failed", true],
    ["ECONNREFUSED", "refused", true],
    ["UND_ERR_CONNECT_TIMEOUT", "unreachable", true],
    ["CERT_HAS_EXPIRED", "certificate", false],
    ["ERR_TLS_CERT_ALTNAME_INVALID", "certificate", false],
    ["ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION", "tls", false],
    ["SOMETHING_NEW", "network", true],
    ["constructor", "network", true]
  ])("with the code %s has the reason %s (retryable: %s)", async (code, reason, retryable) => {
    const error = await rejectingWith(systemError(code))
    expect(error).toMatchObject({ retryable, details: { reason } })
    expect(error?.message).toContain(code)
  })

  it("of the parser of undici 7, which has no code, is final", async () => {
    const cause = Object.assign(new Error("m"), { name: "HTTPParserError", code: undefined })
    expect(await rejectingWith(cause)).toMatchObject({ retryable: false, details: { reason: "not_http" } })
  })
})

it("A request sends no cookie, stores no answer and follows no redirect", async () => {
  const { client, requests } = makeClient()
  await client.version()
  const demanded = { credentials: "omit", cache: "no-store", redirect: "manual" }
  expect(requests[0]?.init).toMatchObject(demanded)
})

/** The error of a call whose store rejects. */
const storeErrorOf = async (cause: unknown) => {
  const sessionStore = storeWith(() => ({ load: () => Promise.reject(cause) }))
  return (await makeClient({ sessionStore }).client.session()).error
}
const secret = "ort_0123456789"

describe("A failure of a store", () => {
  const path = "/music/session-1.json"
  it.each([
    ["ENOSPC", "no_space", true],
    ["EACCES", "permission", false],
    ["EROFS", "permission", false],
    ["ENOTDIR", "misconfigured", false],
    ["ERR_INVALID_ARG_VALUE", "misconfigured", false],
    ["EIO", "unavailable", true],
    ["ENOENT", "unavailable", true]
  ])(
    "with the code %s has the reason %s (retryable: %s), and names the path",
    async (code, reason, retryable) => {
      const error = await storeErrorOf(Object.assign(systemError(code), { path }))
      expect(error).toMatchObject({ code: "store_failed", retryable, details: { reason, path } })
      expect(error?.message).toContain(`${path} (${code}).`)
      expect(error?.hint).not.toBe("")
      expect((await storeErrorOf(systemError(code)))?.message).toMatch(/[a-z] \([A-Z_]+\)\.$/)
    }
  )

  it("is found among the causes of a store's own error, which the error carries", async () => {
    const wrapped = new Error("cannot save", { cause: new Error(secret, { cause: systemError("ENOSPC") }) })
    const error = await storeErrorOf(wrapped)
    expect(error).toMatchObject({ details: { reason: "no_space" } })
    expect(error?.cause).toBe(wrapped)
  })

  it("has the words of a SessionStoreError, also of another copy of the package", async () => {
    const input = { reason: "permission", path: "/x", retryable: true, message: "No.", hint: "Yes." } as const
    const { path, reason, ...facts } = input
    for (const own of [new SessionStoreError(input), { name: "SessionStoreError", ...input }])
      expect(await storeErrorOf(own)).toMatchObject({ ...facts, details: { path, reason } })
    expect(await storeErrorOf(new SessionStoreError({ reason: "corrupt", path }))).toMatchObject({
      retryable: false,
      details: { reason: "corrupt", path },
      message: "The stored session is corrupt: /x.",
      hint: "Log in, which replaces it, or log out, which removes it."
    })
  })

  it("of any value is complete, and quotes no message, name or code that it does not know", async () => {
    const circular: { cause?: unknown } = {}
    circular.cause = circular
    const all: ReadonlyArray<unknown> = [
      ...[undefined, null, 7, "", secret, [secret], circular, new SyntaxError(`Unexpected ${secret}`)],
      new Proxy({}, { get: () => inspect(secret) }),
      Object.defineProperty({}, "code", { get: () => JSON.parse("") }),
      ...["name", "code", "reason", "retryable", "cause"].flatMap((member) => [
        { [member]: secret },
        Object.assign(new Error(secret), { [member]: secret })
      ])
    ]
    for (const cause of all) {
      const found = await storeErrorOf(cause)
      expect(found?.code).toBe("store_failed")
      expect(found?.message).toMatch(/\.$/)
      expect(found?.hint).not.toBe("")
      expect(JSON.stringify(found)).not.toContain(secret)
    }
  })
})

it("An error of the service names the first field that is refused, and has its code for the type checker", async () => {
  const { answers, client } = makeClient()
  const fields = [{ path: "message", problem: "must have 10 characters" }]
  answers.reports = () => failure(400, "invalid_input", {}, { message: "Refused.", details: { fields } })
  const message = "Refused: message must have 10 characters."
  const { error } = await client.report({ message: "short" })
  expect(error).toMatchObject({ message, details: { fields } })
  expect(error !== undefined && !isUnknownCode(error) && hasCode(error, "invalid_input")).toBe(true)
  answers.version = () => failure(402, "payment_required")
  const later = (await client.version()).error
  expect(later !== undefined && isUnknownCode(later) && later.message).toBe("m")
})
