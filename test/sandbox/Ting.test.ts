/** What the simulated Ting refuses, with proofs of the simulated IAM. */
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { startTing, type TingSimulator } from "../../sandbox/upstreams/Ting.ts"
import { type Bench, type HeaderMap, jsonType, key, outcome, send, startBench, textAt } from "./IamBench.ts"

let bench: Bench
let ting: TingSimulator
let subject: string
beforeEach(async () => {
  bench = await startBench()
  const appSecret = bench.seeded.production.tingSecret
  ting = await startTing({ now: () => bench.clock.time, iamUrl: bench.iam.url, appSecret })
  ting.registerType("production", "music", "music.track.ready")
  subject = await bench.accessOf()
})
afterEach(async () => {
  await ting.close()
  await bench.iam.close()
})

const invalid = "400 invalid_input"
const tings = "/v1/tings"
const subscriptions = "/v1/subscriptions"
const good = { org_id: "acme", type: "music.track.ready", for: "si:deejay", key: "si:deejay/1", data: {} }
const sample = (change: object = {}) => JSON.stringify({ ...good, ...change })
const registration = (change: object = {}) =>
  JSON.stringify({ org_id: "acme", app_id: "music", for: "si:deejay", ...change })
const bare = async (body: string | Buffer, headers: HeaderMap = jsonType, path = tings) =>
  outcome(await send(ting.url, "POST", path, headers, body))

let proofs = 0
/** A proof of IAM for these bytes. */
const exchange = async (client: Bench["production"], token: string, path: string, bytes: string) => {
  proofs += 1
  const endpointId = path === tings ? "tings.send" : "subscriptions.register"
  const given = { subject: token, path, bytes, orgId: "acme", endpointId, key: key(`proof${proofs}`) }
  return (await client.exchange(given)).json
}
const prove = async (path: string, bytes: string) =>
  textAt(await exchange(bench.production, subject, path, bytes), "access_proof")
const carry = (path: string, body: string, proof: string, headers: HeaderMap = {}) =>
  bare(body, { ...jsonType, authorization: `Bearer ${proof}`, ...headers }, path)
const proved = async (path: string, body: string) => carry(path, body, await prove(path, body))

describe("The simulated Ting", () => {
  const padded = sample({
    data: { pad: "x".repeat(262_144 - Buffer.byteLength(sample({ data: { pad: "" } }))) }
  })
  it.each<readonly [string, string | Buffer, HeaderMap?]>([
    ["403 permission_denied", sample(), { ...jsonType, origin: "https://elsewhere.example" }],
    ["413 payload_too_large", "x".repeat(262_145)],
    ["413 payload_too_large", "x".repeat(1_048_577)],
    ["401 authentication_required", padded],
    ...["text/plain", "Application/json", "application/json2"].map(
      (type) => [invalid, "{}", { "content-type": type }] as const
    ),
    ...["{", "{} 1", "[]", Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])].map(
      (body) => [invalid, body] as const
    ),
    ...[
      { app_id: "Music" },
      { app_id: `m${"x".repeat(80)}` },
      { for: "lyra" },
      { for: "si:ab" },
      { for: `c:${"x".repeat(31)}` },
      { org_id: "" },
      { org_id: "a\u0000b" },
      { type: "music.track" },
      { type: "music.Track.ready" },
      { type: `music.track.${"x".repeat(244)}` }
    ].map((change) => [invalid, sample(change)] as const),
    ...["Bearer ", "bearer obo_x", "Basic obo_x", `Bearer ${"x".repeat(8193)}`].map(
      (authorization) => ["401 authentication_required", sample(), { ...jsonType, authorization }] as const
    )
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
    const late = await prove(tings, sample())
    bench.clock.time += 60_000
    expect(await carry(tings, sample(), late)).toBe("401 proof_expired")
    expect(await proved(tings, sample({ org_id: "zenith" }))).toBe("401 invalid_proof")
    const inbox = await send(ting.url, "GET", "/_sandbox/inbox?org=acme&for=si:deejay")
    expect(inbox.json).toMatchObject({ items: [{ key: "si:deejay/1", silent: false }] })
  })

  it("replays equal content under its key, and refuses other content", async () => {
    expect(await proved(subscriptions, registration())).toBe("201")
    expect(await proved(tings, sample({ data: { a: 1, b: 2 } }))).toBe("202")
    expect(await proved(tings, sample({ data: { b: 2, a: 1 }, metadata: {} }))).toBe("200")
    expect(await proved(tings, sample())).toBe("409 idempotency_conflict")
  })

  const missing = ["org_id", "type", "key"].map((name) => [tings, { [name]: undefined }, invalid] as const)
  const wrong = [
    { extra: null },
    { for: 5 },
    { key: "é".repeat(101) },
    { key: "a\nb" },
    { data: [] },
    { metadata: null }
  ]
  it.each<readonly [string, object, string]>([
    ...missing,
    ...wrong.map((change) => [tings, change, invalid] as const),
    [tings, { type: "other.a.b" }, "403 permission_denied"],
    [tings, { app_id: "other" }, "403 permission_denied"],
    [tings, { type: "music.other.type" }, "404 not_found"],
    [tings, {}, "403 recipient_not_registered"],
    [subscriptions, { for: "si:lyra" }, "403 permission_denied"],
    [subscriptions, { for: 5 }, invalid],
    [subscriptions, { extra: 1 }, invalid],
    [subscriptions, { app_id: undefined }, invalid]
  ])("refuses at %s with a proof %j: %s", async (path, change, expected) => {
    expect(await proved(path, path === tings ? sample(change) : registration(change))).toBe(expected)
  })

  it("accepts in a testing environment only the credentials of the exchange, both of them", async () => {
    const token = textAt((await bench.testing.login("si:deejay")).json, "access_token")
    const [secret, environment] = ["iam_test_app_secret", "x-testing-environment-key"] as const
    const attempt = async (change: HeaderMap) => {
      const answer = await exchange(bench.testing, token, subscriptions, registration())
      const headers = {
        [secret]: textAt(answer, "testing_context", "app_secret"),
        [environment]: textAt(answer, "testing_context", "iam_test_key"),
        ...change
      }
      const sent = Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== ""))
      return carry(subscriptions, registration(), textAt(answer, "access_proof"), sent)
    }
    expect(await attempt({ [secret]: "", [environment]: "" })).toBe("401 invalid_proof")
    expect(await attempt({ [secret]: "" })).toBe("400 test_context_required")
    expect(await attempt({ [environment]: "" })).toBe("400 test_context_required")
    expect(await attempt({ [environment]: "B".repeat(32) })).toBe("403 permission_denied")
    expect(await attempt({ [secret]: bench.seeded.environment.musicSecret })).toBe("403 permission_denied")
    expect(await attempt({ [secret]: `ask_${"0".repeat(43)}` })).toBe("401 session_expired")
    expect(await attempt({})).toBe("201")
    const grants = [bench.seeded.environment.environmentId, "production"].map(
      (plane) => ting.grants(plane).length
    )
    expect(grants).toEqual([1, 0])
  })
})
