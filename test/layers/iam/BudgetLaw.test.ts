/** The laws of the budget for any sequence of calls, answers, lost calls and blocks. */
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import { expect, it } from "vitest"
import { calls, countedIam, type Outcome, paths } from "./Counted.ts"

const minute = 60_000

const quiet = Logger.remove(Logger.defaultLogger)

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
              const together = sent.filter(({ answeredAt, at }) => answeredAt >= from && at < from + minute)
              expect(together.length).toBeLessThanOrEqual(budget)
              fullest = Math.max(fullest, together.length / budget)
            }
          }
        }).pipe(Effect.scoped, Effect.provide(quiet), Effect.runPromise)
    ),
    { numRuns: 8 }
  )
  expect(refusals).toBeGreaterThan(100)
  expect(fullest).toBe(1)
})
