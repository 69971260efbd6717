/** What the simulated Ting refuses, with proofs of the simulated IAM. */
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { startTing, type TingSimulator } from "../../sandbox/upstreams/Ting.ts"
import { type Bench, type HeaderMap, key, loggedIn, outcome, send, startBench, textAt } from "./iamClient.ts"

let bench: Bench
let ting: TingSimulator

beforeEach(async () => {
  bench = await startBench()
  ting = await startTing({
    now: () => bench.clock.time,
    iamUrl: bench.iam.url,
    appSecret: bench.seeded.production.tingSecret
  })
  ting.registerType("production", "music", "music.track.ready")
})
afterEach(async () => {
  await ting.close()
  await bench.iam.close()
})

const invalid = "400 invalid_input"
const tings = "/v1/tings"
const subscriptions = "/v1/subscriptions"
const json = { "content-type": "application/json" }
const sample = (change: Readonly<Record<string, unknown>> = {}) =>
  JSON.stringify({
    org_id: "acme",
    type: "music.track.ready",
    for: "si:deejay",
    key: "si:deejay/1",
    data: {},
    ...change
  })
const registration = (change: Readonly<Record<string, unknown>> = {}) =>
  JSON.stringify({ org_id: "acme", app_id: "music", for: "si:deejay", ...change })

const bare = (body: string | Buffer, headers: HeaderMap = json, path = tings) =>
  send(ting.url, "POST", path, headers, body)
const carrying = (path: string, body: string, proof: string, headers: HeaderMap = {}) =>
  bare(body, { ...json, authorization: `Bearer ${proof}`, ...headers }, path)

let proofs = 0
/** A proof of IAM for these bytes. */
const exchange = async (client: Bench["production"], subject: string, path: string, bytes: string) => {
  proofs += 1
  const endpointId = path === tings ? "tings.send" : "subscriptions.register"
  const { json: answer } = await client.exchange({
    subject,
    path,
    bytes,
    orgId: "acme",
    endpointId,
    key: key(`proof${proofs}`)
  })
  return answer
}
const prove = async (path: string, bytes: string) =>
  textAt(await exchange(bench.production, (await loggedIn(bench)).access, path, bytes), "access_proof")
const proved = async (path: string, body: string, headers: HeaderMap = {}) =>
  outcome(await carrying(path, body, await prove(path, body), headers))

describe("before the bearer", () => {
  it("refuses a browser, a large body and another content type", async () => {
    const browser = { ...json, origin: "https://elsewhere.example" }
    expect(outcome(await bare(sample(), browser))).toBe("403 permission_denied")
    for (const bytes of [262_145, 1_048_577])
      expect(outcome(await bare("x".repeat(bytes)))).toBe("413 payload_too_large")
    const padded = sample({
      data: { pad: "x".repeat(262_144 - Buffer.byteLength(sample({ data: { pad: "" } }))) }
    })
    expect(outcome(await bare(padded))).toBe("401 authentication_required")
    for (const type of ["text/plain", "Application/json", "application/json2"])
      expect(outcome(await bare("{}", { "content-type": type }))).toBe(invalid)
  })

  it.each(["{", "{} 1", "[]", Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])])(
    "refuses the body %j",
    async (body) => {
      expect(outcome(await bare(body))).toBe(invalid)
    }
  )

  it.each([
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
  ])("refuses the format of %j", async (change) => {
    expect(outcome(await bare(sample(change)))).toBe(invalid)
  })

  it.each([undefined, "Bearer ", "bearer obo_x", "Basic obo_x", `Bearer ${"x".repeat(8193)}`])(
    "refuses the authorization %j",
    async (authorization) => {
      const headers = authorization === undefined ? json : { ...json, authorization }
      expect(outcome(await bare(sample(), headers))).toBe("401 authentication_required")
    }
  )
})

