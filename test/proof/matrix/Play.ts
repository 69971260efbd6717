/** The cells of the table, and the comparison of each with what the service does. */
import { type CallName, callNames } from "../../world/Calls.ts"
import { seeded } from "../../world/Arbitraries.ts"
import { pathNames, paths, type UpstreamName } from "../../world/Faults.ts"
import type { Play } from "../Suite.ts"
import { observeWork, type WorkName } from "./Background.ts"
import { type Failure, failuresOf, wholeFailures } from "./Failures.ts"
import { type Observation, observe } from "./Observation.ts"
import { cellOf, isRepeated, table, wholeCellOf, workCellOf, works } from "./Table.ts"

interface Cell {
  readonly title: string
  /** The classes of the cell, of each of which a slice plays at least one. */
  readonly strata: ReadonlyArray<string>
  /** The table's text; undefined where it has none. */
  readonly expected: string | undefined
  readonly observe: () => Promise<Observation>
}

const namesOf = <Name extends string>(record: Readonly<Partial<Record<Name, unknown>>>) =>
  // The keys of a record with literal keys.
  Object.keys(record) as Array<Name>

const upstreams: ReadonlyArray<UpstreamName> = ["iam", "ting", "tables", "tracker"]
const always = Number.POSITIVE_INFINITY

const titleOf = (what: string, path: string, { id }: Failure) => `${what} / ${path} / ${id}`

/** Several calls share the rules of a path. */
const rulebooks = Object.values(table).flatMap((columns) => columns.map(({ rules }) => rules))

/** The calls of one path fail: all of them, or only the first. */
const pathCells: ReadonlyArray<Cell> = namesOf<CallName>(table).flatMap((call) =>
  (table[call] ?? []).flatMap((column) =>
    failuresOf(column.path).flatMap((failure): ReadonlyArray<Cell> => {
      const { path } = column
      const { upstream } = paths[path]
      const expected = cellOf(column, failure)
      const cell = (times: number, text: string | undefined): Cell => ({
        title: `${titleOf(call, path, failure)}${times === 1 ? ", the first call only" : ""}`,
        // Calls with the same rules for a path differ in what they make of each status, not in how they get it.
        strata: [
          `${path}/${rulebooks.indexOf(column.rules)} ${times} ${text} ${failure.group.endsWith("†")}`,
          `${call}/${path}/${times} ${text?.slice(0, 3)}`,
          `${path}/${failure.group}`,
          `${upstream}/${failure.id}`
        ],
        expected: text,
        observe: () => observe({ call, upstream, failing: [path], failure, times })
      })
      const repeats = expected !== undefined && failure.group !== "clock" && isRepeated(expected)
      return [
        cell(always, expected),
        ...(repeats ? [cell(1, column.secondOf?.[failure.id] ?? column.second)] : [])
      ]
    })
  )
)

const pathsOf = (upstream: UpstreamName) => pathNames.filter((path) => paths[path].upstream === upstream)

const wholeCells: ReadonlyArray<Cell> = callNames.flatMap((call) =>
  upstreams.flatMap((upstream) =>
    wholeFailures.map((failure) => {
      const expected = wholeCellOf(call, upstream, failure.group)
      // Of the upstreams that a call does not need, one says as much as another.
      const failing = expected?.includes("×0") === true ? "an upstream that is not needed" : upstream
      return {
        title: titleOf(call, `all of ${upstream}`, failure),
        strata: [`${call}/all of ${failing}`, `all of ${upstream}/${failure.id}`],
        expected,
        observe: () => observe({ call, upstream, failing: pathsOf(upstream), failure, times: always })
      }
    })
  )
)

const workCells: ReadonlyArray<Cell> = namesOf<WorkName>(works).flatMap((work) =>
  works[work].flatMap((column) =>
    failuresOf(column.path).map((failure) => ({
      title: titleOf(work, column.path, failure),
      strata: [`${work}/${column.path}/${failure.group}`, `${paths[column.path].upstream}/${failure.id}`],
      expected: workCellOf(column, failure),
      observe: () => observeWork(work, column.path, failure)
    }))
  )
)

const allCells = [...pathCells, ...wholeCells, ...workCells]

/** All cells, or a seeded part: the cells with most strata that no other covers, until all are covered, then others up to `count`. */
const choose = (seed: number, count: number | undefined): ReadonlyArray<Cell> => {
  if (count === undefined || count >= allCells.length) return allCells
  const rest = new Set(seeded(seed).shuffled(allCells))
  const open = new Set(allCells.flatMap(({ strata }) => strata))
  const needed: Array<Cell> = []
  for (let most = 4; open.size > 0; most -= 1)
    for (const cell of rest)
      if (cell.strata.filter((stratum) => open.has(stratum)).length >= most) {
        for (const stratum of cell.strata) open.delete(stratum)
        rest.delete(cell)
        needed.push(cell)
      }
  return [...needed, ...rest].slice(0, Math.max(count, needed.length))
}

/** All cells, or a part of at least one cell of each class. */
export const play: Play = async ({ count, log, seed }) => {
  const cells = choose(seed, count)
  const broken: Array<string> = []
  let [requests, calls] = [0, 0]
  for (const cell of cells) {
    const seen = await cell.observe()
    requests += seen.requests
    calls += seen.calls
    const expected = cell.expected ?? "in the table"
    const wrong = [
      ...(seen.text === expected ? [] : [`is \`${seen.text}\`, not \`${expected}\``]),
      ...seen.problems
    ]
    if (wrong.length > 0) broken.push(`seed ${seed}: ${cell.title}: ${wrong.join("; ")}`)
    log(`${cell.title}: ${seen.text}${wrong.length > 0 ? ` !! ${wrong.join("; ")}` : ""}`)
  }
  return { figures: { cells: cells.length, requests, "upstream calls": calls, wrong: broken.length }, broken }
}
