/** The rules of the budget (docs/api.md, "The budget for IAM"), at its one entry. The laws for any sequence are in `BudgetLaw.test.ts`. */
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import { describe, expect, it } from "vitest"
import { iamCallsRefused } from "../../../../src/services/Metrics.ts"
import {
  answered,
  blocked,
  fresh,
  introspections,
  makeBudget,
  type Out,
  tokens,
  unanswered,
  unsent
} from "./Budget.ts"

type Budget = ReturnType<typeof makeBudget>
type Purpose = Parameters<Budget["call"]>[0]

const one = "203.0.113.1"
const contexts = { plane: undefined, path: "/application/testing-context" } as const
const many = 200
const essential = (): Purpose => ({ credential: fresh(), completing: true })
/** A call of the application itself, of the share of known credentials. */
const own = (): Purpose => ({})
const newcomer = (): Purpose => ({ credential: fresh() })
/** Makes a network suspect, by so many refused credentials. */
const suspect = ({ refuse }: Budget, use?: "login", count = 6, network = one) => {
  for (let at = 0; at < count; at += 1) refuse(fresh("bad"), "this_call", use, network)
}
const isSent = (call: Out | number): call is Out => typeof call !== "number"
const mustSend = (call: Out | number): Out => {
  if (!isSent(call)) throw new Error(`refused for ${call} s`)
  return call
}
/** What is asked at each of these seconds. */
const atEach = <A>({ at }: Pick<Budget, "at">, seconds: ReadonlyArray<number>, ask: (second: number) => A) =>
  seconds.map((second) => {
    at(second)
    return ask(second)
  })
/** The answers to so many calls: their seconds to wait. */
const waits = ({ call, known }: Budget, count: number) => Array.from({ length: count }, () => call(known()))

describe("The shares of a path", () => {
  it.each([
    [100, [8, 42, 35, 15]],
    [10, [1, 4, 3, 2]]
  ])("of a budget of %i keep what is above their part for the shares above", (calls, parts) => {
    const budget = makeBudget(calls)
    suspect(budget)
    const sent = [
      budget.send(many, newcomer),
      budget.send(many, newcomer, { network: "203.0.113.2" }),
      budget.send(many, own),
      budget.send(many, essential)
    ]
    expect(sent).toEqual(parts)
  })

  const alone: ReadonlyArray<readonly [calls: number, purposeOf: () => Purpose, sent: number]> = [
    [100, essential, 100],
    [100, own, 85],
    [100, newcomer, 50],
    [10, own, 8],
    [10, newcomer, 5]
  ]
  it.each(alone)("of a budget of %i admit %o %i times", (calls, purposeOf, sent) => {
    expect(makeBudget(calls).send(many, purposeOf)).toBe(sent)
  })

  it.each([
    [60, 0, 10],
    [many, 0, 0],
    [29, 6, 1],
    [30, 6, 0]
  ])(
    "leave newcomers 10 places above their ceiling, suspects none beyond 30: after %i calls",
    (before, refusals, sent) => {
      const budget = makeBudget(100)
      suspect(budget, undefined, refusals)
      budget.send(before, own)
      expect(budget.send(many, newcomer)).toBe(sent)
    }
  )

  /** `known` is a known credential. The refusals of the network before: their use, and how many. */
  const shares: ReadonlyArray<readonly [string, Purpose, string, (readonly ["login" | undefined, number])?]> =
    [
      ["a refresh with a known token", { credential: "known", use: "refresh" }, "essential"],
      ["a logout, or a known testing secret", { credential: "known", use: "session" }, "essential"],
      ["the introspection that completes a login", { credential: "oat", completing: true }, "essential"],
      ["an introspection or a proof of a known token", { credential: "known" }, "known"],
      ["the list of Ting's endpoints", {}, "known"],
      ["a login", { credential: "slt", use: "login" }, "known"],
      ["an unknown token", { credential: "oat" }, "newcomer"],
      ["a refresh with an unknown token", { credential: "ort", use: "refresh" }, "newcomer"],
      ["an unknown testing secret", { credential: "ask", use: "session" }, "newcomer"],
      ["an unknown token after six refused ones", { credential: "oat" }, "suspect", [undefined, 6]],
      ["an unknown token after five refused ones", { credential: "oat" }, "newcomer", [undefined, 5]],
      ["a login after six refused tokens", { credential: "slt", use: "login" }, "known", [undefined, 6]],
      ["a login after a refused one", { credential: "slt", use: "login" }, "newcomer", ["login", 1]],
      ["a login after six refused ones", { credential: "slt", use: "login" }, "suspect", ["login", 6]],
      ["an unknown token after six refused logins", { credential: "oat" }, "newcomer", ["login", 6]]
    ]
  it.each(shares)(
    "count in a metric the refusals of %s",
    (_, purpose, share, [use, refusals] = [undefined, 0]) => {
      const budget = makeBudget()
      const names = ["essential", "known", "newcomer", "suspect"]
      const counts = () =>
        names.map((priority) => Effect.runSync(Metric.value(iamCallsRefused({ priority }))).count)
      budget.known("known")
      suspect(budget, use, refusals)
      budget.send(many, essential)
      const before = counts()
      expect(isSent(budget.call(purpose))).toBe(false)
      expect(counts().map((count, at) => count - (before[at] ?? 0))).toEqual(
        names.map((name) => (name === share ? 1 : 0))
      )
    }
  )
})

