/** The rules of the budget (docs/api.md, "The budget for IAM"), at its one entry. The laws for any sequence are in `BudgetLaw.test.ts`. */
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import { describe, expect, it } from "vitest"
import { iamCallsRefused } from "../../../../src/services/Metrics.ts"
import {
  answered,
  blocked,
  type CallOptions,
  fresh,
  introspections,
  makeBudget,
  tokens,
  unanswered,
  unsent
} from "./Budget.ts"

type Budget = ReturnType<typeof makeBudget>
type Purpose = Parameters<Budget["call"]>[0]
type Who = (budget: Budget) => Purpose

const many = 200
const essential = (): Purpose => ({ credential: fresh(), completing: true })
/** A call of the application itself, of the share of known credentials. */
const own = (): Purpose => ({})
const newcomer = (): Purpose => ({ credential: fresh() })
const login = (): Purpose => ({ credential: fresh("slt"), use: "login" })
const known: Who = (budget) => budget.known()
/** One known credential. */
const waiting: Who = (budget) => budget.known("waiting")
/** One unknown one. */
const one =
  (use?: Purpose["use"], credential = "one"): Who =>
  () => ({ credential, ...(use && { use }) })
const refuse =
  (count = 6, use?: "login", network = "203.0.113.1") =>
  (budget: Budget) => {
    for (let at = 0; at < count; at += 1) budget.refuse(fresh("bad"), "this_call", use, network)
  }
const ofTokens = { counted: tokens }
const ofContexts = { counted: { plane: undefined, path: "/application/testing-context" } } as const
const elsewhere = { network: "203.0.113.2" }

/** So many calls at this second: how many are sent, or the seconds of a single one's refusal. Or something else that happens. */
type Row =
  | readonly [second: number, who: Who, count: number, sent: number | string, options?: CallOptions]
  | readonly [second: number, act: (budget: Budget) => void]

const ask = (budget: Budget, who: Who, count: number, options: CallOptions = {}): number | string => {
  if (count > 1) return budget.send(count, () => who(budget), options)
  const answer = budget.call(who(budget), options)
  if (typeof answer === "number") return `${answer} s`
  answer.end(options.end ?? answered)
  return 1
}
const play = (title: string, calls: number, rows: ReadonlyArray<Row>, countAddresses = true) =>
  it(title, () => {
    const budget = makeBudget(calls, countAddresses)
    const results = rows.map((row) => {
      budget.at(row[0])
      if (row.length === 2) return row[1](budget)
      const [, who, count, , options] = row
      return ask(budget, who, count, options)
    })
    expect(results).toEqual(rows.map((row) => (row.length === 2 ? undefined : row[3])))
  })

describe("The shares of a path", () => {
  play("keep what is above their part for the shares above", 100, [
    [0, refuse()],
    [0, newcomer, many, 8],
    [0, newcomer, many, 42, elsewhere],
    [0, own, many, 35],
    [0, essential, many, 15]
  ])
  for (const [who, ...sent] of [
    [essential, 100, 10],
    [own, 85, 8],
    [newcomer, 50, 5]
  ] as const)
    for (const [at, calls] of [100, 10].entries())
      play(`admit ${sent[at]} calls of one share of ${calls}`, calls, [[0, who, many, sent[at] ?? 0]])

  for (const [before, refusals, sent] of [
    [60, 0, 10],
    [many, 0, 0],
    [29, 6, 1],
    [30, 6, 0]
  ] as const)
    play(`leave newcomers 10 places above their ceiling, suspects none beyond 30: after ${before}`, 100, [
      [0, refuse(refusals)],
      [0, own, before, Math.min(before, 85)],
      [0, newcomer, many, sent]
    ])

  /** The refusals of the network before: how many, and their use. */
  const shares: ReadonlyArray<readonly [share: string, Purpose, refusals?: number, use?: "login"]> = [
    ["essential", { credential: "known", use: "refresh" }],
    ["essential", { credential: "known", use: "session" }],
    ["essential", { credential: "oat", completing: true }],
    ["known", { credential: "known" }],
    ["known", {}],
    ["known", { credential: "slt", use: "login" }],
    ["newcomer", { credential: "oat" }],
    ["newcomer", { credential: "ort", use: "refresh" }],
    ["newcomer", { credential: "ask", use: "session" }],
    ["newcomer", { credential: "oat" }, 5],
    ["suspect", { credential: "oat" }, 6],
    ["known", { credential: "slt", use: "login" }, 6],
    ["newcomer", { credential: "slt", use: "login" }, 1, "login"],
    ["suspect", { credential: "slt", use: "login" }, 6, "login"],
    ["newcomer", { credential: "oat" }, 6, "login"]
  ]
  const names = ["essential", "known", "newcomer", "suspect"]
  const counts = () =>
    names.map((priority) => Effect.runSync(Metric.value(iamCallsRefused({ priority }))).count)
  for (const [share, purpose, refusals = 0, use] of shares)
    it(`count in a metric the refusal of ${share}: ${JSON.stringify(purpose)} ${refusals} ${use}`, () => {
      const budget = makeBudget()
      budget.known("known")
      refuse(refusals, use)(budget)
      budget.send(many, essential)
      const before = counts()
      expect(budget.call(purpose)).toBeTypeOf("number")
      const more = counts().map((count, at) => count - (before[at] ?? 0))
      expect(more).toEqual(names.map((name) => (name === share ? 1 : 0)))
    })
})

