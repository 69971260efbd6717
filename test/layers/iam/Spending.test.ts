/** What a call that makes or ends tokens means for what is remembered of others, and what a refusal costs its caller. */
import { assert, describe, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { makeAcquaintances, tokenKey } from "../../../src/layers/iam/Acquaintances.ts"
import { makeSpending } from "../../../src/layers/iam/Spending.ts"
import { tried } from "../../../src/layers/iam/Tried.ts"
import type { TokenGrant } from "../../../src/services/Iam.ts"
import { type Plane, Testing } from "../../../src/services/Plane.ts"
import { CurrentTrial } from "../../../src/services/Trial.ts"
import { NotExecuted, Refused, Unknown, type UpstreamFailure } from "../../../src/services/Upstream.ts"
import { key, production } from "./Simulated.ts"

const testing = Testing({
  environmentId: "0199a0aa-0000-7000-8000-000000000009",
  secret: Redacted.make(`ask_${"a".repeat(43)}`),
  webhookKeyDigest: "digest"
})

const token = (kind: "oat" | "ort", name: string) => Redacted.make(`${kind}_${name.padStart(43, "x")}`)
const grantOf = (name: string): TokenGrant => ({
  accessToken: token("oat", name),
  refreshToken: token("ort", name),
  expiresInSeconds: 1_800,
  scopes: [],
  actor: Option.none(),
  organisation: Option.none(),
  replayed: false
})

const refused = (status: number, code: string) => new Refused({ dependency: "iam", status, code })
const notExecuted = new NotExecuted({ dependency: "iam", reason: "no connection" })
const unknown = new Unknown({ dependency: "iam", reason: "no answer" })

/** `ana` logged in here, and refreshed once: her pairs are `ana` and `ana-2`. `eva` logged in here as well. */
const known = () => {
  const acquaintances = makeAcquaintances()
  acquaintances.granted(production, grantOf("ana"), Option.none())
  acquaintances.granted(production, grantOf("ana-2"), Option.some(token("ort", "ana")))
  acquaintances.granted(production, grantOf("eva"), Option.none())
  return acquaintances
}

/** Which access tokens are forgotten when IAM gives this answer: of production, and of a testing plane. */
const forgetting = (
  spend: (calls: ReturnType<typeof makeSpending>) => Effect.Effect<unknown, UpstreamFailure>,
  failure?: UpstreamFailure
) =>
  Effect.gen(function* () {
    const answer = failure === undefined ? Effect.void : Effect.fail(failure)
    const forgotten: Array<string> = []
    const acquaintances = known()
    const spending = makeSpending(
      {
        exchange: () => Effect.as(answer, grantOf("new")),
        refresh: () => Effect.as(answer, grantOf("new")),
        revoke: () => answer
      },
      acquaintances,
      (isOver) =>
        Effect.sync(() => {
          const tokens: ReadonlyArray<readonly [string, Plane]> = [
            ["ana", production],
            ["ana-2", production],
            ["eva", production],
            ["stranger", production],
            ["stranger", testing]
          ]
          for (const [name, plane] of tokens)
            if (isOver(tokenKey(plane, token("oat", name)))) forgotten.push(`${plane._tag} ${name}`)
        })
    )
    yield* Effect.ignore(spend(spending))
    return { acquaintances, forgotten }
  })

describe("What is remembered of access tokens", () => {
  const family = ["Production ana", "Production ana-2", "Production stranger"]

  it.effect(
    "ends with a revoked refresh token: its family, and whose family nobody knows, in its plane",
    () =>
      Effect.gen(function* () {
        const { forgotten } = yield* forgetting(({ revoke }) =>
          revoke(production, token("ort", "ana-2"), key("logout"))
        )
        deepStrictEqual(forgotten, family)
      })
  )

  it.effect("ends with a revoked access token for that one alone", () =>
    Effect.gen(function* () {
      const { forgotten } = yield* forgetting(({ revoke }) =>
        revoke(production, token("oat", "ana-2"), key("logout"))
      )
      deepStrictEqual(forgotten, ["Production ana-2"])
    })
  )

  const refreshes: ReadonlyArray<readonly [string, UpstreamFailure | undefined, ReadonlyArray<string>]> = [
    ["succeeds", undefined, []],
    ["never reached IAM", notExecuted, []],
    ["came too often", refused(429, "rate_limited"), []],
    ["is refused", refused(400, "invalid_grant"), family],
    ["has no answer", unknown, family]
  ]
  for (const [what, failure, expected] of refreshes)
    it.effect(`after a refresh that ${what}`, () =>
      Effect.gen(function* () {
        const { forgotten } = yield* forgetting(
          ({ refresh }) => refresh(production, token("ort", "ana-2"), key("refresh")),
          failure
        )
        deepStrictEqual(forgotten, expected)
      })
    )
})

describe("Who is known", () => {
  const answers: ReadonlyArray<readonly [UpstreamFailure, boolean]> = [
    [refused(400, "invalid_grant"), false],
    [refused(429, "rate_limited"), true],
    [refused(409, "idempotency_in_progress"), true],
    [refused(401, "invalid_client"), true],
    [unknown, true]
  ]
  for (const [failure, stays] of answers)
    it.effect(`${stays ? "stays" : "is no longer"} so after a refresh with ${JSON.stringify(failure)}`, () =>
      Effect.gen(function* () {
        const { acquaintances } = yield* forgetting(
          ({ refresh }) => refresh(production, token("ort", "ana-2"), key("refresh")),
          failure
        )
        assert.strictEqual(acquaintances.isVouched(tokenKey(production, token("ort", "ana-2"))), stays)
      })
    )

  it("is so until the token is called dead", () => {
    const acquaintances = known()
    const own = tokenKey(production, token("oat", "eva"))
    assert.isTrue(acquaintances.isVouched(own))
    acquaintances.died(own, 0)
    assert.isFalse(acquaintances.isVouched(own))
  })
})

describe("A refusal costs its caller a try:", () => {
  const cases: ReadonlyArray<readonly [UpstreamFailure, boolean, boolean, boolean]> = [
    [refused(400, "invalid_grant"), false, false, true],
    [refused(400, "invalid_grant"), true, false, true],
    [refused(429, "rate_limited"), false, false, true],
    [refused(429, "rate_limited"), true, false, false],
    [refused(409, "idempotency_in_progress"), false, false, false],
    // In production this speaks of our own secret, in a testing plane of the caller's.
    [refused(401, "invalid_client"), false, false, false],
    [refused(401, "invalid_client"), false, true, true],
    [notExecuted, false, false, false],
    [unknown, false, false, false]
  ]
  for (const [failure, vouched, isTesting, expected] of cases)
    it.effect(`${JSON.stringify(failure)}, vouched ${vouched}, testing ${isTesting}: ${expected}`, () =>
      Effect.gen(function* () {
        let lost = false
        const trial = {
          begin: Effect.succeed(0),
          lost: Effect.sync(() => {
            lost = true
          })
        }
        yield* Effect.fail(failure).pipe(
          tried({ vouched, testing: isTesting }),
          Effect.provideService(CurrentTrial, trial),
          Effect.ignore
        )
        assert.strictEqual(lost, expected)
      })
    )
})