describe("A suspect network", () => {
  it.each<readonly ["login" | undefined, number, number]>([
    [undefined, 49.999, 8],
    [undefined, 50, 55],
    ["login", 49.999, 8],
    ["login", 299.999, 55],
    ["login", 300, 60]
  ])("by six refusals (%s) has the calls of one %d s later: %i", (use, seconds, sent) => {
    const budget = makeBudget()
    suspect(budget, use)
    budget.at(seconds)
    const counted = use === "login" ? tokens : introspections
    expect(budget.send(many, () => ({ credential: fresh(), ...(use && { use }) }), { counted })).toBe(sent)
  })

  it("is a /48 of IPv6, no other network, and none where addresses are not counted", () => {
    const budget = makeBudget()
    for (let at = 0; at < 6; at += 1) suspect(budget, undefined, 1, `2001:db8:1:${at}::1`)
    expect(budget.send(20, newcomer, { network: "2001:db8:1:ffff::1" })).toBe(8)
    expect(budget.send(20, newcomer, { network: "2001:db8:2::1" })).toBe(20)
    const uncounted = makeBudget(110, false)
    suspect(uncounted)
    expect(uncounted.send(20, newcomer)).toBe(20)
  })

  it("is none by one credential that is refused six times", () => {
    const budget = makeBudget()
    for (let at = 0; at < 6; at += 1) budget.refuse("dead", "inactive_access_token")
    expect(budget.send(20, newcomer)).toBe(20)
  })

  it("waits until a suspect's place is free", () => {
    const budget = makeBudget(100)
    suspect(budget)
    budget.send(1, own)
    budget.at(10)
    budget.send(8, newcomer)
    suspect(budget)
    budget.at(20)
    expect(budget.call({ credential: "waiting" })).toBe(50)
    budget.at(70)
    suspect(budget)
    expect(isSent(budget.call({ credential: "waiting" }))).toBe(true)
  })
})