describe("A suspect network", () => {
  for (const [who, second, sent] of [
    [newcomer, 49.999, 8],
    [newcomer, 50, 55],
    [login, 49.999, 8],
    [login, 299.999, 55],
    [login, 300, 60]
  ] as const)
    play(`by six refusals of a ${who.name} has ${sent} calls ${second} s later`, 110, [
      [0, refuse(6, who === login ? "login" : undefined)],
      [second, who, many, sent, who === login ? ofTokens : {}]
    ])

  play("is a /48 of IPv6, and no other network", 110, [
    ...[0, 1, 2, 3, 4, 5].map((end) => [0, refuse(1, undefined, `2001:db8:1:${end}::1`)] as const),
    [0, newcomer, 20, 8, { network: "2001:db8:1:ffff::1" }],
    [0, newcomer, 20, 20, { network: "2001:db8:2::1" }]
  ])
  const uncounted: ReadonlyArray<Row> = [
    [0, refuse()],
    [0, newcomer, 20, 20]
  ]
  play("is none where addresses are not counted", 110, uncounted, false)
  play("is none by one credential that is refused six times", 110, [
    [
      0,
      ({ refuse }) => {
        for (let at = 0; at < 6; at += 1) refuse("dead", "this_call")
      }
    ],
    [0, newcomer, 20, 20]
  ])
  play("waits until a suspect's place is free", 100, [
    [0, refuse()],
    [0, own, 1, 1],
    [10, newcomer, 8, 8],
    [20, refuse()],
    [20, one(), 1, "50 s"],
    [70, refuse()],
    [70, one(), 1, 1]
  ])
})

describe("One credential", () => {
  const testingPlane = "0199b000-0000-7000-8000-00000000000e"
  const proofs = { plane: "production", path: "/obo-access/exchanges" } as const
  const bounds: ReadonlyArray<readonly [Purpose["use"], CallOptions, calls: number, most: number]> = [
    ["login", ofTokens, 110, 8],
    ["login", ofTokens, 55, 4],
    // In a testing plane it is an actor's id.
    ["login", { counted: { ...tokens, plane: testingPlane } }, 110, 30],
    ["refresh", ofTokens, 110, 8],
    [undefined, {}, 110, 30],
    [undefined, { counted: proofs }, 110, 30],
    ["session", ofContexts, 110, 30],
    ["session", { counted: { ...tokens, path: "/oauth/revoke" } }, 110, 8]
  ]
  for (const [use, options, calls, most] of bounds)
    play(`has ${most} a minute of ${calls}: ${use} ${JSON.stringify(options)}`, calls, [
      [0, one(use), 40, most, options]
    ])

  play("may call again when the first of its calls is free again", 110, [
    [0, one("refresh"), 4, 4, ofTokens],
    [10, one("refresh"), 2, 2, ofTokens],
    [20, one("refresh"), 2, 2, ofTokens],
    [30, one("refresh"), 1, "30 s", ofTokens],
    [59.999, one("refresh"), 1, "1 s", ofTokens],
    [60, one("refresh"), 9, 4, ofTokens],
    [60, one("refresh"), 1, "10 s", ofTokens]
  ])
  play("counts calls without an answer for 15 s only, so that an outage has no long effect", 110, [
    [0, one("refresh"), 20, 8, { ...ofTokens, end: unanswered }],
    [14.999, one("refresh"), 20, 0, { ...ofTokens, end: unanswered }],
    [15, one("refresh"), 20, 8, ofTokens],
    [30, one("refresh"), 20, 0, ofTokens]
  ])
  play("that is known leaves a fifth of the budget to others with more than three calls", 100, [
    [0, own, 62, 62],
    [0, waiting, many, 4],
    [0, own, many, 19]
  ])
  play("is refreshed although it used up its introspections", 110, [
    [0, waiting, many, 30],
    [0, (budget) => ({ ...waiting(budget), completing: true }), 1, 1],
    [0, waiting, 2, 0]
  ])
  for (const [owner, sent] of [
    ["production c:hoarder", 65],
    [undefined, 85]
  ] as const)
    play(`of many of ${owner} leaves a fifth to others beyond ten calls, except for refreshes`, 100, [
      [0, (budget) => budget.known(fresh(), owner), many, sent],
      [0, own, many, 85 - sent],
      [0, (budget) => ({ ...budget.known(fresh(), owner), completing: true }), many, 15]
    ])
})

