/** `throwOnError`: values instead of results, and errors that reject. */
import { describe, expect, expectTypeOf, it, vi } from "vitest"
import {
  createMusicClient,
  isMusicClientError,
  type Me,
  type MusicClient,
  type MusicClientError,
  type Result,
  type SessionInfo,
  type Status,
  type TelemetryStats,
  type ThrowingMusicClient
} from "../../client/index.ts"
import { defaults, recordingService } from "./support/RecordingService.ts"
import { failure } from "./support/StubService.ts"

const throwing = () => {
  const service = recordingService()
  const client = createMusicClient({
    ...defaults,
    telemetry: true,
    fetch: service.fetch,
    throwOnError: true,
    deadlineMilliseconds: 30_000
  })
  return { ...service, client }
}

type Client = ReturnType<typeof throwing>["client"]
const calls: Readonly<Record<string, (client: Client) => Promise<unknown>>> = {
  login: (client) => client.login("oac_2"),
  logout: (client) => client.logout(),
  me: (client) => client.me(),
  subscribe: (client) => client.subscribe(),
  ting: (client) => client.ting({ type: "t", key: "k", data: {} }),
  report: (client) => client.report({ message: "m" }),
  iam: (client) => client.iam(),
  version: (client) => client.version(),
  healthz: (client) => client.healthz(),
  readyz: (client) => client.readyz(),
  request: (client) => client.request("GET", "/x"),
  flush: (client) => client.telemetry.flush()
}

describe("A client with throwOnError", () => {
  it("may be chosen at run time; without it the type is the usual one, also for options with a mistake", () => {
    const options = { ...defaults, fetch: recordingService().fetch }
    const chosen = createMusicClient({ ...options, throwOnError: true as boolean })
    expectTypeOf(chosen).toEqualTypeOf<MusicClient | ThrowingMusicClient>()
    // @ts-expect-error no such source
    const mistaken = createMusicClient({ ...options, source: "browser" })
    expectTypeOf(mistaken).toEqualTypeOf<MusicClient>()
  })

  it("resolves to values", async () => {
    const { client } = throwing()
    expect(await client.login("oac_1")).toMatchObject({ org_id: "acme", healed: false })
    expect(await client.session()).toMatchObject({ org_id: "acme" })
    expect(await client.me()).toMatchObject({ authenticated: true })
    expect(await client.request("GET", "/x")).toMatchObject({ status: 200 })
    expect(await client.logout()).toEqual({ revoked: true, healed: false })
    expect(await client.session()).toBeNull()
    expect(await client.telemetry.flush()).toEqual({ queued: 0, delivered: 0, dropped: 0 })
    expect(await client.close()).toEqual({ queued: 0, delivered: 0, dropped: 0 })
  })

  it.each(Object.keys(calls))("rejects %s with the members of the error", async (name) => {
    const { answers, client } = throwing()
    await client.login("oac_1")
    client.telemetry.record("musicclidaemon", {})
    const parts = ["login", "logout", "me", "subscription", "tings", "reports", "iam", "version"]
    for (const part of [...parts, "healthz", "readyz", "x", "telemetry"])
      answers[part] = () => failure(503, "shutting_down", { "retry-after": "60", "x-request-id": "the-id-1" })
    const error = await calls[name]?.(client).then(
      () => undefined,
      (reason: unknown) => reason
    )
    expect(error).toBeInstanceOf(Error)
    expect(isMusicClientError(error)).toBe(true)
    expect(error).toMatchObject({
      name: "MusicClientError",
      code: "shutting_down",
      status: 503,
      retryable: true,
      message: "m",
      hint: expect.any(String),
      requestId: "the-id-1",
      retryAfterSeconds: 60
    })
    expect((error as Error).stack).toContain("MusicClientError: m")
  })

  it("rejects session with a problem of the options", async () => {
    const client = createMusicClient({ ...defaults, baseUrl: "no", throwOnError: true })
    await expect(client.session()).rejects.toMatchObject({ code: "invalid_input" })
    expect((await client.status()).state).toBe("unknown")
  })

  it("never rejects status, close, nor throws from record", async () => {
    const { answers, client } = throwing()
    await client.login("oac_1")
    answers.me = () => failure(503, "shutting_down", { "retry-after": "60" })
    answers.telemetry = answers.me
    expect(await client.status()).toMatchObject({ state: "unknown", error: { code: "shutting_down" } })
    expect(client.telemetry.record("musicclidaemon", 5 as never)).toMatchObject({ ok: false })
    client.telemetry.record("musicclidaemon", {})
    expect(await client.close()).toMatchObject({ dropped: 1 })
  })

  it("rejects with an error that another copy of the module recognises", async () => {
    const { answers, client } = throwing()
    answers.version = () => failure(403, "forbidden")
    vi.resetModules()
    const other = await import("../../client/index.ts")
    expect(other.isMusicClientError).not.toBe(isMusicClientError)
    const error = await client.version().catch((reason: unknown) => reason)
    expect(other.isMusicClientError(error)).toBe(true)
    for (const value of [undefined, null, "MusicClientError", new Error("m"), { name: "MusicClientError" }])
      expect(isMusicClientError(value)).toBe(false)
  })

  it("has types that follow the option", () => {
    const { client } = throwing()
    const plain = createMusicClient(defaults)
    const off = createMusicClient({ ...defaults, throwOnError: false })
    expectTypeOf(client.me).returns.toEqualTypeOf<Promise<Me>>()
    expectTypeOf(client.session).returns.toEqualTypeOf<Promise<SessionInfo | null>>()
    expectTypeOf(client.status).returns.toEqualTypeOf<Promise<Status>>()
    expectTypeOf(client.close).returns.toEqualTypeOf<Promise<TelemetryStats>>()
    expectTypeOf(client.telemetry.flush).returns.toEqualTypeOf<Promise<TelemetryStats>>()
    expectTypeOf(plain.me).returns.toEqualTypeOf<Promise<Result<Me>>>()
    expectTypeOf(off.me).returns.toEqualTypeOf<Promise<Result<Me>>>()
    const narrow = (error: MusicClientError) => (error.code === "rate_limited" ? error.status : 429)
    expectTypeOf(narrow).returns.toEqualTypeOf<429>()
  })
})
