import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { outcome, send } from "./iamClient.ts"
import {
  type Bench,
  environment,
  harbor,
  planeHeaders,
  register,
  sample,
  sendTing,
  startBench,
  visit
} from "./tingClient.ts"

let bench: Bench
let token: string
const lyra = { plane: "production", org: "harbor", app_id: "music", for: "si:lyra" }

beforeEach(async () => {
  bench = await startBench()
  await register(bench)
  token = bench.ting.mintSession({ plane: "production", for: "si:lyra" })
})
afterEach(() => bench.close())

const mine = (method: string, path: string, body?: unknown) =>
  visit(bench, token, method, `/v1/orgs/harbor${path}`, body)
const deliver = async (...keys: ReadonlyArray<string>) => {
  const ids: Array<string> = []
  for (const key of keys) ids.push(String((await sendTing(bench, sample({ key }))).json.id))
  return ids
}
// A list answers with records that have keys.
const keys = (json: unknown) =>
  (json as { readonly items: ReadonlyArray<{ readonly key: string }> }).items.map((item) => item.key)

describe("a recipient's session", () => {
  it("is minted, recorded, and has the contract's form", () => {
    expect(token).toMatch(/^ting_[0-9a-f]{64}$/)
    expect(bench.ting.minted).toContain(token)
  })

  it("is needed, and is never a proof", async () => {
    const path = "/v1/orgs/harbor/inbox"
    expect(outcome(await send(bench.ting.url, "GET", path))).toBe("401 authentication_required")
    expect(outcome(await visit(bench, bench.proof(), "GET", path))).toBe("401 authentication_required")
    expect(outcome(await sendTing(bench, sample(), { bearer: token }))).toBe("401 invalid_proof")
  })

  it("reaches only its organisations", async () => {
    const narrow = bench.ting.mintSession({ plane: "production", for: "si:lyra", orgs: ["dock"] })
    expect(outcome(await visit(bench, narrow, "GET", "/v1/orgs/harbor/inbox"))).toBe("403 permission_denied")
    expect(outcome(await mine("GET", "/unknown"))).toBe("404 not_found")
  })

  it("refuses testing headers of another plane with test_context_mismatch", async () => {
    const inbox = (bearer: string) =>
      visit(bench, bearer, "GET", "/v1/orgs/harbor/inbox", undefined, planeHeaders)
    expect(outcome(await inbox(token))).toBe("403 test_context_mismatch")
    expect((await inbox(bench.ting.mintSession({ plane: environment, for: "si:lyra" }))).status).toBe(200)
  })
})

describe("the inbox", () => {
  it("lists newest first, silent ones included, with filters", async () => {
    await deliver("1")
    bench.ting.mute(lyra)
    const [, id] = await deliver("2", "3")
    await mine("POST", "/inbox/read", { message_ids: [id] })
    expect(keys((await mine("GET", "/inbox")).json)).toEqual(["3", "2", "1"])
    expect(keys((await mine("GET", "/inbox?silent=false")).json)).toEqual(["1"])
    expect(keys((await mine("GET", "/inbox?read=true")).json)).toEqual(["3"])
    expect(keys((await mine("GET", "/inbox?app_id=other")).json)).toEqual([])
    expect(keys((await mine("GET", "/inbox?type=music.track.ready")).json).length).toBe(3)
    expect(keys((await visit(bench, token, "GET", `/v1/orgs/${harbor}/inbox`)).json).length).toBe(3)
  })

  it("pages with cursors that belong to one list", async () => {
    await deliver("1", "2", "3")
    const first = await mine("GET", "/inbox?limit=2")
    expect(keys(first.json)).toEqual(["3", "2"])
    const cursor = String(first.json.next_cursor)
    await deliver("4")
    const second = await mine("GET", `/inbox?limit=2&cursor=${cursor}`)
    expect([keys(second.json), second.json.next_cursor]).toEqual([["1"], undefined])
    expect(outcome(await mine("GET", `/inbox?silent=true&cursor=${cursor}`))).toBe("400 invalid_cursor")
    expect(outcome(await mine("GET", `/inbox?cursor=cur_${"0".repeat(32)}`))).toBe("400 invalid_cursor")
  })

  it.each(["limit=0", "limit=101", "limit=x", "read=maybe", "type=x", "cursor=x", "read=true&read=true"])(
    "refuses %s",
    async (query) => {
      expect(outcome(await mine("GET", `/inbox?${query}`))).toBe("400 invalid_input")
    }
  )

  it("shows one record, and nobody else's", async () => {
    const [id] = await deliver("1")
    expect((await mine("GET", `/inbox/${id}`)).json).toMatchObject({ id, key: "1", read: false })
    const other = bench.ting.mintSession({ plane: "production", for: "si:deejay" })
    expect(outcome(await visit(bench, other, "GET", `/v1/orgs/harbor/inbox/${id}`))).toBe("404 not_found")
  })

  it("marks all of the named tings read, or none", async () => {
    const [id] = await deliver("1")
    expect(outcome(await mine("POST", "/inbox/read", { message_ids: [id, "msg_x"] }))).toBe("404 not_found")
    expect((await mine("GET", `/inbox/${id}`)).json).toMatchObject({ read: false })
    expect((await mine("POST", "/inbox/read", { message_ids: [id] })).json).toEqual({
      message_ids: [id],
      read: true
    })
    expect((await mine("GET", `/inbox/${id}`)).json).toMatchObject({ read: true })
    expect(outcome(await mine("POST", "/inbox/read", { message_ids: [] }))).toBe("400 invalid_input")
  })

  it("keeps a read or silent ting one calendar month and any other three", async () => {
    bench.clock.time = Date.parse("2026-11-30T12:00:00Z")
    const [read] = await deliver("1", "2")
    await mine("POST", "/inbox/read", { message_ids: [read] })
    bench.clock.time = Date.parse("2026-12-30T11:59:59Z")
    expect(keys((await mine("GET", "/inbox")).json)).toEqual(["2", "1"])
    bench.clock.time = Date.parse("2026-12-30T12:00:00Z")
    expect(keys((await mine("GET", "/inbox")).json)).toEqual(["2"])
    bench.clock.time = Date.parse("2027-02-28T12:00:00Z")
    expect(keys((await mine("GET", "/inbox")).json)).toEqual([])
  })
})