describe("A place", () => {
  it("is free again 60 s after the response, and is held until then", () => {
    const budget = makeBudget(1)
    const first = budget.call(essential())
    const askAt = (second: number) => {
      budget.at(second)
      return budget.call(essential())
    }
    expect([60, 600].map(askAt)).toEqual([60, 60])
    if (typeof first !== "number") first.end(answered)
    expect([630, 659.999].map(askAt)).toEqual([30, 1])
    expect(askAt(660)).toBeTypeOf("object")
  })

  play("belongs to one plane and path", 10, [
    [0, own, many, 8],
    [0, own, many, 8, ofTokens],
    [0, own, many, 8, { counted: { ...introspections, plane: "testing" } }],
    [0, essential, 1, 1, { end: blocked(60) }],
    [0, essential, 1, "60 s"],
    [0, essential, 1, 1, ofTokens]
  ])
  play("of an unknown testing secret is shared with all such secrets, until it is known", 110, [
    [0, () => ({ credential: fresh(), use: "session" }), many, 55, ofContexts],
    [0, one("session", "late"), 2, 0, ofContexts],
    [0, ({ credentials }) => void credentials.markLive("late")],
    [0, one("session", "late"), 1, 1, ofContexts]
  ])
})

describe("A reserved place", () => {
  it("admits the introspection that completes the login to a full path, once, for 60 s", () => {
    for (const second of [69.999, 70]) {
      const { at, call, reserve, send } = makeBudget(2)
      at(10)
      const token = reserve(login()) ?? {}
      send(many, essential)
      at(second)
      send(many, essential)
      expect(send(1, () => token)).toBe(second < 70 ? 1 : 0)
      expect(call(token)).toBeTypeOf("number")
    }
  })

  it("may fill the whole budget, except that of a newcomer's login", () => {
    const { known, refuse, reserve, send } = makeBudget()
    refuse(fresh(), "this_call", "login", "203.0.113.2")
    expect(send(many, () => known())).toBe(93)
    expect(reserve(login(), answered, "203.0.113.2")).toBeUndefined()
    expect(reserve(login())).toBeDefined()
    expect(send(many, essential)).toBe(16)
  })

  it("is no login of its network, is another one for each login, and is free again when the login fails", () => {
    const { reserve, send } = makeBudget()
    for (let at = 0; at < 120; at += 1) expect(reserve(login(), unanswered)).toBeUndefined()
    const first = reserve(login())
    expect(reserve({ ...first, use: "login" })).not.toEqual(first)
    for (let at = 0; at < 108; at += 1) expect(reserve(login())).toBeDefined()
    expect(send(many, essential)).toBe(0)
  })
})

