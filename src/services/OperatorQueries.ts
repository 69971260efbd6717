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
  readonly delivery: Option.Option<StoredDelivery>
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

export interface ReportFilter extends Since {
  readonly plane: Option.Option<PlaneId>
  /** Public id, `anonymous` or `unverified`. */
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
  readonly deliveries: (filter: DeliveryFilter, page: PageRequest) => Listed<DeliveryRecord>
  readonly delivery: (id: string) => Found<DeliveryRecord>
  readonly webhooks: (filter: WebhookFilter, page: PageRequest) => Listed<InboxEvent>
  readonly recipients: (filter: RecipientFilter, page: PageRequest) => Listed<RecipientRecord>
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
