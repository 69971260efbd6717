/** The bytes that all stored reports may fill (docs/api.md, "Stored reports"). */
import { ReportsFull } from "../schema/Failure.ts"
import type { Reporter } from "./Store.ts"

/** The part of the bound that reports without a verified reporter may fill. */
const unverifiedPart = 0.8

/** Retry-After in seconds. The hourly retention or an operator frees room. */
const fullPause = 3_600

/** Bytes of all stored reports together, with a new one of this reporter. `bound` is `MUSIC_REPORTS_MEGABYTES` in bytes. */
export const capacityFor = ({ _tag }: Reporter, bound: number): number =>
  _tag === "Verified" ? bound : bound * unverifiedPart

export const makeReportsFull = (): ReportsFull => new ReportsFull({ retryAfterSeconds: fullPause })
