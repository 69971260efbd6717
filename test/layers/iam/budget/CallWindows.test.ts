import { assert, describe, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as FastCheck from "effect/FastCheck"
import {
  type CallWindows,
  type Claim,
  makeCallWindows
} from "../../../../src/layers/iam/budget/CallWindows.ts"
import type { Place } from "../../../../src/layers/iam/budget/Places.ts"
import { type Share, shares } from "../../../../src/layers/iam/budget/Shares.ts"

const second = 1_000
const minute = 60 * second

const path = "production /oauth/introspect"

let keys = 0
const freshKey = () => `key ${++keys}`

/** The place, or the seconds of the refusal. */
const ask = (windows: CallWindows, share: Share, now: number, claim: Partial<Claim> = {}) => {
  const admission = windows.admit(
    { window: path, share, key: freshKey(), bound: 1_000, promise: false, ...claim },
    now
  )
  return admission._tag === "Admitted" ? admission.place : admission.retryAfterSeconds
}

const isAdmitted = (answer: Place | number): answer is Place => typeof answer !== "number"

const mustAdmit = (answer: Place | number): Place => {
  if (!isAdmitted(answer)) throw new Error(`refused for ${answer} s`)
  return answer
}

/** Makes calls of as many credentials, answered at once; returns how many are admitted. */
const send = (
  windows: CallWindows,
  calls: number,
  share: Share,
  now: number,
  claim: Partial<Claim> = {}
): number => {
  let admitted = 0
  for (let call = 0; call < calls; call += 1) {
    const answer = ask(windows, share, now, claim)
    if (!isAdmitted(answer)) continue
    windows.release(answer, now)
    admitted += 1
  }
  return admitted
}

const many = 200

describe("The shares of a path with a budget of 100", () => {
  const alone: ReadonlyArray<readonly [Share, number]> = [
    ["essential", 100],
    ["known", 85],
    ["newcomer", 50],
    ["suspect", 8]
  ]
  for (const [share, calls] of alone)
    it(`admit ${calls} ${share} calls`, () => {
      assert.strictEqual(send(makeCallWindows(100), many, share, 0), calls)
    })

  it("keep the part above a ceiling for the shares above", () => {
    const windows = makeCallWindows(100)
    const admitted = (["suspect", "newcomer", "known", "essential"] as const).map((share) =>
      send(windows, many, share, 0)
    )
    deepStrictEqual(admitted, [8, 42, 35, 15])
  })

  it("refuse suspects once 30 places are taken", () => {
    const windows = makeCallWindows(100)
    send(windows, 29, "known", 0)
    assert.strictEqual(send(windows, many, "suspect", 0), 1)
  })

  it("leave newcomers 10 places above their ceiling, below that of the known", () => {
    const windows = makeCallWindows(100)
    send(windows, 60, "known", 0)
    assert.strictEqual(send(windows, many, "newcomer", 0), 10)
    const full = makeCallWindows(100)
    send(full, many, "known", 0)
    assert.strictEqual(send(full, many, "newcomer", 0), 0)
  })

  it("are parts of any budget, and at least one call each", () => {
    deepStrictEqual(
      shares.map((share) => send(makeCallWindows(10), many, share, 0)),
      [10, 8, 5, 1]
    )
  })
})

describe("Suspects that hold their full share", () => {
  it("wait until a suspect's place is free", () => {
    const windows = makeCallWindows(100)
    send(windows, 1, "known", 0)
    send(windows, 8, "suspect", 10 * second)
    assert.strictEqual(ask(windows, "suspect", 20 * second), 50)
    assert.isTrue(isAdmitted(ask(windows, "suspect", 70 * second)))
  })
})

describe("The calls of one credential", () => {
  it("are limited, until the first of them is free again", () => {
    const windows = makeCallWindows(100)
    const own = { key: "poller", bound: 3 }
    for (const at of [0, 10, 20]) assert.strictEqual(send(windows, 1, "known", at * second, own), 1)
    assert.strictEqual(ask(windows, "known", 30 * second, own), 30)
    assert.strictEqual(ask(windows, "known", minute - 1, own), 1)
    assert.strictEqual(send(windows, 2, "known", minute, own), 1)
    assert.strictEqual(ask(windows, "known", minute, own), 10)
    assert.strictEqual(send(windows, 1, "known", minute), 1)
  })

  it("have no common limit without a credential", () => {
    assert.strictEqual(send(makeCallWindows(100), many, "known", 0, { key: undefined, bound: 3 }), 85)
  })

  it("leave a fifth of the budget to other credentials when there are more than three", () => {
    const own = { key: "busy" }
    for (const [share, ceiling] of [
      ["known", 85],
      ["newcomer", 50]
    ] as const) {
      const windows = makeCallWindows(100)
      send(windows, ceiling - 20 - 3, share, 0)
      assert.strictEqual(send(windows, many, share, 0, own), 4)
      assert.strictEqual(send(windows, many, share, 0), 19)
    }
  })

  it("do not block a refresh: essential calls are counted separately", () => {
    const windows = makeCallWindows(100)
    const own = { key: "poller", bound: 30 }
    assert.strictEqual(send(windows, many, "known", 0, own), 30)
    send(windows, 65, "essential", 0)
    assert.strictEqual(send(windows, many, "essential", 0, { ...own, bound: 3 }), 3)
    assert.isFalse(isAdmitted(ask(windows, "known", 0, own)))
  })
})

describe("A place", () => {
  it("is free again 60 s after the response, not after the call", () => {
    const windows = makeCallWindows(1)
    const place = mustAdmit(ask(windows, "essential", 0))
    windows.release(place, 30 * second)
    assert.strictEqual(ask(windows, "essential", minute), 30)
    assert.strictEqual(ask(windows, "essential", 90 * second - 1), 1)
    assert.isTrue(isAdmitted(ask(windows, "essential", 90 * second)))
  })

  it("is held while the call is out", () => {
    const windows = makeCallWindows(1)
    const place = mustAdmit(ask(windows, "essential", 0))
    assert.strictEqual(ask(windows, "essential", 10 * minute), 60)
    windows.release(place, 10 * minute)
    assert.strictEqual(ask(windows, "essential", 10 * minute), 60)
    assert.isTrue(isAdmitted(ask(windows, "essential", 11 * minute)))
  })

  it("is free at once when the call was never sent", () => {
    const windows = makeCallWindows(1)
    windows.cancel(path, mustAdmit(ask(windows, "essential", 0)))
    assert.isTrue(isAdmitted(ask(windows, "essential", 0)))
  })

  it("that is reserved for one more call admits it to a full path, once", () => {
    const windows = makeCallWindows(2)
    const place = mustAdmit(ask(windows, "essential", 0))
    windows.reserve(place, 10 * second)
    send(windows, many, "essential", 10 * second)
    assert.strictEqual(ask(windows, "essential", 40 * second, { place }), place)
    assert.isFalse(isAdmitted(ask(windows, "essential", 40 * second, { place })))
    // The other one is free after 70 s, this one 60 s after its answer.
    assert.strictEqual(send(windows, many, "essential", 105 * second), 1)
    windows.release(place, 110 * second)
    assert.strictEqual(send(windows, many, "essential", 169 * second), 1)
    assert.strictEqual(send(windows, many, "essential", 170 * second), 1)
  })

  it("is reserved for 60 s", () => {
    const windows = makeCallWindows(1)
    const place = mustAdmit(ask(windows, "essential", 0))
    windows.reserve(place, 10 * second)
    assert.isFalse(isAdmitted(ask(windows, "essential", 70 * second - 1)))
    assert.strictEqual(send(windows, 1, "essential", 70 * second), 1)
    assert.isFalse(isAdmitted(ask(windows, "essential", 70 * second, { place })))
  })

  it("belongs to one plane and path", () => {
    const windows = makeCallWindows(10)
    for (const window of [path, "production /app-auth/tokens", "testing:1 /oauth/introspect"])
      assert.strictEqual(send(windows, many, "known", 0, { window }), 8)
    windows.block(path, 60, 0)
    assert.isTrue(isAdmitted(ask(windows, "essential", 0, { window: "production /app-auth/tokens" })))
    assert.isFalse(isAdmitted(ask(windows, "essential", 0)))
  })

  it("is dropped with its path when the path is idle", () => {
    const open = new Map()
    const windows = makeCallWindows(10, open)
    const visit = (window: string, now: number) => send(windows, 1, "known", now, { window })
    for (const window of ["one", "two"]) visit(window, 0)
    windows.block("two", 60, 30 * second)
    visit("three", minute)
    deepStrictEqual([...open.keys()], ["two", "three"])
    visit("four", 2 * minute)
    deepStrictEqual([...open.keys()], ["four"])
  })
})

describe("A known credential that was refused", () => {
  /** All places for known credentials are taken until 60 s; `waiting` got a promise at 10 s. */
  const full = (claim: Partial<Claim> = {}) => {
    const windows = makeCallWindows(100)
    send(windows, many, "known", 0)
    const waiting = { key: "waiting", promise: true, ...claim }
    return { windows, waiting, waits: ask(windows, "known", 10 * second, waiting) }
  }

  it("gets its promised place at the promised time, although others called first", () => {
    const { waits, waiting, windows } = full()
    assert.strictEqual(waits, 50)
    assert.strictEqual(send(windows, many, "known", minute), 84)
    assert.isTrue(isAdmitted(ask(windows, "known", minute, waiting)))
    assert.isFalse(isAdmitted(ask(windows, "known", minute, waiting)))
  })

  it("gets promises in sequence, at the pace at which places become free", () => {
    const { windows } = full()
    const waits = Array.from({ length: 5 }, () => ask(windows, "known", 10 * second, { promise: true }))
    // 90 % of 85 places in 60 s: one in 785 ms.
    deepStrictEqual(waits, [51, 52, 53, 54, 54])
  })

  it("is promised a place at half of that pace at least, however many essential calls came", () => {
    const windows = makeCallWindows(100)
    send(windows, 90, "essential", 0)
    const waits = Array.from({ length: 61 }, () => ask(windows, "known", 10 * second, { promise: true }))
    // 90 % of half of 85 places in 60 s: one in 1,569 ms.
    deepStrictEqual([waits.at(0), waits.at(10), waits.at(60)], [60, 76, 155])
  })

  it("is promised no place of an essential call", () => {
    const windows = makeCallWindows(100)
    send(windows, 40, "essential", 0)
    send(windows, many, "known", 30 * second)
    assert.strictEqual(ask(windows, "known", 40 * second, { promise: true }), 50)
  })

  it("gets its promised place although essential calls took some of the share", () => {
    const { waiting, windows } = full()
    assert.strictEqual(send(windows, many, "known", minute), 84)
    assert.strictEqual(send(windows, 8, "essential", minute), 8)
    assert.isTrue(isAdmitted(ask(windows, "known", minute, waiting)))
  })

  it("keeps its promise when it calls early, or when essential calls took too much", () => {
    const { waiting, windows } = full()
    const next = { key: "next", promise: true }
    assert.strictEqual(ask(windows, "known", 10 * second, next), 51)
    assert.strictEqual(ask(windows, "known", 20 * second, waiting), 40)
    assert.strictEqual(ask(windows, "known", 20 * second, next), 41)
    assert.strictEqual(send(windows, 93, "essential", minute), 93)
    assert.strictEqual(ask(windows, "known", minute, waiting), 60)
    assert.strictEqual(send(windows, many, "known", 2 * minute), 84)
    assert.isTrue(isAdmitted(ask(windows, "known", 2 * minute, waiting)))
  })

  it("may call 10 s late", () => {
    for (const [at, kept] of [
      [70 * second, true],
      [70 * second + 1, false]
    ] as const) {
      const { waiting, windows } = full()
      assert.strictEqual(send(windows, many, "known", at), kept ? 84 : 85)
      assert.strictEqual(isAdmitted(ask(windows, "known", at, waiting)), kept)
    }
  })

  it("keeps its promise when its path was idle in between", () => {
    const windows = makeCallWindows(100)
    send(windows, many, "known", 0)
    const waits = Array.from({ length: 20 }, (_, at) =>
      ask(windows, "known", 50 * second, { key: `waiting ${at}`, promise: true })
    )
    assert.strictEqual(waits.at(-1), 25)
    ask(windows, "known", 65 * second, { window: "another" })
    assert.isBelow(send(windows, many, "known", 75 * second), 85)
  })

  it("gets no promise if it is busy, or if IAM did not confirm it", () => {
    const stranger = full({ promise: false })
    assert.strictEqual(send(stranger.windows, many, "known", minute), 85)
    assert.isFalse(isAdmitted(ask(stranger.windows, "known", minute, stranger.waiting)))
    const windows = makeCallWindows(100)
    const busy = { key: "busy", promise: true }
    send(windows, 65 - 4, "known", 0)
    assert.strictEqual(send(windows, many, "known", 30 * second, busy), 4)
    send(windows, many, "known", 30 * second)
    assert.isFalse(isAdmitted(ask(windows, "known", 40 * second, busy)))
    assert.strictEqual(send(windows, many, "known", minute), 61)
  })

  it("gets no pause beyond 15 minutes, and no promise there", () => {
    const { windows } = full()
    const waits = Array.from({ length: 1_300 }, () => ask(windows, "known", 10 * second, { promise: true }))
    assert.strictEqual(Math.max(...waits.map(Number)), 900)
    assert.isAbove(waits.filter((seconds) => seconds === 900).length, 100)
    // The last promises are due: the places that they do not take are free for all.
    const due = waits.filter((seconds) => Number(seconds) > 890 && Number(seconds) < 900).length
    assert.isAtLeast(send(windows, many, "known", 910 * second), 85 - due - 2)
  })

  it("delays no essential call, and keeps its promise after one", () => {
    const { waiting, windows } = full()
    assert.isTrue(isAdmitted(ask(windows, "essential", minute, waiting)))
    assert.strictEqual(send(windows, many, "known", minute), 83)
    assert.isTrue(isAdmitted(ask(windows, "known", minute, waiting)))
    const another = full()
    assert.strictEqual(send(another.windows, many, "essential", minute), 100)
  })
})

describe("A path that IAM blocks", () => {
  const blocked = () => {
    const windows = makeCallWindows(100)
    const before = mustAdmit(ask(windows, "known", 0))
    windows.block(path, 60, 0)
    return { before, windows }
  }

  it("admits one essential or known call in 5 s, and refuses with the end of the block", () => {
    const { windows } = blocked()
    for (const share of shares) assert.strictEqual(ask(windows, share, 5 * second - 1), 56)
    for (const share of ["newcomer", "suspect"] as const)
      assert.strictEqual(ask(windows, share, 5 * second), 55)
    assert.isTrue(isAdmitted(ask(windows, "known", 5 * second)))
    assert.strictEqual(ask(windows, "essential", 9 * second), 51)
    assert.isTrue(isAdmitted(ask(windows, "essential", 10 * second)))
    assert.isTrue(isAdmitted(ask(windows, "suspect", minute)))
  })

  it("is open after the success of a call that began after the block", () => {
    const { before, windows } = blocked()
    windows.unblock(path, before)
    assert.strictEqual(ask(windows, "known", second), 59)
    const probe = mustAdmit(ask(windows, "known", 5 * second))
    windows.unblock(path, probe)
    assert.isTrue(isAdmitted(ask(windows, "newcomer", 6 * second)))
  })

  it("is probed no earlier by a call with a reserved place", () => {
    const windows = makeCallWindows(100)
    const place = mustAdmit(ask(windows, "essential", 0))
    windows.reserve(place, 0)
    windows.block(path, 60, 0)
    assert.strictEqual(ask(windows, "essential", 5 * second - 1, { place }), 56)
    assert.strictEqual(ask(windows, "essential", 5 * second, { place }), place)
  })

  it("stays blocked for the longest of IAM's pauses", () => {
    const { windows } = blocked()
    mustAdmit(ask(windows, "known", 50 * second))
    windows.block(path, 60, 50 * second)
    assert.strictEqual(ask(windows, "known", 51 * second), 59)
    windows.block(path, 1, 52 * second)
    assert.strictEqual(ask(windows, "known", 53 * second), 57)
  })

  it("is not probed by a refused call", () => {
    const windows = makeCallWindows(100)
    const own = { key: "poller", bound: 2 }
    send(windows, 2, "known", 0, own)
    windows.block(path, 60, 0)
    assert.strictEqual(ask(windows, "known", 5 * second, own), 55)
    assert.isTrue(isAdmitted(ask(windows, "known", 5 * second)))
  })
})

interface Step {
  readonly pause: number
  readonly act: "call" | "call" | "answer" | "cancel" | "reserve" | "complete" | "block" | "unblock"
  readonly share: Share
  readonly key: number
  readonly bound: number
  readonly promise: boolean
  readonly pick: number
}

const step: FastCheck.Arbitrary<Step> = FastCheck.record({
  pause: FastCheck.oneof(
    { weight: 6, arbitrary: FastCheck.constant(0) },
    { weight: 3, arbitrary: FastCheck.integer({ min: 0, max: 5_000 }) },
    { weight: 1, arbitrary: FastCheck.integer({ min: 0, max: 100_000 }) }
  ),
  act: FastCheck.constantFrom<Array<Step["act"]>>(
    "call",
    "call",
    "call",
    "call",
    "answer",
    "answer",
    "cancel",
    "reserve",
    "complete",
    "block",
    "unblock"
  ),
  share: FastCheck.constantFrom(...shares),
  key: FastCheck.nat(9),
  bound: FastCheck.integer({ min: 1, max: 30 }),
  promise: FastCheck.boolean(),
  pick: FastCheck.nat(1_000)
})

interface Sent {
  readonly place: Place
  readonly at: number
  answeredAt: number
}

describe("For any sequence of claims, responses, cancellations and blocks", () => {
  it("no 60 s contain more calls than the budget, and every refusal gives 1 to 900 s", () => {
    let refusals = 0
    let fullest = 0
    FastCheck.assert(
      FastCheck.property(
        FastCheck.integer({ min: 1, max: 12 }),
        FastCheck.array(step, { minLength: 50, maxLength: 300 }),
        (budget, steps) => {
          const windows = makeCallWindows(budget)
          const sent: Array<Sent> = []
          const out: Array<Sent> = []
          const kept: Array<Place> = []
          let now = 0
          const claim = ({ bound, key, share, promise }: Step, place?: Place) => {
            const answer = ask(windows, share, now, {
              key: key === 0 ? undefined : String(key),
              bound,
              promise,
              place
            })
            if (isAdmitted(answer)) {
              const call = { place: answer, at: now, answeredAt: Number.POSITIVE_INFINITY }
              sent.push(call)
              out.push(call)
            } else {
              refusals += 1
              assert.isTrue(Number.isInteger(answer) && answer >= 1 && answer <= 900, String(answer))
            }
          }
          for (const next of steps) {
            now += next.pause
            const picked = out.length === 0 ? undefined : out[next.pick % out.length]
            const isOver = () => out.splice(next.pick % out.length, 1)
            switch (next.act) {
              case "call":
                claim(next)
                break
              case "complete":
                claim(next, kept.length === 0 ? undefined : kept[next.pick % kept.length])
                break
              case "block":
                windows.block(path, 1 + (next.pick % 60), now)
                break
              default:
                if (picked === undefined) break
                isOver()
                if (next.act === "cancel" || next.act === "reserve") sent.splice(sent.indexOf(picked), 1)
                else picked.answeredAt = now
                if (next.act === "cancel") windows.cancel(path, picked.place)
                else if (next.act === "reserve") {
                  windows.reserve(picked.place, now)
                  kept.push(picked.place)
                } else {
                  windows.release(picked.place, now)
                  if (next.act === "unblock") windows.unblock(path, picked.place)
                }
            }
          }
          // IAM counts a call at some moment between its send and its answer: at the worst, all of these in one 60 s.
          for (const { answeredAt: from } of sent) {
            const counted = sent.filter(({ answeredAt, at }) => answeredAt >= from && at < from + minute)
            assert.isAtMost(counted.length, budget)
            fullest = Math.max(fullest, counted.length / budget)
          }
        }
      ),
      { numRuns: 300 }
    )
    assert.isAbove(refusals, 1_000)
    assert.strictEqual(fullest, 1)
  })

  it("a single credential that waits for its pause is admitted", () => {
    let waits = 0
    FastCheck.assert(
      FastCheck.property(
        FastCheck.integer({ min: 10, max: 300 }),
        FastCheck.constantFrom(...shares),
        FastCheck.array(
          FastCheck.record({
            pause: FastCheck.integer({ min: 0, max: 3_000 }),
            latency: FastCheck.integer({ min: 0, max: 2_000 }),
            blocks: FastCheck.option(FastCheck.integer({ min: 1, max: 60 }), { freq: 20 })
          }),
          { minLength: 40, maxLength: 120 }
        ),
        (budget, share, calls) => {
          const windows = makeCallWindows(budget)
          const own = {
            key: "alone",
            bound: Math.ceil((30 * budget) / 110),
            promise: share === "essential" || share === "known"
          }
          let now = 0
          for (const { blocks, latency, pause } of calls) {
            now += pause
            let answer = ask(windows, share, now, own)
            if (!isAdmitted(answer)) {
              waits += 1
              now += answer * second
              answer = ask(windows, share, now, own)
            }
            const place = mustAdmit(answer)
            now += latency
            windows.release(place, now)
            if (blocks === null) windows.unblock(path, place)
            else windows.block(path, blocks, now)
          }
        }
      ),
      { numRuns: 100 }
    )
    assert.isAbove(waits, 100)
  })
})

describe("An actor with more than ten calls in a minute over many logins", () => {
  it("leaves a fifth of the budget to others, except for its refreshes", () => {
    const windows = makeCallWindows(100)
    const owner = { owner: "production c:hoarder" }
    assert.strictEqual(send(windows, many, "known", 0, owner), 65)
    assert.strictEqual(send(windows, many, "known", 0), 20)
    assert.strictEqual(send(windows, many, "essential", 0, owner), 15)
  })

  it("is promised eleven places, however many of its logins wait", () => {
    const windows = makeCallWindows(100)
    send(windows, many, "known", 0)
    const owner = { owner: "production c:hoarder", promise: true }
    for (let login = 0; login < 50; login += 1) ask(windows, "known", 0, owner)
    // The first promise is for 60 s, and one more for every 785 ms.
    assert.strictEqual(ask(windows, "known", 0, { promise: true }), 69)
    assert.strictEqual(send(windows, many, "known", 70 * second), 73)
  })
})