describe("A known credential that was refused", () => {
  /** All places for known credentials are taken until 60 s. */
  const full = [0, own, 85, 85] as const
  const promised = [full, [10, waiting, 1, "50 s"]] as const

  play("gets its promised place at the promised time, although others called first, once", 100, [
    ...promised,
    [60, own, many, 84],
    [60, waiting, 1, 1],
    [60, waiting, 2, 0]
  ])
  // One in 785 ms.
  play("gets promises in sequence, at 90 % of the pace at which places become free", 100, [
    full,
    ...[50, 51, 52, 53, 54].map((seconds) => [10, known, 1, `${seconds} s`] as const)
  ])
  play("is promised no place of an essential call", 100, [
    [0, essential, 40, 40],
    [30, own, many, 45],
    [40, known, 1, "50 s"]
  ])
  play("keeps its promise when it calls early, and when essential calls took too much", 100, [
    ...promised,
    [10, (budget) => budget.known("next"), 1, "51 s"],
    [20, waiting, 1, "40 s"],
    [20, one(undefined, "next"), 1, "41 s"],
    [60, essential, 93, 93],
    [60, waiting, 1, "60 s"],
    [120, own, many, 84],
    [120, waiting, 1, 1]
  ])
  play("delays no essential call, and keeps its promise after one of its own", 100, [
    ...promised,
    [60, (budget) => ({ ...waiting(budget), completing: true }), 1, 1],
    [60, own, many, 83],
    [60, waiting, 1, 1],
    [60, essential, many, 15]
  ])
  play("may come 10 s late", 100, [...promised, [70, own, many, 84], [70, waiting, 1, 1]])
  play("may not come later", 100, [...promised, [70.001, own, many, 85], [70.001, waiting, 2, 0]])
  play("gets no promise if it is busy", 100, [
    [0, own, 61, 61],
    [30, waiting, many, 4],
    [30, own, many, 20],
    [40, waiting, 2, 0],
    [60, own, many, 61]
  ])

  it("gets no pause beyond 15 minutes, and no promise there", () => {
    const { at, call, known, send } = makeBudget(100)
    send(85, own)
    at(10)
    const answers = Array.from({ length: 1_300 }, () => Number(call(known())))
    expect(Math.max(...answers)).toBe(900)
    expect(answers.filter((seconds) => seconds === 900).length).toBeGreaterThan(100)
    // The last promises are due: the places that they do not take are free for all.
    const due = answers.filter((seconds) => seconds > 890 && seconds < 900).length
    at(910)
    expect(send(many, own)).toBeGreaterThanOrEqual(85 - due - 2)
  })

  // The first promise is for 60 s, and one more for every 785 ms.
  play("of an actor with eleven promised places gets no other, however many of its logins wait", 100, [
    full,
    [0, (budget) => budget.known(fresh(), "production c:hoarder"), 50, 0],
    [0, known, 1, "69 s"],
    [70, own, many, 73]
  ])
})

describe("A path that IAM blocks", () => {
  const blockedFor60 = [0, own, 1, 1, { end: blocked(60) }] as const

  play("admits one essential or known call in 5 s, and refuses with the end of the block", 100, [
    blockedFor60,
    ...[essential, own, newcomer].map((who) => [4.999, who, 1, "56 s"] as const),
    [5, newcomer, 1, "55 s"],
    [5, (budget) => void budget.call(own())],
    [5, own, 1, "55 s"],
    [9, essential, 1, "51 s"],
    [10, (budget) => void budget.call(essential())],
    [10, essential, 1, "50 s"],
    [60, newcomer, 1, 1]
  ])

  it("is open after the success of a call that began after the block", () => {
    const { at, call, send } = makeBudget(100)
    const before = call(own())
    send(1, own, { end: blocked(60) })
    if (typeof before !== "number") before.end(answered)
    at(1)
    expect(call(own())).toBe(59)
    at(5)
    send(1, own)
    expect(send(1, newcomer)).toBe(1)
  })

  play("stays blocked for the longest of IAM's pauses", 100, [
    blockedFor60,
    [50, own, 1, 1, { end: blocked(60) }],
    [51, own, 1, "59 s"],
    [55, own, 1, 1, { end: blocked(1) }],
    [56, own, 1, "54 s"]
  ])
})

describe("The quota of a network", () => {
  play("is 60 logins at once and then 40 a minute of a budget of 110, and no other network's", 110, [
    [0, login, many, 60, ofTokens],
    [0, login, 10, 10, { ...ofTokens, ...elsewhere }],
    [60, login, many, 40, ofTokens]
  ])
  play("is half of that of half the budget", 55, [[0, login, many, 30, ofTokens]])

  const refresh: Who = (budget) => ({ ...budget.known(fresh("ort")), use: "refresh" })
  play("is 60 refreshes at once and then 30 a minute of actors whom IAM has not disclosed", 110, [
    [0, refresh, 100, 60, ofTokens],
    [60, refresh, 100, 30, ofTokens]
  ])
  const uncounted: ReadonlyArray<Row> = [
    [0, refresh, 100, 100, ofTokens],
    [60, login, many, 93, ofTokens]
  ]
  play("is none where addresses are not counted", 110, uncounted, false)

  const ofLogin: Who = ({ refreshOf }) => refreshOf(fresh("login"))
  const ofEve: Who = ({ refreshOf }) => refreshOf(fresh("login"), "production c:eve")
  play("costs nothing for a login without a place, and for a call that never reached IAM", 110, [
    [0, login, 60, 60, { ...ofTokens, network: "198.51.100.0" }],
    [0, login, 33, 33, { ...ofTokens, network: "198.51.100.1" }],
    [0, login, 60, 0, ofTokens],
    [120, login, many, many, { ...ofTokens, end: unsent }],
    [120, login, many, 60, ofTokens],
    [240, ofLogin, many, many, { ...ofTokens, end: unsent }],
    [240, ofLogin, many, 60, ofTokens],
    [360, ofEve, many, many, { ...ofTokens, end: unsent }],
    [360, ofEve, many, 30, ofTokens]
  ])
})

