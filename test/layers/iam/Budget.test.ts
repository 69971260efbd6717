/** The rules of docs/limits.md, "The budget for IAM", at the port. */
import { Effect, FastCheck, Fiber, Logger, Metric } from "effect"
import { describe, expect } from "vitest"
import { iamCallsRefused } from "../../../src/services/Metrics.ts"
import type { UpstreamFailure } from "../../../src/services/UpstreamFailure.ts"
import { it } from "../../world/Test.ts"
import {
  address,
  calls,
  type Counted,
  type CountedOptions,
  countedIam,
  elsewhere,
  fresh,
  type Outcome,
  paths,
  testingPlane
} from "./Counted.ts"

const { known, login, logout, refresh, secret, stranger, strangeLogout, strangeRefresh } = calls
type Ask = (counted: Counted) => Effect.Effect<unknown, UpstreamFailure>

/** So many calls at this second: how many of them are sent, or the seconds of the refusal of one. Or what IAM does from now on. */
type Row =
  | readonly [second: number, ask: Ask, count: number, sent: number | string, from?: string]
  | readonly [second: number, answer: Outcome]

const sentOf = (counted: Counted, ask: Ask, count: number, from = address) =>
  Effect.gen(function* () {
    const call = counted.secondsOf(
      Effect.suspend(() => ask(counted)),
      from
    )
    const before = counted.sent.length
    if (count === 1)
      return yield* Effect.map(call, (seconds) =>
        seconds === 0 ? counted.sent.length - before : `${seconds} s`
      )
    let [sent, refused] = [0, 0]
    // After three refusals at one time there is no place.
    while (sent + refused < count && refused < 3)
      if ((yield* call) === 0) sent += 1
      else refused += 1
    return sent
  })

const play = (title: string, options: CountedOptions, rows: ReadonlyArray<Row>) =>
  it.scoped(title, function* () {
    const counted = yield* countedIam(options)
    const results: Array<unknown> = []
    for (const [second, what, count, , from] of rows as ReadonlyArray<
      Readonly<[number, never, number, unknown, string]>
    >) {
      yield* counted.at(second)
      results.push(
        count === undefined ? yield* counted.answer(what) : yield* sentOf(counted, what, count, from)
      )
    }
    expect(results).toEqual(rows.map((row) => (row.length === 2 ? undefined : row[3])))
  })

const twenty = { calls: 20 }
/** More than all places of twenty. */
const many = 30

describe("A class of calls", () => {
  play("leaves what is above its ceiling to the classes above", twenty, [
    [0, "refuse"],
    [0, stranger, many, 10],
    [0, "accept"],
    [0, known, many, 7],
    [0, refresh, many, 3]
  ])
  for (const [what, ask, sent] of [
    ["logout", logout, 20],
    ["unknown refresh token", strangeRefresh, 10],
    ["logout with an unknown token", strangeLogout, 10]
  ] as const)
    play(`of a ${what} has ${sent} places of 20`, twenty, [[0, ask, many, sent]])

  it.scoped("is counted where its calls are refused", function* () {
    const counted = yield* countedIam({ calls: 1 })
    for (const fill of [refresh, logout]) yield* counted.secondsOf(fill(counted))
    for (const [priority, ask] of [
      ["essential", refresh],
      ["known", known],
      ["newcomer", stranger]
    ] as const) {
      const refused = Effect.map(Metric.value(iamCallsRefused({ priority })), ({ count }) => count)
      const before = yield* refused
      yield* counted.secondsOf(ask(counted))
      expect([priority, (yield* refused) - before]).toEqual([priority, 1])
    }
  })

  const token = fresh("oat")
  play("of a login has 85 % of the budget, and is not that of the token whose text it presents", twenty, [
    [0, (counted) => stranger(counted, token), 1, 1],
    [0, login, 8, 8],
    [0, login, 8, 8, elsewhere],
    [0, (counted) => login(counted, token), 1, "60 s", "203.0.113.3"],
    [0, refresh, 1, 1]
  ])
  const site = (end: number) => `2001:db8:1:${end}::1`
  for (const [second, from, sent] of [
    [299.999, site(2), 10],
    [300, site(2), 8],
    [0, "2001:db8:2::1", 8]
  ] as const)
    play(`of logins is lower for a /48 with a refused login: ${sent} of ${from} at ${second} s`, twenty, [
      [0, "refuse"],
      [0, login, 1, 1, site(1)],
      [0, "accept"],
      [second, login, many, sent, from]
    ])
  play("of logins is not lowered by a refused refresh of their address", twenty, [
    [0, "refuse"],
    [0, strangeRefresh, 1, 1],
    [0, "accept"],
    [0, login, many, 8]
  ])
})

