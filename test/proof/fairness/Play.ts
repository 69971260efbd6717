/** Plays every scenario, and compares what each kind of client got with what is demanded. */
import type { Play } from "../Suite.ts"
import { type Scenario, scenarios, type Size } from "./Scenarios.ts"
import { openWorld } from "./World.ts"

/** Clients of the largest kinds in a full run. */
const fullCount = 3_000

const rounded = (value: number): number => Math.round(value * 1_000) / 1_000

export const playScenario = async (
  scenario: Scenario,
  seed: number,
  size: Size,
  log: (line: string) => void = () => undefined
) => {
  const world = await openWorld(seed, scenario.instances)
  try {
    const { ledger, oracle, settings, time } = world
    const { demands, from, until } = scenario.play(world, size)
    await time.runUntil(from)
    world.measureFromNow()
    await time.runUntil(until)
    const broken: Array<string> = []
    for (const [what, measure, least, most] of [
      ...demands,
      ["refusals of IAM", world.refusedByIam, 0, 0] as const,
      ["calls to one path of IAM", world.mostCallsOf, 0, settings.iam.callsPerMinute] as const,
      ["lost sessions of honest clients", () => ledger.lost.size, 0, 0] as const
    ]) {
      const value = rounded(measure())
      log(`${scenario.name}: ${what} is ${value}, at least ${least}, at most ${most}`)
      if (!(value >= least && value <= most))
        broken.push(`${scenario.name} (seed ${seed}, count ${size.count}): ${what} is ${value}`)
    }
    for (const problem of oracle.problems()) broken.push(`${scenario.name} (seed ${seed}): ${problem}`)
    return broken
  } finally {
    await world.close()
  }
}

export const play: Play = async ({ count = fullCount, log, seed }) => {
  const broken: Array<string> = []
  for (const scenario of scenarios)
    broken.push(...(await playScenario(scenario, seed, { count, isFull: count >= 1_000 }, log)))
  return { figures: { scenarios: scenarios.length }, broken }
}
