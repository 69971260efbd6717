import { assert, describe, expect } from "vitest"
import { it } from "../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import { Effect, Option, Redacted, TestClock } from "effect"
import { production as productionId } from "../../../sandbox/upstreams/Iam.ts"
import { type Fault, faults } from "../../../sandbox/upstreams/Simulator.ts"
import { sha256 } from "../../../src/services/Digest.ts"
import type { TingEndpoint, UpstreamKey } from "../../../src/services/Iam.ts"
import type { Plane } from "../../../src/services/Plane.ts"
import { header, iamWorld, key, production, reply } from "./Simulated.ts"

const catalogue = "/obo-access/applications/ting/endpoints"
const exchanges = "/obo-access/exchanges"

const failing = (path: string, fault: Fault) => ({ path: `/api/v1${path}`, fault })
const body = new TextEncoder().encode(`{"app_id":"music","for":"si:deejay"}`)

const request = (subject: Redacted.Redacted) =>
  ({ subject, organisation: "acme", endpoint: "subscriptions.register", body }) as const
interface Changes {
  readonly plane?: Plane
  readonly endpoint?: TingEndpoint
}

const proofWorld = Effect.gen(function* () {
  const world = yield* iamWorld()
  const { accessToken } = yield* world.login()
  const tested = yield* world.loginIn(world.testing)
  const prove = (name: string, { plane = production, ...changes }: Changes = {}) => {
    const { accessToken: subject } = plane._tag === "Testing" ? tested : { accessToken }
    return world.iam.prove(plane, { ...request(subject), key: key(name), ...changes })
  }
  return { ...world, accessToken, prove }
})

it.scoped("the signature equals the contract's vector O1", function* () {
  const { asked, accessToken, iam } = yield* proofWorld
  // The vector's key, which is no digest.
  const vectorKey = "obo-attempt-00000000000000000001" as UpstreamKey
  yield* iam.prove(production, { ...request(accessToken), key: vectorKey })
  const [sent] = asked(exchanges)
  const headers = {
    "x-obo-timestamp": "1790331330",
    "x-obo-signature": "f362aa3a6b808f10989b679600fd9aa23cd19382280d8ab968757c8d3b78a631",
    authorization: "Basic bXVzaWM6YXNrX0ExYjJDM2Q0RTVmNkc3aDhJOWowSzFsMk0zbjRPNXA2UTdyOFM5dDBVMXY=",
    "content-type": "application/json",
    "x-org-id": undefined
  }
  for (const [name, value] of Object.entries(headers)) assert.strictEqual(header(sent, name), value)
  deepStrictEqual(JSON.parse(sent?.body.toString() ?? ""), {
    org_id: "acme",
    subject_token: Redacted.value(accessToken),
    audience: "ting",
    endpoint_id: "subscriptions.register",
    metadata: {},
    request: { method: "POST", body_sha256: sha256(body) }
  })
})

describe("a proof", () => {
  it.scoped("contains Ting's credentials in a testing plane only", function* () {
    const { environment, prove, testing } = yield* proofWorld
    const proof = yield* prove("key")
    assert.match(Redacted.value(proof.bearer), /^obo_/)
    expect([proof.path, proof.testing]).toEqual(["/v1/subscriptions", Option.none()])
    const tested = yield* prove("key", { plane: testing, endpoint: "tings.send" })
    assert.strictEqual(tested.path, "/v1/tings")
    const { app_secret, iam_test_key } = Option.getOrThrow(tested.testing)
    const secrets = [app_secret, iam_test_key].map(Redacted.value)
    expect(secrets).toEqual([environment.tingSecret, environment.rootKey])
  })

  const context = { app_id: "ting", app_secret: `ask_${"t".repeat(43)}`, iam_test_key: "k".repeat(32) }
  const granted = {
    access_proof: `obo_${"p".repeat(43)}`,
    proof_id: "0199c1aa-0000-7000-8000-000000000001",
    expires_in: 60,
    expires_at: "2026-09-25T10:16:30.5Z"
  }

  const wrong: ReadonlyArray<readonly ["production" | "testing", object]> = [
    ["production", { testing_context: context }],
    ["production", { access_proof: `oat_${"p".repeat(43)}` }],
    ["production", { access_proof: `obo_${"p".repeat(43)}\n` }],
    ["production", { expires_in: 61 }],
    ["production", { expires_in: 0 }],
    ["production", { proof_id: undefined }],
    ["testing", {}],
    ["testing", { testing_context: { ...context, app_id: "music" } }],
    ["testing", { testing_context: { ...context, app_secret: "ask_t" } }],
    ["testing", { testing_context: { ...context, iam_test_key: "k" } }]
  ]
  it.scoped("is rejected when it breaks the contract", function* () {
    const { prove, simulator, testing } = yield* proofWorld
    for (const [at, [plane, change]] of wrong.entries()) {
      simulator.fail(failing(exchanges, reply({ ...granted, ...change }, 201)))
      const failure = yield* Effect.flip(prove(`a ${at}`, plane === "testing" ? { plane: testing } : {}))
      assert.include(failure, { _tag: "Unknown", dependency: "iam" }, JSON.stringify(change))
    }
    simulator.fail(failing(exchanges, reply({ ...granted, testing_context: null, later: 1 }, 201)))
    assert.isTrue(Option.isNone((yield* prove("b")).testing))
  })
})

