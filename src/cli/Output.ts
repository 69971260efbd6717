/**
 * Prints records as a table, as facts or as JSON, from one description of each. Text of callers cannot move the cursor, change
 * colours or reverse the reading direction.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Page } from "../services/OperatorQueries.ts"
import { Host } from "./Host.ts"

/** Control characters, format characters such as bidirectional marks, and line separators. */
const controls = /[\p{Cc}\p{Cf}\u2028\u2029]/gu

/** Escapes invisible characters by their code units, as `\u001b`; JSON stays equivalent. */
const escape = (text: string): string =>
  text.replaceAll(controls, (character) =>
    character
      .split("")
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
      .join("")
  )

/** Line ends and tabs become spaces. */
export const toSingleLine = (text: string): string => escape(text.replaceAll(/[\r\n\t]+/g, " ")).trim()

/** ISO, UTC, to the second: `2026-11-21T07:30:00Z`. */
export const formatTime = (milliseconds: number): string =>
  new Date(milliseconds).toISOString().replace(/\.\d{3}Z$/, "Z")

/** `1 report`, `2,000 reports`. */
export const formatCount = (count: number, noun: string): string =>
  `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`

/** One value of a record. */
export interface RecordField<A> {
  /** In JSON; empty for what is only on the screen. */
  readonly name: string
  /** Heading on the screen; empty for what is only in JSON. */
  readonly title: string
  readonly value: (record: A) => string
  readonly json: (record: A) => unknown
}

/** What is shown of a record. */
export interface Noun<A> {
  /** For the message of an empty list. */
  readonly plural: string
  /** Those of a list; the first fields. */
  readonly columns: number
  readonly fields: ReadonlyArray<RecordField<A>>
}

/** An absent value is null in JSON. Without `value`, the screen shows the value of JSON. */
export const field = <A>(
  name: string,
  title: string,
  json: (record: A) => unknown,
  value: (record: A) => string = (record) => String(json(record) ?? "")
): RecordField<A> => ({ name, title, json, value })

/** A time in milliseconds. */
export const time = <A>(name: string, title: string, of: (record: A) => number | null): RecordField<A> => {
  const show = (record: A, format: (at: number) => string): string | null => {
    const at = of(record)
    return at === null ? null : format(at)
  }
  return field(
    name,
    title,
    (record) => show(record, (at) => new Date(at).toISOString()),
    (record) => show(record, formatTime) ?? ""
  )
}

export const toJson = <A>(
  fields: ReadonlyArray<RecordField<A>>,
  record: A
): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    fields.filter(({ name }) => name !== "").map(({ json, name }) => [name, json(record) ?? null])
  )

/** Lines of aligned columns. */
export const toTable = (rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const widths = rows[0]?.map((_, index) => Math.max(...rows.map((row) => row[index]?.length ?? 0))) ?? []
  const toLine = (row: ReadonlyArray<string>) =>
    row.map((text, index) => text.padEnd(widths[index] ?? 0)).join("  ")
  return rows.map((row) => toLine(row).trimEnd()).join("\n")
}

const toSafeJson = (value: unknown, indent: number) =>
  JSON.stringify(value, null, indent).split("\n").map(escape).join("\n")

/** Prints one JSON document; without `indent` on one line. */
export const printJson = (value: unknown, indent = 2) =>
  Effect.flatMap(Host, ({ out }) => out(toSafeJson(value, indent)))

/** A text of several lines, each indented below its title. */
const toBlock = (title: string, text: string): string =>
  ["", title, ...text.split(/\r\n?|\n/).map((line) => `  ${escape(line.replaceAll("\t", "    "))}`)]
    .map((line) => line.trimEnd())
    .join("\n")

/** Prints a line for each fact that has a value, then the longer texts. */
export const printFacts = (facts: ReadonlyArray<readonly [title: string, text: string]>) => {
  const shown = facts.filter(([, text]) => text !== "")
  const isLong = (text: string) => text.trimEnd().includes("\n")
  const table = shown.filter(([, text]) => !isLong(text)).map(([title, text]) => [title, toSingleLine(text)])
  const blocks = shown.filter(([, text]) => isLong(text)).map(([title, text]) => toBlock(title, text))
  return Effect.flatMap(Host, ({ out }) => out([toTable(table), ...blocks].join("\n")))
}

/** Prints one record: JSON, or its facts. */
export const printRecord = <A>(fields: ReadonlyArray<RecordField<A>>, record: A, asJson: boolean) => {
  const facts = fields.filter(({ title }) => title !== "")
  return asJson
    ? printJson(toJson(fields, record))
    : printFacts(facts.map(({ title, value }) => [title, value(record)]))
}

/** Prints a page: JSON, `{items, next}`, or a table, and the option that shows the next page. */
export const printPage = <A>(noun: Noun<A>, { items, next }: Page<A>, asJson: boolean) =>
  Effect.gen(function* () {
    const { err, out } = yield* Host
    const { columns, fields, plural } = noun
    if (asJson)
      return yield* printJson({
        items: items.map((item) => toJson(fields, item)),
        next: Option.getOrNull(next)
      })
    if (items.length === 0) return yield* err(`No ${plural}.`)
    const shown = fields.slice(0, columns)
    yield* out(
      toTable([
        shown.map(({ title }) => title.toUpperCase()),
        ...items.map((item) => shown.map(({ value }) => toSingleLine(value(item)) || "-"))
      ])
    )
    if (Option.isSome(next)) yield* err(`\nMore results: --after ${next.value}`)
  })
