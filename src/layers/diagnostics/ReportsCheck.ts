/** Checks how much of their room stored reports take, and whether new ones are refused. */
import * as Effect from "effect/Effect"
import { roomOf } from "../../services/ReportCapacity.ts"
import type { ReportUse } from "../../services/OperatorQueries.ts"
import type { SettingsValues } from "../../services/Settings.ts"
import type { StoreUnavailable } from "../../services/Store.ts"
import type { Database } from "../store/Database.ts"
import { makeOperatorQueries } from "../store/repositories/OperatorQueries.ts"
import { type Finding, pass, warn } from "./Finding.ts"

/** The part of the room from which on it is a warning, as the alert `MusicReportsFilling`. */
const warningPart = 0.7

/** A report counts at least this much: who has less room is refused. */
const leastReport = 1_100

const megabytes = (bytes: number): string =>
  `${(bytes / 1_000_000).toLocaleString("en", { maximumFractionDigits: 1 })} MB`

const reportsFinding = (
  { bytes, largestNetwork, largestReporter, verified }: ReportUse,
  { anonymousReports, reportsBytes }: Pick<SettingsValues, "anonymousReports" | "reportsBytes">
): Finding => {
  const room = roomOf(reportsBytes)
  const isFull = (used: number, bound: number) => used + leastReport > bound
  const binds = isFull(bytes, room.unboundUpTo)
  const refused = isFull(bytes, room.withNewcomers)
    ? ["all new ones"]
    : isFull(bytes, room.all)
      ? ["all but those of signed-in reporters who have none stored"]
      : [
          ...(binds && isFull(largestReporter, room.reporter) ? ["those of a signed-in reporter"] : []),
          ...(binds && anonymousReports && isFull(largestNetwork, room.network)
            ? ["anonymous ones of a network"]
            : [])
        ]
  const found = [
    `${megabytes(bytes)} of ${megabytes(reportsBytes)} (${Math.floor((bytes / reportsBytes) * 100)} %)`,
    `${megabytes(bytes - verified)} of them anonymous or removed`,
    ...(anonymousReports ? [] : ["anonymous reports are off"]),
    `refused: ${refused.length === 0 ? "none" : refused.join(" and ")}`
  ].join("; ")
  return refused.length > 0 || bytes > reportsBytes * warningPart
    ? warn(
        "reports",
        found,
        "find a flood with music-backend reports remove --anonymous --dry-run, or --reporter <public id> --dry-run; remove it, set MUSIC_RETENTION_REPORTS_ANONYMOUS_DAYS, or raise MUSIC_REPORTS_MEGABYTES"
      )
    : pass("reports", found)
}

export const checkReports = (
  database: Database,
  settings: SettingsValues
): Effect.Effect<Finding, StoreUnavailable> =>
  Effect.map(makeOperatorQueries(database).reportUse, (use) => reportsFinding(use, settings))
