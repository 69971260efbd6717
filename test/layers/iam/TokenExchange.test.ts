import { assert, describe } from "vitest"
import { it } from "../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { faults } from "../../../sandbox/upstreams/Simulator.ts"
import { requestedScopes } from "../../../src/schema/Identity.ts"
import type { UpstreamFailure } from "../../../src/services/UpstreamFailure.ts"
import { testApplicationSecret } from "../../world/Settings.ts"
import { until } from "../../world/Waiting.ts"
import { answering } from "../upstream/Simulated.ts"
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

describe("exchange", () => {
  it.scoped("sends an SLT with the application's credentials and the given key", function* () {
    const { asked, iam, slt } = yield* iamWorld()
    const credential = slt("c:ana")
    const tokens = yield* iam.exchange(production, credential, key("login"))
    assert.match(Redacted.value(tokens.accessToken), /^oat_/)
    assert.match(Redacted.value(tokens.refreshToken), /^ort_/)
    deepStrictEqual(
      { ...tokens, accessToken: 0, refreshToken: 0 },
      {
        accessToken: 0,
        refreshToken: 0,
        expiresInSeconds: 1800,
        scopes: requestedScopes,
        actor: Option.some({ type: "carbon" as const, public_id: "c:ana" }),
        organisation: Option.none(),
        replayed: false
      }
    )
    const [request] = asked(path)
    const headers = {
      authorization: basic("music", testApplicationSecret),
      "idempotency-key": key("login"),
      "content-type": "application/x-www-form-urlencoded",
      "silicon-iam-supported-api-versions": "v1",
      "x-testing-application": undefined
    }
    for (const [name, value] of Object.entries(headers)) assert.strictEqual(header(request, name), value)
    assert.match(header(request, "x-request-id") ?? "", /^[0-9a-f-]{36}$/)
    deepStrictEqual(form(request), { app_id: "music", slt: Redacted.value(credential) })
  })

  it.scoped("selects a testing plane with two byte-identical headers and its own secret", function* () {
    const { asked, environment, loginIn, testing } = yield* iamWorld()
    yield* loginIn(testing)
    const [request] = asked(path)
    const expected = basic("music", environment.musicSecret)
    assert.strictEqual(header(request, "authorization"), expected)
    assert.strictEqual(header(request, "x-testing-application"), expected)
    assert.isUndefined(request?.headers.get("x-testing-environment-key"))
  })

  it.scoped("turns IAM's telemetry off only for a request that opted out", function* () {
    const { asked, iam, slt } = yield* iamWorld()
    const exchange = iam.exchange(production, slt(), key("login"))
    yield* inRequest(false)(exchange)
    yield* inRequest(true)(exchange)
    yield* exchange
    deepStrictEqual(
      asked(path).map((request) => header(request, "x-iam-telemetry")),
      ["off", "on", "on"]
    )
    assert.lengthOf(new Set(asked(path).map((request) => header(request, "x-request-id"))), 3)
  })

  it.scoped("accepts opaque tokens of 8192 characters, and null for absent members", function* () {
    const { iam, simulator } = yield* iamWorld()
    const odd = "!~/+=.,:".repeat(1_024).slice(4)
    const long = { access_token: `oat_${odd}`, refresh_token: `ort_${odd}`, actor: null, later: {} }
    const scope = " self.profile.read  self.identity.read self.profile.read"
    simulator.fail({ fault: reply({ ...grant, ...long, org_id: "acme", scope }) })
    const bound = yield* iam.exchange(production, Redacted.make("oac"), key("login"))
    assert.lengthOf(Redacted.value(bound.accessToken), 8192)
    deepStrictEqual(bound.organisation, Option.some("acme"))
    deepStrictEqual(bound.scopes, ["self.identity.read", "self.profile.read"])
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

describe("a call to IAM", () => {
  it.scoped("has no effect when IAM is overloaded, and an unknown outcome on its other faults", function* () {
    const { iam, simulator } = yield* iamWorld()
    const exchange = iam.exchange(production, Redacted.make("oac"), key("login"))
    for (const [code, _tag] of [
      ["server_overloaded", "NotExecuted"],
      ["service_unavailable", "Unknown"]
    ] as const) {
      const headers = { "retry-after": "5" }
      simulator.fail({ fault: faults.status(503, { error: { code, message: "no" } }, headers) })
      assert.include(yield* Effect.flip(exchange), { _tag, retryAfterSeconds: 5 })
    }
  })

  it.scoped("names the application of the settings, and is waited for 8 s", function* () {
    const server = yield* answering(() => ({ status: 500 }))
    const iam = yield* iamOver(server.url, { applicationId: "radio" })
    server.fail({ fault: { kind: "hang" } })
    const calling = yield* Effect.fork(
      Effect.flip(iam.exchange(production, Redacted.make("oac"), key("login")))
    )
    yield* until(() => server.seen.length === 1)
    assert.strictEqual(header(server.seen[0], "authorization"), basic("radio", testApplicationSecret))
    deepStrictEqual(form(server.seen[0]), { app_id: "radio", slt: "oac" })
    yield* TestClock.adjust("7999 millis")
    assert.isTrue(Option.isNone(yield* Fiber.poll(calling)))
    yield* TestClock.adjust("100 millis")
    assert.include(yield* Fiber.join(calling), { _tag: "Unknown", reason: "no answer within 8 seconds" })
  })
})

const revokePath = "/oauth/revoke"

describe("refresh and revoke", () => {
  it.scoped("send their token and its kind under the given key", function* () {
    const { asked, iam, login } = yield* iamWorld()
    const { accessToken, refreshToken } = yield* login()
    yield* iam.refresh(production, refreshToken, key("refresh"))
    const spent = Redacted.value(refreshToken)
    deepStrictEqual(form(asked(path).at(-1)), { app_id: "music", refresh_token: spent })
    yield* iam.revoke(production, accessToken, key("one"))
    yield* iam.revoke(production, refreshToken, key("family"))
    deepStrictEqual(asked(revokePath).map(form), [
      { token: Redacted.value(accessToken), token_type_hint: "access_token" },
      { token: spent, token_type_hint: "refresh_token" }
    ])
    const sent = [asked(path).at(-1), ...asked(revokePath)].map((one) => header(one, "idempotency-key"))
    deepStrictEqual(sent, [key("refresh"), key("one"), key("family")])
  })

  it.scoped("accept only a pair, and an empty 200", function* () {
    const { iam, simulator } = yield* iamWorld()
    const token = Redacted.make(`ort_${"a".repeat(43)}`)
    for (const fault of [faults.html(200), faults.redirect(), reply({}), reply(undefined, 204)]) {
      simulator.fail({ fault, times: 2 })
      for (const call of ["revoke", "refresh"] as const) {
        const failure = yield* Effect.flip<unknown, UpstreamFailure, never>(
          iam[call](production, token, key(call))
        )
        assert.include(failure, { _tag: "Unknown" })
      }
    }
  })
})
