import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { outcome } from "./iamClient.ts"
import { type Bench, dock, harbor, register, sample, sendTing, startBench } from "./tingClient.ts"

let bench: Bench
const lyra = { plane: "production", org: "harbor", app_id: "music", for: "si:lyra" }

beforeEach(async () => {
  bench = await startBench()
  await register(bench)
})
afterEach(() => bench.close())

const invalid = "400 invalid_input"
const accepted = () => bench.ting.accepted("production")
const day = 86_400_000

describe("a ting", () => {
  it("is accepted with 202 and replayed with 200 and the original body", async () => {
    const first = await sendTing(bench)
    expect([first.status, first.json]).toEqual([
      202,
      {
        id: expect.stringMatching(/^msg_[0-9a-f]{32}$/),
        created_at: expect.stringMatching(/^2026-09-24T08:15:30\.412\d{3}Z$/),
        status: "accepted",
        key: "si:lyra/track/0198c1/ready",
        silent: false
      }
    ])
    bench.clock.time += 5000
    const again = await sendTing(bench)
    expect([again.status, again.text]).toEqual([200, first.text])
    expect(accepted().length).toBe(1)
  })

  it.each([
    [{ id: "x" }, invalid],
    [{ created_at: "x" }, invalid],
    [{ silent: true }, invalid],
    [{ read: true }, invalid],
    [{ extra: null }, invalid],
    [{ app_id: "music" }, invalid],
    [{ type: undefined }, invalid],
    [{ type: 5 }, invalid],
    [{ for: undefined }, invalid],
    [{ for: 5 }, invalid],
    [{ key: undefined }, invalid],
    [{ key: 5 }, invalid],
    [{ key: "" }, invalid],
    [{ key: "x".repeat(201) }, invalid],
    [{ key: "é".repeat(101) }, invalid],
    [{ key: "a\nb" }, invalid],
    [{ key: "a\u007fb" }, invalid],
    [{ key: "a\u0085b" }, invalid],
    [{ data: undefined }, invalid],
    [{ data: [] }, invalid],
    [{ data: null }, invalid],
    [{ metadata: null }, invalid],
    [{ metadata: "x" }, invalid],
    [{ type: "music.other.type" }, "404 not_found"],
    [{ for: "si:deejay" }, "403 recipient_not_registered"]
  ])("is refused with %j", async (change, expected) => {
    expect(outcome(await sendTing(bench, sample(change)))).toBe(expected)
    expect(accepted()).toEqual([])
  })

  it.each([{ key: " é ".repeat(50) }, { key: "x".repeat(200) }, { metadata: undefined }, { data: {} }])(
    "is accepted with %j",
    async (change) => {
      expect((await sendTing(bench, sample(change))).status).toBe(202)
    }
  )

  it("checks in this order: key, type, grant", async () => {
    await sendTing(bench)
    const other = { type: "music.unknown.type", for: "si:deejay" }
    expect(outcome(await sendTing(bench, sample(other)))).toBe("409 idempotency_conflict")
    expect(outcome(await sendTing(bench, sample({ ...other, key: "k" })))).toBe("404 not_found")
    const known = { ...other, key: "k", type: "music.track.ready" }
    expect(outcome(await sendTing(bench, sample(known)))).toBe("403 recipient_not_registered")
  })

  it("is sent to the recipient of the grant, not to the actor of the proof", async () => {
    await register(bench, { org_id: "harbor", app_id: "music" }, { proof: { actor: "c:ana" } })
    expect((await sendTing(bench, sample({ for: "c:ana" }))).status).toBe(202)
    expect(bench.ting.inbox("production", "harbor", "c:ana").length).toBe(1)
  })

  it("uses the grant in the organisation of the proof only", async () => {
    expect(outcome(await sendTing(bench, sample({ org_id: "dock" }), { proof: { org: "dock" } }))).toBe(
      "403 recipient_not_registered"
    )
  })
})

