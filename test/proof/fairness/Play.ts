/** Plays every scenario, and compares what each kind of client got with its bounds. */
import type { Play } from "../Suite.ts"
import { type Bound, type Scenario, scenarios, type Size } from "./Scenarios.ts"
import { minute, openWorld, type World } from "./World.ts"

/** Clients of the largest kinds in a full run. */
const fullCount = 3_000

const rounded = (value: number): number => Math.round(value * 1_000) / 1_000

/** Milliseconds: an answer may take as long, and so may the longest `Retry-After`, 15 minutes. */
const patience = { least: 30_000, most: 16 * minute } as const

/** An operation may be open for as long as its kind may wait. */
const patienceOf = (bounds: ReadonlyArray<Bound>, kind: string, group: string): number => {
  const waits = bounds.flatMap((bound) =>
    "measure" in bound && bound.of === kind && bound.group === group && bound.measure === "p99Wait"
      ? [(bound.most ?? Number.POSITIVE_INFINITY) * 1_000]
      : []
  )
  return Math.max(patience.least, Math.min(patience.most, ...waits))
}

/** What a bound is about, and its value; NaN, which keeps no bound, when nothing of the kind happened. */
const measure = (
  bound: Bound,
  bounds: ReadonlyArray<Bound>,
  { ledger, mostCallsOf }: World,
  facts: Readonly<Record<string, number>>
): readonly [what: string, value: number] => {
  if ("callsOf" in bound)
    return [`calls to IAM of ${bound.callsOf.join(", ")} in a minute`, mostCallsOf(bound.callsOf)]
  if ("fact" in bound) return [bound.fact, facts[bound.fact] ?? Number.NaN]
  const row = ledger.rowOf(bound.of, bound.group, patienceOf(bounds, bound.of, bound.group))
  return [`${bound.of}, ${bound.group}: ${bound.measure}`, row?.[bound.measure] ?? Number.NaN]
}

export const playScenario = async (
  scenario: Scenario,
  seed: number,
  size: Size,
  log: (line: string) => void = () => undefined
) => {
  const world = await openWorld(seed, scenario)
  try {
    const { faults, ledger, oracle, settings, time, upstreams } = world
    const { facts, from, until } = scenario.play(world, size)
    await time.runUntil(from)
    world.measureFromNow()
    await time.runUntil(until)
    faults.heal()
    const broken: Array<string> = []
    const demand = (what: string, value: number, { least = -1, most = Number.POSITIVE_INFINITY }) => {
      log(`${scenario.name}: ${what} is ${rounded(value)}, at least ${least}, at most ${most}`)
      if (!(value >= least && value <= most))
        broken.push(`${scenario.name} (seed ${seed}, count ${size.count}): ${what} is ${rounded(value)}`)
    }
    const bounds = scenario.bounds.filter((bound) => !(size.isFull && "onlyInSlice" in bound))
    for (const bound of bounds) demand(...measure(bound, bounds, world, facts?.() ?? {}), bound)
    if (scenario.iamRefuses !== true) demand("refusals of IAM", world.refusedByIam(), { most: 0 })
    demand("calls to one path of IAM", world.mostCallsOf(), { most: settings.iam.callsPerMinute })
    demand("lost sessions of honest clients", ledger.lost.size, { most: 0 })
    for (const problem of oracle.problems()) broken.push(`${scenario.name} (seed ${seed}): ${problem}`)
    const figures = {
      scenarios: 1,
      "simulated minutes": Math.round(until / minute),
      requests: world.requests(),
      "IAM calls": upstreams.calls.filter(({ upstream }) => upstream === "iam").length,
      bounds: bounds.length + 3
    }
    return { broken, figures }
  } finally {
    await world.close()
  }
}

export const play: Play = async ({ count = fullCount, log, seed }) => {
  const figures: Record<string, number> = {}
  const broken: Array<string> = []
  for (const scenario of scenarios) {
    const played = await playScenario(scenario, seed, { count, isFull: count >= 1_000 }, log)
    broken.push(...played.broken)
    for (const [name, value] of Object.entries(played.figures)) figures[name] = (figures[name] ?? 0) + value
  }
  return { figures, broken }
}