describe("One credential", () => {
  const plane = "0199b000-0000-7000-8000-00000000000e"
  const bounds: ReadonlyArray<readonly [string, Purpose, Parameters<Budget["call"]>[1], number, number]> = [
    ["a login token", { use: "login" }, { counted: tokens }, 110, 8],
    ["a login token, with half the budget", { use: "login" }, { counted: tokens }, 55, 4],
    ["an actor's id in a testing plane", { use: "login" }, { counted: { ...tokens, plane } }, 110, 30],
    ["refreshes of a session", { use: "refresh" }, { counted: tokens }, 110, 8],
    ["introspections of a session", {}, {}, 110, 30],
    ["proofs of a session", {}, { counted: { ...tokens, path: "/obo-access/exchanges" } }, 110, 30],
    ["a testing secret", { use: "session" }, { counted: contexts }, 110, 30],
    ["logouts of a session", { use: "session" }, { counted: { ...tokens, path: "/oauth/revoke" } }, 110, 8]
  ]
  it.each(bounds)("has %s: %o %o of a budget of %i, %i a minute", (_, purpose, options, calls, most) => {
    expect(makeBudget(calls).send(40, () => ({ credential: "one", ...purpose }), options)).toBe(most)
  })

  it("may call again when the first of its calls is free again", () => {
    const budget = makeBudget()
    const refresh = (): Purpose => ({ credential: "ort", use: "refresh" })
    const send = (count: number) => budget.send(count, refresh, { counted: tokens })
    expect(atEach(budget, [0, 10, 20], (second) => send(second === 0 ? 4 : 2))).toEqual([4, 2, 2])
    const ask = () => budget.call(refresh(), { counted: tokens })
    expect(atEach(budget, [30, 59.999], ask)).toEqual([30, 1])
    expect(atEach(budget, [60], () => [send(9), ask()])).toEqual([[4, 10]])
  })

  it("counts calls without an answer for 15 s only, so that an outage has no long effect", () => {
    const { at, send } = makeBudget()
    const refresh = (): Purpose => ({ credential: "ort", use: "refresh" })
    const sent = [0, 14.999, 15, 30].map((second) => {
      at(second)
      return send(20, refresh, { counted: tokens, end: second < 15 ? unanswered : answered })
    })
    expect(sent).toEqual([8, 0, 8, 0])
  })

  it.each([
    ["known", 85, 62],
    ["newcomer", 50, 27]
  ] as const)(
    "with more than three calls leaves a fifth of the budget to others: %s",
    (share, ceiling, before) => {
      const budget = makeBudget(100)
      const other = () => (share === "known" ? own() : newcomer())
      const busy = share === "known" ? budget.known() : newcomer()
      budget.send(before, other)
      expect(budget.send(many, () => busy)).toBe(4)
      expect(budget.send(many, other)).toBe(ceiling - before - 4)
    }
  )

  it("is refreshed although it used up its introspections", () => {
    const { known, send } = makeBudget()
    const token = known()
    expect(send(many, () => token)).toBe(30)
    expect(send(1, () => ({ ...token, completing: true }))).toBe(1)
    expect(send(1, () => token)).toBe(0)
  })

  it.each([
    ["with one actor", "production c:hoarder", 65],
    ["without", undefined, 85]
  ])(
    "of many logins %s leaves a fifth to others beyond ten calls, except for refreshes",
    (_, owner, sent) => {
      const { known, send } = makeBudget(100)
      expect(send(many, () => known(fresh(), owner))).toBe(sent)
      expect(send(many, own)).toBe(85 - sent)
      expect(send(many, () => ({ ...known(fresh(), owner), completing: true }))).toBe(15)
    }
  )
})

describe("A place", () => {
  it("is free again 60 s after the response, and is held until then", () => {
    const budget = makeBudget(1)
    const first = mustSend(budget.call(essential()))
    const ask = () => budget.call(essential())
    expect(atEach(budget, [60, 600], ask)).toEqual([60, 60])
    first.end(answered)
    expect(atEach(budget, [630, 659.999], ask)).toEqual([30, 1])
    expect(isSent(atEach(budget, [660], ask)[0] ?? 0)).toBe(true)
  })

  it("is free at once when the call was never sent", () => {
    const { call, send } = makeBudget(1)
    expect(send(many, essential, { end: unsent })).toBe(many)
    expect(isSent(call(essential()))).toBe(true)
  })

  it("belongs to one plane and path", () => {
    const { send } = makeBudget(10)
    for (const counted of [introspections, tokens, { ...introspections, plane: "testing" as const }])
      expect(send(many, own, { counted })).toBe(8)
    send(1, essential, { end: blocked(60) })
    expect([send(1, essential), send(1, essential, { counted: tokens })]).toEqual([0, 1])
  })

  it("of an unknown testing secret is shared with all such secrets, until it is known", () => {
    const { credentials, send } = makeBudget()
    const counted = contexts
    const secret = (name: string): Purpose => ({ credential: name, use: "session" })
    expect(send(many, () => secret(fresh()), { counted })).toBe(55)
    expect(send(1, () => secret("late"), { counted })).toBe(0)
    credentials.markLive("late")
    expect(send(1, () => secret("late"), { counted })).toBe(1)
  })
})

