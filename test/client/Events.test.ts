/** The events that a client reports: what, in which order, and without secrets. */
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { describe, expect, it } from "vitest"
import * as EffectFace from "../../client/effect.ts"
import { type ClientEvent, createMusicClient, memorySessionStore } from "../../client/index.ts"
import { defaults, json, life, recordingService, startClient } from "./support/RecordingService.ts"
import { failure } from "./support/StubService.ts"

const slt = "oac_secret-short-lived-token"

describe("The events of a call", () => {
  it("are a request and its response, with the id and the quotas", async () => {
    const { answers, client, events } = startClient()
    answers.version = () =>
      json({ version: "1.0.0", api_versions: ["v1"], min_cli: "0.1.0" }, { ratelimit: '"address";r=59;t=60' })
    expect(await client.version()).toMatchObject({ ok: true })
    const requestId = expect.stringMatching(/^daemon-/)
    expect(events).toEqual([
      {
        type: "request",
        call: "version",
        requestId,
        attempt: 1,
        method: "GET",
        path: "/api/v1/version"
      },
      {
        type: "response",
        call: "version",
        requestId,
        attempt: 1,
        status: 200,
        milliseconds: expect.any(Number),
        rateLimits: [{ policy: "address", remaining: 59, resetSeconds: 60 }]
      }
    ])
  })

  it("include each retry with its pause and its reason, under one request id", async () => {
    const { answers, client, events, types } = startClient()
    let count = 0
    answers.version = () => {
      count += 1
      return count === 1
        ? new Response("<html>", { status: 502 })
        : json({ version: "1.0.0", api_versions: ["v1"], min_cli: "0.1.0" })
    }
    expect(await client.version()).toMatchObject({ ok: true })
    expect(types()).toEqual(["request", "response", "retry", "request", "response"])
    expect(events[1]).toMatchObject({ status: 502, error: { code: "unexpected_answer", status: 502 } })
    expect(events[2]).toMatchObject({
      attempt: 1,
      pauseMilliseconds: 125,
      error: { code: "unexpected_answer" }
    })
    expect(events[3]).toMatchObject({ attempt: 2 })
    expect(new Set(events.map((event) => "requestId" in event && event.requestId)).size).toBe(1)
  })

  it("say that no answer came", async () => {
    const controller = new AbortController()
    const { client, events } = startClient({ fetch: () => Promise.reject(new TypeError("no")) })
    const pending = client.version({ signal: controller.signal })
    await expect.poll(() => events.length).toBeGreaterThan(1)
    controller.abort()
    await pending
    expect(events[1]).toMatchObject({ status: null, error: { code: "transport_failed" } })
  })

  it("have a response for each request, also when the caller aborts", async () => {
    const controller = new AbortController()
    const { client, events, types } = startClient({ fetch: () => new Promise(() => undefined) })
    const pending = client.version({ signal: controller.signal })
    controller.abort()
    expect(await pending).toMatchObject({ ok: false, error: { code: "aborted" } })
    expect(types()).toEqual(["request", "response"])
    expect(events[1]).toMatchObject({ status: null, error: { code: "aborted" } })
  })
})

