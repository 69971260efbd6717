/** What `session` and `status` say, and the keys of tings. */
import { describe, expect, it } from "vitest"
import { memorySessionStore, type SessionLock, type StoredSession } from "../../../client/index.ts"
import {
  failure,
  json,
  life,
  loggedIn,
  makeClient,
  makeService,
  pairOf,
  storeWith,
  testingKey
} from "../support/ClientWorld.ts"

const loggedOut = (reason: string) => ({ state: "logged_out", reason })

describe("session()", () => {
  it("says when the access token ends, and a later end after a refresh", async () => {
    let now = Date.parse("2026-11-22T08:00:00Z")
    const { client } = makeClient({ clock: { now: () => now, monotonic: () => now } })
    expect(await client.login("oac_1")).toMatchObject({ value: { expires_at: "2026-11-22T08:30:00.000Z" } })
    expect(await client.session()).toMatchObject({ value: { expires_at: "2026-11-22T08:30:00.000Z" } })
    now += life
    await client.me()
    expect(await client.session()).toMatchObject({ value: { expires_at: "2026-11-22T09:00:00.000Z" } })
  })

  /** A client of a store whose session has other members. */
  const changed = (change: object) =>
    loggedIn({
      sessionStore: storeWith(({ load }) => ({
        load: async (slot) => {
          const stored = (await load(slot)) as StoredSession | undefined
          return stored === undefined ? undefined : { ...stored, ...change }
        }
      }))
    })

  it.each([
    { expires_in: 1e300, obtained_at: 0 },
    { expires_in: -1e300, obtained_at: 0 },
    { expires_in: Number.MAX_VALUE, obtained_at: Number.MAX_VALUE },
    { expires_in: 0, obtained_at: -1 },
    { expires_in: 1.5, obtained_at: 0.25 }
  ])("has a date for %j", async (odd) => {
    const { client } = await changed(odd)
    expect(await client.session()).toMatchObject({
      ok: true,
      value: { expires_at: expect.stringMatching(/Z$/) }
    })
    expect(await client.me()).toMatchObject({ ok: true })
  })

  it.each([Number.NaN, Number.POSITIVE_INFINITY, "1800", null])(
    "refuses the stored life %j",
    async (expires_in) => {
      const { client } = await changed({ expires_in })
      expect(await client.session()).toMatchObject({ ok: false, error: { details: { reason: "corrupt" } } })
    }
  )

  it("has no token, and a copy of the stored session", async () => {
    const { client } = await loggedIn()
    const result = await client.session()
    expect(JSON.stringify(result)).not.toMatch(/oat_|ort_/)
    Object.assign(result.value?.actor ?? {}, { public_id: "si:other" })
    expect(await client.session()).toMatchObject({ value: { actor: { public_id: "si:deejay" } } })
  })
})