describe("A reserved place", () => {
  const slt = (): Purpose => ({ credential: fresh("slt"), use: "login" })

  it("admits the introspection that completes the login to a full path, once, for 60 s", () => {
    for (const second of [69.999, 70]) {
      const { at, call, reserve, send } = makeBudget(2)
      at(10)
      const token = reserve(slt()) ?? {}
      send(many, essential)
      at(second)
      send(many, essential)
      expect(send(1, () => token)).toBe(second < 70 ? 1 : 0)
      expect(isSent(call(token))).toBe(false)
    }
  })

  it("is free 60 s after the answer, and belongs to its token", () => {
    const { at, call, reserve, send } = makeBudget(2)
    const token = reserve(slt())
    at(10)
    send(many, essential)
    at(40)
    const completing = mustSend(call(token ?? {}))
    at(105)
    expect(send(many, essential)).toBe(1)
    completing.end(answered)
    at(164.999)
    expect(send(many, essential)).toBe(0)
    at(165)
    expect(send(many, essential)).toBe(2)
  })

  it("may fill the whole budget, except that of a newcomer's login", () => {
    const { known, refuse, reserve, send } = makeBudget()
    refuse(fresh(), "this_call", "login", "203.0.113.2")
    expect(send(many, () => known())).toBe(93)
    expect(reserve(slt(), answered, "203.0.113.2")).toBeUndefined()
    expect(reserve(slt())).toBeDefined()
    expect(send(many, essential)).toBe(16)
  })

  it("is no login of its network, is another one for each login, and is free again when the login fails", () => {
    const { reserve, send } = makeBudget()
    for (let at = 0; at < 120; at += 1) expect(reserve(slt(), unanswered)).toBeUndefined()
    const first = reserve(slt())
    expect(reserve({ ...first, use: "login" })).not.toEqual(first)
    for (let at = 0; at < 108; at += 1) expect(reserve(slt())).toBeDefined()
    expect(send(many, essential)).toBe(0)
  })
})

