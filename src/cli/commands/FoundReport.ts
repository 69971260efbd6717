/** The report that a command names, or the reason why it is not there. */
import * as Args from "@effect/cli/Args"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { OperatorQueries, type Removal } from "../../services/OperatorQueries.ts"
import { notFound } from "../CommandFailed.ts"
import { formatTime } from "../Text.ts"

export const id = Args.text({ name: "id" }).pipe(Args.withDescription("the report's id, rep_…"))

export const missing = (reportId: string) =>
  notFound(`no report ${reportId}`, "find it with music-backend reports list")

export const removedBefore = ({ id: reportId, reason, removedAt }: Removal) =>
  notFound(
    `${reportId} was removed at ${formatTime(removedAt)}: ${reason}`,
    "its content is not stored here any more"
  )

export const found = (reportId: string) =>
  Effect.gen(function* () {
    const queries = yield* OperatorQueries
    const record = yield* queries.report(reportId)
    if (Option.isSome(record)) return record.value
    const [removal] = yield* queries.removals([reportId])
    return yield* removal === undefined ? missing(reportId) : removedBefore(removal)
  })
