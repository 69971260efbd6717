/** Reports chosen by filter instead of an id, shared by the commands that remove reports and discard deliveries. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { ReportSelection } from "../../services/OperatorQueries.ts"
import { readAll } from "../DatabaseAccess.ts"
import { misuse } from "../Host.ts"
import { flag, reporter, since } from "../Options.ts"
import { formatCount } from "../Output.ts"

export const selectionOptions = {
  anonymous: flag("anonymous", "instead of an id: reports without a verified reporter"),
  reporter,
  since,
  dryRun: flag("dry-run", "counts what the filters select, and changes nothing")
}

/** How to change what is chosen. */
export interface Change {
  /** Kept with the change. */
  readonly reason: string
  readonly json: boolean
  readonly dryRun: boolean
}

/** Either an id or filters are given. */
export const checkChoice = (given: ReportSelection & Change & { readonly id: Option.Option<string> }) => {
  const filtered = given.anonymous || Option.isSome(given.reporter) || Option.isSome(given.since)
  if (Option.isSome(given.id))
    return filtered || given.dryRun ? misuse("an id together with a filter or --dry-run") : Effect.void
  return filtered ? Effect.void : misuse("an id or a filter is required: --anonymous, --reporter or --since")
}

export const checkReason = (reason: string) =>
  reason.trim() === "" || reason.length > 500
    ? misuse("--reason is missing, empty or longer than 500 characters")
    : Effect.void

/** What the filters select, newest first. */
export const selected = (selection: ReportSelection) =>
  readAll(500, (queries, page) => queries.reportSizes(selection, page))

interface Sized {
  readonly bytes: number
}

export const sumBytes = (reports: ReadonlyArray<Sized>): number =>
  reports.reduce((sum, { bytes }) => sum + bytes, 0)

/** `2 reports of 6,112 bytes`. */
export const sizeText = (reports: ReadonlyArray<Sized>): string =>
  `${formatCount(reports.length, "report")} of ${formatCount(sumBytes(reports), "byte")}`
