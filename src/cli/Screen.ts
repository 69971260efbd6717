/** Output of a command: results on standard output; hints, progress and errors on standard error. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { CommandFailed } from "./CommandFailed.ts"
import { toSafeJson, toSingleLine, pad, truncate, widthOf } from "./Text.ts"

export interface ScreenService {
  /** A terminal that may show colours: a TTY without `NO_COLOR`. */
  readonly colours: boolean
  /** Columns of the terminal; undefined when standard output is no terminal: then no text is cut. */
  readonly columns: number | undefined
  /** Standard error is a terminal: progress is shown. */
  readonly watched: boolean
  /** Writes lines to standard output, and waits until its reader or file has taken them. */
  readonly out: (text: string) => Effect.Effect<void, CommandFailed>
  /** Writes lines to standard error; a failure is ignored. */
  readonly err: (text: string) => Effect.Effect<void>
  /** Replaces the last progress text; an empty text removes it. */
  readonly progress: (text: string) => Effect.Effect<void>
}

export class Screen extends Context.Tag("music/cli/Screen")<Screen, ScreenService>() {}

export type Colour = "red" | "green" | "yellow" | "dim" | "bold"

const codes: Readonly<Record<Colour, number>> = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33 }

export const colourise = ({ colours }: ScreenService, colour: Colour, text: string): string =>
  colours ? `\u001b[${codes[colour]}m${text}\u001b[0m` : text

/** Prints one JSON document. */
export const printJson = (value: unknown): Effect.Effect<void, CommandFailed, Screen> =>
  Effect.flatMap(Screen, ({ out }) => out(toSafeJson(value, 2)))

export interface Column<A> {
  readonly title: string
  readonly of: (item: A) => string
  /** Shrinks, down to the width of its title, when the terminal is too narrow. */
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

/** Columns: the widest field of a table where no terminal limits it. */
const longestField = 120

/** Prints aligned columns, one line for each item. Control characters in texts are escaped. */
export const printTable = <A>(
  columns: ReadonlyArray<Column<A>>,
  items: ReadonlyArray<A>
): Effect.Effect<void, CommandFailed, Screen> =>
  Effect.flatMap(Screen, (screen) => {
    const texts = items.map((item) =>
      columns.map(({ of }) => {
        const text = truncate(toSingleLine(of(item)), longestField)
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
          const cut = truncate(text, width)
          return paint(index === row.length - 1 ? cut : pad(cut, width), index)
        })
        .join(gap)
    const head = line(
      columns.map(({ title }) => title),
      (text) => colourise(screen, "bold", text)
    )
    const body = texts.map((row, at) =>
      line(row, (text, index) => {
        const item = items[at]
        const colour = item === undefined ? undefined : columns[index]?.colour?.(item)
        return colour === undefined ? text : colourise(screen, colour, text)
      })
    )
    return screen.out([head, ...body].join("\n"))
  })

/** Prints `name  value` with aligned values; facts without a value are omitted. */
export const printFacts = (
  facts: ReadonlyArray<readonly [name: string, value: string | undefined]>
): Effect.Effect<void, CommandFailed, Screen> =>
  Effect.flatMap(Screen, (screen) => {
    const shown = facts.filter((fact): fact is readonly [string, string] => fact[1] !== undefined)
    const width = Math.max(...shown.map(([name]) => name.length))
    return screen.out(
      shown
        .map(([name, value]) => `${colourise(screen, "dim", pad(name, width))}${gap}${toSingleLine(value)}`)
        .join("\n")
    )
  })