describe("A known credential that was refused", () => {
  /** All places for known credentials are taken until 60 s; `waiting` got a promise at 10 s. */
  const full = (calls = 85) => {
    const budget = makeBudget(100)
    budget.send(calls, own)
    budget.at(10)
    const waiting = budget.known()
    return { ...budget, waiting, answer: budget.call(waiting) }
  }

  it("gets its promised place at the promised time, although others called first, once", () => {
    const { answer, at, call, send, waiting } = full()
    expect(answer).toBe(50)
    at(60)
    expect(send(many, own)).toBe(84)
    expect(isSent(call(waiting))).toBe(true)
    expect(isSent(call(waiting))).toBe(false)
  })

  it("gets promises in sequence, at 90 % of the pace at which places become free", () => {
    const budget = makeBudget(100)
    budget.send(85, own)
    budget.at(10)
    // One in 785 ms.
    expect(waits(budget, 5)).toEqual([50, 51, 52, 53, 54])
  })

  it("is promised a place at half of that pace at least, and none of an essential call", () => {
    const busy = makeBudget(100)
    busy.send(90, essential)
    busy.at(10)
    const answers = waits(busy, 61)
    // One in 1,569 ms.
    expect([answers.at(0), answers.at(10), answers.at(60)]).toEqual([60, 76, 155])
    const mixed = makeBudget(100)
    mixed.send(40, essential)
    mixed.at(30)
    mixed.send(many, own)
    mixed.at(40)
    expect(waits(mixed, 1)).toEqual([50])
  })

  it("keeps its promise when it calls early, and when essential calls took too much", () => {
    const budget = full()
    const { at, call, known, send, waiting } = budget
    const next = known()
    expect(call(next)).toBe(51)
    at(20)
    expect([call(waiting), call(next)]).toEqual([40, 41])
    at(60)
    expect(send(93, essential)).toBe(93)
    expect(call(waiting)).toBe(60)
    at(120)
    expect(send(many, own)).toBe(84)
    expect(isSent(call(waiting))).toBe(true)
  })

  it("delays no essential call, and keeps its promise after one of its own", () => {
    const { at, call, send, waiting } = full()
    at(60)
    expect(send(1, () => ({ ...waiting, completing: true }))).toBe(1)
    expect(send(many, own)).toBe(83)
    expect(isSent(call(waiting))).toBe(true)
    expect(send(many, essential)).toBe(15)
  })

  it.each([
    [70, 84],
    [70.001, 85]
  ])("may come until 10 s late: at %d s", (second, others) => {
    const { at, call, send, waiting } = full()
    at(second)
    expect(send(many, own)).toBe(others)
    expect(isSent(call(waiting))).toBe(others === 84)
  })

  it("keeps its promise when its path was idle in between", () => {
    const budget = makeBudget(100)
    budget.send(many, own)
    budget.at(50)
    expect(waits(budget, 20).at(-1)).toBe(25)
    budget.at(65)
    budget.send(1, own, { counted: tokens })
    budget.at(75)
    expect(budget.send(many, own)).toBeLessThan(85)
  })

  it("gets no promise if it is busy", () => {
    const { at, call, known, send } = makeBudget(100)
    const busy = known()
    send(61, own)
    at(30)
    expect(send(many, () => busy)).toBe(4)
    send(many, own)
    at(40)
    expect(isSent(call(busy))).toBe(false)
    at(60)
    expect(send(many, own)).toBe(61)
  })

  it("gets no pause beyond 15 minutes, and no promise there", () => {
    const budget = makeBudget(100)
    budget.send(85, own)
    budget.at(10)
    const answers = waits(budget, 1_300).map(Number)
    expect(Math.max(...answers)).toBe(900)
    expect(answers.filter((seconds) => seconds === 900).length).toBeGreaterThan(100)
    // The last promises are due: the places that they do not take are free for all.
    const due = answers.filter((seconds) => seconds > 890 && seconds < 900).length
    budget.at(910)
    expect(budget.send(many, own)).toBeGreaterThanOrEqual(85 - due - 2)
  })

  it("of an actor with eleven promised places gets no other, however many of its logins wait", () => {
    const budget = makeBudget(100)
    budget.send(85, own)
    for (let login = 0; login < 50; login += 1) budget.call(budget.known(fresh(), "production c:hoarder"))
    // The first promise is for 60 s, and one more for every 785 ms.
    expect(waits(budget, 1)).toEqual([69])
    budget.at(70)
    expect(budget.send(many, own)).toBe(73)
  })
})