describe("A bound", () => {
  const slt = fresh("oac")
  for (const [what, budget, ask, sent] of [
    ["introspections of a login", 55, (one: Counted) => known(one, "one"), 15],
    ["introspections of an actor", 55, (one: Counted) => known(one, undefined, "ana"), 15],
    ["refreshes of a login", 55, (one: Counted) => refresh(one, "one"), 4],
    ["refreshes of an actor", 110, (one: Counted) => refresh(one, undefined, "ana"), 15],
    ["logouts of a login", 55, (one: Counted) => logout(one, "one"), 4],
    ["exchanges of one short-lived token", 55, (one: Counted) => login(one, slt), 15]
  ] as const)
    play(`of ${what} is ${sent} a minute of ${budget}`, { calls: budget }, [[0, ask, 40, sent]])
  const one: Ask = (counted) => refresh(counted, "one")
  play("opens when the first of its calls no longer counts", {}, [
    [0, one, 4, 4],
    [10, one, 2, 2],
    [20, one, 2, 2],
    [30, one, 1, "30 s"],
    [59.999, one, 1, "1 s"],
    [60, one, 9, 4],
    [60, one, 1, "10 s"]
  ])
  play("of introspections leaves the refreshes of the login alone", {}, [
    [0, (counted) => known(counted, "one"), 40, 30],
    [0, one, 20, 8]
  ])
  play("counts nothing that never reached IAM", {}, [
    [0, "unsent"],
    [0, one, 20, 20],
    [0, "accept"],
    [0, one, 20, 8]
  ])
})

describe("One address", () => {
  play("has 40 % of the budget for its logins, apart from its other calls", twenty, [
    [0, known, 5, 5],
    [0, login, many, 8],
    [0, known, many, 4]
  ])
  play("is not counted with MUSIC_RATE_LIMIT=off", { ...twenty, rateLimit: false }, [
    [0, "refuse"],
    [0, login, 1, 1],
    [0, "accept"],
    [60, login, many, 17]
  ])
  play("has an equal part of the places of newcomers", twenty, [
    [0, "refuse"],
    [0, stranger, 4, 4],
    [0, stranger, many, 5, elsewhere],
    [0, stranger, many, 1]
  ])
})

describe("A place", () => {
  it.scoped("is held while a call is out, and for 60 s after its end", function* () {
    const counted = yield* countedIam({ calls: 1 })
    yield* counted.answer("accept", 8_000)
    const out = yield* Effect.fork(counted.secondsOf(known(counted)))
    const token = fresh("oat")
    const results: Array<unknown> = []
    for (const seconds of [7, 60, 1]) {
      yield* counted.pass(seconds)
      yield* counted.answer("refuse")
      results.push(yield* sentOf(counted, (one) => stranger(one, token), 1))
    }
    expect(results).toEqual(["60 s", "1 s", 1])
    yield* Fiber.join(out)
  })
  play("belongs to one plane and path", { calls: 10 }, [
    [0, known, many, 8],
    [0, logout, many, 10],
    [0, ({ iam }) => iam.introspect(testingPlane, fresh("oat")), many, 5]
  ])
  it.scoped("of processes that stopped is taken in those that start", function* () {
    const left: NonNullable<CountedOptions["left"]> = []
    const start = countedIam({ calls: 10, left })
    const fill = Effect.flatMap(start, (counted) => sentOf(counted, known, 8))
    yield* Effect.scoped(Effect.zipRight(fill, fill))
    expect(left.map(({ window }) => window)).toEqual(Array(16).fill("production /oauth/introspect"))
    const first = yield* start
    const sent = [yield* sentOf(first, known, many)]
    // The turns of those who were refused have ended too.
    yield* first.at(71)
    sent.push(yield* sentOf(first, known, many))
    for (let process = 0; process < 2; process += 1) sent.push(yield* sentOf(yield* start, known, many))
    expect([...sent, left]).toEqual([0, 8, 2, 8, []])
  })
  const late = fresh("ask")
  play("of a testing secret is shared by all secrets", twenty, [
    [0, (counted) => secret(counted, late), 1, 1],
    [61, "refuse"],
    [61, secret, 10, 10],
    [61, "accept"],
    [61, secret, 1, "60 s"],
    [61, (counted) => secret(counted, late), 1, 1]
  ])
})

/** A login, and the introspection that completes it. */
const completedLogin = (): readonly [begin: Ask, complete: Ask] => {
  let token = fresh("oat")
  return [
    (counted) =>
      Effect.map(login(counted), ({ accessToken }) => {
        token = accessToken
      }),
    (counted) => stranger(counted, token)
  ]
}