describe("The events of a session", () => {
  it("are the login, the refresh and the logout, each after its exchange", async () => {
    const { client, events, pass, types } = startClient()
    await client.login(slt)
    expect(types()).toEqual(["request", "response", "logged_in"])
    expect(events[2]).toMatchObject({ session: { actor: { public_id: "si:deejay" }, org_id: "acme" } })
    events.length = 0
    pass(life)
    await client.me()
    expect(events.map((event) => ("call" in event ? `${event.type} ${event.call}` : event.type))).toEqual([
      "request refresh",
      "response refresh",
      "refreshed",
      "request me",
      "response me"
    ])
    events.length = 0
    await client.logout()
    expect(types()).toEqual(["request", "response", "logged_out"])
    expect(events[2]).toMatchObject({ reason: "logout" })
  })

  it("tell a repeated login and a logout without a session from changes", async () => {
    const { client, events, types } = startClient()
    await client.logout()
    expect(events).toEqual([])
    await client.login(slt)
    events.length = 0
    await client.login(slt)
    expect(types()).toEqual([])
  })

  it("say whether a forgotten session was revoked", async () => {
    const { answers, client, events } = startClient()
    await client.login(slt)
    await client.logout({ forget: true })
    expect(events.at(-1)).toMatchObject({ type: "logged_out", reason: "logout" })
    await client.login(slt)
    answers.logout = () => failure(503, "dependency_unavailable")
    await client.logout({ forget: true })
    expect(events.at(-1)).toMatchObject({ type: "logged_out", reason: "forgotten" })
  })

  it.each([
    { answer: failure(401, "unauthenticated"), reason: "revoked" },
    { answer: failure(409, "idempotency_response_expired"), reason: "lost" }
  ])("say that it is $reason, once for all callers", async ({ answer, reason }) => {
    const { answers, client, events, pass } = startClient()
    await client.login(slt)
    answers.refresh = () => answer.clone()
    pass(life)
    await Promise.all([client.me(), client.me(), client.me()])
    expect(events.filter(({ type }) => type === "logged_out")).toMatchObject([{ reason }])
  })

  it("say that another program logged out during the call", async () => {
    const sessionStore = memorySessionStore()
    const { answers, client, events, pass } = startClient({ sessionStore })
    await client.login(slt)
    const other = startClient({ sessionStore, lock: { acquire: async () => async () => undefined } })
    answers.refresh = async () => {
      await other.client.logout()
      return json({})
    }
    pass(life)
    expect(await client.me()).toMatchObject({
      ok: false,
      error: { code: "logged_out", details: { reason: "replaced" } }
    })
    expect(events.at(-1)).toMatchObject({ type: "logged_out", reason: "replaced" })
  })

  it("say once that new tokens are refused", async () => {
    const { answers, client, events } = startClient()
    await client.login(slt)
    answers.me = () => failure(401, "unauthenticated")
    for (let round = 0; round < 2; round += 1)
      expect(await client.me()).toMatchObject({ ok: false, error: { details: { reason: "refused" } } })
    expect(events.filter(({ type }) => type === "logged_out")).toMatchObject([{ reason: "refused" }])
  })
})

describe("The events of telemetry", () => {
  const event = { type: "daemon.started" }

  it("say that the service refused events", async () => {
    const { answers, client, events } = startClient({ telemetry: true })
    answers.telemetry = () => failure(400, "invalid_input")
    client.telemetry.record("musicclidaemon", event)
    await client.telemetry.flush()
    expect(events.at(-1)).toMatchObject({
      type: "telemetry_dropped",
      events: 1,
      reason: "refused",
      error: { code: "invalid_input" }
    })
  })

  it("say that the queue was full, and that the client was closed", async () => {
    const { answers, client, events } = startClient({ telemetry: true, telemetryQueueLimit: 1 })
    answers.telemetry = () => failure(503, "overloaded")
    client.telemetry.record("musicclidaemon", event)
    client.telemetry.record("musicclidaemon", event)
    expect(events.at(-1)).toEqual({ type: "telemetry_dropped", events: 1, reason: "full" })
    await client.close()
    expect(events.at(-1)).toEqual({ type: "telemetry_dropped", events: 1, reason: "closed" })
    events.length = 0
    client.telemetry.record("musicclidaemon", event)
    expect(events).toEqual([{ type: "telemetry_dropped", events: 1, reason: "closed" }])
  })

  it("drops a batch that is refused by a position outside it or by an unknown code", async () => {
    for (const [code, details] of [
      ["invalid_input", { fields: [{ path: "events.99", problem: "is wrong" }] }],
      ["too_loud", {}]
    ]) {
      const { answers, calls, client } = startClient({ telemetry: true })
      answers.telemetry = () =>
        json({ error: { code, message: "m", hint: "h", retryable: false, details } }, {}, 400)
      client.telemetry.record("musicclidaemon", event)
      expect(await client.telemetry.flush()).toMatchObject({ ok: true, value: { queued: 0, dropped: 1 } })
      expect(calls).toEqual(["telemetry"])
    }
  })
})

describe("An outdated program", () => {
  it("learns it once for each client", async () => {
    const { answers, client, events, requests } = startClient({ version: "1.2.3" })
    answers.healthz = () =>
      json({ status: "ok", service: "music-backend", version: "9.0.0" }, { "x-music-min-cli": "2.0.0" })
    await client.healthz()
    await client.healthz()
    expect(events.filter(({ type }) => type === "outdated")).toEqual([
      { type: "outdated", version: "1.2.3", minVersion: "2.0.0" }
    ])
    expect(requests[0]?.headers.get("x-music-client-version")).toBe("1.2.3")
  })

  it("is named by the package's version by default", async () => {
    const { client, requests } = startClient()
    await client.healthz()
    expect(requests[0]?.headers.get("x-music-client-version")).toMatch(/^\d+\.\d+\.\d+/)
  })

  it.each(["1.2", "", "v1.2.3", "1.2.3 ", 7])("cannot name itself %j", async (version) => {
    const { client, requests } = startClient({ version: version as string })
    expect(await client.healthz()).toMatchObject({
      ok: false,
      error: { code: "invalid_input", message: expect.stringContaining("version") }
    })
    expect(requests).toEqual([])
  })
})

