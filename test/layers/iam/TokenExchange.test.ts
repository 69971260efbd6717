import { assert, describe } from "vitest"
import { it } from "../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import { Effect, Fiber, Option, Redacted, TestClock } from "effect"
import { faults } from "../../../sandbox/upstreams/Simulator.ts"
import { testApplicationSecret } from "../../world/Settings.ts"
import { until } from "../../world/Waiting.ts"
import { form, header, iamOver, iamWorld, inRequest, key, production, reply } from "./Simulated.ts"

const path = "/app-auth/tokens"
const token = (prefix: string, length = 43) => `${prefix}_${"a".repeat(length)}`

const basic = (user: string, secret: string) => `Basic ${Buffer.from(`${user}:${secret}`).toString("base64")}`

const grant = {
  access_token: token("oat"),
  token_type: "Bearer",
  expires_in: 1800,
  scope: "self.profile.read self.identity.read",
  refresh_token: token("ort"),
  actor: { type: "silicon", public_id: "si:deejay" }
}

const revokePath = "/oauth/revoke"

it.scoped("A call sends its token under the given key, with the secret of its plane", function* () {
  const { environment, iam, simulator, slt, testing } = yield* iamWorld()
  const [one, another] = [slt("c:ana"), slt()]
  const { accessToken, refreshToken } = yield* iam.exchange(production, one, key("login"))
  yield* inRequest(false)(iam.refresh(production, refreshToken, key("refresh")))
  yield* inRequest(true)(iam.revoke(production, accessToken, key("access")))
  yield* iam.revoke(production, refreshToken, key("family"))
  yield* iam.exchange(testing, Redacted.make("si:deejay"), key("testing"))
  const radio = yield* iamOver(simulator.url, { applicationId: "radio" })
  yield* Effect.flip(radio.exchange(production, another, key("radio")))
  const own = basic("music", testApplicationSecret)
  const ofPlane = basic("music", environment.musicSecret)
  const [access, refresh] = [Redacted.value(accessToken), Redacted.value(refreshToken)]
  const sent = [
    [path, { app_id: "music", slt: Redacted.value(one) }, "login", own, undefined, "on"],
    [path, { app_id: "music", refresh_token: refresh }, "refresh", own, undefined, "off"],
    [revokePath, { token: access, token_type_hint: "access_token" }, "access", own, undefined, "on"],
    [revokePath, { token: refresh, token_type_hint: "refresh_token" }, "family", own, undefined, "on"],
    [path, { app_id: "music", slt: "si:deejay" }, "testing", ofPlane, ofPlane, "on"],
    [
      path,
      { app_id: "radio", slt: Redacted.value(another) },
      "radio",
      basic("radio", testApplicationSecret),
      undefined,
      "on"
    ]
  ] as const
  const names = ["idempotency-key", "authorization", "x-testing-application", "x-iam-telemetry"]
  deepStrictEqual(
    simulator.seen.map((request) => [
      request.path,
      form(request),
      ...[...names, "silicon-iam-supported-api-versions"].map((name) => header(request, name))
    ]),
    sent.map(([at, values, name, ...headers]) => [`/api/v1${at}`, values, key(name), ...headers, "v1"])
  )
  const ids = simulator.seen.map((request) => header(request, "x-request-id") ?? "")
  assert.lengthOf(new Set(ids.filter((id) => /^[0-9a-f-]{36}$/.test(id))), sent.length)
})

describe("exchange", () => {
  it.scoped("accepts opaque tokens of 8192 characters, and null for absent members", function* () {
    const { iam, simulator } = yield* iamWorld()
    const odd = "!~/+=.,:".repeat(1_024).slice(4)
    const long = { access_token: `oat_${odd}`, refresh_token: `ort_${odd}`, actor: null, later: {} }
    const scope = " self.profile.read  self.identity.read self.profile.read"
    simulator.fail({ fault: reply({ ...grant, ...long, org_id: "acme", scope }) })
    const bound = yield* iam.exchange(production, Redacted.make("oac"), key("login"))
    deepStrictEqual(Redacted.value(bound.accessToken), long.access_token)
    assert.deepInclude(bound, {
      expiresInSeconds: 1800,
      scopes: ["self.identity.read", "self.profile.read"],
      actor: Option.none(),
      organisation: Option.some("acme")
    })
  })

  const changes = `{"access_token":null} {"access_token":"${token("ort")}"} {"refresh_token":"${token("oat")}"}
    {"access_token":"${token("oat", 8189)}"} {"access_token":"${token("oat")}\\r\\nx:y"} {"token_type":"bearer"}
    {"expires_in":0} {"scope":null} {"actor":{"type":"silicon","public_id":"c:ana"}} {"org_id":"Acme!"}`
  it.scoped("rejects what breaks the contract: members, status and version", function* () {
    const { iam, simulator } = yield* iamWorld()
    const refusal = { error: { code: "invalid_grant", message: "no" } }
    const bodies = changes.split(/\s+/).map((change) => ({ ...grant, ...JSON.parse(change) }))
    const version = (status: number, body: object, value: string) =>
      faults.status(status, body, { "silicon-iam-api-version": value })
    const wrong = [
      ...[...bodies, refusal, [grant]].map((body) => reply(body)),
      reply(grant, 201),
      ...["v2", "v1, v1", ""].map((value) => version(200, grant, value)),
      version(400, refusal, "v2")
    ]
    const exchange = iam.exchange(production, Redacted.make("oac"), key("login"))
    for (const fault of wrong) {
      simulator.fail({ fault })
      const failure = yield* Effect.flip(exchange)
      assert.include(failure, { _tag: "Unknown", dependency: "iam" }, JSON.stringify(fault))
    }
    simulator.fail({ fault: version(400, refusal, "v1") })
    assert.include(yield* Effect.flip(exchange), { _tag: "Refused" })
  })
})

it.scoped("A call that IAM is too busy for has no effect", function* () {
  const { iam, simulator } = yield* iamWorld()
  const busy = { error: { code: "server_overloaded", message: "no" } }
  simulator.fail({ fault: faults.status(503, busy, { "retry-after": "5" }) })
  const failure = yield* Effect.flip(iam.exchange(production, Redacted.make("oac"), key("login")))
  assert.include(failure, { _tag: "NotExecuted", retryAfterSeconds: 5 })
})

it.scoped("A call is waited for 8 s", function* () {
  const { asked, iam, simulator } = yield* iamWorld()
  simulator.fail({ fault: { kind: "hang" } })
  const exchange = iam.exchange(production, Redacted.make("oac"), key("login"))
  const calling = yield* Effect.fork(Effect.flip(exchange))
  yield* until(() => asked(path).length === 1)
  yield* TestClock.adjust("7999 millis")
  assert.isTrue(Option.isNone(yield* Fiber.poll(calling)))
  yield* TestClock.adjust("100 millis")
  assert.include(yield* Fiber.join(calling), { _tag: "Unknown" })
})
