/** What `session` and `status` say, the keys of tings, and deadlines of one call. */
import { describe, expect, it } from "vitest"
import {
  memorySessionStore,
  type MusicClient,
  type RequestOptions,
  type SessionLock,
  type SessionStore,
  type StoredSession
} from "../../../client/index.ts"
import { json, life, recordingService, startClient } from "../support/RecordingService.ts"
import { failure } from "../support/StubService.ts"

const ting = { id: "1", created_at: "x", key: "k", silent: false, replayed: false }

/** A store with one session, which a test changes. */
const storeOf = (change: (session: StoredSession) => object): SessionStore => {
  const inner = memorySessionStore()
  return {
    ...inner,
    load: async (slot) => {
      const stored = (await inner.load(slot)) as StoredSession | undefined
      return stored === undefined ? undefined : { ...stored, ...change(stored) }
    }
  }
}

describe("session()", () => {
  it("says when the access token ends", async () => {
    const now = Date.parse("2026-11-22T08:00:00Z")
    const { client } = startClient({ clock: { now: () => now, monotonic: () => 0 } })
    expect(await client.login("oac_1")).toMatchObject({ value: { expires_at: "2026-11-22T08:30:00.000Z" } })
    expect(await client.session()).toMatchObject({
      ok: true,
      value: { expires_at: "2026-11-22T08:30:00.000Z" }
    })
  })

  it("says a later end after a refresh", async () => {
    const { client, pass } = startClient()
    await client.login("oac_1")
    const before = await client.session()
    pass(life)
    await client.me()
    const after = await client.session()
    const endOf = (result: typeof before) =>
      result.ok && result.value !== null ? Date.parse(result.value.expires_at) : Number.NaN
    expect(endOf(after) - endOf(before)).toBeGreaterThanOrEqual(life)
  })

  it.each([
    { expires_in: 1e300, obtained_at: 0 },
    { expires_in: -1e300, obtained_at: 0 },
    { expires_in: Number.MAX_VALUE, obtained_at: Number.MAX_VALUE },
    { expires_in: 0, obtained_at: -1 },
    { expires_in: 1.5, obtained_at: 0.25 }
  ])("has a date for %j", async (odd) => {
    const { client } = startClient({ sessionStore: storeOf(() => odd) })
    await client.login("oac_1")
    const result = await client.session()
    expect(result).toMatchObject({ ok: true, value: { expires_at: expect.stringMatching(/Z$/) } })
    expect((await client.me()).ok).toBe(true)
  })

  it.each([Number.NaN, Number.POSITIVE_INFINITY, "1800", null])(
    "refuses the stored life %j",
    async (life) => {
      const { client } = startClient({ sessionStore: storeOf(() => ({ expires_in: life })) })
      await client.login("oac_1")
      expect(await client.session()).toMatchObject({ ok: false, error: { details: { reason: "corrupt" } } })
    }
  )

  it("has no token, and a copy of the stored session", async () => {
    const { client } = startClient()
    await client.login("oac_1")
    const result = await client.session()
    expect(JSON.stringify(result)).not.toMatch(/oat_|ort_/)
    if (result.ok && result.value !== null) Object.assign(result.value.actor, { public_id: "si:other" })
    expect(await client.session()).toMatchObject({ value: { actor: { public_id: "si:deejay" } } })
  })
})

