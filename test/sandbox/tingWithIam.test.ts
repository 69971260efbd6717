import { createHash } from "node:crypto"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { startTing, type TingSimulator } from "../../sandbox/upstreams/Ting.ts"
import { type Bench, type Client, key, loggedIn, outcome, send, startBench, textAt } from "./iamClient.ts"

let bench: Bench
let ting: TingSimulator

beforeEach(async () => {
  bench = await startBench()
  ting = await startTing({
    now: () => bench.clock.time,
    iamUrl: bench.iam.url,
    appSecret: bench.seeded.production.tingSecret
  })
  for (const plane of ["production", bench.seeded.environment.environmentId])
    ting.registerType(plane, "music", "music.track.ready")
})
afterEach(async () => {
  await ting.close()
  await bench.iam.close()
})

const registration = JSON.stringify({ org_id: "acme", app_id: "music", for: "si:deejay" })
const ready = JSON.stringify({
  org_id: "acme",
  type: "music.track.ready",
  for: "si:deejay",
  key: "si:deejay/1",
  data: {}
})

const exchange = (client: Client, subject: string, path: string, bytes: string, attempt: string) =>
  client.exchange({
    subject,
    path,
    bytes,
    orgId: "acme",
    endpointId: path === "/v1/tings" ? "tings.send" : "subscriptions.register",
    key: key(attempt)
  })

const proofFor = async (subject: string, path: string, bytes: string, attempt: string) =>
  textAt((await exchange(bench.production, subject, path, bytes, attempt)).json, "access_proof")

const post = (path: string, bytes: string, bearer: string, headers: Record<string, string> = {}) =>
  send(
    ting.url,
    "POST",
    path,
    { authorization: `Bearer ${bearer}`, "content-type": "application/json", ...headers },
    bytes
  )

describe("Ting with the simulated IAM", () => {
  it("accepts each real proof once, for its own bytes", async () => {
    const { access } = await loggedIn(bench)
    const first = await proofFor(access, "/v1/subscriptions", registration, "a")
    expect((await post("/v1/subscriptions", registration, first)).status).toBe(201)
    expect(outcome(await post("/v1/subscriptions", registration, first))).toBe("401 proof_consumed")
    const second = await proofFor(access, "/v1/tings", ready, "b")
    expect(outcome(await post("/v1/tings", `${ready} `, second))).toBe("401 invalid_proof")
    expect((await post("/v1/tings", ready, second)).status).toBe(202)
    const late = await proofFor(access, "/v1/tings", ready, "c")
    bench.clock.time += 60_000
    expect(outcome(await post("/v1/tings", ready, late))).toBe("401 proof_expired")
    expect(ting.inbox("production", "acme", "si:deejay").length).toBe(1)
  })

  it("works in a testing environment with the credentials of the exchange only", async () => {
    const login = await bench.testing.login("si:deejay")
    const access = textAt(login.json, "access_token")
    const attempt = async (name: string) => {
      const { json } = await exchange(bench.testing, access, "/v1/subscriptions", registration, name)
      const headers = {
        iam_test_app_secret: textAt(json, "testing_context", "app_secret"),
        "x-testing-environment-key": textAt(json, "testing_context", "iam_test_key")
      }
      return { proof: textAt(json, "access_proof"), headers }
    }
    const plane = bench.seeded.environment.environmentId
    const { headers, proof } = await attempt("a")
    expect(outcome(await post("/v1/subscriptions", registration, proof))).toBe("401 invalid_proof")
    expect((await post("/v1/subscriptions", registration, proof, headers)).status).toBe(201)
    expect([ting.grants(plane).length, ting.grants("production").length]).toEqual([1, 0])

    const next = await attempt("b")
    const foreign = { ...next.headers, iam_test_app_secret: bench.seeded.environment.musicSecret }
    expect(outcome(await post("/v1/subscriptions", registration, next.proof, foreign))).toBe(
      "403 permission_denied"
    )
    const unknown = { ...next.headers, iam_test_app_secret: `ask_${"0".repeat(43)}` }
    expect(outcome(await post("/v1/subscriptions", registration, next.proof, unknown))).toBe(
      "401 session_expired"
    )
    expect(createHash("sha256").update(next.headers["x-testing-environment-key"]).digest("hex")).toBe(
      bench.seeded.environment.webhookKeyDigest
    )
  })
})
