import { assert, describe } from "vitest"
import { it } from "../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { iamFaults, production as productionId } from "../../../sandbox/upstreams/Iam.ts"
import { faults } from "../../../sandbox/upstreams/Simulator.ts"
import { sha256 } from "../../../src/services/Digest.ts"
import type { TingEndpoint, UpstreamKey } from "../../../src/services/Iam.ts"
import type { Plane } from "../../../src/services/Plane.ts"
import { header, iamWorld, key, production, reply, startTime } from "./Simulated.ts"

const catalogue = "/obo-access/applications/ting/endpoints"
const exchanges = "/obo-access/exchanges"

const body = new TextEncoder().encode(`{"app_id":"music","for":"si:deejay"}`)

const proofWorld = Effect.gen(function* () {
  const world = yield* iamWorld()
  const { accessToken } = yield* world.login()
  const tested = yield* world.loginIn(world.testing)
  const prove = (
    name: string,
    changes: {
      readonly plane?: Plane
      readonly organisation?: string
      readonly endpoint?: TingEndpoint
      readonly subject?: Redacted.Redacted
    } = {}
  ) => {
    const plane = changes.plane ?? production
    return world.iam.prove(plane, {
      subject: plane._tag === "Testing" ? tested.accessToken : accessToken,
      organisation: "acme",
      endpoint: "subscriptions.register",
      body,
      key: key(name),
      ...changes
    })
  }
  return { ...world, accessToken, prove }
})

describe("the signature", () => {
  it.scoped("equals the contract's vector O1", function* () {
    const { asked, accessToken, iam } = yield* proofWorld
    yield* iam.prove(production, {
      subject: accessToken,
      organisation: "acme",
      endpoint: "subscriptions.register",
      body,
      // The vector's key, which is no digest.
      key: "obo-attempt-00000000000000000001" as UpstreamKey
    })
    const [request] = asked(exchanges)
    assert.strictEqual(header(request, "x-obo-timestamp"), "1790331330")
    assert.strictEqual(
      header(request, "x-obo-signature"),
      "f362aa3a6b808f10989b679600fd9aa23cd19382280d8ab968757c8d3b78a631"
    )
    assert.strictEqual(
      header(request, "authorization"),
      "Basic bXVzaWM6YXNrX0ExYjJDM2Q0RTVmNkc3aDhJOWowSzFsMk0zbjRPNXA2UTdyOFM5dDBVMXY="
    )
    assert.strictEqual(header(request, "content-type"), "application/json")
    assert.isUndefined(request?.headers.get("x-org-id"))
    deepStrictEqual(JSON.parse(request?.body.toString() ?? ""), {
      org_id: "acme",
      subject_token: Redacted.value(accessToken),
      audience: "ting",
      endpoint_id: "subscriptions.register",
      metadata: {},
      request: { method: "POST", body_sha256: sha256(body) }
    })
  })

  it.scoped("is computed again for each attempt, with the current time", function* () {
    const { asked, prove } = yield* proofWorld
    yield* prove("first")
    yield* TestClock.adjust("90 seconds")
    yield* prove("second")
    deepStrictEqual(
      asked(exchanges).map((request) => header(request, "x-obo-timestamp")),
      [startTime / 1000, startTime / 1000 + 90].map(String)
    )
  })
})

