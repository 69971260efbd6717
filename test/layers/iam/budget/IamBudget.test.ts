/** What one network and one actor may spend, and what a call without an answer costs. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { makeIamBudget } from "../../../../src/layers/iam/budget/IamBudget.ts"
import { makeKnownCredentials, tokenKey } from "../../../../src/layers/iam/budget/KnownCredentials.ts"
import type { Counted, Purpose } from "../../../../src/layers/iam/budget/Purpose.ts"
import { makeRefusedCredentials } from "../../../../src/layers/iam/budget/RefusedCredentials.ts"
import { Unknown, type UpstreamFailure } from "../../../../src/services/UpstreamFailure.ts"
import { inRequest, production } from "../Simulated.ts"

const tokens: Counted = { plane: "production", path: "/app-auth/tokens" }
const unanswered = new Unknown({ dependency: "iam", reason: "no answer" })

const budgetOf = (countAddresses = true) => {
  const refused = makeRefusedCredentials()
  const credentials = makeKnownCredentials(refused)
  const budget = makeIamBudget({ callsPerMinute: 110, countAddresses }, credentials, refused)
  /** How many of so many calls go out. */
  const admitted = (
    count: number,
    purpose: (at: number) => Purpose,
    network: string,
    call: Effect.Effect<unknown, UpstreamFailure> = Effect.void,
    counted: Counted = tokens
  ) =>
    Effect.map(
      Effect.forEach(
        Array.from({ length: count }, (_, at) => at),
        (at) => Effect.either(budget.within(counted, purpose(at))(call)).pipe(inRequest(true, network))
      ),
      (results) =>
        results.filter(
          (result) => Either.isRight(result) || result.left._tag !== "Refused" || result.left.status !== 429
        ).length
    )
  return { admitted, budget, credentials }
}

const login = (at: number): Purpose => ({ credential: `slt ${at}`, use: "login" })

describe("Logins", () => {
  it.effect("of one network are 60 at once and then 40 a minute, so that others log in beside them", () =>
    Effect.gen(function* () {
      const { admitted } = budgetOf()
      assert.strictEqual(yield* admitted(200, login, "203.0.113.1"), 60)
      assert.strictEqual(yield* admitted(10, (at) => login(1_000 + at), "203.0.113.2"), 10)
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* admitted(200, (at) => login(2_000 + at), "203.0.113.1"), 40)
    })
  )

  it.effect("are not counted by network where nothing counts addresses", () =>
    Effect.gen(function* () {
      const { admitted } = budgetOf(false)
      assert.strictEqual(yield* admitted(200, login, "203.0.113.1"), 93)
    })
  )
})

describe("Refreshes", () => {
  it.effect("of one actor with many logins are 60 at once and then 30 a minute", () =>
    Effect.gen(function* () {
      const { admitted, credentials } = budgetOf()
      const known = (name: string) => {
        const token = Redacted.make(`ort_${name.padStart(43, "x")}`)
        const place = {
          key: undefined,
          share: "essential" as const,
          freeAt: 0,
          ownUntil: 0,
          reserved: false,
          takenAt: 0
        }
        const access = Redacted.make(`oat_${name.padStart(43, "x")}`)
        credentials.recordGrant(
          production,
          {
            accessToken: access,
            refreshToken: token,
            expiresInSeconds: 1_800,
            scopes: [],
            actor: Option.none(),
            organisation: Option.none(),
            replayed: false
          },
          Option.none(),
          place,
          0
        )
        credentials.markLive(tokenKey(production, access), `production ${name.split(" ")[0]}`)
        return { credential: tokenKey(production, token), use: "refresh" as const }
      }
      const eve = (at: number): Purpose => known(`c:eve ${at}`)
      assert.strictEqual(yield* admitted(100, eve, "203.0.113.1"), 60)
      assert.strictEqual(yield* admitted(5, (at) => known(`c:ana ${at}`), "203.0.113.1"), 5)
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* admitted(100, (at) => known(`c:eve ${200 + at}`), "203.0.113.1"), 30)
    })
  )
})

describe("One login token", () => {
  it.effect("has 8 tries a minute, and an actor's id in a testing plane 30", () =>
    Effect.gen(function* () {
      const { admitted } = budgetOf()
      const again = (): Purpose => ({ credential: "slt", use: "login" })
      assert.strictEqual(yield* admitted(40, again, "203.0.113.1"), 8)
      const testing: Counted = { plane: "0199b000-0000-7000-8000-00000000000e", path: "/app-auth/tokens" }
      assert.strictEqual(yield* admitted(40, again, "203.0.113.1", Effect.void, testing), 30)
    })
  )
})

describe("A credential that IAM refused", () => {
  it.effect("is no longer known, and is refused again without a call", () =>
    Effect.gen(function* () {
      const { budget, credentials } = budgetOf()
      const access = tokenKey(production, Redacted.make("oat"))
      credentials.markLive(access)
      const check = budget.unlessRefused(access, Effect.succeed("repeated"))(Effect.succeed("called"))
      assert.strictEqual(yield* check, "called")
      yield* budget.recordRefusal(access, "inactive_access_token")
      assert.isFalse(credentials.isKnown(access))
      assert.strictEqual(yield* check, "repeated")
      yield* TestClock.adjust("30 seconds")
      assert.strictEqual(yield* check, "called")
    })
  )
})

describe("Testing secrets whose plane is not known yet", () => {
  it.effect("share one budget; a known one has the budget of its plane", () =>
    Effect.gen(function* () {
      const { admitted, credentials } = budgetOf()
      const unresolved: Counted = { plane: undefined, path: "/application/testing-context" }
      const secret = (at: number): Purpose => ({ credential: `secret ${at}`, use: "session" })
      const ask = (count: number, from: number) =>
        admitted(count, (at) => secret(from + at), "203.0.113.1", Effect.void, unresolved)
      // Newcomers may fill 50 %.
      assert.strictEqual(yield* ask(200, 0), 55)
      assert.strictEqual(yield* ask(1, 1_000), 0)
      credentials.markLive("secret 1000")
      assert.strictEqual(yield* ask(1, 1_000), 1)
    })
  )
})

describe("A call without an answer", () => {
  it.effect("counts against its credential for 15 s only, so that an outage has no aftermath", () =>
    Effect.gen(function* () {
      const { admitted } = budgetOf()
      const one = (): Purpose => ({ credential: "ort", use: "refresh" })
      assert.strictEqual(yield* admitted(20, one, "203.0.113.1", Effect.fail(unanswered)), 8)
      yield* TestClock.adjust("15 seconds")
      assert.strictEqual(yield* admitted(20, one, "203.0.113.1"), 8)
      yield* TestClock.adjust("15 seconds")
      assert.strictEqual(yield* admitted(20, one, "203.0.113.1"), 0)
    })
  )
})