describe("with a proof", () => {
  it("accepts it once, for its own bytes and organisation", async () => {
    const first = await prove(subscriptions, registration())
    expect((await carrying(subscriptions, registration(), first)).status).toBe(201)
    expect(outcome(await carrying(subscriptions, registration(), first))).toBe("401 proof_consumed")
    const second = await prove(tings, sample())
    expect(outcome(await carrying(tings, `${sample()} `, second))).toBe("401 invalid_proof")
    expect((await carrying(tings, sample(), second)).status).toBe(202)
    const late = await prove(tings, sample())
    bench.clock.time += 60_000
    expect(outcome(await carrying(tings, sample(), late))).toBe("401 proof_expired")
    expect(await proved(tings, sample({ org_id: "zenith" }))).toBe("401 invalid_proof")
    const inbox = await send(ting.url, "GET", "/_sandbox/inbox?org=acme&for=si:deejay")
    expect(inbox.json).toMatchObject({ items: [{ key: "si:deejay/1", silent: false }] })
  })

  it("replays equal content under its key, and refuses other content", async () => {
    expect(await proved(subscriptions, registration())).toBe("201")
    const texts = [sample({ data: { a: 1, b: 2 } }), sample({ data: { b: 2, a: 1 }, metadata: {} }), sample()]
    expect([await proved(tings, texts[0] ?? ""), await proved(tings, texts[1] ?? "")]).toEqual(["202", "200"])
    expect(await proved(tings, texts[2] ?? "")).toBe("409 idempotency_conflict")
  })

  it.each([
    [{ org_id: undefined }, invalid],
    [{ extra: null }, invalid],
    [{ type: undefined }, invalid],
    [{ for: 5 }, invalid],
    [{ key: undefined }, invalid],
    [{ key: "é".repeat(101) }, invalid],
    [{ key: "a\nb" }, invalid],
    [{ data: [] }, invalid],
    [{ metadata: null }, invalid],
    [{ type: "other.a.b" }, "403 permission_denied"],
    [{ app_id: "other" }, "403 permission_denied"],
    [{ type: "music.other.type" }, "404 not_found"],
    [{}, "403 recipient_not_registered"]
  ])("refuses the ting %j", async (change, expected) => {
    expect(await proved(tings, sample(change))).toBe(expected)
  })

  it.each([
    [{ for: "si:lyra" }, "403 permission_denied"],
    [{ for: 5 }, invalid],
    [{ extra: 1 }, invalid],
    [{ app_id: undefined }, invalid]
  ])("refuses the registration %j", async (change, expected) => {
    expect(await proved(subscriptions, registration(change))).toBe(expected)
  })
})

describe("in a testing environment", () => {
  it("accepts only the credentials of the exchange, both of them", async () => {
    const login = await bench.testing.login("si:deejay")
    const subject = textAt(login.json, "access_token")
    const attempt = async (change: HeaderMap) => {
      const answer = await exchange(bench.testing, subject, subscriptions, registration())
      const headers = {
        iam_test_app_secret: textAt(answer, "testing_context", "app_secret"),
        "x-testing-environment-key": textAt(answer, "testing_context", "iam_test_key"),
        ...change
      }
      const sent = Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== ""))
      return outcome(await carrying(subscriptions, registration(), textAt(answer, "access_proof"), sent))
    }
    expect(await attempt({ iam_test_app_secret: "", "x-testing-environment-key": "" })).toBe(
      "401 invalid_proof"
    )
    expect(await attempt({ iam_test_app_secret: "" })).toBe("400 test_context_required")
    expect(await attempt({ "x-testing-environment-key": "" })).toBe("400 test_context_required")
    expect(await attempt({ "x-testing-environment-key": "B".repeat(32) })).toBe("403 permission_denied")
    expect(await attempt({ iam_test_app_secret: bench.seeded.environment.musicSecret })).toBe(
      "403 permission_denied"
    )
    expect(await attempt({ iam_test_app_secret: `ask_${"0".repeat(43)}` })).toBe("401 session_expired")
    expect(await attempt({})).toBe("201")
    expect([
      ting.grants(bench.seeded.environment.environmentId).length,
      ting.grants("production").length
    ]).toEqual([1, 0])
  })
})