describe("A path that IAM blocks", () => {
  const block = () => {
    const budget = makeBudget(100)
    const before = mustSend(budget.call(own()))
    budget.send(1, own, { end: blocked(60) })
    return { ...budget, before }
  }

  it("admits one essential or known call in 5 s, and refuses with the end of the block", () => {
    const budget = block()
    const { at, call } = budget
    const step = (second: number, ...purposes: ReadonlyArray<Purpose>) => {
      at(second)
      return purposes.map((purpose) => call(purpose)).map((answer) => (isSent(answer) ? "sent" : answer))
    }
    expect(step(4.999, essential(), own(), newcomer())).toEqual([56, 56, 56])
    expect(step(5, newcomer(), own(), own())).toEqual([55, "sent", 55])
    expect(step(9, essential())).toEqual([51])
    expect(step(10, essential())).toEqual(["sent"])
    expect(step(60, newcomer())).toEqual(["sent"])
  })

  it("is open after the success of a call that began after the block", () => {
    const { at, before, call, send } = block()
    before.end(answered)
    at(1)
    expect(call(own())).toBe(59)
    at(5)
    send(1, own)
    at(6)
    expect(send(1, newcomer)).toBe(1)
  })

  it("is probed no earlier by a call with a reserved place, and not by a refused call", () => {
    const { at, call, known, reserve, send } = makeBudget()
    const token = reserve({ credential: fresh("slt"), use: "login" }) ?? {}
    const busy = known()
    send(30, () => busy)
    send(1, own, { end: blocked(60) })
    at(4.999)
    expect(call(token)).toBe(56)
    at(5)
    expect(call(busy)).toBe(55)
    expect(isSent(call(token))).toBe(true)
  })

  it("stays blocked for the longest of IAM's pauses, of which 1 s is the default", () => {
    const { at, call, send } = block()
    at(50)
    send(1, own, { end: blocked(60) })
    at(51)
    expect(call(own())).toBe(59)
    at(55)
    send(1, own, { end: blocked(1) })
    at(56)
    expect(call(own())).toBe(54)
  })
})

describe("The quota of a network", () => {
  const login = (): Purpose => ({ credential: fresh("slt"), use: "login" })
  const elsewhere = { counted: tokens, network: "203.0.113.2" }

  it("is 60 logins at once and then 40 a minute of a budget of 110, so that other networks can log in", () => {
    const { at, send } = makeBudget()
    expect([send(many, login, { counted: tokens }), send(10, login, elsewhere)]).toEqual([60, 10])
    at(60)
    expect(send(many, login, { counted: tokens })).toBe(40)
    expect(makeBudget(55).send(many, login, { counted: tokens })).toBe(30)
    expect(makeBudget(110, false).send(many, login, { counted: tokens })).toBe(93)
  })

  it("is 60 refreshes at once and then 30 a minute of actors whom IAM has not disclosed", () => {
    const { at, known, send } = makeBudget()
    const refresh = (): Purpose => ({ ...known(fresh("ort")), use: "refresh" })
    expect(send(100, refresh, { counted: tokens })).toBe(60)
    at(60)
    expect(send(100, refresh, { counted: tokens })).toBe(30)
    const uncounted = makeBudget(110, false)
    expect(
      uncounted.send(100, () => ({ ...uncounted.known(fresh("ort")), use: "refresh" }), { counted: tokens })
    ).toBe(100)
  })

  it("costs nothing for a login without a place, and for a call that never reached IAM", () => {
    const { at, refreshOf, send } = makeBudget()
    const others = [60, 33].map((count, end) =>
      send(count, login, { counted: tokens, network: `198.51.100.${end}` })
    )
    expect(others).toEqual([60, 33])
    expect(send(60, login, { counted: tokens })).toBe(0)
    const kinds: ReadonlyArray<readonly [number, () => Purpose]> = [
      [60, login],
      [60, () => refreshOf(fresh("login"))],
      [30, () => refreshOf(fresh("login"), "production c:eve")]
    ]
    for (const [at0, [most, purposeOf]] of kinds.entries()) {
      at(120 * (at0 + 1))
      expect(send(many, purposeOf, { counted: tokens, end: unsent })).toBe(many)
      expect(send(many, purposeOf, { counted: tokens })).toBe(most)
    }
  })
})

