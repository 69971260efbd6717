/** What `session` and `status` say, and the keys of tings. */
import { describe, expect, it } from "vitest"
import { memorySessionStore } from "../../../client/index.ts"
import { failure, json, life, loggedIn, makeClient, loginOf, testingKey } from "../support/ClientWorld.ts"

const loggedOut = (reason: string) => ({ state: "logged_out", reason })

describe("session()", () => {
  it("says when the access token ends, and a later end after a refresh", async () => {
    let now = Date.parse("2026-11-22T08:00:00Z")
    const { client } = makeClient({ clock: { now: () => now, monotonic: () => now } })
    expect(await client.login("oac_1")).toMatchObject({ value: { expires_at: "2026-11-22T08:30:00.000Z" } })
    now += life
    await client.me()
    expect(await client.session()).toMatchObject({ value: { expires_at: "2026-11-22T09:00:00.000Z" } })
  })
})

describe("status()", () => {
  it.each([
    [401, "unauthenticated", "revoked"],
    [409, "idempotency_response_expired", "lost"]
  ])("says after %i %s that the session is over, once for all callers", async (status, code, reason) => {
    const sessionStore = memorySessionStore()
    const { answers, client, events, pass } = await loggedIn({ sessionStore })
    answers.refresh = () => failure(status, code)
    pass(life)
    const error = { code: "logged_out", details: { reason }, hint: expect.stringContaining("og in") }
    for (const result of await Promise.all([client.me(), client.me()]))
      expect(result).toMatchObject({ ok: false, error })
    expect(events.filter(({ type }) => type === "logged_out")).toMatchObject([{ reason }])
    for (const _ of [1, 2]) expect(await client.status()).toEqual(loggedOut(reason))
    // A client that did not see the end knows only that there is no session.
    const second = makeClient({ sessionStore })
    expect(await second.client.status()).toEqual(loggedOut("not_logged_in"))
    await second.client.login("oac_2")
    expect(await client.session()).toMatchObject({ value: { org_id: "acme" } })
    await second.client.logout()
    expect(await client.status()).toEqual(loggedOut("not_logged_in"))
  })

  it("says that new tokens are refused while the session stays, and unknown during an outage", async () => {
    const { answers, client, events } = await loggedIn()
    answers.me = () => failure(401, "unauthenticated")
    for (const _ of [1, 2]) expect(await client.status()).toEqual(loggedOut("refused"))
    expect(events.filter(({ type }) => type === "logged_out")).toMatchObject([{ reason: "refused" }])
    expect(await client.session()).toMatchObject({ value: { org_id: "acme" } })
    answers.me = () => failure(503, "dependency_unavailable", { "retry-after": "60" })
    const error = { code: "dependency_unavailable", retryAfterSeconds: 60 }
    expect(await client.status()).toMatchObject({ state: "unknown", error })
    delete answers.me
    expect(await client.status()).toMatchObject({ state: "authenticated" })
  })
})

describe("A session belongs to one plane and server:", () => {
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
    ["si:deejay/trigger/7", "si:deejay/trigger/7"],
    // The service refuses another's key.
    ["si:other/trigger", "si:other/trigger"],
    ["c:bob/trigger", "c:bob/trigger"],
    ["si:x/trigger", "si:deejay/si:x/trigger"],
    ["", ""],
    [7, 7]
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
    other.answers.login = () => json(loginOf(50, { actor }))
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