describe("the catalogue", () => {
  it.scoped("is cached per plane for 10 minutes", function* () {
    const { asked, prove, testing } = yield* proofWorld
    yield* prove("a")
    yield* prove("b", { endpoint: "tings.send" })
    expect(asked(catalogue)).toHaveLength(1)
    yield* prove("c", { plane: testing })
    for (const [seconds, calls] of [
      [599, 2],
      [1, 3]
    ] as const) {
      yield* TestClock.adjust(`${seconds} seconds`)
      yield* prove(`${seconds}`)
      expect(asked(catalogue)).toHaveLength(calls)
    }
  })

  it.scoped("without the endpoint is a 404, until the endpoint is listed", function* () {
    const { asked, prove, world } = yield* proofWorld
    world.setEndpoint(productionId, "ting", "tings.send", { active: false })
    const failure = yield* Effect.flip(prove("a", { endpoint: "tings.send" }))
    assert.include(failure, { _tag: "Refused", status: 404, code: "not_found" })
    expect(asked(exchanges)).toHaveLength(0)
    world.setEndpoint(productionId, "ting", "tings.send", { active: true })
    yield* prove("b", { endpoint: "tings.send" })
  })

  const endpoint = { endpoint_id: "tings.send", path: "/v1/tings", metadata: {} }
  const listing = (...endpoints: ReadonlyArray<unknown>) => ({
    application: { app_id: "ting", org_id: "tos" },
    endpoints
  })
  const pathOf = (path: string) => listing({ ...endpoint, path })
  const noPaths =
    "|v1|//v1|//elsewhere.example/v1|/v1?x|/v1#x|/v 1|/v\t1|/v1\n|/a/../b|/a/./b|/..|/a/%2e%2E/b|/a\\b|/ä|https://elsewhere.example/v1"
  const wrong: ReadonlyArray<object> = [
    { ...listing(endpoint), application: { app_id: "tong" } },
    listing(endpoint, { ...endpoint, path: "/v2/tings" }),
    listing({ ...endpoint, metadata: { title: { type: "string" } } }),
    ...[...noPaths.split("|"), `/${"a".repeat(2048)}`].map(pathOf)
  ]
  it.scoped("is rejected when it breaks the contract, and not cached", function* () {
    const { asked, prove, simulator } = yield* proofWorld
    for (const [at, answer] of wrong.entries()) {
      simulator.fail(failing(catalogue, reply(answer)))
      const failure = yield* Effect.flip(prove(`a ${at}`, { endpoint: "tings.send" }))
      assert.include(failure, { _tag: "Unknown", dependency: "iam" }, JSON.stringify(answer).slice(0, 300))
    }
    yield* prove("b", { endpoint: "tings.send" })
    expect(asked(exchanges)).toHaveLength(1)
  })
})

it.scoped("A refused subject is inactive at once, also where its introspection is cached", function* () {
  const { iam, login, simulator } = yield* iamWorld({ introspectionCacheSeconds: 60 })
  const { accessToken } = yield* login()
  const isActive = Effect.map(iam.introspect(production, accessToken), Option.isSome)
  expect(yield* isActive).toBe(true)
  const refusal = { error: { code: "invalid_subject_token", message: "no" } }
  simulator.fail(failing(exchanges, faults.status(400, refusal)))
  yield* Effect.flip(iam.prove(production, { ...request(accessToken), key: key("a") }))
  expect(yield* isActive).toBe(false)
})

it.scoped("after a refusal of its signature the next proof is for the path of a new catalogue", function* () {
  const { prove, world } = yield* proofWorld
  yield* prove("before")
  world.setEndpoint(productionId, "ting", "subscriptions.register", { path: "/v2/subscriptions" })
  assert.include(yield* Effect.flip(prove("moved")), { code: "invalid_client" })
  assert.include(yield* prove("after"), { path: "/v2/subscriptions" })
})