describe("The place of the introspection that completes a login", () => {
  const [begin, complete] = completedLogin()
  play("is kept for it for 60 s, once", { calls: 10 }, [
    [10, begin, 1, 1],
    [10, refresh, many, 9],
    [69.999, complete, 2, 1]
  ])
  play("stays with it when an attempt does not reach IAM", { calls: 10 }, [
    [10, begin, 1, 1],
    [10, "unsent"],
    [10, complete, 1, 0],
    [10, "accept"],
    // And the probe of the first of them.
    [10, refresh, many, 8],
    [10, complete, 2, 1]
  ])
  play("is free after 60 s", { calls: 10 }, [
    [10, begin, 1, 1],
    [70, refresh, many, 10],
    [70, complete, 2, 0]
  ])
  play("is kept through a pause in which the login was the probe", {}, [
    [0, { blockSeconds: 60 }],
    [0, known, 1, 1],
    [0, "accept"],
    [5, begin, 1, 1],
    [5, complete, 1, 1]
  ])
  play("is given back when the login is refused", twenty, [
    [0, "refuse"],
    [0, login, 3, 3],
    [0, "accept"],
    [0, known, many, 17]
  ])
  play("is needed before anything is spent", twenty, [
    [0, known, many, 17],
    [0, login, 1, "60 s"],
    [0, refresh, 3, 3],
    [0, refresh, 1, "60 s"]
  ])
})

describe("A credential without a place", () => {
  const from = "198.51.100.1"
  const full = [
    [0, "refuse"],
    [0, stranger, 10, 10, from]
  ] as const
  const token = (): Ask => {
    const one = fresh("oat")
    return (counted) => stranger(counted, one)
  }

  for (const [second, sent] of [
    [60, 8],
    [70, 8],
    [70.001, 10]
  ] as const)
    play(`has a turn, two of an address, for 10 s: ${sent} others at ${second} s`, twenty, [
      ...full,
      [0, stranger, 20, 0],
      [second, stranger, many, sent, elsewhere]
    ])

  const [first, second, third] = [token(), token(), token()]
  play("goes before those who came later, and keeps its time when it comes back on time", { calls: 2 }, [
    [0, "refuse"],
    [0, stranger, 1, 1, from],
    [10, first, 1, "50 s", "192.0.2.1"],
    [15, first, 1, "45 s", "192.0.2.1"],
    [20, second, 1, "5 s", "192.0.2.2"],
    ...[25, 30, 35, 40, 45, 50, 55].map((time) => [time, second, 1, "5 s", "192.0.2.2"] as const),
    [60, second, 1, "60 s", "192.0.2.2"],
    [60, first, 1, 1, "192.0.2.1"],
    [62, third, 1, "5 s", "192.0.2.3"],
    [65, second, 1, "55 s", "192.0.2.2"],
    [120, third, 1, "60 s", "192.0.2.3"],
    [120, second, 1, 1, "192.0.2.2"]
  ])
  const [slow, quiet] = [token(), token()]
  play("of an address with fewer calls goes first", { calls: 4 }, [
    [0, "refuse"],
    [0, stranger, 1, 1],
    [30, stranger, 1, 1],
    [31, slow, 1, "29 s"],
    [32, quiet, 1, "28 s", elsewhere],
    [60, slow, 1, "30 s"],
    [60, quiet, 1, 1, elsewhere]
  ])
  const [lost, next] = [token(), token()]
  play("loses its time when it comes late", { calls: 2 }, [
    [0, "refuse"],
    [0, stranger, 1, 1, from],
    [10, lost, 1, "50 s", "192.0.2.1"],
    [71, stranger, 1, 1, from],
    [72, next, 1, "59 s", "192.0.2.2"],
    [73, lost, 1, "5 s", "192.0.2.1"]
  ])
  const refreshed: Ask = (counted) => known(counted, "login of two tokens")
  play("keeps the turn of its login when a refresh replaces it", twenty, [
    [0, known, 17, 17],
    [10, refreshed, 1, "50 s"],
    [60, known, many, 16],
    [60, refreshed, 1, 1]
  ])
  const once = token()
  play("has its turn once", twenty, [
    [0, once, 1, 1],
    [0, known, 16, 16],
    [10, once, 1, "50 s"],
    [60, once, 1, 1],
    [60, known, many, 16]
  ])
  play("delays no call of a class above", twenty, [
    [0, known, 17, 17],
    [0, known, 5, 0],
    [60, refresh, many, 20]
  ])
  play("has a turn a minute after that of the one before it, where there is one place", { calls: 2 }, [
    [0, known, 1, 1],
    [10, known, 1, "50 s"],
    [10, known, 1, "112 s"]
  ])
  play("expects no place of an essential call", twenty, [
    [0, refresh, 8, 8],
    [30, known, 9, 9],
    [40, known, 1, "50 s"]
  ])
})