describe("grants and preferences of a recipient", () => {
  it("are listed, revoked harmlessly twice, and switched to required delivery", async () => {
    const list = await mine("GET", "/subscriptions")
    const id = bench.ting.grants("production")[0]?.id
    expect(list.json).toEqual({
      items: [{ id, app_id: "music", for: "si:lyra", active: true, required_delivery: false }]
    })
    const optIn = `/subscriptions/${id}/required-delivery`
    expect((await mine("PUT", optIn, { enabled: true })).json).toEqual({
      id,
      app_id: "music",
      for: "si:lyra",
      enabled: true
    })
    expect((await sendTing(bench, sample({ delivery: "required" }))).status).toBe(202)
    for (let round = 0; round < 2; round += 1)
      expect((await mine("DELETE", `/subscriptions/${id}`)).json).toEqual({
        id,
        active: false,
        required_delivery: false
      })
    expect((await mine("GET", optIn)).json).toMatchObject({ enabled: false })
    expect(outcome(await mine("PUT", optIn, { enabled: true }))).toBe("404 not_found")
    expect(outcome(await mine("DELETE", "/subscriptions/sub_x"))).toBe("404 not_found")
    expect(outcome(await sendTing(bench, sample({ key: "k" })))).toBe("403 recipient_not_registered")
  })

  it("mute one type and are taken back", async () => {
    const scope = { app_id: "music", type: "music.track.ready" }
    const view = { app_id: "music", service: null, type: "music.track.ready", enabled: false }
    expect((await mine("PUT", "/preferences", { ...scope, service: null, enabled: false })).json).toEqual(
      view
    )
    expect((await mine("GET", "/preferences")).json).toEqual({ items: [view] })
    expect((await sendTing(bench, sample({ key: "1" }))).json).toMatchObject({ silent: true })
    expect((await mine("DELETE", "/preferences", scope)).json).toEqual({ ...view, enabled: true })
    expect((await mine("GET", "/preferences")).json).toEqual({ items: [] })
    expect((await sendTing(bench, sample({ key: "2" }))).json).toMatchObject({ silent: false })
  })

  it.each([
    { app_id: "music" },
    { app_id: "music", enabled: "no" },
    { enabled: false },
    { app_id: "music", service: "track", type: "music.track.ready", enabled: false },
    { app_id: "other", type: "music.track.ready", enabled: false },
    { app_id: "music", enabled: false, extra: 1 }
  ])("refuse the preference %j", async (body) => {
    expect(outcome(await mine("PUT", "/preferences", body))).toBe("400 invalid_input")
  })
})