describe("status()", () => {
  it.each([
    [401, "unauthenticated", "revoked"],
    [409, "idempotency_response_expired", "lost"]
  ])(
    "says after %i %s to a refresh that the session is over, until the next login",
    async (status, code, reason) => {
      const sessionStore = memorySessionStore()
      const { answers, client, pass } = await loggedIn({ sessionStore })
      answers.refresh = () => failure(status, code)
      pass(life)
      const error = { code: "logged_out", details: { reason }, hint: expect.stringContaining("og in") }
      expect(await client.me()).toMatchObject({ ok: false, error })
      for (const _ of [1, 2]) expect(await client.status()).toEqual(loggedOut(reason))
      // A client that did not see the end knows only that there is no session.
      const second = makeClient({ sessionStore })
      expect(await second.client.status()).toEqual(loggedOut("not_logged_in"))
      await second.client.login("oac_2")
      expect(await client.session()).toMatchObject({ value: { org_id: "acme" } })
      await second.client.logout()
      expect(await client.status()).toEqual(loggedOut("not_logged_in"))
    }
  )

  it("says that another program logged out while the call waited for its refresh", async () => {
    const sessionStore = memorySessionStore()
    let waiting = 0
    const lock: SessionLock = {
      acquire: (slot, signal) => {
        waiting += 1
        return sessionStore.lock?.acquire(slot, signal) ?? expect.unreachable("a memory has a lock")
      }
    }
    const service = makeService()
    const first = await loggedIn({ sessionStore }, service)
    const second = makeClient({ sessionStore, lock }, service)
    const answer = service.hold("logout")
    // The first holds the lock when the second begins to wait for it.
    const logout = first.client.logout()
    await expect.poll(() => service.calls().at(-1)).toBe("logout")
    second.pass(life)
    const me = second.client.me()
    await expect.poll(() => waiting).toBe(1)
    answer(new Response(null, { status: 204 }))
    expect(await logout).toMatchObject({ ok: true })
    expect(await me).toMatchObject({ error: { code: "logged_out", details: { reason: "replaced" } } })
    expect(second.events.filter(({ type }) => type === "logged_out")).toMatchObject([{ reason: "replaced" }])
    expect(await second.client.status()).toEqual(loggedOut("replaced"))
  })

  it("says that new tokens are refused while the session stays, and unknown during an outage", async () => {
    const { answers, client } = await loggedIn()
    answers.me = () => failure(401, "unauthenticated")
    expect(await client.status()).toEqual(loggedOut("refused"))
    expect(await client.session()).toMatchObject({ value: { org_id: "acme" } })
    answers.me = () => failure(503, "dependency_unavailable", { "retry-after": "60" })
    const error = { code: "dependency_unavailable", retryAfterSeconds: 60 }
    expect(await client.status()).toMatchObject({ state: "unknown", error })
    delete answers.me
    expect(await client.status()).toMatchObject({ state: "authenticated" })
  })
})

describe("A session belongs to one plane and server:", () => {
  it("that of another slot is refused, and slots name no secret", async () => {
    const sessionStore = memorySessionStore()
    const { service } = await loggedIn({ sessionStore })
    const slots: Array<string> = []
    const seen = storeWith(
      ({ load }) => ({
        load: (slot) => {
          slots.push(slot)
          return load(slots[0] ?? slot)
        }
      }),
      sessionStore
    )
    await makeClient({ sessionStore: seen }, service).client.session()
    const testing = makeClient({ sessionStore: seen, testingKey }, service)
    expect(await testing.client.me()).toMatchObject({ ok: false, error: { code: "store_failed" } })
    expect(service.requests).toEqual([])
    expect(slots[0]).toMatch(/^production-[0-9a-f]{32}$/)
    expect(slots[1]).toMatch(/^testing-[0-9a-f]{32}$/)
  })

  it("a client of a testing plane takes none of production from the service", async () => {
    const { client } = makeClient({ testingKey })
    const error = { code: "unexpected_answer", details: { reason: "other_plane" } }
    expect(await client.login("si:deejay")).toMatchObject({ ok: false, error })
    expect(await client.session()).toMatchObject({ ok: true, value: null })
  })
})

describe("The key of a ting", () => {
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
  ])("%j is sent as %j", async (key, sent) => {
    const { client, requests } = await loggedIn()
    await client.ting({ type: "t", key: key as string, data: {} })
    expect(JSON.parse(requests[0]?.body ?? "").key).toEqual(sent)
  })

  it("follows the actor of a session that another program replaced during the call", async () => {
    const sessionStore = memorySessionStore()
    const { client, once, requests } = await loggedIn({ sessionStore })
    const other = makeClient({ sessionStore })
    const actor = { type: "silicon", public_id: "si:other" }
    other.answers.login = () => json({ ...pairOf(50, { actor }), ting: { subscribed: true } })
    once("tings", async () => {
      await other.client.login("oac_2")
      return failure(401, "unauthenticated")
    })
    expect(await client.ting({ type: "t", key: "x", data: {} })).toMatchObject({ ok: true })
    const sent = requests.map(({ body, headers }) => [headers.get("authorization"), JSON.parse(body).key])
    expect(sent).toEqual([
      ["Bearer oat_1", "si:deejay/x"],
      ["Bearer oat_50", "si:other/x"]
    ])
  })
})