describe("A path that IAM blocks", () => {
  const blocked = [
    [0, { blockSeconds: 900 }],
    [0, known, 1, 1]
  ] as const
  play("admits one call in 5 s, of no newcomer, for a minute, and is open after its success", twenty, [
    ...blocked,
    [0, login, 1, "60 s"],
    [4.999, known, 1, "56 s"],
    [4.999, refresh, 1, "56 s"],
    [5, stranger, 1, "55 s"],
    [5, { blockSeconds: 1 }],
    [5, known, 1, 1],
    [9, known, 1, "51 s"],
    [10, "accept"],
    [10, known, 1, 1],
    [10, stranger, 1, 1]
  ])
  play("stays blocked for the longest of IAM's pauses, and no longer", twenty, [
    ...blocked,
    [50, known, 1, 1],
    [51, known, 1, "59 s"],
    [55, { blockSeconds: 1 }],
    [55, known, 1, 1],
    [56, known, 1, "54 s"],
    [110, stranger, 1, 1]
  ])
})

describe("Without a call", () => {
  const [refreshToken, accessToken, testingSecret] = [fresh("ort"), fresh("oat"), fresh("ask")]
  for (const [what, seconds, ask] of [
    ["a dead refresh token", 600, (counted: Counted) => strangeRefresh(counted, refreshToken)],
    ["an inactive access token", 30, (counted: Counted) => stranger(counted, accessToken)],
    ["a refused testing secret", 30, (counted: Counted) => secret(counted, testingSecret)]
  ] as const)
    play(`${what} is refused for ${seconds} s`, {}, [
      [0, "refuse"],
      [0, ask, 1, 1],
      [seconds - 0.001, ask, 1, 0],
      [seconds, ask, 1, 1]
    ])
})

/** Any call, and what IAM does with it. */
const step = FastCheck.record({
  pause: FastCheck.oneof(
    { weight: 6, arbitrary: FastCheck.constant(0) },
    { weight: 3, arbitrary: FastCheck.integer({ min: 0, max: 5_000 }) },
    { weight: 1, arbitrary: FastCheck.integer({ min: 0, max: 100_000 }) }
  ),
  ask: FastCheck.constantFrom(...(["stranger", "known", "login", "refresh", "logout"] as const)),
  answer: FastCheck.oneof(
    { weight: 8, arbitrary: FastCheck.constantFrom<Outcome>("accept", "refuse") },
    { weight: 2, arbitrary: FastCheck.constantFrom<Outcome>("fail", "unsent") },
    { weight: 1, arbitrary: FastCheck.record({ blockSeconds: FastCheck.integer({ min: 1, max: 60 }) }) }
  ),
  latency: FastCheck.integer({ min: 0, max: 4_000 }),
  who: FastCheck.nat(9)
})

it("No 60 s contain more calls to a path than the budget, and every refusal gives 1 to 900 s", async () => {
  let refusals = 0
  let fullest = 0
  await FastCheck.assert(
    FastCheck.asyncProperty(
      FastCheck.integer({ min: 1, max: 12 }),
      FastCheck.array(step, { minLength: 30, maxLength: 80 }),
      (budget, steps) =>
        Effect.gen(function* () {
          const counted = yield* countedIam({ calls: budget })
          const running: Array<Fiber.RuntimeFiber<number>> = []
          for (const { answer, ask, latency, pause, who } of steps) {
            yield* counted.pass(pause / 1_000)
            yield* counted.answer(answer, latency)
            const call = Effect.suspend(() => calls[ask](counted))
            running.push(yield* Effect.fork(counted.secondsOf(call, `198.51.100.${who}`)))
          }
          yield* counted.pass(60)
          for (const seconds of yield* Fiber.join(Fiber.all(running))) {
            if (seconds === 0) continue
            refusals += 1
            expect(Number.isInteger(seconds) && seconds >= 1 && seconds <= 900, String(seconds)).toBe(true)
          }
          for (const path of Object.values(paths)) {
            const sent = counted.sent.filter((one) => one.path === path)
            // IAM counts a call at some moment between its send and its answer: at the worst, all of these in one 60 s.
            for (const { answeredAt: from } of sent) {
              const together = sent.filter(({ answeredAt, at }) => answeredAt >= from && at < from + 60_000)
              expect(together.length).toBeLessThanOrEqual(budget)
              fullest = Math.max(fullest, together.length / budget)
            }
          }
        }).pipe(Effect.scoped, Effect.provide(Logger.remove(Logger.defaultLogger)), Effect.runPromise)
    ),
    { numRuns: 8 }
  )
  expect(refusals).toBeGreaterThan(100)
  expect(fullest).toBe(1)
})
