/** The cells of the table, and the comparison of each with what the service does. */
import * as Effect from "effect/Effect"
import { seeded } from "../../durability/Random.ts"
import { observeWork, type WorkName } from "./Background.ts"
import { failuresOf, wholeFailures } from "./Failures.ts"
import { observe, type Observation } from "./Observation.ts"
import { type OperationName, operations, registerSender } from "./Operations.ts"
import { type PathName, paths, type UpstreamName, upstreamOf } from "./Paths.ts"
import { startServer } from "./Server.ts"
import { cellOf, isRepeated, table, wholeCellOf, workCellOf, works } from "./Table.ts"
import { makeWorld, type World } from "./World.ts"

interface Cell {
  readonly title: string
  /** Cells of one class and one failure of one upstream, of which a slice plays at least one each. */
  readonly strata: readonly [kind: string, failure: string]
  /** The table's text; undefined where it has none. */
  readonly expected: string | undefined
  readonly observe: (world: World, name: string) => Effect.Effect<Observation>
}

const namesOf = <Name extends string>(record: Readonly<Partial<Record<Name, unknown>>>) =>
  // The keys of a record with literal keys.
  Object.keys(record).map((name) => name as Name)

const upstreams: ReadonlyArray<UpstreamName> = ["iam", "ting", "tables", "tracker"]

/** The calls of one path fail: all of them, or only the first. */
const pathCells = (elsewhere: string): ReadonlyArray<Cell> =>
  namesOf<OperationName>(table).flatMap((operation) =>
    (table[operation] ?? []).flatMap((column) =>
      failuresOf(column.path, elsewhere).flatMap((failure): ReadonlyArray<Cell> => {
        const { path } = column
        const expected = cellOf(column, failure)
        const upstream = upstreamOf(path)
        const cell = (times: number, text: string | undefined): Cell => ({
          title: `${operation} / ${path} / ${failure.id}${times === 1 ? ", the first call only" : ""}`,
          strata: [`${operation}/${path}/${failure.group}`, `${upstream}/${failure.id}`],
          expected: text,
          observe: (world, name) =>
            observe(world, { operation, upstream, failing: [path], failure, times, name })
        })
        return [
          cell(Number.POSITIVE_INFINITY, expected),
          ...(expected !== undefined && failure.group !== "clock" && isRepeated(expected)
            ? [cell(1, column.second)]
            : [])
        ]
      })
    )
  )

const wholeCells: ReadonlyArray<Cell> = namesOf<OperationName>(operations).flatMap((operation) =>
  upstreams.flatMap((upstream) =>
    wholeFailures.map((failure) => ({
      title: `${operation} / all of ${upstream} / ${failure.id}`,
      strata: [`${operation}/all of ${upstream}`, `all of ${upstream}/${failure.id}`],
      expected: wholeCellOf(operation, upstream, failure.group),
      observe: (world, name) =>
        observe(world, {
          operation,
          upstream,
          failing: namesOf<PathName>(paths).filter((path) => upstreamOf(path) === upstream),
          failure,
          times: Number.POSITIVE_INFINITY,
          name
        })
    }))
  )
)

const workCells = (elsewhere: string): ReadonlyArray<Cell> =>
  namesOf<WorkName>(works).flatMap((work) =>
    works[work].flatMap((column) =>
      failuresOf(column.path, elsewhere).map((failure) => ({
        title: `${work} / ${column.path} / ${failure.id}`,
        strata: [`${work}/${column.path}/${failure.group}`, `${upstreamOf(column.path)}/${failure.id}`],
        expected: workCellOf(column, failure),
        observe: (world, name) => observeWork(world, { work, path: column.path, failure, name })
      }))
    )
  )

/** All cells, or a seeded part: what its strata need, then others up to `count`. */
const chosen = (cells: ReadonlyArray<Cell>, seed: number, count: number | undefined): ReadonlyArray<Cell> => {
  if (count === undefined || count >= cells.length) return cells
  const shuffled = seeded(seed).shuffled(cells)
  const covered = new Set<string>()
  const needed = shuffled.filter(({ strata }) => {
    const isNew = strata.some((stratum) => !covered.has(stratum))
    for (const stratum of strata) covered.add(stratum)
    return isNew
  })
  const rest = shuffled.filter((cell) => !needed.includes(cell))
  return [...needed, ...rest].slice(0, Math.max(count, needed.length))
}

export interface Result {
  readonly operations: number
  readonly paths: number
  readonly failures: number
  readonly cells: number
  readonly requests: number
  readonly calls: number
  /** One text for each wrong cell. */
  readonly broken: ReadonlyArray<string>
}

/** Plays all cells, or a part of at least one cell of each class. */
export const playCells = (options: {
  readonly seed: number
  readonly count: number | undefined
  readonly log: (line: string) => void
}): Effect.Effect<Result> =>
  Effect.gen(function* () {
    const world = yield* Effect.orDie(makeWorld)
    yield* Effect.scoped(
      Effect.flatMap(Effect.orDie(startServer(world)), (server) => registerSender(world, server))
    )
    const elsewhere = world.elsewhereUrl
    const all = [...pathCells(elsewhere), ...wholeCells, ...workCells(elsewhere)]
    const cells = chosen(all, options.seed, options.count)
    const broken: Array<string> = []
    let requests = 0
    for (const [index, cell] of cells.entries()) {
      const { problems, text, requests: sent } = yield* cell.observe(world, String(index + 1))
      requests += sent
      const wrong = [
        ...(text === cell.expected ? [] : [`is \`${text}\`, not \`${cell.expected ?? "in the table"}\``]),
        ...problems
      ]
      if (wrong.length > 0) broken.push(`seed ${options.seed}: ${cell.title}: ${wrong.join("; ")}`)
      options.log(`${cell.title}: ${text}${wrong.length > 0 ? ` !! ${wrong.join("; ")}` : ""}`)
    }
    const columns = [...Object.values(table).flat(), ...Object.values(works).flat()].map(({ path }) => path)
    const failures = new Set(
      columns.flatMap((path) => failuresOf(path, "").map(({ id }) => `${upstreamOf(path)} ${id}`))
    )
    return {
      operations: namesOf(operations).length + namesOf(works).length,
      paths: new Set(columns).size,
      failures: failures.size,
      cells: cells.length,
      requests,
      calls: world.totalCalls(),
      broken
    }
  }).pipe(Effect.scoped)
