/** The orders of checks of the simulated Ting, table service and tracker. */
import { randomUUID } from "node:crypto"
import { beforeEach, describe, expect, it } from "vitest"
import { trackerToken } from "../world/Upstreams.ts"
import { type HeaderMap, jsonType, key, outcome, send, startBench, textAt } from "./Simulators.ts"

describe("The simulated Ting", () => {
  let bench: ReturnType<typeof startBench>
  beforeEach(() => {
    bench = startBench()
  })

  const invalid = "400 invalid_input"
  const tings = "/v1/tings"
  const subscriptions = "/v1/subscriptions"
  const good = { org_id: "acme", type: "music.trigger.fired", for: "si:deejay", key: "si:deejay/1", data: {} }
  const sample = (change: object = {}) => JSON.stringify({ ...good, ...change })
  const registration = (change: object = {}) =>
    JSON.stringify({ org_id: "acme", app_id: "music", for: "si:deejay", ...change })
  const bare = async (body: string, headers: HeaderMap = jsonType, path = tings) =>
    outcome(await send(bench.ting.handle, "POST", path, headers, body))
  let proofs = 0
  /** IAM's answer with a proof for these bytes. */
  const exchange = async (client: typeof bench.production, subject: string, path: string, bytes: string) => {
    proofs += 1
    const endpointId = path === tings ? "tings.send" : "subscriptions.register"
    const given = { subject, path, bytes, orgId: "acme", endpointId, key: key(`proof${proofs}`) }
    return (await client.exchange(given)).body
  }
  const prove = async (path: string, bytes: string) =>
    textAt(await exchange(bench.production, await bench.accessOf(), path, bytes), "access_proof")
  const carry = (path: string, body: string, proof: string, headers: HeaderMap = {}) =>
    bare(body, { ...jsonType, authorization: `Bearer ${proof}`, ...headers }, path)
  const proved = async (path: string, body: string) => carry(path, body, await prove(path, body))

  it.each<[string, string, HeaderMap?]>([
    ["403 permission_denied", sample(), { ...jsonType, origin: "https://elsewhere.example" }],
    ["413 payload_too_large", "x".repeat(262_145)],
    [invalid, "{}", { "content-type": "text/plain" }],
    [invalid, sample({ app_id: "Music" })],
    ["401 authentication_required", sample()]
  ])("answers %s before it looks at a proof (%.60s %j)", async (expected, body, headers) => {
    expect(await bare(body, headers)).toBe(expected)
  })

  it("accepts a proof once, for its own bytes, organisation and minute", async () => {
    const first = await prove(subscriptions, registration())
    expect(await carry(subscriptions, registration(), first)).toBe("201")
    expect(await carry(subscriptions, registration(), first)).toBe("401 proof_consumed")
    const second = await prove(tings, sample())
    expect(await carry(tings, `${sample()} `, second)).toBe("401 invalid_proof")
    expect(await carry(tings, sample(), second)).toBe("202")
    expect(await proved(tings, sample({ data: { more: 1 } }))).toBe("409 idempotency_conflict")
    expect(await proved(tings, sample({ org_id: "zenith" }))).toBe("401 invalid_proof")
    const late = await prove(tings, sample())
    bench.time.jump(60_000)
    expect(await carry(tings, sample(), late)).toBe("401 proof_expired")
  })

  it.each([
    [tings, { key: "é".repeat(101) }, invalid],
    [tings, { type: "other.a.b" }, "403 permission_denied"],
    [tings, { type: "music.other.type" }, "404 not_found"],
    [tings, {}, "403 recipient_not_registered"],
    [subscriptions, { for: "si:lyra" }, "403 permission_denied"]
  ])("refuses at %s with a proof %j: %s", async (path, change, expected) => {
    expect(await proved(path, path === tings ? sample(change) : registration(change))).toBe(expected)
  })

  it("accepts in a testing environment only the credentials of the exchange, both of them", async () => {
    const token = textAt((await bench.testing.login("si:deejay")).body, "access_token")
    const attempt = async (change: HeaderMap) => {
      const answer = await exchange(bench.testing, token, subscriptions, registration())
      const headers = {
        iam_test_app_secret: textAt(answer, "testing_context", "app_secret"),
        "x-testing-environment-key": textAt(answer, "testing_context", "iam_test_key"),
        ...change
      }
      return carry(subscriptions, registration(), textAt(answer, "access_proof"), headers)
    }
    const { musicSecret } = bench.seeded.environment
    expect(await attempt({ iam_test_app_secret: [] })).toBe("400 test_context_required")
    expect(await attempt({ "x-testing-environment-key": "B".repeat(32) })).toBe("403 permission_denied")
    expect(await attempt({ iam_test_app_secret: musicSecret })).toBe("403 permission_denied")
    expect(await attempt({})).toBe("201")
  })
})