describe("types of an application", () => {
  const types = "/v1/orgs/owner/apps/music/types"
  const administrator = () =>
    bench.ting.mintSession({ plane: "production", for: "c:ana", administers: ["music"] })

  it("are registered: 201 new, 200 the same, 409 with another description", async () => {
    const session = administrator()
    const body = { type: "music.queue.empty", description: "The queue ran out" }
    const view = { ...body, defaults: { carbon: true, silicon: true } }
    const first = await visit(bench, session, "POST", types, body)
    expect([first.status, first.json]).toEqual([201, view])
    expect((await visit(bench, session, "POST", types, body)).status).toBe(200)
    const changed = { ...body, description: "Other" }
    expect(outcome(await visit(bench, session, "POST", types, changed))).toBe("409 type_exists")
    const patch = await visit(bench, session, "PATCH", `${types}/music.queue.empty`, { description: "Other" })
    expect([patch.status, patch.json]).toEqual([200, { ...view, description: "Other" }])
    expect(outcome(await visit(bench, session, "PATCH", `${types}/music.a.b`, { description: "x" }))).toBe(
      "404 not_found"
    )
    const list = await visit(bench, session, "GET", types)
    expect(list.json).toMatchObject({ items: [{ type: "music.queue.empty" }, { type: "music.track.ready" }] })
  })

  it("belong to the application and its administrators, in one plane", async () => {
    const body = { type: "music.queue.empty", description: "The queue ran out" }
    expect(outcome(await visit(bench, token, "POST", types, body))).toBe("403 permission_denied")
    const foreign = { ...body, type: "other.a.b" }
    expect(outcome(await visit(bench, administrator(), "POST", types, foreign))).toBe("400 invalid_input")
    for (const description of [" ", "é".repeat(501)])
      expect(outcome(await visit(bench, administrator(), "POST", types, { ...body, description }))).toBe(
        "400 invalid_input"
      )
    await visit(bench, administrator(), "POST", types, body)
    const testing = { proof: { plane: environment }, headers: planeHeaders }
    expect(outcome(await sendTing(bench, sample({ type: body.type, key: "k" }), testing))).toBe(
      "404 not_found"
    )
    expect((await sendTing(bench, sample({ type: body.type, key: "k" }))).status).toBe(202)
  })
})

describe("switches over HTTP", () => {
  const control = (method: string, path: string, body?: unknown) =>
    send(bench.ting.url, method, `/_sandbox/${path}`, {}, body === undefined ? "" : JSON.stringify(body))
  const body = { org: "harbor", app_id: "music", for: "si:lyra" }

  it("show an inbox and grants without a session", async () => {
    await deliver("1")
    expect(keys((await control("GET", "inbox?plane=production&org=harbor&for=si:lyra")).json)).toEqual(["1"])
    expect(keys((await control("GET", `inbox?plane=${environment}&org=harbor&for=si:lyra`)).json)).toEqual([])
    expect((await control("GET", "grants")).json).toMatchObject({
      items: [{ for: "si:lyra", org: "harbor" }]
    })
  })

  it("mint a session that works", async () => {
    const answer = await control("POST", "sessions", { for: "si:lyra", orgs: ["harbor"] })
    const made = String(answer.json.token)
    expect(bench.ting.minted).toContain(made)
    expect((await visit(bench, made, "GET", "/v1/orgs/harbor/inbox")).status).toBe(200)
  })

  it("register types, mute, opt in, revoke, fail", async () => {
    const type = "music.queue.empty"
    expect((await control("POST", "types", { app_id: "music", type })).status).toBe(204)
    expect((await control("POST", "mute", { ...body, type })).status).toBe(204)
    expect((await sendTing(bench, sample({ type, key: "1" }))).json).toMatchObject({ silent: true })
    await control("POST", "unmute", { ...body, type })
    expect((await sendTing(bench, sample({ type, key: "2" }))).json).toMatchObject({ silent: false })
    await control("POST", "required-delivery", body)
    expect((await sendTing(bench, sample({ key: "3", delivery: "required" }))).status).toBe(202)
    await control("POST", "revoke", body)
    expect(outcome(await sendTing(bench, sample({ key: "4" })))).toBe("403 recipient_not_registered")
    await control("POST", "fail", { code: "temporarily_rate_limited", retry_after: 9 })
    expect((await sendTing(bench)).headers["retry-after"]).toBe("9")
    await control("POST", "faults", { path: "/v1/tings", fault: { kind: "drop" } })
    await expect(sendTing(bench)).rejects.toThrow()
    await control("POST", "lifecycle", { plane: environment, lifecycle: "pending" })
    expect(
      outcome(await sendTing(bench, sample(), { proof: { plane: environment }, headers: planeHeaders }))
    ).toBe("503 dependency_unavailable")
  })

  it.each([
    ["POST", "unknown", {}],
    ["POST", "mute", { org: "harbor" }],
    ["POST", "revoke", { ...body, for: "si:nobody" }],
    ["POST", "types", { app_id: "music", type: "other.a.b" }],
    ["POST", "fail", { code: "unknown" }],
    ["POST", "sessions", { for: "si:lyra", orgs: "harbor" }],
    ["POST", "lifecycle", { plane: environment, lifecycle: "odd" }],
    ["POST", "sessions", { for: "si:lyra", plane: "not-a-plane" }],
    ["GET", "inbox", undefined]
  ])("refuse %s %s %j", async (method, path, input) => {
    expect(outcome(await control(method, path, input))).toBe("400 invalid_control")
  })
})
