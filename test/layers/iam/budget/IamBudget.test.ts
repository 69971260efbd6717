/** The limits of one network and one actor, and the cost of a call without an answer. */
import { assert, describe } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { makeIamBudget } from "../../../../src/layers/iam/budget/IamBudget.ts"
import { makeKnownCredentials, tokenKey } from "../../../../src/layers/iam/budget/KnownCredentials.ts"
import { type Counted, introspectPath, type Purpose } from "../../../../src/layers/iam/budget/Purpose.ts"
import { makeRefusedCredentials } from "../../../../src/layers/iam/budget/RefusedCredentials.ts"
import { shares } from "../../../../src/layers/iam/budget/Shares.ts"
import { iamCallsRefused } from "../../../../src/services/Metrics.ts"
import { NotExecuted, Unknown, type UpstreamFailure } from "../../../../src/services/UpstreamFailure.ts"
import { inRequest, production } from "../Simulated.ts"

const tokens: Counted = { plane: "production", path: "/app-auth/tokens" }
const introspections: Counted = { plane: "production", path: introspectPath }
const unanswered = new Unknown({ dependency: "iam", reason: "no answer" })
const unsent = new NotExecuted({ dependency: "iam", reason: "connection refused" })

const budgetOf = (countAddresses = true, callsPerMinute = 110) => {
  const refused = makeRefusedCredentials()
  const credentials = makeKnownCredentials(refused)
  const budget = makeIamBudget({ callsPerMinute, countAddresses }, credentials, refused)
  /** How many of these calls are sent. */
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
  /** A token that IAM issued or called live. */
  const known = (credential: string, owner?: string): Purpose => {
    credentials.markLive(credential, owner)
    return { credential }
  }
  return { admitted, budget, credentials, known }
}

const login = (at: number): Purpose => ({ credential: `slt ${at}`, use: "login" })

describe("Logins", () => {
  it.effect(
    "of one network are limited to 60 at once and then 40 a minute of a budget of 110, so that other networks can log in",
    function* () {
      const { admitted } = budgetOf()
      assert.strictEqual(yield* admitted(200, login, "203.0.113.1"), 60)
      assert.strictEqual(yield* admitted(10, (at) => login(1_000 + at), "203.0.113.2"), 10)
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* admitted(200, (at) => login(2_000 + at), "203.0.113.1"), 40)
      assert.strictEqual(yield* budgetOf(true, 55).admitted(200, login, "203.0.113.1"), 30)
    }
  )

  it.effect("are not limited by network with MUSIC_RATE_LIMIT=off", function* () {
    const { admitted } = budgetOf(false)
    assert.strictEqual(yield* admitted(200, login, "203.0.113.1"), 93)
  })

  it.effect("that find no place cost their network nothing", function* () {
    const { admitted } = budgetOf()
    const others = [60, 33].map((count, at) =>
      admitted(count, (one) => login(1_000 * (1 + at) + one), `198.51.100.${at}`)
    )
    deepStrictEqual(yield* Effect.all(others), [60, 33])
    assert.strictEqual(yield* admitted(60, login, "203.0.113.1"), 0)
    yield* TestClock.adjust("1 minute")
    assert.strictEqual(yield* admitted(60, login, "203.0.113.1"), 60)
  })
})

