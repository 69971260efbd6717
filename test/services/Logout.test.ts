import { assert, describe, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { upstreamKey } from "../../src/services/Idempotency.ts"
import { type Plane, Production } from "../../src/services/Plane.ts"
import { Sessions } from "../../src/services/Sessions.ts"
import { isLive, loggedIn, loginAs, unknownToken } from "../support/Logins.ts"
import { iamRefusal } from "../support/SimulatedIam.ts"
import {
  callerKey,
  inRequest,
  lost,
  advanceClockDuring,
  production,
  scenario,
  unreachable
} from "../support/UseCaseLayers.ts"

const logout = (token: string, key = callerKey("logout"), plane: Plane = production) =>
  Effect.flatMap(Sessions, (sessions) => sessions.logout(plane, { token: Redacted.make(token), key })).pipe(
    inRequest()
  )

const refresh = (token: string) =>
  Effect.flatMap(Sessions, (sessions) =>
    sessions.refresh(production, { refreshToken: Redacted.make(token), key: callerKey("refresh") })
  ).pipe(inRequest())

describe("logout", () => {
  it.effect("of a refresh token revokes its family, and no other login", () =>
    scenario(
      Effect.gen(function* () {
        const { session } = yield* loggedIn
        const other = yield* loginAs({}, callerKey("other"))
        yield* logout(session.refresh_token)
        assert.isFalse(yield* isLive(session.access_token))
        assert.isTrue(yield* isLive(other.access_token))
      })
    )
  )

  it.effect("of a refresh token that was rotated already revokes the family too", () =>
    scenario(
      Effect.gen(function* () {
        const { session } = yield* loggedIn
        const fresh = yield* refresh(session.refresh_token)
        yield* logout(session.refresh_token)
        assert.isFalse(yield* isLive(fresh.access_token))
      })
    )
  )

  it.effect("of an access token revokes itself only", () =>
    scenario(
      Effect.gen(function* () {
        const { session } = yield* loggedIn
        yield* logout(session.access_token)
        assert.isFalse(yield* isLive(session.access_token))
        assert.isTrue(yield* isLive((yield* refresh(session.refresh_token)).access_token))
      })
    )
  )

  it.effect("of a token that IAM does not know succeeds", () =>
    scenario(
      Effect.gen(function* () {
        const { iam } = yield* loggedIn
        yield* logout(unknownToken)
        deepStrictEqual(yield* iam.revoked, [unknownToken])
      })
    )
  )

  it.effect("of a token that no one ever issued succeeds without a call", () =>
    scenario(
      Effect.gen(function* () {
        const { iam } = yield* loggedIn
        for (const token of [
          "",
          "no token at all",
          `obo_${"x".repeat(43)}`,
          `ORT_${"x".repeat(43)}`,
          `Bearer oat_${"x".repeat(43)}`,
          "ort_",
          "oat_",
          `oat_${"x".repeat(27)}`,
          `ort_${"x".repeat(4093)}`,
          `oat_${"é".repeat(43)}`
        ]) {
          yield* logout(token)
        }
        assert.strictEqual(yield* iam.calls("revoke"), 0)
        yield* logout(`ort_${"x".repeat(28)}`)
        // The longest token that IAM revokes.
        yield* logout(`ort_${"x".repeat(4_092)}`, callerKey("longest"))
        assert.strictEqual(yield* iam.calls("revoke"), 2)
      })
    )
  )

  it.effect("reaches IAM under the digest of operation, plane and caller's key, and replays under it", () =>
    scenario(
      Effect.gen(function* () {
        const { iam, session } = yield* loggedIn
        yield* logout(session.refresh_token, callerKey("mine"))
        yield* TestClock.adjust("1 hour")
        yield* logout(session.refresh_token, callerKey("mine"))
        const key = upstreamKey("logout", Production(), callerKey("mine"))
        deepStrictEqual(yield* iam.keys("revoke"), [key, key])
      })
    )
  )

  it.effect("whose replay window has passed is done all the same", () =>
    scenario(
      Effect.gen(function* () {
        const { iam, session } = yield* loggedIn
        yield* iam.failNext("revoke", iamRefusal(409, "idempotency_response_expired"))
        yield* logout(session.refresh_token)
      })
    )
  )

  it.effect("with the same key and another token is a conflict, running or not", () =>
    scenario(
      Effect.gen(function* () {
        const { iam, session } = yield* loggedIn
        const held = yield* iam.hold("revoke")
        const first = yield* Effect.fork(logout(session.refresh_token))
        yield* held.arrived
        assert.strictEqual((yield* Effect.flip(logout(session.access_token))).code, "idempotency_conflict")
        yield* held.release
        yield* Fiber.join(first)
        assert.strictEqual((yield* Effect.flip(logout(session.access_token))).code, "idempotency_conflict")
      })
    )
  )

  it.effect("whose answer was lost is asked for again under the same key", () =>
    scenario(
      Effect.gen(function* () {
        const { iam, session } = yield* loggedIn
        yield* iam.failNext("revoke", lost("iam"), { times: 2, when: "after" })
        yield* advanceClockDuring(logout(session.refresh_token))
        assert.strictEqual(new Set(yield* iam.keys("revoke")).size, 1)
        assert.isFalse(yield* isLive(session.access_token))
      })
    )
  )

  it.effect("that IAM does not answer is 503: the session may live on", () =>
    scenario(
      Effect.gen(function* () {
        const { iam, session } = yield* loggedIn
        yield* iam.failNext("revoke", unreachable("iam"), { times: 3 })
        const failure = yield* advanceClockDuring(Effect.flip(logout(session.refresh_token)))
        assert.strictEqual(failure.code, "dependency_unavailable")
        yield* logout(session.refresh_token)
        assert.isFalse(yield* isLive(session.access_token))
      })
    )
  )

  it.effect("in one plane leaves the other alone", () =>
    scenario(
      Effect.gen(function* () {
        const { iam, session } = yield* loggedIn
        const { plane } = yield* iam.environment("e2e")
        yield* logout(session.refresh_token, callerKey("logout"), plane)
        assert.isTrue(yield* isLive(session.access_token))
        deepStrictEqual(yield* iam.keys("revoke"), [upstreamKey("logout", plane, callerKey("logout"))])
      })
    )
  )
})