describe("The quota of an actor", () => {
  const eve = (calls = 110) => {
    const { at, call, refreshOf, send } = makeBudget(calls)
    const actor = "production c:eve"
    return {
      at,
      /** Seconds to wait; 0 when the refresh is sent. */
      refresh: (login: string, end = answered): number => {
        const answer = call(refreshOf(login, actor), { counted: tokens })
        if (!isSent(answer)) return answer
        answer.end(end)
        return 0
      },
      /** Refreshes that are sent at once, of one login or of one for each. */
      admitted: (login?: string, end = answered, who = actor) =>
        send(100, (one) => refreshOf(login ?? fresh(`login ${one}`), who), { counted: tokens, end })
    }
  }

  it("is 30 refreshes at once and then 10 a minute over many logins, also for calls without an answer", () => {
    for (const end of [answered, unanswered]) {
      const { admitted, at } = eve()
      expect([admitted(undefined, end), admitted(undefined, end, "production c:ana")]).toEqual([30, 30])
      at(60)
      expect(admitted()).toBe(10)
    }
  })

  it("leaves 5 of the 30 to logins with fewer for each of a login's last four refreshes", () => {
    const { admitted } = eve()
    // Without its bound of 8 a minute the first would have 10.
    const logins = Array.from({ length: 12 }, (_, at) => admitted(`login ${at}`))
    expect(logins).toEqual([8, 4, 3, 3, 2, 2, 2, 1, 1, 1, 1, 1])
  })

  it("has a refresh of a login forgotten every 5 minutes, and none that never reached IAM counted", () => {
    const { admitted, at, refresh } = eve()
    expect([admitted("often", unsent), admitted("often")]).toEqual([100, 8])
    for (let other = 0; other < 2; other += 1) refresh(`other ${other}`)
    expect(refresh("often")).toBe(6)
    at(300)
    for (let other = 0; other < 20; other += 1) expect(refresh(`another ${other}`)).toBe(0)
    // 10 are left: with three counted it leaves 15.
    expect(refresh("often")).toBe(36)
  })

  it("lets a login refresh again and again with the smallest budget", () => {
    const { admitted, at } = eve(10)
    expect([admitted("one"), admitted("other")]).toEqual([1, 1])
    at(180)
    expect(admitted("one")).toBe(1)
  })

  it.each([3, 30])(
    "lets a login refresh within a minute, once in 29 minutes, beside %i that refresh as often as they may",
    (count) => {
      const { at, refresh } = eve()
      const waited: Array<number> = []
      const quiet = Array.from({ length: 5 }, (_, index) => ({
        name: `quiet ${index}`,
        from: index * 5,
        due: index * 5
      }))
      for (let now = 0; now < 3_600; now += 1) {
        at(now)
        for (let index = 0; index < count; index += 1) refresh(`frequent ${index}`)
        for (const login of quiet) {
          if (login.due > now) continue
          const seconds = refresh(login.name)
          login.due = now + seconds
          if (seconds > 0) continue
          waited.push(now - login.from)
          login.from += 29 * 60
          login.due = login.from
        }
      }
      expect([waited.length, Math.max(...waited) <= 60]).toEqual([15, true])
    }
  )
})

describe("A credential that IAM refused", () => {
  it.each([
    ["inactive_access_token", 30],
    ["bad_testing_secret", 30],
    ["dead_refresh_token", 600],
    ["this_call", 0]
  ] as const)("is no longer known, and is refused again without a call: %s for %i s", (kind, seconds) => {
    const budget = makeBudget()
    const credential = budget.known().credential ?? ""
    const call = budget.budget.unlessRefused(credential, Effect.succeed("repeated"))(Effect.succeed("called"))
    const check = () => budget.run(call)
    expect(check()).toMatchObject({ value: "called" })
    budget.refuse(credential, kind)
    expect(budget.credentials.isKnown(credential)).toBe(false)
    if (seconds > 0) expect(atEach(budget, [seconds - 0.001], check)).toMatchObject([{ value: "repeated" }])
    expect(atEach(budget, [seconds], check)).toMatchObject([{ value: "called" }])
  })
})

