/** What a client tells its program beside results: events, and the exchange behind a success. */
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { describe, expect, it } from "vitest"
import * as EffectFace from "../../client/effect.ts"
import { type ClientEvent, createMusicClient, memorySessionStore } from "../../client/index.ts"
import { until } from "../support/Waiting.ts"
import {
  defaults,
  failure,
  gate,
  json,
  life,
  loggedIn,
  makeClient,
  makeService,
  never,
  openLock,
  pairOf,
  testingKey
} from "./support/ClientWorld.ts"

const slt = "oac_secret-short-lived-token"
const named = (events: ReadonlyArray<ClientEvent>) =>
  events.map((event) => ("call" in event ? `${event.type} ${event.call}` : event.type))

describe("The events of a call", () => {
  it("are each attempt with its answer and the pause before the next, under one request id", async () => {
    const { client, events, once } = makeClient()
    once(
      "version",
      () => new Response("<html>", { status: 502, headers: { ratelimit: '"address";r=59;t=60' } })
    )
    expect(await client.version()).toMatchObject({ ok: true })
    const facts = { call: "version", requestId: expect.stringMatching(/^daemon-/), attempt: 1 }
    const request = { type: "request", ...facts, method: "GET", path: "/api/v1/version" }
    const response = { type: "response", ...facts, milliseconds: 0, rateLimits: [] }
    const error = expect.objectContaining({ code: "unexpected_answer", status: 502 })
    expect(events).toEqual([
      request,
      {
        ...response,
        status: 502,
        error,
        rateLimits: [{ policy: "address", remaining: 59, resetSeconds: 60 }]
      },
      // Half of the first pause, because the jitter is 0.
      { type: "retry", ...facts, pauseMilliseconds: 125, error },
      { ...request, attempt: 2 },
      { ...response, attempt: 2, status: 200 }
    ])
    expect(new Set(events.map((event) => "requestId" in event && event.requestId)).size).toBe(1)
  })

  it("have a response for each request, also when no answer comes or the caller aborts", async () => {
    const controller = new AbortController()
    const { client, events, service } = makeClient()
    service.answers.version = () => Promise.reject(new TypeError("no"))
    service.answers.iam = never
    const pending = [client.version, client.iam].map((call) => call({ signal: controller.signal }))
    await expect.poll(() => events.some(({ type }) => type === "retry")).toBe(true)
    controller.abort()
    for (const call of pending) expect(await call).toMatchObject({ ok: false, error: { code: "aborted" } })
    const responses = events.filter((event) => event.type === "response")
    expect(responses).toHaveLength(events.filter(({ type }) => type === "request").length)
    expect(responses).toContainEqual(expect.objectContaining({ call: "version", status: null }))
    expect(responses.find(({ call }) => call === "iam")).toMatchObject({
      status: null,
      error: { code: "aborted" }
    })
  })

  it("are none for a call that was aborted before it began", async () => {
    const { client, events, requests } = makeClient()
    const error = { code: "aborted", requestId: null }
    expect(await client.iam({ signal: AbortSignal.abort() })).toMatchObject({ ok: false, error })
    expect([...requests, ...events]).toEqual([])
  })
})

describe("The events of a session", () => {
  it("are the login, the refresh and the logout, each after its exchange, and none without a change", async () => {
    const { client, events, pass } = makeClient()
    await client.logout()
    await client.login(slt)
    await client.login(slt)
    pass(life)
    await client.me()
    await client.logout()
    const exchange = (call: string) => [`request ${call}`, `response ${call}`]
    expect(named(events)).toEqual([
      ...[...exchange("login"), "logged_in"],
      ...[...exchange("refresh"), "refreshed", ...exchange("me")],
      ...[...exchange("logout"), "logged_out"]
    ])
    expect(events[2]).toMatchObject({ session: { actor: { public_id: "si:deejay" }, org_id: "acme" } })
    expect(events.at(-1)).toMatchObject({ reason: "logout" })
  })

  it.each([
    [401, "unauthenticated", "revoked"],
    [409, "idempotency_response_expired", "lost"]
  ])(
    "say once for all callers that a refresh was refused with %i %s: it is %s",
    async (status, code, reason) => {
      const { answers, client, events, pass } = await loggedIn()
      answers.refresh = () => failure(status, code)
      pass(life)
      await Promise.all([client.me(), client.me(), client.me()])
      expect(events.filter(({ type }) => type === "logged_out")).toMatchObject([{ reason }])
    }
  )

  it("say once that new tokens are refused", async () => {
    const { answers, client, events } = await loggedIn()
    answers.me = () => failure(401, "unauthenticated")
    for (const _ of [1, 2])
      expect(await client.me()).toMatchObject({ error: { details: { reason: "refused" } } })
    expect(events.filter(({ type }) => type === "logged_out")).toMatchObject([{ reason: "refused" }])
  })

  it("say that another program logged out during the call, and whether a forgotten session was revoked", async () => {
    const sessionStore = memorySessionStore()
    const { answers, client, events, pass } = await loggedIn({ sessionStore })
    const other = makeClient({ sessionStore, lock: openLock })
    answers.refresh = async () => {
      await other.client.logout()
      return json({})
    }
    pass(life)
    const replaced = { code: "logged_out", details: { reason: "replaced" } }
    expect(await client.me()).toMatchObject({ ok: false, error: replaced })
    expect(events.at(-1)).toMatchObject({ type: "logged_out", reason: "replaced" })
    for (const reason of ["logout", "forgotten"]) {
      await client.login(slt)
      if (reason === "forgotten") answers.logout = () => failure(503, "dependency_unavailable")
      await client.logout({ forget: true })
      expect(events.at(-1)).toMatchObject({ type: "logged_out", reason })
    }
  })
})

