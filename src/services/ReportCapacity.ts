/** The bytes that stored reports may fill, and who may fill how many (docs/limits.md, "Stored reports"). */
import * as Effect from "effect/Effect"
import { Failure } from "../schema/Failure.ts"
import { monotonicMillis } from "./MonotonicTime.ts"
import type { ReportLimit, ReportRoom } from "./Store.ts"

/** Retry-After in seconds. The hourly retention or an operator frees room. */
const fullPause = 3_600

/** Parts of the room. `bound` is `MUSIC_REPORTS_MEGABYTES` in bytes. */
export const roomOf = (bound: number): ReportRoom => ({
  unboundUpTo: bound / 2,
  reporter: bound / 10,
  network: bound / 50,
  all: bound * 0.8,
  withNewcomers: bound
})

const hints: Readonly<Partial<Record<ReportLimit, string>>> = {
  reporter:
    "Your reports fill your part of the storage. Keep the report and send it again later with the same key.",
  network:
    "Anonymous reports of your network fill its part of the storage. Log in and send it with `Authorization`, or keep it and send it again later with the same key."
}

export const makeReportsFull = (limit: ReportLimit): Failure<"reports_full"> => {
  const hint = hints[limit]
  return new Failure("reports_full", {
    retryAfterSeconds: fullPause,
    details: { reason: limit },
    ...(hint === undefined ? {} : { hint })
  })
}

const causes: Readonly<Record<ReportLimit, string>> = {
  room: "the room of all reports is used up",
  reporter: "a signed-in reporter has used up one reporter's part of the room",
  network: "anonymous reports of a network have used up one network's part of the room"
}

/** Milliseconds between two warnings of one cause. */
const warningPause = 3_600_000

/** Makes the function that logs why reports are refused, once an hour for each cause. */
export const makeFullWarning = (): ((limit: ReportLimit) => Effect.Effect<void>) => {
  const warnedAt = new Map<ReportLimit, number>()
  return (limit) =>
    Effect.flatMap(monotonicMillis, (now) => {
      if (now - (warnedAt.get(limit) ?? Number.NEGATIVE_INFINITY) < warningPause) return Effect.void
      warnedAt.set(limit, now)
      return Effect.logWarning(`Reports are refused: ${causes[limit]}`, {
        reason: limit,
        fix: "see music-backend check; find a flood with music-backend reports remove --anonymous --dry-run or --reporter <public id> --dry-run, and remove it with --reason instead of --dry-run, or keep it from the tracker with music-backend deliveries discard; or set MUSIC_RETENTION_REPORTS_ANONYMOUS_DAYS, or raise MUSIC_REPORTS_MEGABYTES"
      })
    })
}
