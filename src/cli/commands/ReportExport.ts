import { closeSync, openSync, rmSync, writeSync } from "node:fs"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { type Page, Records, type ReportFilter, type ReportRecord } from "../../services/Records.ts"
import { CommandFailed, exits } from "../Failure.ts"
import { Screen } from "../Screen.ts"
import { wholeReportShape } from "../Shapes.ts"
import { counted, jsonText } from "../Text.ts"

/** Reports read at once. */
const pageSize = 100

const notWritten = (file: string) => (error: unknown) => {
  const exists = typeof error === "object" && error !== null && "code" in error && error.code === "EEXIST"
  return new CommandFailed({
    exit: exits.unavailable,
    lines: [exists ? `${file} exists` : `${file} cannot be written`],
    fix: exists
      ? "choose another name, or add --overwrite"
      : "choose a file that you may write, with room for it"
  })
}

interface Target {
  readonly write: (text: string) => Effect.Effect<void, CommandFailed, Screen>
}

const standardOutput: Target = {
  write: (text) => Effect.flatMap(Screen, ({ out }) => out(text.replace(/\n$/, "")))
}

/** A file for its owner only; half of one is not left behind. */
const fileTarget = (file: string, overwrite: boolean) =>
  Effect.acquireRelease(
    Effect.try({ try: () => openSync(file, overwrite ? "w" : "wx", 0o600), catch: notWritten(file) }),
    (descriptor, exit) =>
      Effect.sync(() => {
        closeSync(descriptor)
        if (exit._tag === "Failure") rmSync(file, { force: true })
      })
  ).pipe(
    Effect.map(
      (descriptor): Target => ({
        write: (text) => Effect.try({ try: () => void writeSync(descriptor, text), catch: notWritten(file) })
      })
    )
  )

/** One JSON object a line, a page at a time, so that any number of reports needs little memory. */
export const exportReports = (
  filter: ReportFilter,
  { output, overwrite }: { readonly output: Option.Option<string>; readonly overwrite: boolean }
) =>
  Effect.gen(function* () {
    const screen = yield* Screen
    const records = yield* Records
    const target = Option.isSome(output) ? yield* fileTarget(output.value, overwrite) : standardOutput
    let after = Option.none<string>()
    let count = 0
    do {
      const page: Page<ReportRecord> = yield* records.reports(filter, { limit: pageSize, after })
      const lines = page.items.map((record) => `${jsonText(wholeReportShape(record))}\n`)
      if (lines.length > 0) yield* target.write(lines.join(""))
      count += lines.length
      after = page.next
      yield* screen.progress(`${counted(count, "report")} written`)
    } while (Option.isSome(after))
    yield* screen.progress("")
    yield* screen.say(
      `${counted(count, "report")} written${Option.match(output, { onNone: () => "", onSome: (file) => ` to ${file}` })}`
    )
  }).pipe(Effect.scoped)
