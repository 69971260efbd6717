import { assert, describe } from "vitest"
import { it } from "../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { iamFaults } from "../../../sandbox/upstreams/Iam.ts"
import { form, iamOver, iamWorld, key, production, reply } from "./Simulated.ts"
import { until } from "../../support/Waiting.ts"

const path = "/oauth/introspect"

const someone = Redacted.make(`oat_${"a".repeat(43)}`)

describe("while the last introspection of a plane failed", () => {
  const tokens = "/app-auth/tokens"
  const unavailable = { path: `/api/v1${path}`, fault: iamFaults.serviceUnavailable() }

  it.scoped(
    "no refresh token is spent before an introspection of it succeeds, which does not consume it",
    function* () {
      const { asked, iam, login, simulator } = yield* iamWorld()
      const { accessToken, refreshToken } = yield* login()
      yield* iam.introspect(production, accessToken)
      simulator.fail({ ...unavailable, times: 2 })
      yield* Effect.flip(iam.introspect(production, accessToken))
      const refresh = (name: string) => iam.refresh(production, refreshToken, key(name))
      for (const name of ["one", "two"])
        assert.strictEqual((yield* Effect.flip(refresh(name)))._tag, "Unknown")
      assert.lengthOf(asked(tokens), 1)
      // The result of one introspection is shared for a second.
      assert.lengthOf(asked(path), 3)
      yield* TestClock.adjust("1 seconds")
      // Under a third key: if an earlier call had spent the token, this one would revoke the family.
      const grant = yield* refresh("three")
      assert.isTrue(Option.isSome(yield* iam.introspect(production, grant.accessToken)))
      const probes = asked(path).filter((request) => form(request).token_type_hint === "refresh_token")
      deepStrictEqual(
        probes.map((request) => form(request).token),
        [1, 2].map(() => Redacted.value(refreshToken))
      )
      yield* iam.refresh(production, grant.refreshToken, key("four"))
      assert.lengthOf(asked(path), 5)
    }
  )

  it.scoped("no SLT is spent before a probe succeeds, which all waiting callers share", function* () {
    const { asked, iam, simulator, slt } = yield* iamWorld()
    simulator.fail({ ...unavailable, times: 2 })
    yield* Effect.flip(iam.introspect(production, someone))
    const token = slt()
    const login = (name: string) => iam.exchange(production, token, key(name))
    const both = Effect.all([Effect.flip(login("one")), Effect.flip(login("two"))], { concurrency: 2 })
    deepStrictEqual(
      (yield* both).map(({ _tag }) => _tag),
      ["Unknown", "Unknown"]
    )
    assert.lengthOf(asked(path), 2)
    assert.lengthOf(asked(tokens), 0)
    yield* TestClock.adjust("1 seconds")
    yield* login("three")
    assert.lengthOf(asked(path), 3)
    assert.isFalse(asked(path).some((request) => form(request).token === Redacted.value(token)))
  })

  it.scoped("an introspection without a response for two seconds counts as failing", function* () {
    const { asked, iam, login, simulator } = yield* iamWorld()
    const { accessToken, refreshToken } = yield* login()
    simulator.fail({ path: `/api/v1${path}`, times: 2, fault: { kind: "hang" } })
    const hanging = yield* Effect.fork(iam.introspect(production, accessToken))
    yield* until(() => asked(path).length === 1)
    yield* TestClock.adjust("2001 millis")
    const refreshing = yield* Effect.fork(iam.refresh(production, refreshToken, key("one")))
    yield* until(() => asked(path).length === 2)
    yield* TestClock.adjust("8 seconds")
    assert.strictEqual((yield* Effect.flip(Fiber.join(refreshing)))._tag, "Unknown")
    assert.lengthOf(asked(tokens), 1)
    yield* Fiber.interrupt(hanging)
  })

  it.scoped("another plane, and a dead refresh token, need no probe", function* () {
    const { asked, iam, loginIn, simulator, testing } = yield* iamWorld()
    const dead = Redacted.make(`ort_${"d".repeat(43)}`)
    yield* Effect.flip(iam.refresh(production, dead, key("one")))
    simulator.fail(unavailable)
    yield* Effect.flip(iam.introspect(production, someone))
    const { refreshToken } = yield* loginIn(testing)
    yield* iam.refresh(testing, refreshToken, key("two"))
    assert.include(yield* Effect.flip(iam.refresh(production, dead, key("three"))), {
      code: "invalid_grant"
    })
    assert.lengthOf(asked(path), 1)
  })

  it.scoped("the success of an introspection that began before the failure does not count", function* () {
    const { asked, iam, login, simulator } = yield* iamWorld()
    const { accessToken, refreshToken } = yield* login()
    simulator.fail({ path: `/api/v1${path}`, fault: { kind: "delay", milliseconds: 50 } })
    const before = yield* Effect.fork(iam.introspect(production, accessToken))
    yield* until(() => asked(path).length === 1)
    simulator.fail(unavailable)
    yield* Effect.flip(iam.introspect(production, someone))
    yield* Fiber.join(before)
    yield* iam.refresh(production, refreshToken, key("refresh"))
    assert.lengthOf(asked(path), 3)
  })

  it.scoped("a 429 is passed on with its seconds, 60 at most, until an introspection succeeds", function* () {
    const { asked, iam, login, simulator } = yield* iamWorld()
    const { accessToken, refreshToken } = yield* login()
    simulator.fail({ path: `/api/v1${path}`, fault: iamFaults.rateLimited(900) })
    assert.include(yield* Effect.flip(iam.introspect(production, accessToken)), { retryAfterSeconds: 60 })
    yield* TestClock.adjust("4 seconds")
    const refresh = (name: string) => iam.refresh(production, refreshToken, key(name))
    assert.include(yield* Effect.flip(refresh("one")), { status: 429, retryAfterSeconds: 56 })
    assert.include(yield* Effect.flip(iam.introspect(production, accessToken)), { status: 429 })
    assert.lengthOf(asked(path), 1)
    assert.lengthOf(asked(tokens), 1)
    // One call in five seconds probes.
    yield* TestClock.adjust("1 seconds")
    yield* refresh("two")
    assert.lengthOf(asked(path), 2)
  })
})

