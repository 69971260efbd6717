/**
 * What a command has of its process, and how it fails and prints. Results go to standard output; hints and errors to standard error.
 * Records are printed as a table, as facts or as JSON, from one description of each. Text of callers cannot move the cursor, change
 * colours or reverse the reading direction.
 */
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as ValidationError from "@effect/cli/ValidationError"
import * as Arr from "effect/Array"
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Page } from "../services/store/Pages.ts"

/**
 * 1: a check failed, or the requested record does not exist; 64: usage; 69: database or network; 70: a defect; 74: standard
 * output cannot be written; 78: settings; 141: the reader closed the pipe, as for a program that SIGPIPE ends.
 */
export type Exit = 0 | 1 | 64 | 69 | 70 | 74 | 78 | 141

export class CommandFailed extends Data.TaggedError("CommandFailed")<{
  readonly exit: Exit
  /** What is wrong, and the next step: an instruction without a full stop. None when the output already shows them. */
  readonly reason?: { readonly problem: string; readonly fix: string }
}> {}

export const failed = (exit: Exit, problem: string, fix: string): CommandFailed =>
  new CommandFailed({ exit, reason: { problem, fix } })

/** The record does not exist or cannot be changed. */
export const refuse = (problem: string, fix: string): CommandFailed => failed(1, problem, fix)

/** A mistake in the arguments that the library does not see; it becomes exit code 64 as the library's own do. */
export const misuse = (line: string): Effect.Effect<never, ValidationError.ValidationError> =>
  Effect.fail(ValidationError.invalidValue(HelpDoc.p(line)))

/** A command is missing; the message names those that are there. */
export const incomplete = Effect.fail(ValidationError.commandMismatch(HelpDoc.empty))

/** A noun, which does nothing without one of its commands. */
export const group = <Name extends string>(name: Name, description: string) =>
  Command.make(name, {}, () => incomplete).pipe(Command.withDescription(description))

export class Host extends Context.Tag("music/cli/Host")<
  Host,
  {
    /** The variables of the process. `--env-file` adds to them, so that `serve` and the database drivers see the same. */
    readonly environment: Record<string, string | undefined>
    /** Writes lines to standard output, and waits until its reader or file has taken them. */
    readonly out: (text: string) => Effect.Effect<void, CommandFailed>
    /** Writes lines to standard error; a failure is ignored. */
    readonly err: (text: string) => Effect.Effect<void>
  }
>() {}

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

/** `2026-11-21T07:30:00Z`; empty for none. */
export const formatTime = (milliseconds: number | null): string =>
  milliseconds === null ? "" : new Date(milliseconds).toISOString().replace(/\.\d{3}Z$/, "Z")

/** One value of a record. */
interface RecordField<A> {
  /** In JSON and in details. */
  readonly name: string
  /** Heading of its column; empty for what is no column of lists. */
  readonly title: string
  /** In its column. */
  readonly value: (record: A) => string
  readonly json: (record: A) => unknown
}

/** What is shown of a record. */
export interface Noun<A> {
  /** For the message of an empty list. */
  readonly plural: string
  readonly fields: ReadonlyArray<RecordField<A>>
}

/** An absent value is null in JSON. Without `value`, the column shows the value of JSON. */
export const field = <A>(
  name: string,
  title: string,
  json: (record: A) => unknown,
  value: (record: A) => string = (record) => String(json(record) ?? "")
): RecordField<A> => ({ name, title, json, value })

/** A time in milliseconds: ISO, in UTC; in its column to the second. */
export const time = <A>(name: string, title: string, of: (record: A) => number | null): RecordField<A> => {
  const toIso = (at: number | null) => (at === null ? null : new Date(at).toISOString())
  const json = (record: A) => toIso(of(record))
  return field(name, title, json, (record) => formatTime(of(record)))
}

export const toJson = <A>({ fields }: Noun<A>, record: A): Readonly<Record<string, unknown>> =>
  Object.fromEntries(fields.map(({ json, name }) => [name, json(record) ?? null]))

/** Lines of aligned columns, each value on one line. */
export const toTable = (values: ReadonlyArray<ReadonlyArray<string>>): string => {
  const rows = values.map((row) => row.map(toSingleLine))
  const widths: Array<number> = []
  for (const row of rows)
    for (const [at, text] of row.entries()) widths[at] = Math.max(widths[at] ?? 0, text.length)
  const toLine = (row: ReadonlyArray<string>) =>
    row.map((text, index) => text.padEnd(widths[index] ?? 0)).join("  ")
  return rows.map((row) => toLine(row).trimEnd()).join("\n")
}

const toSafeJson = (value: unknown, indent: number) =>
  JSON.stringify(value, null, indent).split("\n").map(escape).join("\n")

/** Prints one JSON document; without `indent` on one line. */
export const printJson = (value: unknown, indent = 2) =>
  Effect.flatMap(Host, ({ out }) => out(toSafeJson(value, indent)))

const toText = (value: unknown): string => {
  if (Array.isArray(value)) return value.map(toText).join("; ")
  if (typeof value !== "object" || value === null) return String(value ?? "")
  const parts = Object.entries(value).map(([name, part]) => [name, toText(part)] as const)
  return parts
    .filter(([, text]) => text !== "")
    .map((part) => part.join(" "))
    .join(", ")
}

/** A text of several lines, each indented below its name. */
const toBlock = ([name, text]: readonly [name: string, text: string]): string =>
  [
    "",
    name,
    ...text.split(/\r\n?|\n/).map((line) => `  ${escape(line.replaceAll("\t", "    "))}`.trimEnd())
  ].join("\n")

/** Prints a record as JSON, or a line for each value that it has, and then the longer texts. */
export const printRecord = (record: object, asJson: boolean) => {
  if (asJson) return printJson(record)
  const facts = Object.entries(record)
    .map(([name, value]) => [name.replaceAll("_", " "), toText(value).trimEnd()] as const)
    .filter(([, text]) => text !== "")
  const [short, long] = Arr.partition(facts, ([, text]) => /[\r\n]/.test(text))
  return Effect.flatMap(Host, ({ out }) => out([toTable(short), ...long.map(toBlock)].join("\n")))
}

/** Prints a page: JSON, `{items, next}`, or a table, and the option that shows the next page. */
export const printPage = <A>(noun: Noun<A>, { items, next }: Page<A>, asJson: boolean) =>
  Effect.gen(function* () {
    const { err, out } = yield* Host
    if (asJson)
      return yield* printJson({
        items: items.map((item) => toJson(noun, item)),
        next: Option.getOrNull(next)
      })
    if (items.length === 0) return yield* err(`No ${noun.plural}.`)
    const shown = noun.fields.filter(({ title }) => title !== "")
    yield* out(
      toTable([
        shown.map(({ title }) => title.toUpperCase()),
        ...items.map((item) => shown.map(({ value }) => value(item).trim() || "-"))
      ])
    )
    if (Option.isSome(next)) yield* err(`\nMore results: --after ${next.value}`)
  })