describe("The quota of an actor", () => {
  const refreshOf =
    (name?: string, actor = "production c:eve"): Who =>
    (budget) =>
      budget.refreshOf(name ?? fresh("login"), actor)

  for (const end of [answered, unanswered])
    play("is 30 refreshes at once and then 10 a minute over many logins, answered or not", 110, [
      [0, refreshOf(), 100, 30, { ...ofTokens, end }],
      [0, refreshOf(undefined, "production c:ana"), 100, 30, { ...ofTokens, end }],
      [60, refreshOf(), 100, 10, ofTokens]
    ])

  // Without its bound of 8 a minute the first would have 10.
  const sent = [8, 4, 3, 3, 2, 2, 2, 1, 1, 1, 1, 1]
  const logins = sent.map((count, at) => [0, refreshOf(`login ${at}`), 100, count, ofTokens] as const)
  play("leaves 5 of the 30 to logins with fewer for each of a login's last four refreshes", 110, logins)

  play("has a refresh of a login forgotten every 5 minutes, and none that never reached IAM counted", 110, [
    [0, refreshOf("often"), 100, 100, { ...ofTokens, end: unsent }],
    [0, refreshOf("often"), 100, 8, ofTokens],
    [0, refreshOf(), 2, 2, ofTokens],
    [0, refreshOf("often"), 1, "6 s", ofTokens],
    [300, refreshOf(), 20, 20, ofTokens],
    // 10 are left: with three counted it leaves 15.
    [300, refreshOf("often"), 1, "36 s", ofTokens]
  ])
})

describe("A credential that IAM refused", () => {
  it.each([
    ["inactive_access_token", 30],
    ["bad_testing_secret", 30],
    ["dead_refresh_token", 600],
    ["this_call", 0]
  ] as const)("is no longer known, and is refused again without a call: %s for %i s", (kind, seconds) => {
    const budget = makeBudget()
    const { credential = "" } = budget.known()
    const call = budget.budget.unlessRefused(credential, Effect.succeed("repeated"))(Effect.succeed("called"))
    const answerAt = (second: number) => {
      budget.at(second)
      return budget.run(call)
    }
    expect(answerAt(0)).toMatchObject({ value: "called" })
    budget.refuse(credential, kind)
    expect(budget.credentials.isKnown(credential)).toBe(false)
    if (seconds > 0) expect(answerAt(seconds - 0.001)).toMatchObject({ value: "repeated" })
    expect(answerAt(seconds)).toMatchObject({ value: "called" })
  })
})

describe("Turns of credentials that IAM did not confirm", () => {
  const second = { network: "198.51.100.2" }
  /** All places of newcomers are taken. */
  const full = [0, newcomer, 55, 55, { network: "198.51.100.1" }] as const
  const [first, other, patient] = ["first", "other", "patient"].map((name) => one(undefined, name)) as [
    Who,
    Who,
    Who
  ]

  for (const [late, sent] of [
    [60, 53],
    [70, 53],
    [70.001, 55]
  ] as const)
    play(`are two at one time for an address, and end after 10 s: ${late}`, 110, [
      full,
      [0, newcomer, 20, 0],
      [late, newcomer, 100, sent, second]
    ])

  for (const countAddresses of [true, false])
    play(
      `are half of the places of their share, also with MUSIC_RATE_LIMIT=off: ${countAddresses}`,
      110,
      [
        full,
        ...Array.from(
          { length: 100 },
          (_, end) => [0, newcomer, 2, 0, { network: `192.0.2.${end}` }] as const
        ),
        [60, newcomer, 100, 27, second]
      ],
      countAddresses
    )

  play("are used once, and lift no call above the ceiling of its share", 110, [
    full,
    [0, first, 2, 0],
    [0, other, 2, 0],
    [60, newcomer, 100, 53, second],
    [60, first, 1, 1],
    [60, other, 1, 1],
    [60, first, 2, 0]
  ])
  // Without a turn it is told five seconds.
  play("go to those who came back as told before, instead of those who did not", 110, [
    full,
    [0, first, 2, 0],
    [0, other, 2, 0],
    [0, patient, 1, "5 s"],
    [5, patient, 2, 0],
    [60, newcomer, 100, 53, second],
    [60, patient, 1, 1],
    [60, first, 1, 1],
    [60, other, 2, 0]
  ])

  it("are told a longer pause when many of one network come", () => {
    const { call, send } = makeBudget()
    send(55, newcomer, { network: "198.51.100.1" })
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
    const token = reserve(login()) ?? {}
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
