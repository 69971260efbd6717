import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import {
  type Page,
  OperatorQueries,
  type ReportFilter,
  type ReportRecord
} from "../../services/OperatorQueries.ts"
import { openOutput, standardOutput } from "../OutputFile.ts"
import { Screen } from "../Screen.ts"
import { wholeReportShape } from "../JsonOutput.ts"
import { counted, jsonText } from "../Text.ts"

/** Reports read at once. */
const pageSize = 100

/** One JSON object a line, a page at a time, so that any number of reports needs little memory. */
export const exportReports = (
  filter: ReportFilter,
  { output, overwrite }: { readonly output: Option.Option<string>; readonly overwrite: boolean }
) =>
  Effect.gen(function* () {
    const screen = yield* Screen
    const records = yield* OperatorQueries
    const target = yield* Option.match(output, {
      onNone: () => standardOutput,
      onSome: (file) => openOutput(file, { overwrite })
    })
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
    yield* target.finish
    yield* screen.progress("")
    yield* screen.say(
      `${counted(count, "report")} written${Option.match(output, { onNone: () => "", onSome: (file) => ` to ${file}` })}`
    )
  }).pipe(Effect.scoped)
