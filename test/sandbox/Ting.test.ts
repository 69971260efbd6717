/** What the simulated Ting refuses, with proofs of the simulated IAM. */
import { beforeEach, describe, expect, it } from "vitest"
import { makeTing } from "../../sandbox/upstreams/Ting.ts"
import { type HeaderMap, jsonType, key, outcome, send, startBench, textAt } from "./Simulators.ts"

const iamUrl = "http://iam.test"
let bench: ReturnType<typeof startBench>
let ting: ReturnType<typeof makeTing>
let subject: string
beforeEach(async () => {
  bench = startBench()
  ting = makeTing({
    now: () => bench.clock.time,
    iamUrl,
    appSecret: bench.seeded.production.tingSecret,
    fetch: async (url, init) => {
      const headers = Object.fromEntries(new Headers(init?.headers))
      const path = String(url).slice(iamUrl.length)
      const reply = await send(bench.handle, init?.method ?? "GET", path, headers, String(init?.body ?? ""))
      return new Response(JSON.stringify(reply.body), { status: reply.status })
    }
  })
  ting.controls.registerType("production", "music", "music.track.ready")
  subject = await bench.accessOf()
})

const invalid = "400 invalid_input"
const tings = "/v1/tings"
const subscriptions = "/v1/subscriptions"
const good = { org_id: "acme", type: "music.track.ready", for: "si:deejay", key: "si:deejay/1", data: {} }
const sample = (change: object = {}) => JSON.stringify({ ...good, ...change })
const registration = (change: object = {}) =>
  JSON.stringify({ org_id: "acme", app_id: "music", for: "si:deejay", ...change })
const bare = async (body: string | Buffer, headers: HeaderMap = jsonType, path = tings) =>
  outcome(await send(ting.handle, "POST", path, headers, body))

let proofs = 0
/** A proof of IAM for these bytes. */
const exchange = async (client: typeof bench.production, token: string, path: string, bytes: string) => {
  proofs += 1
  const endpointId = path === tings ? "tings.send" : "subscriptions.register"
  const given = { subject: token, path, bytes, orgId: "acme", endpointId, key: key(`proof${proofs}`) }
  return (await client.exchange(given)).body
}
const prove = async (path: string, bytes: string) =>
  textAt(await exchange(bench.production, subject, path, bytes), "access_proof")
const carry = (path: string, body: string, proof: string, headers: HeaderMap = {}) =>
  bare(body, { ...jsonType, authorization: `Bearer ${proof}`, ...headers }, path)
const proved = async (path: string, body: string) => carry(path, body, await prove(path, body))

describe("The simulated Ting", () => {
  it.each<[string, string | Buffer, HeaderMap?]>([
    ["403 permission_denied", sample(), { ...jsonType, origin: "https://elsewhere.example" }],
    ["413 payload_too_large", "x".repeat(262_145)],
    [invalid, "{}", { "content-type": "text/plain" }],
    [invalid, "{"],
    [invalid, Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])],
    [invalid, sample({ app_id: "Music" })],
    [invalid, sample({ for: "lyra" })],
    [invalid, sample({ type: `music.track.${"x".repeat(244)}` })],
    ["401 authentication_required", sample()],
    ["401 authentication_required", sample(), { ...jsonType, authorization: "Basic obo_x" }]
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
    expect(ting.controls.inbox("production", "acme", "si:deejay")).toHaveLength(1)
  })

  it("replays equal content under its key, and refuses other content", async () => {
    expect(await proved(subscriptions, registration())).toBe("201")
    expect(await proved(tings, sample({ data: { a: 1, b: 2 } }))).toBe("202")
    expect(await proved(tings, sample({ data: { b: 2, a: 1 }, metadata: {} }))).toBe("200")
    expect(await proved(tings, sample())).toBe("409 idempotency_conflict")
  })

  it.each([
    [tings, { key: undefined }, invalid],
    [tings, { extra: null }, invalid],
    [tings, { key: "é".repeat(101) }, invalid],
    [tings, { type: "other.a.b" }, "403 permission_denied"],
    [tings, { type: "music.other.type" }, "404 not_found"],
    [tings, {}, "403 recipient_not_registered"],
    [subscriptions, { for: "si:lyra" }, "403 permission_denied"],
    [subscriptions, { app_id: undefined }, invalid]
  ])("refuses at %s with a proof %j: %s", async (path, change, expected) => {
    expect(await proved(path, path === tings ? sample(change) : registration(change))).toBe(expected)
  })

  it("accepts in a testing environment only the credentials of the exchange, both of them", async () => {
    const { environment } = bench.seeded
    const token = textAt((await bench.testing.login("si:deejay")).body, "access_token")
    const [secret, selector] = ["iam_test_app_secret", "x-testing-environment-key"] as const
    const attempt = async (change: HeaderMap) => {
      const answer = await exchange(bench.testing, token, subscriptions, registration())
      const headers = {
        [secret]: textAt(answer, "testing_context", "app_secret"),
        [selector]: textAt(answer, "testing_context", "iam_test_key"),
        ...change
      }
      const sent = Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== ""))
      return carry(subscriptions, registration(), textAt(answer, "access_proof"), sent)
    }
    expect(await attempt({ [secret]: "", [selector]: "" })).toBe("401 invalid_proof")
    expect(await attempt({ [secret]: "" })).toBe("400 test_context_required")
    expect(await attempt({ [selector]: "" })).toBe("400 test_context_required")
    expect(await attempt({ [selector]: "B".repeat(32) })).toBe("403 permission_denied")
    expect(await attempt({ [secret]: environment.musicSecret })).toBe("403 permission_denied")
    expect(await attempt({})).toBe("201")
    const grantsOf = (plane: string) => ting.controls.grants(plane).length
    expect([grantsOf(environment.environmentId), grantsOf("production")]).toEqual([1, 0])
  })
})
