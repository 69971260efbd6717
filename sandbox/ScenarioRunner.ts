import * as Clock from "effect/Clock"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import { render, type StepFailed } from "./HttpExchange.ts"
import { makeScenario, type Step } from "./Scenario.ts"
import type { SimulatedUpstreams } from "./SimulatedUpstreams.ts"

const runStep = (step: Step, index: number, width: number): Effect.Effect<void, StepFailed> =>
  Effect.gen(function* () {
    const startedAt = yield* Clock.currentTimeMillis
    const line = (mark: string, status: string, took: number) =>
      `${mark} ${String(index + 1).padStart(2)}  ${step.name.padEnd(width)}  ${status.padStart(6)}  ${String(took).padStart(5)} ms`
    const exchange = yield* step.run.pipe(
      Effect.tapError((failure) =>
        Effect.gen(function* () {
          const took = (yield* Clock.currentTimeMillis) - startedAt
          yield* Console.log(
            line("✗", failure.exchange === undefined ? "-" : String(failure.exchange.status), took)
          )
          yield* Console.log(`   ${failure.problem}`)
          if (failure.exchange !== undefined)
            yield* Console.log(render(failure.exchange).replaceAll(/^/gm, "   "))
        })
      )
    )
    const took = (yield* Clock.currentTimeMillis) - startedAt
    yield* Console.log(line("✓", String(exchange.status), took))
  })

/** Runs the steps in order and prints one line each. Stops at the first failure and prints its request and response. */
export const runScenario = (upstreams: SimulatedUpstreams, base: string): Effect.Effect<boolean> =>
  Effect.gen(function* () {
    const steps = yield* makeScenario(upstreams, base)
    const width = Math.max(...steps.map(({ name }) => name.length))
    const passed = yield* Effect.forEach(steps, (step, index) => runStep(step, index, width), {
      discard: true
    }).pipe(
      Effect.as(true),
      Effect.catchAll(() => Effect.succeed(false))
    )
    yield* Console.log(passed ? `\nAll ${steps.length} steps passed.` : "\nThe scenario failed.")
    return passed
  })