describe("a proof", () => {
  it.scoped("of production contains no testing credentials", function* () {
    const { prove } = yield* proofWorld
    const proof = yield* prove("key")
    assert.match(Redacted.value(proof.bearer), /^obo_/)
    assert.strictEqual(proof.path, "/v1/subscriptions")
    assert.isTrue(Option.isNone(proof.testing))
  })

  it.scoped("of a testing plane contains Ting's, and is signed with the plane's secret", function* () {
    const { environment, prove, testing } = yield* proofWorld
    const proof = yield* prove("key", { plane: testing, endpoint: "tings.send" })
    assert.strictEqual(proof.path, "/v1/tings")
    const { applicationSecret, environmentKey } = Option.getOrThrow(proof.testing)
    assert.strictEqual(Redacted.value(applicationSecret), environment.tingSecret)
    assert.strictEqual(Redacted.value(environmentKey), environment.rootKey)
  })

  const context = {
    app_id: "ting",
    app_secret: `ask_${"t".repeat(43)}`,
    iam_test_key: "k".repeat(32)
  }
  const granted = {
    access_proof: `obo_${"p".repeat(43)}`,
    proof_id: "0199c1aa-0000-7000-8000-000000000001",
    expires_in: 60,
    expires_at: "2026-09-25T10:16:30.5Z"
  }
  const tested = { ...granted, testing_context: context }

  it.scoped("is accepted with any success status, and with null for no testing context", function* () {
    const { prove, simulator } = yield* proofWorld
    for (const [turn, status] of [200, 201, 202].entries()) {
      simulator.fail({
        path: `/api/v1${exchanges}`,
        fault: reply({ ...granted, testing_context: null, later: 1 }, status)
      })
      assert.isTrue(Option.isNone((yield* prove(`key-${turn}`)).testing))
    }
  })

  const wrong: ReadonlyArray<readonly [string, "production" | "testing", object]> = [
    ["a testing context", "production", tested],
    ["another credential", "production", { ...granted, access_proof: `oat_${"p".repeat(43)}` }],
    [
      "a bearer that is invalid in a header",
      "production",
      { ...granted, access_proof: `obo_${"p".repeat(43)}\n` }
    ],
    ["61 seconds", "production", { ...granted, expires_in: 61 }],
    ["no seconds", "production", { ...granted, expires_in: 0 }],
    ["no id", "production", { ...granted, proof_id: undefined }],
    ["no testing context", "testing", granted],
    ["another application's", "testing", { ...granted, testing_context: { ...context, app_id: "music" } }],
    ["a malformed secret", "testing", { ...granted, testing_context: { ...context, app_secret: "ask_t" } }],
    ["a malformed key", "testing", { ...granted, testing_context: { ...context, iam_test_key: "k" } }]
  ]
  it.scoped("is rejected when it breaks the contract", function* () {
    const { prove, simulator, testing } = yield* proofWorld
    for (const [name, plane, answer] of wrong) {
      simulator.fail({ path: `/api/v1${exchanges}`, fault: reply(answer, 201) })
      const failure = yield* Effect.flip(prove(name, plane === "testing" ? { plane: testing } : {}))
      assert.include(failure, { _tag: "Unknown", dependency: "iam" }, name)
    }
  })
})

describe("the catalogue", () => {
  it.scoped("is cached per plane for 10 minutes", function* () {
    const { asked, iam, prove, testing } = yield* proofWorld
    yield* iam.warmCatalogue(production)
    yield* prove("a")
    yield* prove("b", { endpoint: "tings.send" })
    assert.lengthOf(asked(catalogue), 1)
    yield* prove("c", { plane: testing })
    assert.lengthOf(asked(catalogue), 2)
    yield* TestClock.adjust("599 seconds")
    yield* iam.warmCatalogue(production)
    assert.lengthOf(asked(catalogue), 2)
    yield* TestClock.adjust("1 seconds")
    yield* iam.warmCatalogue(production)
    assert.lengthOf(asked(catalogue), 3)
  })

  it.scoped("is warmed without failing, and a failure is not cached", function* () {
    const { iam, prove, simulator } = yield* proofWorld
    for (const fault of [iamFaults.internalError(), faults.html(), { kind: "drop" } as const]) {
      simulator.fail({ path: `/api/v1${catalogue}`, fault })
      yield* iam.warmCatalogue(production)
    }
    yield* prove("key")
  })

  it.scoped("without the endpoint is a 404, until the endpoint is listed", function* () {
    const { asked, prove, world } = yield* proofWorld
    world.withdrawEndpoint(productionId, "ting", "tings.send")
    assert.include(yield* Effect.flip(prove("a", { endpoint: "tings.send" })), {
      _tag: "Refused",
      status: 404,
      code: "not_found"
    })
    assert.lengthOf(asked(exchanges), 0)
    world.restoreEndpoint(productionId, "ting", "tings.send")
    yield* prove("b", { endpoint: "tings.send" })
  })

  const endpoint = { endpoint_id: "tings.send", path: "/v1/tings", metadata: {} }
  const listing = (...endpoints: ReadonlyArray<unknown>) => ({
    application: { app_id: "ting", org_id: "tos" },
    endpoints
  })
  const pathOf = (path: string) => listing({ ...endpoint, path })
  const paths = ["/", "/a%20b", "/.well-known/x", "/a/b..c", `/${"a".repeat(2047)}`]
  const noPaths = [
    "",
    "v1",
    "//v1",
    "//elsewhere.example/v1",
    "/v1?x",
    "/v1#x",
    "/v 1",
    "/v\t1",
    "/v1\n",
    "/a/../b",
    "/a/./b",
    "/.."
  ]
  const oddPaths = [
    ...noPaths,
    "/a/%2e%2E/b",
    "/a\\b",
    "/ä",
    "https://elsewhere.example/v1",
    `/${"a".repeat(2048)}`
  ]
  const wrong: ReadonlyArray<object> = [
    { ...listing(endpoint), application: { app_id: "tong" } },
    listing(endpoint, { ...endpoint, path: "/v2/tings" }),
    listing({ ...endpoint, metadata: { title: { type: "string" } } }),
    ...oddPaths.map(pathOf)
  ]
  it.scoped(
    "is rejected when it breaks the contract, also a path in another form than it is sent, and not cached",
    function* () {
      const { asked, iam, prove, simulator, testing } = yield* proofWorld
      for (const [at, answer] of wrong.entries()) {
        simulator.fail({ path: `/api/v1${catalogue}`, fault: reply(answer) })
        const failure = yield* Effect.flip(prove(`a ${at}`, { endpoint: "tings.send" }))
        assert.include(failure, { _tag: "Unknown", dependency: "iam" }, JSON.stringify(answer).slice(0, 300))
      }
      yield* prove("b", { endpoint: "tings.send" })
      assert.lengthOf(asked(exchanges), 1)
      for (const path of paths) {
        yield* TestClock.adjust("10 minutes")
        const before = asked(catalogue).length
        simulator.fail({ path: `/api/v1${catalogue}`, fault: reply(pathOf(path)) })
        for (const _ of [1, 2]) yield* iam.warmCatalogue(testing)
        assert.lengthOf(asked(catalogue), before + 1, path)
      }
    }
  )
})