describe("A listener", () => {
  const spoil = (value: unknown): void => {
    if (typeof value !== "object" || value === null) return
    for (const [name, member] of Object.entries(value)) {
      spoil(member)
      Reflect.set(value, name, "spoiled")
    }
    if (Array.isArray(value)) value.length = 0
  }
  const listeners: Readonly<Record<string, (event: ClientEvent) => unknown>> = {
    throws: () => {
      throw new Error("own fault")
    },
    rejects: () => Promise.reject(new Error("own fault")),
    hangs: () => new Promise(() => undefined),
    "returns a thenable that throws": () =>
      // biome-ignore lint/suspicious/noThenProperty: a listener may return anything.
      Object.defineProperty({}, "then", {
        get: () => {
          throw new Error("own fault")
        }
      }),
    "changes the event": spoil
  }
  it.each(Object.keys(listeners))("that %s never affects a call", async (name) => {
    const { answers, client, pass, requests } = startClient({
      onEvent: (event) => listeners[name]?.(event)
    })
    expect(await client.login(slt)).toMatchObject({ ok: true, value: { actor: { public_id: "si:deejay" } } })
    pass(life)
    answers.me = () => failure(403, "forbidden")
    expect(await client.me()).toMatchObject({ ok: false, error: { code: "forbidden" } })
    answers.tings = () =>
      json(
        { id: "1", created_at: "x", key: "k", silent: false, replayed: false },
        { ratelimit: '"a";r=1;t=2' }
      )
    expect(await client.ting({ type: "t", key: "x", data: {} })).toMatchObject({
      ok: true,
      metadata: { rateLimits: [{ policy: "a", remaining: 1, resetSeconds: 2 }] }
    })
    expect(JSON.parse(requests.at(-1)?.body ?? "")).toMatchObject({ key: "si:deejay/x" })
    expect(await client.session()).toMatchObject({ ok: true, value: { org_ids: ["acme"] } })
    expect(await client.logout()).toMatchObject({ ok: true, value: { revoked: true } })
  })

  it("may call the client", async () => {
    const inner: Array<unknown> = []
    const service = recordingService()
    const client = createMusicClient({
      ...defaults,
      fetch: service.fetch,
      onEvent: async ({ type }) => {
        if (type === "logged_in" || type === "logged_out") inner.push((await client.status()).state)
      }
    })
    expect(await client.login(slt)).toMatchObject({ ok: true })
    expect(await client.logout()).toMatchObject({ ok: true })
    await expect.poll(() => inner).toEqual(["authenticated", "logged_out"])
  })

  it("gets no token, key or body", async () => {
    const testingKey = `ask_${"s".repeat(43)}`
    const { client, events, pass, requests } = startClient({ testingKey, telemetry: true })
    const key = "an-idempotency-key-1"
    await client.login(slt)
    await client.logout({ forget: true })
    const production = startClient({ telemetry: true })
    await production.client.login(slt)
    production.pass(life)
    pass(life)
    await production.client.report({ message: "a private message" }, { idempotencyKey: key })
    await production.client.ting({ type: "t", key: "x", data: { private: "a private message" } })
    await production.client.request("POST", "/api/v1/x", { body: "a private message", idempotencyKey: key })
    production.client.telemetry.record("musicclidaemon", { text: "a private message" })
    await production.client.close()
    await production.client.logout({ forget: true })
    const text = JSON.stringify([...events, ...production.events])
    expect(production.requests.length).toBeGreaterThan(6)
    const keys = [...requests, ...production.requests].flatMap(
      ({ headers }) => headers.get("idempotency-key") ?? []
    )
    for (const secret of [slt, testingKey, "oat_", "ort_", "a private message", ...keys])
      expect(text).not.toContain(secret)
  })
})

describe("The events of the Effect client", () => {
  it("are the same", async () => {
    const { fetch } = recordingService()
    const events: Array<ClientEvent> = []
    const layer = EffectFace.MusicClient.layer({ ...defaults, onEvent: (event) => events.push(event) }).pipe(
      Layer.provide(FetchHttpClient.layer.pipe(Layer.provide(Layer.succeed(FetchHttpClient.Fetch, fetch))))
    )
    await Effect.gen(function* () {
      const client = yield* EffectFace.MusicClient
      yield* client.login(slt)
      yield* client.me()
      yield* client.logout()
    }).pipe(Effect.provide(layer), Effect.runPromise)
    expect(events.map((event) => ("call" in event ? `${event.type} ${event.call}` : event.type))).toEqual([
      "request login",
      "response login",
      "logged_in",
      "request me",
      "response me",
      "request logout",
      "response logout",
      "logged_out"
    ])
  })
})
