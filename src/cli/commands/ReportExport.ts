import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import {
  OperatorQueries,
  type Page,
  type ReportFilter,
  type ReportRecord
} from "../../services/OperatorQueries.ts"
import { toWholeReportJson } from "../JsonOutput.ts"
import { Screen } from "../Screen.ts"
import { formatCount, toSafeJson } from "../Text.ts"

/** Reports of one query: a report may have half a megabyte of attachments. */
const pageSize = 20

/** Writes one JSON object a line, a page at a time, so that any number of reports needs little memory. */
export const exportReports = (filter: ReportFilter) =>
  Effect.gen(function* () {
    const screen = yield* Screen
    const queries = yield* OperatorQueries
    let after = Option.none<string>()
    let count = 0
    do {
      const page: Page<ReportRecord> = yield* queries.reports(filter, { limit: pageSize, after })
      for (const record of page.items) yield* screen.out(toSafeJson(toWholeReportJson(record)))
      count += page.items.length
      after = page.next
      yield* screen.progress(`${formatCount(count, "report")} written`)
    } while (Option.isSome(after))
    yield* screen.progress("")
    yield* screen.err(`${formatCount(count, "report")} written`)
  })