describe("an endpoint that moved", () => {
  it.scoped("is found with one more catalogue, and one more exchange under its own key", function* () {
    const { asked, prove, world } = yield* proofWorld
    yield* prove("a")
    world.changeEndpointPath(productionId, "ting", "subscriptions.register", "/v2/subscriptions")
    const proof = yield* prove("b")
    assert.strictEqual(proof.path, "/v2/subscriptions")
    assert.lengthOf(asked(catalogue), 2)
    deepStrictEqual(
      asked(exchanges).map((request) => header(request, "idempotency-key")),
      [key("a"), key("b"), sha256(`${key("b")}:/v2/subscriptions`)]
    )
  })

  const refusal = (status: number, code: string) => faults.status(status, { error: { code, message: "no" } })

  it.scoped("is looked up once; without another path the refusal is returned", function* () {
    const { asked, prove, simulator } = yield* proofWorld
    yield* prove("a")
    for (const [status, code, catalogues] of [
      [401, "invalid_client", 2],
      [404, "not_found", 3],
      [403, "forbidden", 3]
    ] as const) {
      simulator.fail({ path: `/api/v1${exchanges}`, fault: refusal(status, code) })
      const failure = yield* Effect.flip(prove("b"))
      assert.include(failure, { _tag: "Refused", status, code })
      assert.isTrue(failure._tag === "Refused" && failure.answeredAt === startTime)
      assert.lengthOf(asked(catalogue), catalogues)
    }
    assert.lengthOf(asked(exchanges), 4)
  })

  it.scoped(
    "fails with the catalogue's refusal; after a 404 of the catalogue, with the refusal of the exchange",
    function* () {
      const { prove, simulator } = yield* proofWorld
      for (const [status, code, answered] of [
        [429, "rate_limited", 429],
        [401, "unauthenticated", 401],
        [404, "not_found", 403]
      ] as const) {
        yield* prove(`first-${status}`)
        simulator.fail({ path: `/api/v1${exchanges}`, fault: refusal(403, "invalid_client") })
        simulator.fail({ path: `/api/v1${catalogue}`, fault: refusal(status, code) })
        const failure = yield* Effect.flip(prove(`second-${status}`))
        assert.strictEqual(failure._tag === "Refused" ? failure.status : failure._tag, answered)
        yield* TestClock.adjust("2 minutes")
      }
    }
  )

  it.scoped(
    "is an outage while the catalogue fails, never a refusal, and is retried at most once",
    function* () {
      const { asked, prove, simulator, world } = yield* proofWorld
      yield* prove("a")
      simulator.fail({ path: `/api/v1${exchanges}`, fault: refusal(401, "invalid_client") })
      simulator.fail({ path: `/api/v1${catalogue}`, fault: iamFaults.internalError() })
      assert.strictEqual((yield* Effect.flip(prove("b")))._tag, "Unknown")
      yield* prove("c")
      world.changeEndpointPath(productionId, "ting", "subscriptions.register", "/v2/subscriptions")
      simulator.fail({ path: `/api/v1${exchanges}`, times: 2, fault: refusal(404, "not_found") })
      assert.include(yield* Effect.flip(prove("d")), { _tag: "Refused", status: 404 })
      assert.lengthOf(asked(exchanges), 5)
    }
  )
})