describe("Turns of credentials that IAM did not confirm", () => {
  const newcomers = 55
  const first = { network: "198.51.100.1" }
  const second = { network: "198.51.100.2" }
  /** All places of newcomers are taken at first. */
  const full = (countAddresses = true) => {
    const budget = makeBudget(110, countAddresses)
    expect(budget.send(newcomers, newcomer, first)).toBe(newcomers)
    const waiting = (name: string, count = 1) => budget.send(count, (at) => ({ credential: `${name} ${at}` }))
    return { ...budget, waiting }
  }

  it("are two at one time for an address, and end after 10 s", () => {
    for (const seconds of [60, 70, 70.001]) {
      const { at, send, waiting } = full()
      expect(waiting("waiting", 20)).toBe(0)
      at(seconds)
      expect(send(100, newcomer, second)).toBe(seconds > 70 ? newcomers : newcomers - 2)
    }
  })

  it.each([true, false])(
    "are half of the places of their share, also with MUSIC_RATE_LIMIT=off: %s",
    (countAddresses) => {
      const { at, send } = full(countAddresses)
      for (let end = 0; end < 100; end += 1) send(1, newcomer, { network: `192.0.2.${end}` })
      at(60)
      expect(send(100, newcomer, second)).toBe(newcomers - 28)
    }
  )

  it("are used once, and lift no call above the ceiling of its share", () => {
    const { at, send, waiting } = full()
    waiting("waiting", 2)
    at(60)
    expect(send(100, newcomer, second)).toBe(newcomers - 2)
    expect([waiting("waiting", 2), waiting("waiting", 2)]).toEqual([2, 0])
  })

  it("go to those who came back as told before, instead of those who did not", () => {
    const { at, call, send, waiting } = full()
    waiting("waiting", 3)
    // Without a turn it is told five seconds, or more when many of its network come.
    expect(call({ credential: "patient 0" })).toBe(5)
    at(5)
    waiting("patient")
    at(60)
    expect(send(100, newcomer, second)).toBe(newcomers - 2)
    expect([waiting("patient"), waiting("waiting", 3)]).toEqual([1, 1])
  })

  it("let a network of many come back later, 15 a second", () => {
    const { call } = full()
    const answers = Array.from({ length: 200 }, () => call(newcomer()))
    expect([answers.at(50), answers.at(150), answers.at(199)]).toEqual([5, 10, 14])
  })

  it("are 1,000 in all, however many credentials come", () => {
    const { at, send } = makeBudget(10_000)
    const each = (count: number) => {
      let sent = 0
      for (let end = 0; end < count; end += 1)
        sent += send(1, newcomer, { network: `10.0.${end >> 8}.${end & 255}` })
      return sent
    }
    expect([each(5_001), each(2_500)]).toEqual([5_000, 0])
    at(60)
    expect(send(5_000, newcomer, second)).toBe(4_000)
  })
})

describe("The tokens of one login", () => {
  it("count together after any number of rotations, and have the actor of its first introspection", () => {
    const { credentials, reserve, send } = makeBudget()
    const token = reserve({ credential: fresh("slt"), use: "login" }) ?? {}
    const key = token.credential ?? ""
    expect([credentials.isKnown(key), credentials.ownerOf(key)]).toEqual([true, undefined])
    credentials.markLive(key, "production si:deejay")
    expect(credentials.ownerOf(key)).toBe("production si:deejay")
    for (const other of ["rotated", "again"])
      credentials.restore(other, { login: credentials.budgetKey(key), actor: undefined })
    expect(
      send(10, () => token) +
        send(10, () => ({ credential: "rotated" })) +
        send(20, () => ({ credential: "again" }))
    ).toBe(30)
  })

  it("are forgotten after 20,000 later ones of any login; refused ones forget no known one", () => {
    const { credentials, refuse } = makeBudget()
    for (const name of ["first", "second", "first"]) credentials.markLive(name)
    for (let at = 0; at < 20_001; at += 1) refuse(`stranger ${at}`, "bad_testing_secret")
    for (let at = 0; at < 19_999; at += 1) credentials.markLive(`other ${at}`)
    expect([credentials.isKnown("first"), credentials.isKnown("second")]).toEqual([true, false])
  })
})
