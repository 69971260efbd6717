/** What a client tells its program beside results: events, and the exchange behind a success. */
import { describe, expect, it } from "vitest"
import type { ClientEvent } from "../../client/index.ts"
import { examples } from "../../src/http/openapi/Examples.ts"
import { loggedIn, makeClient, type TestClient, testingKey } from "./support/ClientWorld.ts"
import { failure, json, life, never, pairOf } from "./support/Service.ts"

const slt = "oac_secret-short-lived-token"
const named = (events: ReadonlyArray<ClientEvent>) =>
  events.map((event) => ("call" in event ? `${event.type} ${event.call}` : event.type))
const exchange = (call: string) => [`request ${call}`, `response ${call}`]

describe("The events of a call", () => {
  it("are each attempt with its answer and the pause before the next, under one request id", async () => {
    const { client, events, once } = makeClient()
    const limits = { ratelimit: '"address";r=59;t=60' }
    once("version", () => new Response("<html>", { status: 502, headers: limits }))
    expect(await client.version()).toMatchObject({ ok: true })
    const facts = { call: "version", requestId: expect.stringMatching(/^daemon-/), attempt: 1 }
    const request = { type: "request", ...facts, method: "GET", path: "/api/v1/version" }
    const response = { type: "response", ...facts, milliseconds: 0, rateLimits: [] }
    const error = expect.objectContaining({ code: "unexpected_answer", status: 502 })
    const rateLimits = [{ policy: "address", remaining: 59, resetSeconds: 60 }]
    expect(events).toEqual([
      request,
      { ...response, status: 502, error, rateLimits },
      // Half of the first pause, because the jitter is 0.
      { type: "retry", ...facts, pauseMilliseconds: 125, error },
      { ...request, attempt: 2 },
      { ...response, attempt: 2, status: 200 }
    ])
    expect(new Set(events.map((event) => "requestId" in event && event.requestId)).size).toBe(1)
  })

  it("have a response for each request, also when no answer comes; and are none without a request", async () => {
    const { answers, client, events } = makeClient()
    const controller = new AbortController()
    const { signal } = controller
    answers.iam = () => {
      controller.abort()
      return never()
    }
    const error = { code: "aborted" }
    for (const _ of ["while it is in flight", "before it began"])
      expect(await client.iam({ signal })).toMatchObject({ ok: false, error })
    const response = { type: "response", call: "iam", status: null, error }
    expect(events).toMatchObject([{ type: "request", call: "iam" }, response])
  })
})

it("The events of a session are its changes, each after its exchange", async () => {
  const { client, events, pass } = makeClient()
  await client.logout()
  await client.login(slt)
  await client.login(slt)
  pass(life)
  await client.me()
  await client.logout()
  expect(named(events)).toEqual([
    ...[...exchange("login"), "logged_in"],
    ...[...exchange("refresh"), "refreshed", ...exchange("me")],
    ...[...exchange("logout"), "logged_out"]
  ])
  expect(events[2]).toMatchObject({ session: { actor: { public_id: "si:deejay" }, org_id: "acme" } })
  expect(events.at(-1)).toMatchObject({ reason: "logout" })
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
  const fault = () => {
    throw new Error("own fault")
  }
  it.each<readonly [string, (event: ClientEvent, client: TestClient) => unknown]>([
    ["throws", fault],
    ["rejects", () => Promise.reject(new Error("own fault"))],
    ["hangs", never],
    ["changes the event", spoil],
    ["calls the client", ({ type }, client) => type.startsWith("log") && client.session()]
  ])("that %s never affects a call", async (_, listen) => {
    const made = makeClient({ onEvent: (event) => listen(event, made.client) })
    const { client, once, pass, requests } = made
    once("healthz", () => json(examples["system.healthz"].response, { ratelimit: '"a";r=1;t=2' }))
    expect((await client.healthz()).metadata?.rateLimits).toMatchObject([{ policy: "a", remaining: 1 }])
    expect(await client.login(slt)).toMatchObject({ ok: true, value: { actor: { public_id: "si:deejay" } } })
    pass(life)
    once("me", () => failure(403, "forbidden"))
    expect(await client.me()).toMatchObject({ ok: false, error: { code: "forbidden" } })
    await client.ting({ type: "t", key: "x", data: {} })
    expect(JSON.parse(requests.at(-1)?.body ?? "")).toMatchObject({ key: "si:deejay/x" })
    expect(await client.session()).toMatchObject({ ok: true, value: { org_ids: ["acme"] } })
  })

  it("gets no token, key or body", async () => {
    const secret = "a private message"
    const testing = makeClient({ testingKey })
    await testing.client.login(slt)
    const { client, events, keys, pass } = makeClient({ telemetry: true })
    await client.login(slt)
    pass(life)
    await client.report({ message: secret }, { idempotencyKey: "an-idempotency-key-1" })
    await client.ting({ type: "t", key: "x", data: { private: secret } })
    await client.request("POST", "/api/v1/x", { body: secret, query: { private: 1 } })
    client.telemetry.record("musicclidaemon", { text: secret })
    await client.close()
    await client.logout({ forget: true })
    const text = JSON.stringify([...events, ...testing.events])
    const sent = [...keys(), ...testing.keys()].flatMap((key) => key ?? [])
    expect(sent).toHaveLength(6)
    for (const one of [slt, testingKey, "oat_", "ort_", secret, "private", ...sent])
      expect(text).not.toContain(one)
  })
})

it("The metadata of a success are those of the attempt that succeeded, neither of a refused one nor of a refresh", async () => {
  const { answers, client, once, pass } = await loggedIn()
  answers.refresh = () => json(pairOf(2), { "x-request-id": "id-of-refresh" })
  pass(life)
  once("me", () => {
    once("me", () =>
      json(examples["auth.me"].response, { "x-request-id": "id-of-me", ratelimit: '"me";r=1;t=2' })
    )
    return failure(401, "unauthenticated", { "x-request-id": "id-of-refused" })
  })
  const metadata = { requestId: "id-of-me", rateLimits: [{ policy: "me", remaining: 1, resetSeconds: 2 }] }
  expect(await client.me()).toMatchObject({ ok: true, metadata })
})