describe("status()", () => {
  const loggedIn = async (given: Parameters<typeof startClient>[0] = {}) => {
    const parts = startClient(given)
    await parts.client.login("oac_1")
    return parts
  }

  it("says that nobody has logged in", async () => {
    const { client } = startClient()
    expect(await client.status()).toEqual({ state: "logged_out", reason: "not_logged_in" })
  })

  it.each([
    { answer: failure(401, "unauthenticated"), reason: "revoked" },
    { answer: failure(409, "idempotency_response_expired"), reason: "lost" }
  ])("says that the session is $reason, until the next login", async ({ answer, reason }) => {
    const sessionStore = memorySessionStore()
    const { answers, client, pass } = await loggedIn({ sessionStore })
    answers.refresh = () => answer.clone()
    pass(life)
    expect(await client.me()).toMatchObject({ ok: false, error: { code: "logged_out", details: { reason } } })
    for (let round = 0; round < 2; round += 1)
      expect(await client.status()).toEqual({ state: "logged_out", reason })
    // A client that did not see the end knows only that there is no session.
    const second = startClient({ sessionStore })
    expect(await second.client.status()).toEqual({ state: "logged_out", reason: "not_logged_in" })
    await client.login("oac_2")
    expect((await client.status()).state).toBe("authenticated")
    await client.logout()
    expect(await client.status()).toEqual({ state: "logged_out", reason: "not_logged_in" })
  })

  it("forgets the reason once another program has logged in", async () => {
    const sessionStore = memorySessionStore()
    const { answers, client, pass } = await loggedIn({ sessionStore })
    answers.refresh = () => failure(401, "unauthenticated")
    pass(life)
    await client.me()
    const second = startClient({ sessionStore })
    await second.client.login("oac_2")
    expect(await client.session()).toMatchObject({ value: { org_id: "acme" } })
    await second.client.logout()
    expect(await client.status()).toEqual({ state: "logged_out", reason: "not_logged_in" })
  })

  it("says that another program logged out while the call waited for its refresh", async () => {
    const sessionStore = memorySessionStore()
    let waiting = 0
    const lock: SessionLock = {
      acquire: (slot, signal) => {
        waiting += 1
        return sessionStore.lock?.acquire(slot, signal) ?? Promise.reject(new Error("no lock"))
      }
    }
    const service = recordingService()
    const first = startClient({ sessionStore }, service)
    const second = startClient({ sessionStore, lock }, service)
    await first.client.login("oac_1")
    let answer: () => void = () => undefined
    service.answers.logout = () =>
      new Promise((resolve) => {
        answer = () => resolve(new Response(null, { status: 204 }))
      })
    // The first holds the lock when the second begins to wait for it.
    const logout = first.client.logout()
    await expect.poll(() => service.calls.at(-1)).toBe("logout")
    second.pass(life)
    const me = second.client.me()
    await expect.poll(() => waiting).toBe(1)
    answer()
    expect(await logout).toMatchObject({ ok: true })
    expect(await me).toMatchObject({ error: { code: "logged_out", details: { reason: "replaced" } } })
    expect(second.events.filter(({ type }) => type === "logged_out")).toMatchObject([{ reason: "replaced" }])
    expect(await second.client.status()).toEqual({ state: "logged_out", reason: "replaced" })
  })

  it("says that new tokens are refused, while the session stays", async () => {
    const { answers, client } = await loggedIn()
    answers.me = () => failure(401, "unauthenticated")
    expect(await client.status()).toEqual({ state: "logged_out", reason: "refused" })
    expect(await client.session()).toMatchObject({ value: { org_id: "acme" } })
    delete answers.me
    expect((await client.status()).state).toBe("authenticated")
  })

  it("says unknown during an outage", async () => {
    const { answers, client } = await loggedIn()
    answers.me = () => failure(503, "dependency_unavailable", { "retry-after": "60" })
    expect(await client.status()).toMatchObject({
      state: "unknown",
      error: { code: "dependency_unavailable", retryAfterSeconds: 60 }
    })
  })
})

describe("The key of a ting", () => {
  const keyOf = async (key: unknown) => {
    const { answers, client, requests } = startClient()
    await client.login("oac_1")
    answers.tings = () => json(ting)
    await client.ting({ type: "t", key: key as string, data: {} })
    return JSON.parse(requests.at(-1)?.body ?? "").key as unknown
  }

  it.each([
    ["trigger/7", "si:deejay/trigger/7"],
    ["trigger", "si:deejay/trigger"],
    ["si:deejay/trigger/7", "si:deejay/trigger/7"],
    // The service refuses another's key.
    ["si:other/trigger", "si:other/trigger"],
    ["c:bob/trigger", "c:bob/trigger"],
    ["si:x/trigger", "si:deejay/si:x/trigger"],
    ["", ""],
    [7, 7],
    [null, null]
  ])("%j is sent as %j", async (given, sent) => {
    expect(await keyOf(given)).toEqual(sent)
  })

  it("stays the same in all attempts", async () => {
    const { answers, client, requests } = startClient()
    await client.login("oac_1")
    let count = 0
    answers.tings = () => {
      count += 1
      return count === 1 ? new Response("", { status: 502 }) : json(ting)
    }
    expect(await client.ting({ type: "t", key: "x", data: {} })).toMatchObject({ ok: true })
    const bodies = requests.filter(({ url }) => url.endsWith("/tings")).map(({ body }) => body)
    expect(bodies).toHaveLength(2)
    expect(bodies[1]).toBe(bodies[0])
  })

  it("follows the actor of a session that another program replaced during the call", async () => {
    const sessionStore = memorySessionStore()
    const { answers, client, requests } = startClient({ sessionStore })
    await client.login("oac_1")
    const other = startClient({ sessionStore }, recordingService(50))
    other.answers.login = () =>
      json({
        access_token: "oat_50",
        refresh_token: "ort_50",
        expires_in: 1800,
        scope: "s",
        actor: { type: "silicon", public_id: "si:other" },
        org_id: "acme",
        org_ids: ["acme"],
        testing_environment_id: null,
        ting: { subscribed: true }
      })
    answers.tings = async () => {
      const isFirst = requests.filter(({ url }) => url.endsWith("/tings")).length === 1
      if (!isFirst) return json(ting)
      await other.client.login("oac_2")
      return failure(401, "unauthenticated")
    }
    expect(await client.ting({ type: "t", key: "x", data: {} })).toMatchObject({ ok: true })
    const sent = requests
      .filter(({ url }) => url.endsWith("/tings"))
      .map(({ body, headers }) => [headers.get("authorization"), JSON.parse(body).key])
    expect(sent).toEqual([
      ["Bearer oat_1", "si:deejay/x"],
      ["Bearer oat_50", "si:other/x"]
    ])
  })
})