describe("a key", () => {
  const conflict = "409 idempotency_conflict"

  it.each([
    { data: { track_id: "0198c2" } },
    { metadata: { a: 1 } },
    { for: "si:deejay" },
    { type: "music.other.type" }
  ])("conflicts with other content: %j", async (change) => {
    await sendTing(bench)
    expect(outcome(await sendTing(bench, sample(change)))).toBe(conflict)
    expect(accepted().length).toBe(1)
  })

  it("distinguishes 1 from 1.0 and ignores key order, white space and the spelling of the organisation", async () => {
    const text = (data: string, org = "harbor", more = "") =>
      `{"data":${data},"key":"k",${more}"for":"si:lyra","type":"music.track.ready", "org_id":"${org}"}`
    expect((await sendTing(bench, text('{"a":1,"b":2}'))).status).toBe(202)
    expect((await sendTing(bench, text('{"b":2,  "a":1}', harbor, '"metadata":{},'))).status).toBe(200)
    expect(outcome(await sendTing(bench, text('{"a":1.0,"b":2}')))).toBe(conflict)
  })

  it("is scoped to one organisation and one application", async () => {
    await register(bench, { org_id: dock, app_id: "music" }, { proof: { org: "dock" } })
    await register(bench, { org_id: "harbor", app_id: "other" }, { proof: { issuer: "other" } })
    bench.ting.registerType("production", "other", "other.a.b")
    expect((await sendTing(bench)).status).toBe(202)
    expect((await sendTing(bench, sample({ org_id: "dock" }), { proof: { org: "dock" } })).status).toBe(202)
    const theirs = sample({ type: "other.a.b" })
    expect((await sendTing(bench, theirs, { proof: { issuer: "other" } })).status).toBe(202)
  })

  it("is shared by two recipients", async () => {
    await register(bench, { org_id: "harbor", app_id: "music" }, { proof: { actor: "c:ana" } })
    await sendTing(bench, sample({ key: "bare" }))
    expect(outcome(await sendTing(bench, sample({ key: "bare", for: "c:ana" })))).toBe(conflict)
  })

  it("replays after a revocation, also for another actor's proof, but not without a new proof", async () => {
    await sendTing(bench)
    bench.ting.revokeGrant(lyra)
    expect((await sendTing(bench, sample(), { proof: { actor: "si:deejay" } })).status).toBe(200)
    const bearer = bench.proof()
    expect((await sendTing(bench, sample(), { bearer })).status).toBe(200)
    expect(outcome(await sendTing(bench, sample(), { bearer }))).toBe("401 proof_consumed")
  })

  it("is kept for 14 days from the first acceptance; replays do not extend it", async () => {
    const first = await sendTing(bench)
    bench.clock.time += 13 * day
    expect((await sendTing(bench)).status).toBe(200)
    bench.clock.time += day - 1
    expect((await sendTing(bench)).status).toBe(200)
    bench.clock.time += 1
    const second = await sendTing(bench)
    expect(second.status).toBe(202)
    expect(second.json.id).not.toBe(first.json.id)
    expect((await sendTing(bench)).text).toBe(second.text)
  })

  it("stays free after a refusal", async () => {
    expect(outcome(await sendTing(bench, sample({ type: "music.other.type" })))).toBe("404 not_found")
    expect((await sendTing(bench)).status).toBe(202)
  })

  it("accepts one of many concurrent sends; equal ones get its answer, others conflict", async () => {
    const equal = await Promise.all(Array.from({ length: 20 }, () => sendTing(bench)))
    expect(equal.filter((answer) => answer.status === 202).length).toBe(1)
    expect(equal.filter((answer) => answer.status === 200).length).toBe(19)
    expect(new Set(equal.map((answer) => answer.text)).size).toBe(1)
    const different = await Promise.all(
      Array.from({ length: 20 }, (_, index) => sendTing(bench, sample({ key: "other", data: { index } })))
    )
    expect(different.filter((answer) => answer.status === 202).length).toBe(1)
    expect(different.filter((answer) => outcome(answer) === conflict).length).toBe(19)
    expect(accepted().length).toBe(2)
  })
})

describe("injected failures", () => {
  it.each([
    ["invalid_input", 400],
    ["test_context_required", 400],
    ["authentication_required", 401],
    ["invalid_proof", 401],
    ["proof_expired", 401],
    ["proof_consumed", 401],
    ["session_expired", 401],
    ["permission_denied", 403],
    ["recipient_not_registered", 403],
    ["required_delivery_not_enabled", 403],
    ["test_context_mismatch", 403],
    ["not_found", 404],
    ["idempotency_conflict", 409],
    ["payload_too_large", 413],
    ["temporarily_rate_limited", 429],
    ["dependency_unavailable", 503],
    ["storage_unavailable", 503],
    ["proof_verification_uncertain", 503]
  ] as const)("answers %s once with %i", async (code, status) => {
    bench.ting.failNext(code)
    const answer = await sendTing(bench)
    expect(outcome(answer)).toBe(`${status} ${code}`)
    expect(answer.json).toMatchObject({ error: { retryable: status === 429 || status === 503 } })
    expect((await sendTing(bench)).status).toBe(202)
  })

  it("limits with Retry-After, the given number of times, on both calls", async () => {
    bench.ting.failNext("temporarily_rate_limited", { retryAfter: 7, times: 2 })
    const first = await sendTing(bench)
    expect([first.status, first.headers["retry-after"]]).toEqual([429, "7"])
    expect((await register(bench)).status).toBe(429)
    expect((await sendTing(bench)).status).toBe(202)
  })

  it("loses the answer after the commit; the same key then replays", async () => {
    bench.ting.failNext("storage_unavailable", { committed: true })
    expect(outcome(await sendTing(bench))).toBe("503 storage_unavailable")
    expect((await sendTing(bench)).status).toBe(200)
    bench.ting.fail({ path: "/v1/tings", fault: { kind: "drop-after" } })
    await expect(sendTing(bench, sample({ key: "k" }))).rejects.toThrow()
    expect((await sendTing(bench, sample({ key: "k" }))).status).toBe(200)
    expect(accepted().length).toBe(2)
  })
})