describe("an inactive answer for a token that IAM has just issued", () => {
  const inactive = { path: `/api/v1${path}`, fault: reply({ active: false }) }

  it.scoped("has an unknown outcome, and is introspected again", function* () {
    const { iam, login, simulator } = yield* iamWorld()
    const { accessToken } = yield* login()
    simulator.fail(inactive)
    assert.strictEqual((yield* Effect.flip(iam.introspect(production, accessToken)))._tag, "Unknown")
    assert.isTrue(Option.isSome(yield* iam.introspect(production, accessToken)))
  })

  it.scoped(
    "has an unknown outcome for a minute when IAM replays the pair to another instance",
    function* () {
      const { iam, simulator, slt } = yield* iamWorld()
      const one = slt()
      const { refreshToken } = yield* iam.exchange(production, one, key("login"))
      yield* iam.refresh(production, refreshToken, key("refresh"))
      for (const ask of [
        (over: typeof iam) => over.exchange(production, one, key("login")),
        (over: typeof iam) => over.refresh(production, refreshToken, key("refresh"))
      ]) {
        const elsewhere = yield* iamOver(simulator.url)
        const isDoubted = Effect.gen(function* () {
          const { accessToken } = yield* ask(elsewhere)
          simulator.fail(inactive)
          return Either.isLeft(yield* Effect.either(elsewhere.introspect(production, accessToken)))
        })
        assert.isTrue(yield* isDoubted)
        yield* TestClock.adjust("59 seconds")
        assert.isTrue(yield* isDoubted)
        // A replay does not prolong the minute, nor begin another one after the verdict.
        yield* TestClock.adjust("1 seconds")
        assert.isFalse(yield* isDoubted)
        yield* TestClock.adjust("40 seconds")
        assert.isFalse(yield* isDoubted)
      }
    }
  )

  it.scoped(
    "has an unknown outcome when a replay follows a live answer, or a refresh without an answer",
    function* () {
      const { iam, login, simulator } = yield* iamWorld()
      const { refreshToken } = yield* login()
      const refresh = iam.refresh(production, refreshToken, key("refresh"))
      const { accessToken } = yield* refresh
      yield* iam.introspect(production, accessToken)
      simulator.fail({ path: "/api/v1/app-auth/tokens", fault: { kind: "drop-after" } })
      yield* Effect.flip(refresh)
      yield* refresh
      simulator.fail(inactive)
      assert.strictEqual((yield* Effect.flip(iam.introspect(production, accessToken)))._tag, "Unknown")
    }
  )

  it.scoped(
    "is accepted a minute later, after a live answer, and after a logout, also for a replay",
    function* () {
      const { iam, login, simulator, slt } = yield* iamWorld()
      const isNone = (token: Redacted.Redacted) =>
        Effect.gen(function* () {
          simulator.fail(inactive)
          assert.isTrue(Option.isNone(yield* iam.introspect(production, token)))
        })
      const early = yield* login()
      const seen = yield* login()
      yield* iam.introspect(production, seen.accessToken)
      yield* isNone(seen.accessToken)
      const ended = yield* login()
      yield* iam.revoke(production, ended.refreshToken, key("logout"))
      yield* isNone(ended.accessToken)
      yield* TestClock.adjust("60 seconds")
      yield* isNone(early.accessToken)
      const one = slt()
      yield* iam.exchange(production, one, key("login"))
      const elsewhere = yield* iamOver(simulator.url)
      const { refreshToken } = yield* iam.exchange(production, one, key("login"))
      yield* elsewhere.revoke(production, refreshToken, key("logout-elsewhere"))
      const replayed = yield* elsewhere.exchange(production, one, key("login"))
      assert.isTrue(Option.isNone(yield* elsewhere.introspect(production, replayed.accessToken)))
    }
  )
})
