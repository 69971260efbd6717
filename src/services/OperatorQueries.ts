/**
 * What an operator looks at: the records of the store, a page at a time, newest first. A page goes on behind the last
 * record of the page before, so that nothing is shown twice or left out while new records arrive. Times are milliseconds.
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

/** `after` is not a place that a page of this list ended at. */
export class CursorInvalid extends Data.TaggedError("CursorInvalid") {}

export interface PageRequest {
  /** At least 1. */
  readonly limit: number
  /** The `next` of the page before. */
  readonly after: Option.Option<string>
}

export interface Page<A> {
  readonly items: ReadonlyArray<A>
  /** Where the next page begins; none when this is the last one. */
  readonly next: Option.Option<string>
}

export interface ReportRecord {
  readonly report: StoredReport
  /** None when it was stored while no tracker was configured, and when it was cleaned. */
  readonly delivery: Option.Option<StoredDelivery>
}

export interface DeliveryRecord extends StoredDelivery {
  /** When it was over: delivered or failed. */
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

/** `discarded` has failed as well, but by an operator's will; `failed` are the others, which wait for one. */
export type DeliveryStanding = DeliveryState | "discarded"

interface Since {
  readonly since: Option.Option<number>
}

export interface ReportFilter extends Since {
  readonly plane: Option.Option<PlaneId>
  /** Public id, `anonymous` or `unverified`. */
  readonly reporter: Option.Option<string>
  readonly filed: Option.Option<boolean>
  readonly delivery: Option.Option<DeliveryStanding>
}

export interface DeliveryFilter extends Since {
  readonly state: Option.Option<DeliveryStanding>
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

export interface RecordsService {
  readonly reports: (filter: ReportFilter, page: PageRequest) => Listed<ReportRecord>
  readonly report: (id: string) => Found<ReportRecord>
  readonly deliveries: (filter: DeliveryFilter, page: PageRequest) => Listed<DeliveryRecord>
  readonly delivery: (id: string) => Found<DeliveryRecord>
  readonly webhooks: (filter: WebhookFilter, page: PageRequest) => Listed<InboxEvent>
  readonly recipients: (filter: RecipientFilter, page: PageRequest) => Listed<RecipientRecord>
  /**
   * Gives a report of production that is not filed and has no delivery one, due now; false for any other. Nobody knows
   * whether an earlier one was cleaned, so the tracker is looked through before anything is sent.
   */
  readonly enqueue: (reportId: string, now: number) => Effect.Effect<boolean, StoreUnavailable>
}

export class OperatorQueries extends Context.Tag("music/OperatorQueries")<
  OperatorQueries,
  RecordsService
>() {}