describe("Refreshes", () => {
  it.effect(
    "of actors whom IAM has not disclosed are counted by network, where networks are counted",
    function* () {
      for (const [countAddresses, most] of [
        [true, 60],
        [false, 100]
      ] as const) {
        const { admitted, known } = budgetOf(countAddresses)
        const refresh = (at: number): Purpose => ({ ...known(`ort ${at}`), use: "refresh" })
        assert.strictEqual(yield* admitted(100, refresh, "203.0.113.1"), most)
        yield* TestClock.adjust("1 minute")
        if (countAddresses) assert.strictEqual(yield* admitted(100, refresh, "203.0.113.1"), 30)
      }
    }
  )

  it.effect("of one actor with many logins are limited to 30 at once and then 10 a minute", function* () {
    const { admitted, credentials } = budgetOf()
    const known = (name: string) => {
      const token = Redacted.make(`ort_${name.padStart(43, "x")}`)
      const place = {
        window: "production /oauth/introspect",
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
    assert.strictEqual(yield* admitted(100, eve, "203.0.113.1"), 30)
    assert.strictEqual(yield* admitted(5, (at) => known(`c:ana ${at}`), "203.0.113.1"), 5)
    yield* TestClock.adjust("1 minute")
    assert.strictEqual(yield* admitted(100, (at) => known(`c:eve ${200 + at}`), "203.0.113.1"), 10)
  })
})

describe("A call that never reached IAM", () => {
  it.effect("is no refresh of its actor or network, and no login of its network", function* () {
    const { admitted, known } = budgetOf()
    const kinds: ReadonlyArray<readonly [number, (at: number) => Purpose]> = [
      [30, (at) => ({ ...known(`ort ${at}`, "production c:eve"), use: "refresh" })],
      [60, (at) => ({ ...known(`ort of the network ${at}`), use: "refresh" })],
      [60, login]
    ]
    for (const [most, purpose] of kinds) {
      assert.strictEqual(yield* admitted(200, purpose, "203.0.113.1", Effect.fail(unsent)), 200)
      assert.strictEqual(yield* admitted(200, purpose, "203.0.113.1"), most)
      yield* TestClock.adjust("2 minutes")
    }
  })

  it.effect("does not count against the login that refreshes", function* () {
    const { admitted, known } = budgetOf()
    const refresh = (name: string) => (): Purpose => ({
      ...known(name, "production c:eve"),
      use: "refresh"
    })
    assert.strictEqual(yield* admitted(20, refresh("one"), "203.0.113.1", Effect.fail(unsent)), 20)
    for (let at = 0; at < 29; at += 1) yield* admitted(1, refresh(`other ${at}`), "203.0.113.1")
    assert.strictEqual(yield* admitted(1, refresh("one"), "203.0.113.1"), 1)
  })
})

describe("A call that IAM did not answer", () => {
  it.effect("is a refresh of its actor", function* () {
    const { admitted, known } = budgetOf()
    const refresh = (at: number): Purpose => ({ ...known(`ort ${at}`, "production c:eve"), use: "refresh" })
    assert.strictEqual(yield* admitted(100, refresh, "203.0.113.1", Effect.fail(unanswered)), 30)
    yield* TestClock.adjust("1 minute")
    assert.strictEqual(yield* admitted(100, refresh, "203.0.113.1"), 10)
  })
})

describe("One credential has", () => {
  const slt: Purpose = { credential: "slt", use: "login" }
  const bounds: ReadonlyArray<readonly [string, Purpose, Counted, number, number]> = [
    ["8 attempts of a login token", slt, tokens, 110, 8],
    ["4 of them with half the budget", slt, tokens, 55, 4],
    [
      "30 attempts of an actor's id in a testing plane",
      slt,
      { plane: "0199b000-0000-7000-8000-00000000000e", path: "/app-auth/tokens" },
      110,
      30
    ],
    ["8 refreshes of a session", { credential: "ort", use: "refresh" }, tokens, 110, 8],
    ["30 introspections of a session", { credential: "oat" }, introspections, 110, 30],
    [
      "30 proofs of a session",
      { credential: "oat" },
      { plane: "production", path: "/obo-access/exchanges" },
      110,
      30
    ],
    [
      "30 resolutions of a testing secret",
      { credential: "ask", use: "session" },
      { plane: undefined, path: "/application/testing-context" },
      110,
      30
    ],
    [
      "8 logouts of a session",
      { credential: "ort", use: "session" },
      { plane: "production", path: "/oauth/revoke" },
      110,
      8
    ]
  ]
  it.effect.each(bounds)("%s a minute", function* ([, purpose, counted, callsPerMinute, most]) {
    const { admitted } = budgetOf(true, callsPerMinute)
    assert.strictEqual(yield* admitted(40, () => purpose, "203.0.113.1", Effect.void, counted), most)
  })
})

describe("The introspection that completes a login", () => {
  it.effect(
    "may fill the whole budget, and so may its reservation, except for a newcomer's login",
    function* () {
      const { admitted, budget, known } = budgetOf()
      const reserve = (network: string) =>
        budget
          .reserveIntrospection(production, { credential: `slt of ${network}`, use: "login" }, Effect.succeed)
          .pipe(Effect.isSuccess, inRequest(true, network))
      yield* budget.recordRefusal("slt", "this_call", "login").pipe(inRequest(true, "203.0.113.2"))
      const share = yield* admitted(
        200,
        (at) => known(`oat ${at}`),
        "203.0.113.1",
        Effect.void,
        introspections
      )
      assert.strictEqual(share, 93)
      assert.isFalse(yield* reserve("203.0.113.2"))
      assert.isTrue(yield* reserve("203.0.113.1"))
      const completing = (at: number): Purpose => ({ credential: `new oat ${at}`, completing: true })
      const rest = yield* admitted(200, completing, "203.0.113.1", Effect.void, introspections)
      assert.strictEqual(rest, 110 - share - 1)
    }
  )

  it.effect("is no login of its network, and its place is free again when the login fails", function* () {
    const { budget } = budgetOf()
    const reserve = (at: number, spend: Effect.Effect<void, UpstreamFailure>) =>
      budget
        .reserveIntrospection(production, login(at), () => spend)
        .pipe(Effect.flip, Effect.option, inRequest(true, "203.0.113.1"))
    for (let at = 0; at < 120; at += 1)
      deepStrictEqual(yield* reserve(at, Effect.fail(unanswered)), Option.some(unanswered))
    for (let at = 0; at < 110; at += 1) deepStrictEqual(yield* reserve(at, Effect.void), Option.none())
  })
})

describe("The reservation of a login", () => {
  it.effect("is a place of its own, also when its SLT is a token with a reserved place", () =>
    Effect.gen(function* () {
      const { budget, credentials } = budgetOf()
      const accessToken = Redacted.make(`oat_${"x".repeat(43)}`)
      const grant = {
        accessToken,
        refreshToken: Redacted.make(`ort_${"x".repeat(43)}`),
        expiresInSeconds: 1_800,
        scopes: [],
        actor: Option.none(),
        organisation: Option.none(),
        replayed: false
      }
      const first = yield* budget.reserveIntrospection(production, login(0), (place) =>
        Effect.sync(() => {
          credentials.recordGrant(production, grant, Option.none(), place, 0)
          return place
        })
      )
      const repeated: Purpose = { credential: tokenKey(production, accessToken), use: "login" }
      const second = yield* budget.reserveIntrospection(production, repeated, Effect.succeed)
      assert.isFalse(second === first)
    }).pipe(inRequest(true, "203.0.113.1"))
  )
})

describe("A refused credential", () => {
  for (const kind of ["known", "unknown"] as const)
    it.effect(`has the next place when it comes back as told: ${kind}`, function* () {
      const { admitted, known } = budgetOf()
      const purpose = (name: string): Purpose => (kind === "known" ? known(name) : { credential: name })
      const introspect = (count: number, name: string) =>
        admitted(count, (at) => purpose(`${name} ${at}`), "203.0.113.1", Effect.void, introspections)
      assert.strictEqual(yield* introspect(1, "early"), 1)
      yield* TestClock.adjust("10 seconds")
      const rest = kind === "known" ? 92 : 54
      assert.strictEqual(yield* introspect(rest, "later"), rest)
      yield* TestClock.adjust("10 seconds")
      assert.strictEqual(yield* introspect(1, "refused"), 0)
      yield* TestClock.adjust("40 seconds")
      assert.strictEqual(yield* introspect(1, "other"), 0)
      assert.strictEqual(yield* introspect(1, "refused"), 1)
    })

  it.effect("is counted by its share", function* () {
    const { admitted } = budgetOf()
    const count = Effect.map(
      Effect.forEach(shares, (share) => Metric.value(iamCallsRefused({ priority: share }))),
      (states) => states.map(({ count }) => count)
    )
    const before = yield* count
    yield* admitted(57, (at) => ({ credential: `oat ${at}` }), "203.0.113.1", Effect.void, introspections)
    const refused = (yield* count).map((now, at) => now - (before[at] ?? 0))
    deepStrictEqual(
      refused,
      shares.map((share) => (share === "newcomer" ? 2 : 0))
    )
  })
})

describe("A network with a refused login", () => {
  it.effect("has half of the budget for its logins for five minutes, also after one refusal", function* () {
    const { admitted, budget } = budgetOf()
    yield* budget.recordRefusal("slt refused", "this_call", "login").pipe(inRequest(true, "203.0.113.1"))
    yield* TestClock.adjust("4 minutes")
    const others = Array.from({ length: 55 }, (_, at) => admitted(1, () => login(at), `198.51.100.${at}`))
    yield* Effect.all(others)
    // 55 places are taken: newcomers get 10 % of 110 above their part.
    assert.strictEqual(yield* admitted(20, (at) => login(100 + at), "203.0.113.1"), 11)
    yield* TestClock.adjust("1 minute")
    assert.strictEqual(yield* admitted(60, (at) => login(200 + at), "203.0.113.1"), 60)
  })
})

describe("A network with six refused tokens", () => {
  it.effect("is still suspect 49 s later, and of IPv6 it is a /48", function* () {
    const { admitted, budget } = budgetOf()
    for (let at = 0; at < 6; at += 1)
      yield* budget.recordRefusal(`oat ${at}`, "this_call").pipe(inRequest(true, `2001:db8:1:${at}`))
    yield* TestClock.adjust("49 seconds")
    const guess = (at: number): Purpose => ({ credential: `guess ${at}` })
    assert.strictEqual(yield* admitted(20, guess, "2001:db8:1:ffff", Effect.void, introspections), 8)
    assert.strictEqual(yield* admitted(20, guess, "2001:db8:2:1", Effect.void, introspections), 20)
  })
})

describe("A credential that IAM refused", () => {
  it.effect("is no longer known, and is refused again without a call", function* () {
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
})

describe("Testing secrets whose plane is not known yet", () => {
  it.effect("share one budget; a known one has the budget of its plane", function* () {
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
})

describe("A call without an answer", () => {
  it.effect(
    "counts against its credential for 15 s only, so that an outage has no long effect",
    function* () {
      const { admitted } = budgetOf()
      const one = (): Purpose => ({ credential: "ort", use: "refresh" })
      assert.strictEqual(yield* admitted(20, one, "203.0.113.1", Effect.fail(unanswered)), 8)
      yield* TestClock.adjust("15 seconds")
      assert.strictEqual(yield* admitted(20, one, "203.0.113.1"), 8)
      yield* TestClock.adjust("15 seconds")
      assert.strictEqual(yield* admitted(20, one, "203.0.113.1"), 0)
    }
  )
})

describe("Turns of credentials that IAM did not confirm", () => {
  const callsPerMinute = 110
  const newcomers = 55
  const address = "203.0.113.1"
  /** `introspect` returns how many of the new calls are sent; all places of newcomers are taken at first. */
  const full = (countAddresses = true) =>
    Effect.gen(function* () {
      const { admitted } = budgetOf(countAddresses, callsPerMinute)
      let last = 0
      const introspect = (count: number, network: string, name = `new ${++last}`) =>
        admitted(count, (at) => ({ credential: `${name} ${at}` }), network, Effect.void, introspections)
      assert.strictEqual(yield* introspect(newcomers, "198.51.100.1"), newcomers)
      return introspect
    })

  it.effect("are two at one time for an address", function* () {
    const introspect = yield* full()
    assert.strictEqual(yield* introspect(20, address), 0)
    yield* TestClock.adjust("1 minute")
    assert.strictEqual(yield* introspect(100, "198.51.100.2"), newcomers - 2)
  })

  it.effect("are half of the places of their share, also with MUSIC_RATE_LIMIT=off", function* () {
    for (const countAddresses of [true, false]) {
      const introspect = yield* full(countAddresses)
      for (let at = 0; at < 100; at += 1) yield* introspect(1, `192.0.2.${at}`)
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* introspect(100, "198.51.100.2"), newcomers - 28)
    }
  })

  it.effect("end after 10 s", function* () {
    for (const [seconds, kept] of [
      [70, 2],
      [71, 0]
    ] as const) {
      const introspect = yield* full()
      yield* introspect(2, address)
      yield* TestClock.adjust(`${seconds} seconds`)
      assert.strictEqual(yield* introspect(100, "198.51.100.2"), newcomers - kept)
    }
  })

  it.effect("are used once, and lift no call above the ceiling of its share", function* () {
    const introspect = yield* full()
    yield* introspect(2, address, "waiting")
    yield* TestClock.adjust("1 minute")
    assert.strictEqual(yield* introspect(100, "198.51.100.2"), newcomers - 2)
    assert.strictEqual(yield* introspect(2, address, "waiting"), 2)
    assert.strictEqual(yield* introspect(2, address, "waiting"), 0)
  })

  it.effect("go to those who came back as told before, instead of those who did not", function* () {
    const introspect = yield* full()
    yield* introspect(3, address, "waiting")
    yield* introspect(1, address, "patient")
    // Without a turn it was told five seconds.
    yield* TestClock.adjust("5 seconds")
    yield* introspect(1, address, "patient")
    yield* TestClock.adjust("55 seconds")
    assert.strictEqual(yield* introspect(100, "198.51.100.2"), newcomers - 2)
    assert.strictEqual(yield* introspect(1, address, "patient"), 1)
    assert.strictEqual(yield* introspect(3, address, "waiting"), 1)
  })

  it.effect("are 1,000 in all, however many credentials come", function* () {
    const { admitted } = budgetOf(true, 10_000)
    const introspect = (count: number, name: string, network: (at: number) => string) =>
      Effect.map(
        Effect.forEach(
          Array.from({ length: count }, (_, at) => at),
          (at) =>
            admitted(1, () => ({ credential: `${name} ${at}` }), network(at), Effect.void, introspections)
        ),
        (sent) => sent.reduce((sum, one) => sum + one, 0)
      )
    const own = (at: number) => `10.0.${at >> 8}.${at & 255}`
    assert.strictEqual(yield* introspect(5_001, "first", own), 5_000)
    yield* introspect(2_500, "second", own)
    yield* TestClock.adjust("1 minute")
    assert.strictEqual(yield* introspect(5_000, "third", () => "198.51.100.2"), 4_000)
  })
})
