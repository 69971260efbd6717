/** The laws of the budget for any sequence of calls, answers, lost calls, reservations and blocks. */
import * as FastCheck from "effect/FastCheck"
import { describe, expect, it } from "vitest"
import { answered, blocked, type End, makeBudget, type Out, unanswered, unsent } from "./Budget.ts"

type Purpose = Parameters<ReturnType<typeof makeBudget>["call"]>[0]

const minute = 60_000
const kinds = ["essential", "known", "own", "newcomer", "suspect"] as const
type Kind = (typeof kinds)[number]

/** Part of the budget that the calls of a kind may fill; due promises may take half of what lies above. */
const parts: Readonly<Record<Kind, number>> = {
  essential: 1,
  known: 0.925,
  own: 0.85,
  newcomer: 0.85,
  suspect: 0.3
}

const step = FastCheck.record({
  pause: FastCheck.oneof(
    { weight: 6, arbitrary: FastCheck.constant(0) },
    { weight: 3, arbitrary: FastCheck.integer({ min: 0, max: 5_000 }) },
    { weight: 1, arbitrary: FastCheck.integer({ min: 0, max: 100_000 }) }
  ),
  act: FastCheck.constantFrom(
    ..."call call call call answer answer lose drop block reserve complete".split(" ")
  ),
  kind: FastCheck.constantFrom(...kinds),
  key: FastCheck.nat(9),
  pick: FastCheck.nat(1_000)
})

/** A call that IAM may have counted. */
interface Sent {
  readonly at: number
  readonly out: Out
  answeredAt: number
}
const ends: Readonly<Record<string, End>> = { answer: answered, lose: unanswered, drop: unsent }

describe("For any sequence of calls, answers, reservations and blocks", () => {
  it("no 60 s contain more calls than the budget, no share exceeds its part, and every refusal gives 1 to 900 s", () => {
    let refusals = 0
    let fullest = 0
    FastCheck.assert(
      FastCheck.property(
        FastCheck.integer({ min: 1, max: 12 }),
        FastCheck.array(step, { minLength: 50, maxLength: 300 }),
        (calls, steps) => {
          const budget = makeBudget(calls)
          const sent: Array<Sent> = []
          const out: Array<Sent> = []
          const reserved: Array<{ readonly purpose: Purpose; readonly at: number }> = []
          let now = 0
          /** Places that are taken: by calls without an answer or answered in the last 60 s, and by reservations. */
          const taken = () =>
            sent.filter(({ answeredAt }) => answeredAt + minute > now).length +
            reserved.filter(({ at }) => at + minute > now).length
          const send = (purpose: Purpose, part: number, network: string) => {
            const before = taken()
            const answer = budget.call(purpose, { network })
            if (typeof answer === "number") {
              refusals += 1
              expect(Number.isInteger(answer) && answer >= 1 && answer <= 900, String(answer)).toBe(true)
              return false
            }
            expect(before, "places before the call").toBeLessThan(Math.max(1, part * calls))
            const call = { at: now, out: answer, answeredAt: Number.POSITIVE_INFINITY }
            sent.push(call)
            out.push(call)
            return true
          }
          for (const { act, key, kind, pause, pick } of steps) {
            now += pause
            budget.at(now / 1_000)
            const credential = `${kind} ${key}`
            const network = kind === "suspect" ? "203.0.113.66" : `198.51.100.${key}`
            if (kind === "suspect")
              for (let at = 0; at < 6; at += 1)
                budget.refuse(`refused ${now} ${at}`, "this_call", undefined, network)
            if (act === "call") {
              const purpose = { credential, completing: kind === "essential" }
              send(
                kind === "own" ? {} : kind === "known" ? budget.known(credential) : purpose,
                parts[kind],
                network
              )
            } else if (act === "reserve") {
              const slt: Purpose = { credential: `slt ${now} ${pick}`, use: "login" }
              const purpose = budget.reserve(slt, answered, network)
              if (purpose !== undefined) reserved.push({ purpose, at: now })
            } else if (act === "complete") {
              const index = pick % Math.max(1, reserved.length)
              const place = reserved[index]
              if (place === undefined) continue
              reserved.splice(index, 1)
              if (!send(place.purpose, 1, network)) reserved.push(place)
            } else {
              const [picked] = out.splice(pick % Math.max(1, out.length), 1)
              if (picked === undefined) continue
              if (act === "drop") sent.splice(sent.indexOf(picked), 1)
              else picked.answeredAt = now
              picked.out.end(ends[act] ?? blocked(1 + (pick % 60)))
            }
          }
          // IAM counts a call at some moment between its send and its answer: at the worst, all of these in one 60 s.
          for (const { answeredAt: from } of sent) {
            const counted = sent.filter(({ answeredAt, at }) => answeredAt >= from && at < from + minute)
            expect(counted.length).toBeLessThanOrEqual(calls)
            fullest = Math.max(fullest, counted.length / calls)
          }
        }
      ),
      { numRuns: 200 }
    )
    expect(refusals).toBeGreaterThan(1_000)
    expect(fullest).toBe(1)
  })

  it("a single credential that waits for its pause is admitted", () => {
    let waits = 0
    const step = FastCheck.record({
      pause: FastCheck.integer({ min: 0, max: 3_000 }),
      latency: FastCheck.integer({ min: 0, max: 2_000 }),
      blocks: FastCheck.option(FastCheck.integer({ min: 1, max: 60 }), { freq: 20 })
    })
    const steps = FastCheck.array(step, { minLength: 40, maxLength: 120 })
    const kind = FastCheck.constantFrom<Kind>("essential", "known", "newcomer")
    FastCheck.assert(
      FastCheck.property(FastCheck.integer({ min: 10, max: 300 }), kind, steps, (calls, kind, steps) => {
        const { at, call, known } = makeBudget(calls)
        const unknown = { credential: "alone", completing: kind === "essential" }
        const purpose = kind === "known" ? known("alone") : unknown
        let now = 0
        const wait = (millis: number) => {
          now += millis
          at(now / 1_000)
        }
        for (const { blocks, latency, pause } of steps) {
          wait(pause)
          let answer = call(purpose)
          if (typeof answer === "number") {
            waits += 1
            wait(answer * 1_000)
            answer = call(purpose)
          }
          if (typeof answer === "number") throw new Error(`refused again, for ${answer} s`)
          wait(latency)
          answer.end(blocks === null ? answered : blocked(blocks))
        }
      }),
      { numRuns: 100 }
    )
    expect(waits).toBeGreaterThan(100)
  })
})