describe("An outdated program", () => {
  it("learns it once for each client; its version is the package's by default", async () => {
    const healthz = () =>
      json({ status: "ok", service: "music-backend", version: "9.0.0" }, { "x-music-min-cli": "2.0.0" })
    for (const version of ["1.2.3", undefined]) {
      const { answers, client, events, requests } = makeClient({ version })
      answers.healthz = healthz
      await client.healthz()
      await client.healthz()
      const sent = requests[0]?.headers.get("x-music-client-version")
      expect(sent).toMatch(version === undefined ? /^\d+\.\d+\.\d+/ : /^1\.2\.3$/)
      const outdated = events.filter(({ type }) => type === "outdated")
      expect(outdated).toEqual([{ type: "outdated", version: sent, minVersion: "2.0.0" }])
    }
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
    hangs: never,
    "changes the event": spoil
  }
  it.each(Object.entries(listeners))("that %s never affects a call", async (_, onEvent) => {
    const { answers, client, once, pass, requests } = makeClient({ onEvent })
    expect(await client.login(slt)).toMatchObject({ ok: true, value: { actor: { public_id: "si:deejay" } } })
    pass(life)
    once("me", () => failure(403, "forbidden"))
    expect(await client.me()).toMatchObject({ ok: false, error: { code: "forbidden" } })
    answers.healthz = () =>
      json({ status: "ok", service: "music-backend", version: "1" }, { ratelimit: '"a";r=1;t=2' })
    const rateLimits = [{ policy: "a", remaining: 1, resetSeconds: 2 }]
    expect(await client.healthz()).toMatchObject({ ok: true, metadata: { rateLimits } })
    expect(await client.ting({ type: "t", key: "x", data: {} })).toMatchObject({ ok: true })
    expect(JSON.parse(requests.at(-1)?.body ?? "")).toMatchObject({ key: "si:deejay/x" })
    expect(await client.session()).toMatchObject({ ok: true, value: { org_ids: ["acme"] } })
    expect(await client.logout()).toMatchObject({ ok: true, value: { revoked: true } })
  })

  it("may call the client", async () => {
    const inner: Array<unknown> = []
    const { fetch } = makeService()
    const client = createMusicClient({
      ...defaults,
      fetch,
      onEvent: async ({ type }) => {
        if (type === "logged_in" || type === "logged_out") inner.push((await client.status()).state)
      }
    })
    expect(await client.login(slt)).toMatchObject({ ok: true })
    expect(await client.logout()).toMatchObject({ ok: true })
    await expect.poll(() => inner).toEqual(["authenticated", "logged_out"])
  })

  it("gets no token, key or body", async () => {
    const secret = "a private message"
    const testing = makeClient({ testingKey, telemetry: true })
    await testing.client.login(slt)
    const { client, events, keys, pass } = makeClient({ telemetry: true })
    await client.login(slt)
    pass(life)
    await client.report({ message: secret }, { idempotencyKey: "an-idempotency-key-1" })
    await client.ting({ type: "t", key: "x", data: { private: secret } })
    await client.request("POST", "/api/v1/x", { body: secret })
    client.telemetry.record("musicclidaemon", { text: secret })
    await client.close()
    await client.logout({ forget: true })
    const text = JSON.stringify([...events, ...testing.events])
    expect(keys().length).toBeGreaterThan(6)
    const secrets = [
      slt,
      testingKey,
      "oat_",
      "ort_",
      secret,
      ...[...keys(), ...testing.keys()].flatMap((key) => key ?? [])
    ]
    for (const one of secrets) expect(text).not.toContain(one)
  })
})

const none = { requestId: null, rateLimits: [] }
const me = {
  authenticated: true,
  actor: pairOf(1).actor,
  org_id: "acme",
  membership_id: "m",
  session_id: "1"
}
const meWith = (policy: string) =>
  json(
    { ...me, scopes: [], ting_ready: true, testing_environment_id: null },
    { "x-request-id": `id-of-${policy}`, ratelimit: `"${policy}";r=1;t=2` }
  )
const ofMe = { requestId: "id-of-me", rateLimits: [{ policy: "me", remaining: 1, resetSeconds: 2 }] }

describe("The metadata of a success", () => {
  it("are those of the attempt that succeeded, neither of a refused one nor of a refresh", async () => {
    const { answers, client, once, pass } = await loggedIn()
    answers.refresh = () => json(pairOf(2), { "x-request-id": "id-of-refresh" })
    pass(life)
    once("me", () => {
      answers.me = () => meWith("me")
      return failure(401, "unauthenticated", { "x-request-id": "id-of-refused" })
    })
    expect(await client.me()).toMatchObject({ ok: true, metadata: ofMe })
  })

  it("have the id that was sent when the answer has none, also for calls at once; and none when nothing was sent", async () => {
    const { client, requests } = await loggedIn({ telemetry: true })
    const results = await Promise.all(
      Array.from({ length: 10 }, (_, at) => client.request("GET", `/x/${at}`))
    )
    results.forEach((result, at) => {
      const sent = requests.find(({ url }) => url.endsWith(`/x/${at}`))
      expect(result).toMatchObject({
        metadata: { requestId: sent?.headers.get("x-request-id"), rateLimits: [] }
      })
    })
    const silent = [await client.session(), await client.login("oac_1"), await client.telemetry.flush()]
    for (const result of [...silent, client.telemetry.record("musicclidaemon", {})])
      expect(result).toMatchObject({ ok: true, metadata: none })
  })
})

describe("The Effect client", () => {
  const clientOf = (service: ReturnType<typeof makeService>, onEvent: (event: ClientEvent) => void) =>
    EffectFace.MusicClient.layer({ ...defaults, onEvent }).pipe(
      Layer.provide(FetchHttpClient.layer),
      Layer.provide(Layer.succeed(FetchHttpClient.Fetch, service.fetch))
    )

  it("reports the same events, and the exchange of a call by withMetadata", async () => {
    const service = makeService()
    service.answers.me = () => meWith("me")
    const events: Array<ClientEvent> = []
    const found = await Effect.gen(function* () {
      const client = yield* EffectFace.MusicClient
      yield* client.login(slt)
      const [, first] = yield* EffectFace.withMetadata(client.me())
      const [, second] = yield* EffectFace.withMetadata(client.session)
      const [, third] = yield* EffectFace.withMetadata(client.status())
      yield* client.logout()
      return [first, second, third]
    }).pipe(Effect.provide(clientOf(service, (event) => events.push(event))), Effect.runPromise)
    expect(found).toEqual([ofMe, none, ofMe])
    const both = (call: string) => [`request ${call}`, `response ${call}`]
    const calls = [
      ...both("login"),
      "logged_in",
      ...both("me"),
      ...both("me"),
      ...both("logout"),
      "logged_out"
    ]
    expect(named(events)).toEqual(calls)
  })

  it("has the exchange of the call also when a refresh ends later", async () => {
    const service = makeService()
    const refresh = gate<Response>()
    service.answers.login = () => json({ ...pairOf(1, { expires_in: 0 }), ting: { subscribed: true } })
    service.answers.refresh = () => refresh.opened
    service.answers.me = () => meWith("me")
    let refreshed = 0
    const count = ({ type }: ClientEvent) => {
      if (type === "refreshed") refreshed += 1
    }
    const [, metadata] = await Effect.gen(function* () {
      const client = yield* EffectFace.MusicClient
      yield* client.login(slt)
      return yield* EffectFace.withMetadata(
        Effect.gen(function* () {
          // The access token has expired, and the call goes on with it after a third of its time.
          yield* client.request("GET", "/me", { deadlineMilliseconds: 3_000 })
          refresh.open(json(pairOf(2), { "x-request-id": "id-of-refresh" }))
          yield* until(() => refreshed === 1)
        })
      )
    }).pipe(Effect.provide(clientOf(service, count)), Effect.runPromise)
    expect(metadata).toEqual(ofMe)
  })
})