type Call = (client: MusicClient, call: RequestOptions) => Promise<unknown>
const calls: Readonly<Record<string, Call>> = {
  login: (client, call) => client.login("oac_2", call),
  logout: (client, call) => client.logout(call),
  forget: (client, call) => client.logout({ ...call, forget: true }),
  status: (client, call) => client.status(call),
  me: (client, call) => client.me(call),
  subscribe: (client, call) => client.subscribe(call),
  ting: (client, call) => client.ting({ type: "t", key: "k", data: {} }, call),
  report: (client, call) => client.report({ message: "m" }, call),
  anonymous: (client, call) => client.report({ message: "m" }, { ...call, anonymous: true }),
  iam: (client, call) => client.iam(call),
  version: (client, call) => client.version(call),
  healthz: (client, call) => client.healthz(call),
  readyz: (client, call) => client.readyz(call),
  request: (client, call) => client.request("GET", "/x", call),
  "request without session": (client, call) => client.request("GET", "/x", { ...call, session: "none" }),
  flush: (client, call) => client.telemetry.flush(call)
}

it.each([
  ["org", (client: MusicClient) => client.me({ org: "" })],
  ["idempotencyKey", (client: MusicClient) => client.report({ message: "m" }, { idempotencyKey: "" })],
  ["idempotencyKey", (client: MusicClient) => client.login("oac_2", { idempotencyKey: "" })],
  ["idempotencyKey", (client: MusicClient) => client.request("POST", "/x", { idempotencyKey: "" })],
  ["slt", (client: MusicClient) => client.login(undefined as unknown as string)]
] as const)("An empty %s is refused before anything is sent", async (path, call) => {
  const { client, requests } = startClient()
  await client.login("oac_1")
  requests.length = 0
  expect(await call(client)).toMatchObject({
    ok: false,
    error: { code: "invalid_input", details: { fields: [{ path }] } }
  })
  expect(requests).toEqual([])
})

describe.each(Object.keys(calls))("A wrong option of %s", (name) => {
  const attempt = async (call: object) => {
    const { client, requests } = startClient({ telemetry: true })
    await client.login("oac_1")
    client.telemetry.record("musicclidaemon", {})
    requests.length = 0
    const result = await calls[name]?.(client, call as RequestOptions)
    const stored = await client.session()
    return { result, requests, isKept: stored.ok && stored.value !== null }
  }

  it.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 31, "5000", {}, true])(
    "deadlineMilliseconds %j sends and changes nothing",
    async (deadlineMilliseconds) => {
      const { isKept, requests, result } = await attempt({ deadlineMilliseconds })
      expect(result).toMatchObject({
        error: {
          code: "invalid_input",
          requestId: null,
          details: { fields: [{ path: "deadlineMilliseconds" }] }
        }
      })
      expect(requests).toEqual([])
      expect(isKept).toBe(true)
    }
  )

  it.each([{}, 5, "signal", { aborted: false }, () => undefined])(
    "signal %j sends nothing",
    async (signal) => {
      const { isKept, requests, result } = await attempt({ signal })
      expect(result).toMatchObject({
        error: { code: "invalid_input", details: { fields: [{ path: "signal" }] } }
      })
      expect(requests).toEqual([])
      expect(isKept).toBe(true)
    }
  )

  it("null is no option", async () => {
    const { requests } = await attempt({ deadlineMilliseconds: null, signal: null })
    expect(requests).not.toEqual([])
  })
})
