/** The cells of the table, and the comparison of each with what the service does. */
import type { CallName } from "../../world/Calls.ts"
import { seeded } from "../../world/Arbitraries.ts"
import { paths } from "../../world/Faults.ts"
import type { Play } from "../Suite.ts"
import { failuresOf } from "./Failures.ts"
import { observe } from "./Observation.ts"
import { cellOf, isRepeated, table } from "./Table.ts"

const always = Number.POSITIVE_INFINITY

/** Several calls share the rules of a path. */
const rulebooks = Object.values(table).flatMap((columns) => columns.map(({ rules }) => rules))

// The calls of one path fail: all of them, or only the first. The keys of a record with literal keys.
const allCells = (Object.keys(table) as Array<CallName>).flatMap((call) =>
  (table[call] ?? []).flatMap((column) =>
    failuresOf(column.path).flatMap((failure) => {
      const { path } = column
      const expected = cellOf(column, failure)
      const cell = (times: number, text: string | undefined) => ({
        title: `${call} / ${path} / ${failure.id}${times === 1 ? ", the first call only" : ""}`,
        /** Its classes, of each of which a slice plays at least one cell. */
        strata: [
          `${path} ${rulebooks.indexOf(column.rules)} ${times} ${text} ${failure.group.endsWith("†")}`,
          `${call} ${path} ${times} ${text?.slice(0, 3)}`,
          `${paths[path].upstream} ${failure.id}`
        ],
        /** The table's text; undefined where it has none. */
        expected: text,
        observe: () => observe({ call, path, failure, times, well: column.well })
      })
      const repeats = expected !== undefined && failure.group !== "clock" && isRepeated(expected)
      return [cell(always, expected), ...(repeats ? [cell(1, column.second)] : [])]
    })
  )
)

type Cell = (typeof allCells)[number]

/** All cells, or a seeded part: those of which a class has no other cell before, then others up to `count`. */
const choose = (seed: number, count: number | undefined): ReadonlyArray<Cell> => {
  if (count === undefined) return allCells
  const seen = new Set<string>()
  const isFirst = ({ strata }: Cell): boolean => {
    const isNew = strata.some((stratum) => !seen.has(stratum))
    for (const stratum of strata) seen.add(stratum)
    return isNew
  }
  const all = seeded(seed).shuffled(allCells)
  const needed = all.filter(isFirst)
  return [...new Set([...needed, ...all])].slice(0, Math.max(count, needed.length))
}

/** All cells, or a part of at least one cell of each class. */
export const play: Play = async ({ count, log, seed }) => {
  const cells = choose(seed, count)
  const broken: Array<string> = []
  for (const cell of cells) {
    const seen = await cell.observe()
    const expected = cell.expected ?? "in the table"
    const wrong = [
      ...(seen.text === expected ? [] : [`is \`${seen.text}\`, not \`${expected}\``]),
      ...seen.problems
    ]
    if (wrong.length > 0) broken.push(`seed ${seed}: ${cell.title}: ${wrong.join("; ")}`)
    log(`${cell.title}: ${seen.text}${wrong.length > 0 ? ` !! ${wrong.join("; ")}` : ""}`)
  }
  return { figures: { cells: cells.length, wrong: broken.length }, broken }
}
