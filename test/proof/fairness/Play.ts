/** Plays every scenario, and compares what each kind of client got with its bounds. */
import type { Play } from "../Suite.ts"
import { type Group, minute, type Patience, type Row } from "./Ledger.ts"
import type { Bound, Scenario, Size } from "./Scenario.ts"
import { scenarios } from "./Scenarios.ts"
import { openWorld } from "./World.ts"

/** Clients of the largest kinds in a full run. */
const fullCount = 3_000

interface Result {
  readonly scenario: Scenario
  readonly rows: ReadonlyArray<Row>
  readonly facts: Readonly<Record<string, number>>
  /** By the kinds that a bound names. */
  readonly callsInMinute: Readonly<Record<string, number>>
  readonly minutes: number
  readonly requests: number
  readonly iamCalls: number
  readonly iamRefusals: number
  readonly lost: number
  readonly bounds: number
  readonly broken: ReadonlyArray<string>
}

/** The budget of one path (docs/api.md, "The budget for IAM"). */
const budget = 110

const rounded = (value: number): number => Math.round(value * 1_000) / 1_000

const holds = (
  value: number,
  { least, most }: { readonly least?: number; readonly most?: number }
): boolean => value >= (least ?? Number.NEGATIVE_INFINITY) && value <= (most ?? Number.POSITIVE_INFINITY)

const limitText = ({ least, most }: { readonly least?: number; readonly most?: number }): string =>
  least === undefined ? `≤ ${most}` : `≥ ${least}`

/** What a bound says, and the value it is compared with. */
const check = (
  bound: Bound,
  rows: ReadonlyArray<Row>,
  callsOf: (kinds: ReadonlyArray<string>) => number,
  facts: Readonly<Record<string, number>>
): { readonly text: string; readonly value: number; readonly isKept: boolean } => {
  if ("callsOf" in bound) {
    const value = callsOf(bound.callsOf)
    return {
      text: `calls to IAM of ${bound.callsOf.join(", ")} in a minute ${limitText(bound)}`,
      value,
      isKept: holds(value, bound)
    }
  }
  if ("fact" in bound) {
    const value = facts[bound.fact] ?? Number.NaN
    return { text: `${bound.fact} ${limitText(bound)}`, value, isKept: holds(value, bound) }
  }
  const value =
    rows.find(({ group, kind }) => kind === bound.of && group === bound.group)?.[bound.measure] ?? Number.NaN
  return {
    text: `${bound.of}, ${bound.group}: ${bound.measure} ${limitText(bound)}`,
    value,
    isKept: holds(value, bound)
  }
}

/** Longer than the longest `Retry-After`, 15 minutes. */
const longestPatience = 16 * minute
/** An answer may take as long. */
const shortestPatience = 30_000

/** An operation may be open for as long as its kind may wait. */
const patienceFor =
  (bounds: ReadonlyArray<Bound>): Patience =>
  (kind: string, group: Group) => {
    const waits = bounds.flatMap((bound) =>
      "measure" in bound && bound.of === kind && bound.group === group && bound.measure === "p99Wait"
        ? [(bound.most ?? Number.POSITIVE_INFINITY) * 1_000]
        : []
    )
    return Math.max(shortestPatience, Math.min(longestPatience, ...waits))
  }

const playScenario = async (defined: Scenario, seed: number, size: Size): Promise<Result> => {
  const scenario = {
    ...defined,
    bounds: defined.bounds.filter((bound) => !(size.isFull && "onlyInSlice" in bound))
  }
  const world = await openWorld(seed, scenario)
  try {
    const { facts: readFacts = () => ({}), from, until } = await scenario.play(world, size)
    const { ledger, time, upstreams } = world
    await time.runUntil(from)
    ledger.measureFromNow()
    await time.runUntil(until)
    const rows = ledger.rows(patienceFor(scenario.bounds))
    const facts = readFacts()
    const iamRefusals = ledger.iamCalls.filter(({ status }) => status === 429).length
    const checks = scenario.bounds.map((bound) => check(bound, rows, ledger.mostIamCalls, facts))
    const lost = ledger.lostSessions()
    const general = [
      ...(iamRefusals > 0 && scenario.iamRefuses !== true ? [`IAM answered 429 ${iamRefusals} times`] : []),
      ...(ledger.mostIamCalls() > budget
        ? [`${ledger.mostIamCalls()} calls to one path of IAM in a minute`]
        : []),
      ...(lost > 0 ? [`${lost} honest clients lost their session`] : []),
      ...upstreams.passedTrackerLimits()
    ]
    const broken = [
      ...general,
      ...checks
        .filter(({ isKept }) => !isKept)
        .map(({ text, value }) => `${text}, but it is ${rounded(value)}`)
    ].map((text) => `${scenario.name} (seed ${seed}, count ${size.count}): ${text}`)
    return {
      scenario,
      rows,
      facts,
      callsInMinute: Object.fromEntries(
        scenario.bounds.flatMap((bound) =>
          "callsOf" in bound
            ? [[`calls of ${bound.callsOf.join(", ")}`, ledger.mostIamCalls(bound.callsOf)]]
            : []
        )
      ),
      minutes: Math.round(until / minute),
      requests: world.requests(),
      iamCalls: ledger.iamCalls.length,
      iamRefusals,
      lost,
      bounds: scenario.bounds.length + 4,
      broken
    }
  } finally {
    await world.close()
  }
}

