import { assert, describe } from "vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { isPlane } from "../../src/services/Plane.ts"
import { Planes } from "../../src/services/Planes.ts"
import { Store } from "../../src/services/Store.ts"
import { Refused } from "../../src/services/UpstreamFailure.ts"
import { iamRefusal, SimulatedIam } from "../support/SimulatedIam.ts"
import { StoreSwitches } from "../support/TestStore.ts"
import { inRequest, lost, advanceClockDuring, scenario, unreachable } from "../support/UseCaseLayers.ts"

const resolve = (selector: Option.Option<Redacted.Redacted>) =>
  Effect.flatMap(Planes, (planes) => planes.resolve(selector)).pipe(inRequest())

const unknownSecret = Option.some(Redacted.make(`ask_${"x".repeat(43)}`))

describe("the plane of a request", () => {
  scenario("is production without a selector, and needs no call", function* () {
    const iam = yield* SimulatedIam
    assert.isTrue(isPlane("Production")(yield* resolve(Option.none())))
    assert.strictEqual(yield* iam.calls("resolvePlane"), 0)
  })

  scenario("is the testing environment of the secret, with that secret", function* () {
    const iam = yield* SimulatedIam
    const one = yield* iam.environment("one")
    const other = yield* iam.environment("other")
    deepStrictEqual(yield* resolve(Option.some(one.secret)), one.plane)
    deepStrictEqual(yield* resolve(Option.some(other.secret)), other.plane)
  })

  scenario("is recorded, so that webhooks of the environment are accepted", function* () {
    const iam = yield* SimulatedIam
    const store = yield* Store
    const { plane, secret } = yield* iam.environment("e2e")
    const find = store.planes.findByKeyDigest(plane.webhookKeyDigest ?? "")
    deepStrictEqual(yield* find, Option.none())
    yield* resolve(Option.some(secret))
    deepStrictEqual(yield* find, Option.some(plane.environmentId))
  })

  scenario("resolves without the record: the request needs no database", function* () {
    const iam = yield* SimulatedIam
    const store = yield* StoreSwitches
    yield* store.breakDown("planes.remember")
    const { plane, secret } = yield* iam.environment("e2e")
    deepStrictEqual(yield* resolve(Option.some(secret)), plane)
  })
})

describe("an unresolved selector never means production", () => {
  scenario("for an unknown secret or a deleted environment: testing_secret_invalid", function* () {
    const iam = yield* SimulatedIam
    const environment = yield* iam.environment("e2e")
    yield* resolve(Option.some(environment.secret))
    yield* iam.deleteEnvironment(environment)
    // The resolved environment is remembered for 60 s.
    yield* TestClock.adjust("60 seconds")
    for (const selector of [unknownSecret, Option.some(environment.secret)]) {
      assert.strictEqual((yield* Effect.flip(resolve(selector))).code, "testing_secret_invalid")
    }
  })

  scenario("for another application's secret: testing_secret_invalid", function* () {
    const iam = yield* SimulatedIam
    yield* iam.failNext("resolvePlane", iamRefusal(401, "invalid_client"))
    assert.strictEqual((yield* Effect.flip(resolve(unknownSecret))).code, "testing_secret_invalid")
  })

  scenario("is retried during a short outage, because the call is a read", function* () {
    const iam = yield* SimulatedIam
    const { plane, secret } = yield* iam.environment("e2e")
    yield* iam.failNext("resolvePlane", lost("iam"))
    yield* iam.failNext("resolvePlane", unreachable("iam"))
    deepStrictEqual(yield* advanceClockDuring(resolve(Option.some(secret))), plane)
  })

  scenario("is 503 in an outage, and a 429 is returned at once with its seconds", function* () {
    const iam = yield* SimulatedIam
    const { secret } = yield* iam.environment("e2e")
    yield* iam.failNext("resolvePlane", unreachable("iam"), { times: 3 })
    const outage = yield* advanceClockDuring(Effect.flip(resolve(Option.some(secret))))
    assert.strictEqual(outage.code, "dependency_unavailable")
    const limited = new Refused({
      dependency: "iam",
      status: 429,
      code: "rate_limited",
      retryAfterSeconds: 12
    })
    yield* iam.failNext("resolvePlane", limited)
    const failure = yield* Effect.flip(resolve(Option.some(secret)))
    assert.strictEqual(failure.code, "rate_limited")
    assert.strictEqual(failure.retryAfterSeconds, 12)
  })
})
