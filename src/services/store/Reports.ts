import * as Data from "effect/Data"
import type * as Option from "effect/Option"
import type { PlaneId } from "../Plane.ts"
import type { Stored } from "./StoreUnavailable.ts"

/** `Unverified` was signed in while IAM did not answer. */
export type Reporter = Data.TaggedEnum<{
  Anonymous: object
  Unverified: object
  Verified: { readonly publicId: string }
}>
export const { Anonymous, Unverified, Verified } = Data.taggedEnum<Reporter>()

export interface ReportContent {
  readonly message: string
  readonly pr: string | null
  readonly attachments: ReadonlyArray<{ readonly name: string; readonly content: string }>
  readonly context: Readonly<Record<string, unknown>> | null
}

export interface StoredReport {
  readonly id: string
  readonly plane: PlaneId
  readonly reporter: Reporter
  readonly content: ReportContent
  readonly source: string
  readonly requestId: string
  readonly createdAt: number
  /** 128 random bits, hex; written into the issue as `report-ref: <id>-<marker>`. */
  readonly marker: string
  readonly issue: Option.Option<{ readonly number: number; readonly url: string }>
}

/** The bound that a new report would exceed: of all reports, or of its reporter or network. */
export type ReportLimit = "room" | "reporter" | "network"

/**
 * Bounds of stored bytes. Those of one reporter and of one network bind where all reports together, with the new one, take more than
 * `unboundUpTo`; a reporter who has none stored may store one of any size.
 */
export interface ReportRoom {
  readonly unboundUpTo: number
  readonly reporter: number
  readonly network: number
  readonly all: number
  /** All reports together, for a verified reporter who has none stored. */
  readonly withNewcomers: number
}

export type ReportAdmission = Data.TaggedEnum<{
  Stored: { readonly report: StoredReport }
  /** With `movedUp` its delivery got priority by this call. */
  Replayed: { readonly report: StoredReport; readonly movedUp: boolean }
  /** The same reporter used the key for other content. */
  Conflict: object
  /** The report is new, and there is no room or no quota for it; without quota `limit` has no meaning. */
  Full: { readonly limit: ReportLimit }
}>
export const ReportAdmission = Data.taggedEnum<ReportAdmission>()

export interface StoredReports {
  /** Whether a report was stored under this key, of whatever reporter and content. */
  readonly knowsKey: (report: { readonly plane: PlaneId; readonly keyDigest: string }) => Stored<boolean>
  /**
   * Stores a report, or finds the one that the same key stored (api.md, reports). It replays when the content is equal
   * and the reporters are equal or either is unverified; the row then takes the verified name, and its waiting delivery
   * gets priority. With `deliver`, the delivery is enqueued in the same transaction. A new report beyond `room` is refused,
   * and a replay that would bring its reporter beyond it leaves the report unnamed. Without `hasQuota` a new report is
   * refused, and a replay gives no priority. `network` counts reports without a verified reporter; without it they count in none.
   * `content` is read only of a report that is new and has quota.
   */
  readonly admit: (
    report: Omit<StoredReport, "issue"> & {
      readonly keyDigest: string
      readonly contentDigest: string
      readonly network?: string | undefined
    },
    deliver: boolean,
    room?: ReportRoom,
    hasQuota?: boolean
  ) => Stored<ReportAdmission>
  readonly find: (id: string) => Stored<Option.Option<StoredReport>>
  /** Bytes of all stored reports, as their bound counts them: the content, and 1,000 each for the rest of the record. */
  readonly storedBytes: Stored<number>
}
