import { assert, describe } from "vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { digestOf } from "../../src/services/Digest.ts"
import { Store, Verified } from "../../src/services/Store.ts"
import { SimulatedIam } from "../support/SimulatedIam.ts"
import { admitted, message, submit } from "../support/Submitting.ts"
import { callerKey, scenario, signedIn, unreachable } from "../support/UseCaseLayers.ts"

describe("the same key", () => {
  scenario("replays the report for the same content", function* () {
    const { token } = yield* signedIn()
    const first = yield* submit({ token })
    yield* TestClock.adjust("1 hours")
    const later = yield* signedIn()
    deepStrictEqual(yield* submit({ token: later.token }), { ...first, replayed: true })
  })

  scenario("compares decoded content: key order and null members are ignored", function* () {
    const first = yield* submit({ request: { message, context: { a: 1, b: { c: null, d: 2 } } } })
    const again = yield* submit({
      request: { context: { b: { d: 2 }, a: 1 }, attachments: null, pr: null, message }
    })
    deepStrictEqual(again, { ...first, replayed: true })
  })

  scenario("conflicts for other content of the same reporter", function* () {
    const { token } = yield* signedIn()
    for (const who of [{}, { token }]) {
      yield* submit(who)
      for (const other of [
        { message: `${message}!` },
        { message, pr: "https://github.com/harbor/music/pull/1" },
        { message, attachments: [] },
        { message, context: {} }
      ]) {
        const failure = yield* Effect.flip(submit({ ...who, request: other }))
        assert.strictEqual(failure.code, "idempotency_conflict")
      }
    }
  })

  scenario("stores two reports for two people", function* () {
    const one = yield* signedIn()
    const other = yield* signedIn({ actor: "si:singer" })
    const first = yield* submit({ token: one.token })
    const second = yield* submit({ token: other.token })
    const third = yield* submit()
    assert.strictEqual(new Set([first.id, second.id, third.id]).size, 3)
    deepStrictEqual([first.reporter, second.reporter, third.reporter], ["si:deejay", "si:singer", null])
    assert.isFalse(second.replayed || third.replayed)
  })

  scenario(
    "replays an unverified report for a reporter whom IAM verifies later, and the report takes the name",
    function* () {
      const iam = yield* SimulatedIam
      const store = yield* Store
      const { token } = yield* signedIn()
      yield* iam.failNext("introspect", unreachable("iam"))
      const first = yield* submit({ token })
      const named = yield* submit({ token })
      deepStrictEqual(named, { ...first, reporter: "si:deejay", replayed: true })
      const { reporter } = Option.getOrThrow(yield* store.reports.find(first.id))
      deepStrictEqual(reporter, Verified({ publicId: "si:deejay" }))
    }
  )

  scenario("replays a verified report while IAM is unavailable, without returning the name", function* () {
    const iam = yield* SimulatedIam
    const { token } = yield* signedIn()
    const first = yield* submit({ token })
    yield* iam.failNext("introspect", unreachable("iam"))
    deepStrictEqual(yield* submit({ token }), { ...first, reporter: null, replayed: true })
  })

  scenario("stores another report in another plane", function* () {
    const iam = yield* SimulatedIam
    const { plane } = yield* iam.environment("e2e")
    const here = yield* submit()
    const there = yield* submit({ plane, request: { message: `${message}!` } })
    assert.notStrictEqual(there.id, here.id)
    assert.isFalse(there.replayed)
  })
})

describe("before a report is stored", () => {
  const secret = `ort_${"s3cret".repeat(8)}`

  scenario("everything in the form of a credential becomes [redacted]", function* () {
    yield* submit({
      request: {
        message: `${message} ${secret}`,
        attachments: [{ name: `log of ${secret}`, content: `token=${secret}` }],
        context: { [secret]: 1, deep: [{ value: secret }] }
      }
    })
    const stored = JSON.stringify(yield* admitted)
    assert.notInclude(stored, secret)
    assert.include(stored, `${message} [redacted]`)
    assert.include(stored, "token=[redacted]")
  })

  scenario("two credentials in one place still make two contents", function* () {
    yield* submit({ request: { message: `${message} ${secret}` } })
    const failure = yield* Effect.flip(submit({ request: { message: `${message} ${secret}x` } }))
    assert.strictEqual(failure.code, "idempotency_conflict")
  })

  scenario("the caller's key becomes a digest, and the token is dropped", function* () {
    const { token } = yield* signedIn()
    const key = callerKey("secret key")
    yield* submit({ token, key })
    const stored = JSON.stringify(yield* admitted)
    assert.include(stored, digestOf(key))
    assert.notInclude(stored, Redacted.value(key))
    assert.notInclude(stored, Redacted.value(token))
    assert.notInclude(stored, digestOf(token))
  })
})