it("The simulated table service checks metadata, key, size and form; it knows a record for 300 s", async () => {
  const { tables, time } = startBench()
  const [key, other] = [tables.createTable("musicclidaemon"), tables.createTable("other")]
  const record_id = "01990c6e-5f0a-4c1e-8d3b-2a4f6b8c0d1e"
  const nil = "00000000-0000-0000-0000-000000000000"
  const entry = (change: object = {}) => {
    const metadata = { record_id, table_id: "musicclidaemon", event_ts_ms: time.now() }
    return { key, metadata, record: { type: "t", data: {} }, ...change }
  }
  const post = async (records: ReadonlyArray<unknown>, headers: HeaderMap = {}, padding = "") => {
    const body = JSON.stringify({ batch_id: randomUUID(), records }) + padding
    return send(tables.handle, "POST", "/api/ingest", { ...jsonType, "user-agent": "x", ...headers }, body)
  }
  const ingest = async (change: object = {}) => {
    const { body } = await post([entry(change)])
    const [rejected] =
      (body as { rejected?: ReadonlyArray<{ code: string; record_id: string }> }).rejected ?? []
    return rejected === undefined ? "stored" : `${rejected.code} ${rejected.record_id}`
  }
  const record = "x".repeat(270_336)
  expect(await ingest({ key: "table-nowhere-x", record, metadata: {} })).toBe(`invalid ${nil}`)
  expect(await ingest({ key: "table-nowhere-x", record })).toBe(`unauthorized ${record_id}`)
  expect(await ingest({ record })).toBe(`size_exceeded ${record_id}`)
  expect(await ingest({ record: [] })).toBe(`invalid ${record_id}`)
  expect(await ingest()).toBe("stored")
  time.jump(299_999)
  expect(await ingest({ key: other })).toBe(`duplicate ${record_id}`)
  time.jump(1)
  expect(await ingest()).toBe("stored")
  expect(outcome(await post([], { "user-agent": "" }))).toBe("403")
  expect(outcome(await post([], { "content-type": "text/plain" }))).toBe("400 bad_json")
  expect(outcome(await post([], {}, " ".repeat(8_388_608)))).toBe("400 bad_json")
  expect(outcome(await post([entry(), { key }]))).toBe("400 invalid_batch")
})

it("The simulated tracker checks the head, the token, the repository, the rights and the issue", async () => {
  const { time, tracker } = startBench()
  const issues = "/repos/harbor/music/issues"
  const as = (token: string, agent = "music/0.1.0") => ({
    ...{ authorization: `Bearer ${token}`, accept: "application/vnd.github+json" },
    ...{ "x-github-api-version": "2022-11-28", "user-agent": agent, ...jsonType }
  })
  const bot = as(trackerToken)
  const list = async (query: string, headers: HeaderMap = bot) =>
    send(tracker.handle, "GET", `${issues}?${query}`, headers)
  const file = async (content: object, headers: HeaderMap = bot) =>
    (await send(tracker.handle, "POST", issues, headers, JSON.stringify(content))).status
  expect((await list("", as("wrong", ""))).status).toBe(403)
  expect((await list("", as("wrong"))).status).toBe(401)
  tracker.setRights(trackerToken, "none")
  expect((await list("state=any")).status).toBe(404)
  tracker.setRights(trackerToken, "read")
  expect((await list("state=any")).status).toBe(422)
  expect(await file({})).toBe(403)
  tracker.setRights(trackerToken, "write")
  expect(await file({ title: "😀".repeat(257) })).toBe(422)
  expect(await file({ title: "x", body: "é".repeat(65_537) })).toBe(422)
  expect(await file({ title: "😀".repeat(256), body: "é".repeat(65_536) })).toBe(201)
  time.jump(1_000)
  expect(await file({ title: "second" })).toBe(201)
  // `since` is that of the last update, inclusive to the second.
  for (const [query, numbers] of [
    ["state=all", [2, 1]],
    ["state=all&direction=asc", [1, 2]],
    ["state=all&since=2026-09-25T10:15:31Z", [2]]
  ] as const)
    expect((await list(query)).body).toMatchObject(numbers.map((number) => ({ number })))
  tracker.archive("harbor/music")
  expect(await file({ title: "x" })).toBe(403)
  tracker.disableIssues("harbor/music")
  expect(await file({ title: "x" })).toBe(410)
})
