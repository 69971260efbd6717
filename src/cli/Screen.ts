/** Where a command writes: results on standard output, everything about them on standard error. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { jsonText, oneLine, padded, truncated, widthOf } from "./Text.ts"

export interface ScreenService {
  /** A terminal that may show colours: a TTY without `NO_COLOR`. */
  readonly colours: boolean
  /** Columns of the terminal; undefined when it is none, and then nothing is cut off. */
  readonly columns: number | undefined
  /** Whether somebody watches standard error, and progress is worth showing. */
  readonly watched: boolean
  /** One line, or several, on standard output. */
  readonly out: (text: string) => Effect.Effect<void>
  /** The same on standard error. */
  readonly say: (text: string) => Effect.Effect<void>
  /** In place of the last progress, without a line end; the empty text removes it. */
  readonly progress: (text: string) => Effect.Effect<void>
}

export class Screen extends Context.Tag("music/cli/Screen")<Screen, ScreenService>() {}

export type Colour = "red" | "green" | "yellow" | "dim" | "bold"

const codes: Readonly<Record<Colour, number>> = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33 }

export const coloured = ({ colours }: ScreenService, colour: Colour, text: string): string =>
  colours ? `\u001b[${codes[colour]}m${text}\u001b[0m` : text

/** One JSON document. */
export const printJson = (value: unknown): Effect.Effect<void, never, Screen> =>
  Effect.flatMap(Screen, ({ out }) => out(jsonText(value, 2)))

export interface Column<A> {
  readonly title: string
  readonly of: (item: A) => string
  /** Gives way, down to its title, when the terminal is too narrow for all. */
  readonly elastic?: true
  readonly colour?: (item: A) => Colour | undefined
}

const gap = "  "

const widthsOf = (
  columns: ReadonlyArray<Column<never>>,
  natural: ReadonlyArray<number>,
  available: number | undefined
): ReadonlyArray<number> => {
  const total = natural.reduce((sum, width) => sum + width, 0) + gap.length * (columns.length - 1)
  const excess = available === undefined ? 0 : Math.max(0, total - available)
  const elastic = columns.findIndex((column) => column.elastic === true)
  return natural.map((width, index) =>
    index === elastic ? Math.max(columns[index]?.title.length ?? 0, width - excess) : width
  )
}

/** Longest that one field of a table becomes where no terminal bounds it. */
const longestField = 120

/** Aligned, a line an item; the last column is not padded. Texts are made harmless here. */
export const printTable = <A>(
  columns: ReadonlyArray<Column<A>>,
  items: ReadonlyArray<A>
): Effect.Effect<void, never, Screen> =>
  Effect.flatMap(Screen, (screen) => {
    const texts = items.map((item) =>
      columns.map(({ of }) => {
        const text = truncated(oneLine(of(item)), longestField)
        return text === "" ? "-" : text
      })
    )
    const natural = columns.map(({ title }, index) =>
      Math.max(title.length, ...texts.map((row) => widthOf(row[index] ?? "")))
    )
    const widths = widthsOf(columns, natural, screen.columns)
    const line = (row: ReadonlyArray<string>, paint: (text: string, index: number) => string) =>
      row
        .map((text, index) => {
          const width = widths[index] ?? 0
          const cut = truncated(text, width)
          return paint(index === row.length - 1 ? cut : padded(cut, width), index)
        })
        .join(gap)
    const head = line(
      columns.map(({ title }) => title),
      (text) => coloured(screen, "bold", text)
    )
    const body = texts.map((row, at) =>
      line(row, (text, index) => {
        const item = items[at]
        const colour = item === undefined ? undefined : columns[index]?.colour?.(item)
        return colour === undefined ? text : coloured(screen, colour, text)
      })
    )
    return screen.out([head, ...body].join("\n"))
  })

/** `name  value`, the values aligned; those without a value are left out. */
export const printFacts = (
  facts: ReadonlyArray<readonly [name: string, value: string | undefined]>
): Effect.Effect<void, never, Screen> =>
  Effect.flatMap(Screen, (screen) => {
    const shown = facts.filter((fact): fact is readonly [string, string] => fact[1] !== undefined)
    const width = Math.max(...shown.map(([name]) => name.length))
    return screen.out(
      shown
        .map(([name, value]) => `${coloured(screen, "dim", padded(name, width))}${gap}${oneLine(value)}`)
        .join("\n")
    )
  })