const percent = (value: number): string => `${Math.round(value * 1_000) / 10} %`

const boundsOf = ({ bounds }: Scenario, { group, kind }: Row): string =>
  bounds
    .filter((bound) => "measure" in bound && bound.of === kind && bound.group === group)
    .map((bound) => ("measure" in bound ? `${bound.measure} ${limitText(bound)} (${bound.source})` : ""))
    .join(", ")

/** The bounds that concern no single row. */
const otherBounds = ({ bounds }: Scenario): string =>
  bounds
    .flatMap((bound) =>
      "callsOf" in bound
        ? [`calls of ${bound.callsOf.join(", ")} ${limitText(bound)} (${bound.source})`]
        : "fact" in bound
          ? [`${bound.fact} ${limitText(bound)} (${bound.source})`]
          : []
    )
    .join(", ")

/** The rows of a scenario in the table of docs/proof.md. */
const tableOf = (result: Result): ReadonlyArray<string> => {
  const { callsInMinute, facts, rows, scenario } = result
  const lines = rows.map((row) => [
    scenario.name,
    `${row.kind}, ${row.group}`,
    row.clients,
    row.calls,
    scenario.honest.includes(row.kind) ? row.atOnce : (row.codes.get("served") ?? 0),
    scenario.honest.includes(row.kind)
      ? `${row.waited} (${rounded(row.medianWait)} / ${rounded(row.p99Wait)} s)`
      : "",
    row.refused,
    row.lost,
    scenario.honest.includes(row.kind) ? percent(row.onTime) : "",
    boundsOf(scenario, row)
  ])
  const measured = [...Object.entries(facts), ...Object.entries(callsInMinute)]
    .map(([name, value]) => `${name}: ${rounded(value)}`)
    .join(", ")
  const others = otherBounds(scenario)
  const all =
    others === "" ? lines : [...lines, [scenario.name, measured, "", "", "", "", "", "", "", others]]
  return all.map((cells) => `| ${cells.join(" | ")} |`)
}

export const playScenarios = async (
  names: ReadonlyArray<string> | undefined,
  seed: number,
  size: Size,
  log: (line: string) => void
): Promise<ReadonlyArray<Result>> => {
  const results: Array<Result> = []
  for (const scenario of scenarios) {
    if (names !== undefined && !names.some((name) => scenario.name.includes(name))) continue
    const began = performance.now()
    const result = await playScenario(scenario, seed, size)
    results.push(result)
    log(
      `${scenario.name}: ${result.requests} requests in ${Math.round(performance.now() - began)} ms; ${JSON.stringify(result.facts)}`
    )
    for (const line of tableOf(result)) log(line)
    for (const text of result.broken) log(`  BROKEN ${text}`)
  }
  return results
}

const sum = (results: ReadonlyArray<Result>, of: (result: Result) => number): number =>
  results.reduce((total, result) => total + of(result), 0)

export const play: Play = async ({ count = fullCount, log, seed }) => {
  const results = await playScenarios(undefined, seed, { count, isFull: count >= 1_000 }, log)
  const broken = results.flatMap((result) => result.broken)
  return {
    figures: {
      scenarios: results.length,
      clients: sum(results, ({ rows }) => rows.reduce((total, { clients }) => total + clients, 0)),
      "simulated minutes": sum(results, ({ minutes }) => minutes),
      requests: sum(results, ({ requests }) => requests),
      "IAM calls": sum(results, ({ iamCalls }) => iamCalls),
      "IAM 429": sum(results, ({ iamRefusals, scenario }) =>
        scenario.iamRefuses === true ? 0 : iamRefusals
      ),
      "honest sessions lost": sum(results, ({ lost }) => lost),
      bounds: sum(results, ({ bounds }) => bounds),
      "bounds broken": broken.length
    },
    broken
  }
}
