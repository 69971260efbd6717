/**
 * Queries of the operator's commands: the records of the store, a page at a time, newest first. A page continues after the
 * last record of the previous one, so that new records neither repeat nor hide another. Times are milliseconds.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type { PlaneId } from "./Plane.ts"
import type {
  DeliveryKind,
  DeliveryState,
  InboxEvent,
  SpoolCounts,
  StoredDelivery,
  StoredReport,
  StoreUnavailable
} from "./Store.ts"

/** `after` is no cursor of this list. */
export class CursorInvalid extends Data.TaggedError("CursorInvalid") {}

export interface PageRequest {
  /** At least 1. */
  readonly limit: number
  /** The `next` of the previous page. */
  readonly after: Option.Option<string>
}

export interface Page<A> {
  readonly items: ReadonlyArray<A>
  /** Cursor of the next page; none when this is the last one. */
  readonly next: Option.Option<string>
}

export interface ReportRecord {
  readonly report: StoredReport
  /** None when the report was stored while no tracker was configured, or retention removed the delivery. */
  readonly delivery: Option.Option<DeliveryRecord>
  /** Of a report whose content an operator removed. */
  readonly removal: Option.Option<Removal>
}

export interface Removal {
  /** Id of the report. */
  readonly id: string
  readonly removedAt: number
  readonly reason: string
}

/**
 * `vacuum`: the SQL statement that removes the old row from the database's files, where the removal does not.
 * `BeingFiled`: nothing was changed; its delivery is leased.
 */
export type RemovalOutcome = Data.TaggedEnum<{
  Removed: { readonly vacuum: Option.Option<string> }
  RemovedBefore: object
  BeingFiled: object
  Missing: object
}>
export const RemovalOutcome = Data.taggedEnum<RemovalOutcome>()

/** An event that the table service refused for good. */
export interface RefusalRecord {
  readonly recordId: string
  readonly table: string
  /** Of the service. */
  readonly code: string
  readonly eventAt: number
  readonly bytes: number
  readonly refusedAt: number
}

export interface SpoolRecord extends SpoolCounts {
  /** When the event that waits longest was accepted. */
  readonly oldestAt: Option.Option<number>
}

export interface DeliveryRecord extends StoredDelivery {
  /** When it was delivered or failed. */
  readonly finishedAt: Option.Option<number>
}

export interface RecipientRecord {
  readonly plane: PlaneId
  readonly organisation: string
  readonly organisationUuid: string
  readonly publicId: string
  readonly subscriptionId: Option.Option<string>
  readonly active: boolean
  readonly changedAt: number
}

/** `failed` deliveries wait for an operator; `discarded` ones are those that an operator gave up. */
export type DeliveryStatus = DeliveryState | "discarded"

interface Since {
  readonly since: Option.Option<number>
}

/** A report without its content. */
export interface ReportSize {
  readonly id: string
  readonly createdAt: number
  /** As the bound of stored reports counts it. */
  readonly bytes: number
  /** Its delivery may have sent it: it is leased or delivered, or its outcome is unknown. */
  readonly inDoubt: boolean
  /** Its delivery is neither leased, delivered nor discarded. */
  readonly discardable: boolean
}

/** Which reports a command changes; a report that was removed is none of them. */
export interface ReportSelection extends Since {
  /** Only those without a verified reporter. */
  readonly anonymous: boolean
  /** Public id, `anonymous` or `unverified`. */
  readonly reporter: Option.Option<string>
}

/** How much of their room reports take, in bytes. */
export interface ReportUse {
  readonly bytes: number
  /** Of signed-in reporters. */
  readonly verified: number
  /** Of the signed-in reporter, and of the network of anonymous reports, that has most. */
  readonly largestReporter: number
  readonly largestNetwork: number
}

export interface ReportFilter extends Since {
  readonly plane: Option.Option<PlaneId>
  /** Public id, `anonymous` or `unverified`; a removed report has none of them. */
  readonly reporter: Option.Option<string>
  readonly filed: Option.Option<boolean>
  readonly delivery: Option.Option<DeliveryStatus>
}

export interface DeliveryFilter extends Since {
  readonly state: Option.Option<DeliveryStatus>
  readonly kind: Option.Option<DeliveryKind>
}

export interface WebhookFilter extends Since {
  readonly plane: Option.Option<PlaneId>
  readonly eventType: Option.Option<string>
}

export interface RefusalFilter extends Since {
  readonly table: Option.Option<string>
  readonly code: Option.Option<string>
}

export interface RecipientFilter {
  readonly plane: Option.Option<PlaneId>
  readonly organisation: Option.Option<string>
  readonly publicId: Option.Option<string>
}

type Listed<A> = Effect.Effect<Page<A>, StoreUnavailable | CursorInvalid>
type Found<A> = Effect.Effect<Option.Option<A>, StoreUnavailable>

export interface OperatorQueriesService {
  readonly reports: (filter: ReportFilter, page: PageRequest) => Listed<ReportRecord>
  readonly report: (id: string) => Found<ReportRecord>
  readonly reportSizes: (selection: ReportSelection, page: PageRequest) => Listed<ReportSize>
  readonly reportUse: Effect.Effect<ReportUse, StoreUnavailable>
  readonly deliveries: (filter: DeliveryFilter, page: PageRequest) => Listed<DeliveryRecord>
  readonly delivery: (id: string) => Found<DeliveryRecord>
  readonly webhooks: (filter: WebhookFilter, page: PageRequest) => Listed<InboxEvent>
  readonly recipients: (filter: RecipientFilter, page: PageRequest) => Listed<RecipientRecord>
  /** Newest refusal first. */
  readonly refusals: (filter: RefusalFilter, page: PageRequest) => Listed<RefusalRecord>
  /** The tables of which an event was ever accepted. */
  readonly spool: Effect.Effect<ReadonlyArray<SpoolRecord>, StoreUnavailable>
  /** Those of the reports that were removed; also when retention has removed the rest of the report since. */
  readonly removals: (
    reportIds: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlyArray<Removal>, StoreUnavailable>
  /**
   * Removes content, reporter and request id of a report, ends its delivery, and records the reason. A repetition under the
   * same key still gets the report's id, and is neither stored nor filed again. After the last of them, `eraseRemoved` is due.
   */
  readonly removeReport: (
    reportId: string,
    reason: string,
    now: number
  ) => Effect.Effect<RemovalOutcome, StoreUnavailable>
  /** Empties SQLite's log, which holds the old pages until then. It never fails: the server does it later as well. */
  readonly eraseRemoved: Effect.Effect<void>
  /**
   * Creates a delivery, due now, for a report of production that is not filed and has none; false for any other report.
   * Retention may have removed an earlier delivery, so the tracker is searched before anything is sent.
   */
  readonly enqueue: (reportId: string, now: number) => Effect.Effect<boolean, StoreUnavailable>
}

export class OperatorQueries extends Context.Tag("music/OperatorQueries")<
  OperatorQueries,
  OperatorQueriesService
>() {}
