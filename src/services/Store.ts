/** What is remembered, one small repository a noun. Nothing here is ever a credential. Times are milliseconds since the epoch. */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type { TingOutcome } from "../schema/Session.ts"
import type { TableName } from "../schema/Telemetry.ts"
import type { UpstreamKey } from "./Iam.ts"
import type { PlaneId } from "./Plane.ts"
import type { StoreUnavailable } from "./store/StoreUnavailable.ts"
import type { TableRecord } from "./Tables.ts"

export { StoreUnavailable } from "./store/StoreUnavailable.ts"

type Stored<A> = Effect.Effect<A, StoreUnavailable>

/** Who is registered with Ting, as far as we were told: one row per plane, organisation and actor. */
export interface Recipients {
  readonly activate: (recipient: {
    readonly plane: PlaneId
    readonly organisation: string
    readonly organisationUuid: string
    readonly publicId: string
    /** Absent when an accepted ting is the evidence. */
    readonly subscriptionId?: string
  }) => Stored<void>
  readonly deactivate: (recipient: {
    readonly plane: PlaneId
    readonly organisation: string
    readonly publicId: string
  }) => Stored<void>
  readonly isActive: (recipient: {
    readonly plane: PlaneId
    readonly organisation: string
    readonly publicId: string
  }) => Stored<boolean>
}

/**
 * How a login went, by upstream key, so that a replayed one tells the same: its registration, or why it was refused. For half
 * a day: later the key may be another caller's.
 */
export interface LoginOutcomes {
  readonly record: (
    key: UpstreamKey,
    plane: PlaneId,
    outcome: TingOutcome,
    transient: boolean
  ) => Stored<void>
  readonly find: (
    key: UpstreamKey
  ) => Stored<Option.Option<{ readonly outcome: TingOutcome; readonly transient: boolean }>>
}

/** Anonymous, signed in, or signed in while IAM could not be asked; `Unrecognised` was stored by a later version. */
export type Reporter = Data.TaggedEnum<{
  Anonymous: object
  Unverified: object
  Verified: { readonly publicId: string }
  Unrecognised: { readonly text: string }
}>
export const { Anonymous, Unrecognised, Unverified, Verified } = Data.taggedEnum<Reporter>()

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
  /** 128 random bits, hex; stands in the issue as `report-ref: <id>-<marker>`. */
  readonly marker: string
  readonly issue: Option.Option<{ readonly number: number; readonly url: string }>
}

export type ReportAdmission = Data.TaggedEnum<{
  Stored: { readonly report: StoredReport }
  Replayed: { readonly report: StoredReport }
  /** The same reporter used the key for other content. */
  Conflict: object
  /** It is new, and there is no room for it. */
  Full: object
}>
export const ReportAdmission = Data.taggedEnum<ReportAdmission>()

export interface Reports {
  /**
   * Stores a report, or finds the one that the same key stored (api.md, reports): replays when the content is equal and
   * the reporters are equal or either is unverified, and the row then takes the verified name. With `deliver`, the
   * delivery is enqueued in the same transaction. Nothing new is stored beyond `limitBytes` of all reports together.
   */
  readonly admit: (
    report: Omit<StoredReport, "issue"> & { readonly keyDigest: string; readonly contentDigest: string },
    deliver: boolean,
    limitBytes?: number
  ) => Stored<ReportAdmission>
  readonly find: (id: string) => Stored<Option.Option<StoredReport>>
  /** Bytes of all stored reports, as their bound counts them: content, and 1,000 each for what is kept beside it. */
  readonly storedBytes: Stored<number>
}

export interface InboxEvent {
  readonly plane: PlaneId
  readonly eventId: string
  readonly eventType: string
  readonly occurredAt: string
  readonly organisationUuid: string | null
  readonly aggregateType: string
  readonly aggregateId: string
  readonly aggregateVersion: number
  /** JSON text of `data`. */
  readonly data: string
  readonly receivedAt: number
}

export interface Webhooks {
  /**
   * Commits a delivery and its effect in one transaction; false when (plane, event id) is known already, and then
   * nothing happens. `removed` names the people whose registrations in the event's organisation turn inactive, unless
   * a newer version of the aggregate was seen or they registered after the event happened.
   */
  readonly receive: (event: InboxEvent, removed: ReadonlyArray<string>) => Stored<boolean>
}

export interface SpoolEntry extends TableRecord {
  /** Bytes of `json`, what the spool's bound counts. */
  readonly bytes: number
  readonly acceptedAt: number
}

export type SpoolAdmission = "accepted" | "full"

export interface Spool {
  /**
   * Commits a batch, or refuses all of it when the bound (bytes) would be passed. Records whose id is waiting already,
   * or was delivered within 24 h, are counted as done. `limitBytes` bounds the whole spool, or with `share` only the
   * named table's part of it, and then `wholeBytes` the whole.
   */
  readonly offer: (
    entries: ReadonlyArray<SpoolEntry>,
    bound: { readonly limitBytes: number; readonly share?: TableName; readonly wholeBytes?: number }
  ) => Stored<SpoolAdmission>
  /** Leases the oldest entries for shipping: at most `count` and about `bytes`, of the open tables. */
  readonly lease: (request: {
    readonly tables: ReadonlySet<TableName>
    readonly count: number
    readonly bytes: number
    readonly now: number
    readonly leaseUntil: number
    readonly owner: string
  }) => Stored<ReadonlyArray<SpoolEntry>>
  /** Delivered ones are remembered (24 h) and leave the spool; refused ones leave it, are counted, and are listed with the service's code. */
  readonly settle: (result: {
    readonly owner: string
    readonly now: number
    readonly delivered: ReadonlyArray<string>
    readonly duplicates: ReadonlyArray<string>
    readonly refused: ReadonlyArray<{ readonly recordId: string; readonly code: string }>
  }) => Stored<void>
  /** Gives leased entries back. */
  readonly release: (owner: string, recordIds: ReadonlyArray<string>) => Stored<void>
  /**
   * Drops what is older than `acceptedBefore`, and forgets delivered ids older than `deliveredBefore` and the oldest of more than
   * `deliveredAtMost`; in small batches.
   */
  readonly expire: (bounds: {
    readonly acceptedBefore: number
    readonly deliveredBefore: number
    readonly deliveredAtMost: number
  }) => Stored<void>
  /** Per table: what was accepted equals what was delivered, duplicate, expired, refused and is waiting. */
  readonly counts: Stored<ReadonlyArray<SpoolCounts>>
}

export interface SpoolCounts {
  /** Also one that only a later version knows: its records count into the spool's bound. */
  readonly table: string
  readonly accepted: number
  readonly delivered: number
  readonly duplicates: number
  readonly expired: number
  readonly refused: number
  readonly waiting: number
  readonly waitingBytes: number
}

export interface KnownPlanes {
  readonly remember: (plane: {
    readonly environmentId: string
    readonly webhookKeyDigest: string
    readonly now: number
  }) => Stored<void>
  /** The environment whose root key has this digest. */
  readonly findByKeyDigest: (keyDigest: string) => Stored<Option.Option<string>>
}

export type DeliveryState = "waiting" | "leased" | "unknown" | "delivered" | "failed"
/** `report`: file it as an issue. `sweep`: look, much later, whether an issue that was sent twice stands there twice. */
export type DeliveryKind = "report" | "sweep"

/** A row as it is listed: its kind or state may be one that only a later version knows. */
export interface StoredDelivery {
  readonly id: string
  readonly kind: string
  /** Id of the record that caused it. */
  readonly subject: string
  readonly state: string
  /** Sends begun: grows with `Sending`, not with a lease. */
  readonly attempts: number
  readonly availableAt: number
  /** When the last attempt that may have happened was sent; none before the first. */
  readonly sentAt: Option.Option<number>
  /** Clean, complete looks after an unknown outcome that found nothing. */
  readonly looks: number
  readonly lastFailure: Option.Option<string>
  /** Grows with every lease; a write under an older one changes nothing. */
  readonly fence: number
  readonly createdAt: number
  /** When an operator gave it up; only a `failed` one has it, and such a one is no failure that waits for somebody. */
  readonly discardedAt: Option.Option<number>
}

/** One that this version may lease. */
export interface Delivery extends StoredDelivery {
  readonly kind: DeliveryKind
  readonly state: DeliveryState
}

/** What the holder of a lease may write; `false` when its fence is no longer the newest. */
export type DeliveryUpdate = Data.TaggedEnum<{
  /** Committed before the call that cannot be repeated; a crash from here on is an unknown outcome. */
  Sending: { readonly at: number }
  /** `issue` is written to the report; with `sweepAt` a late look is enqueued in the same transaction. */
  Delivered: {
    readonly at: number
    readonly issue: Option.Option<{ readonly number: number; readonly url: string }>
    readonly sweepAt: Option.Option<number>
  }
  /** Surely nothing happened: try again then. */
  Waiting: { readonly availableAt: number; readonly failure: string }
  /** It may have happened: look first. */
  Unknown: { readonly availableAt: number; readonly failure: string; readonly looks: number }
  Failed: { readonly at: number; readonly failure: string }
}>
export const DeliveryUpdate = Data.taggedEnum<DeliveryUpdate>()

export interface Deliveries {
  /**
   * Leases due work of these kinds, so that all processes together hold at most `concurrency` of them: first what may
   * have been sent, then what has priority (verified reporters, sweeps, retries by an operator), then the rest; each
   * that is due longest first. What a dead holder had comes back once its lease has ended: `unknown` when it was being
   * sent.
   */
  readonly lease: (request: {
    readonly kinds: ReadonlyArray<DeliveryKind>
    readonly count: number
    readonly concurrency: number
    readonly now: number
    readonly leaseUntil: number
    readonly owner: string
  }) => Stored<ReadonlyArray<Delivery>>
  readonly extend: (id: string, fence: number, leaseUntil: number) => Stored<boolean>
  readonly update: (id: string, fence: number, update: DeliveryUpdate) => Stored<boolean>
  /**
   * Milliseconds since the epoch at which the next work falls due, or a lease ends; none when there is none. While
   * `concurrency` of them are held nothing else can be leased, and it is the end of the first lease.
   */
  readonly nextDueAt: (
    kinds: ReadonlyArray<DeliveryKind>,
    concurrency?: number
  ) => Stored<Option.Option<number>>
  readonly find: (id: string) => Stored<Option.Option<StoredDelivery>>
  /**
   * By an operator: due now. One that failed, was discarded or may have happened is looked for first; false for one that is leased, delivered, of a later version or missing, and with `onlyFailed` for all but those that failed and that
   * nobody discarded.
   */
  readonly retry: (id: string, now: number, options?: { readonly onlyFailed: boolean }) => Stored<boolean>
  /** By an operator: `failed` and discarded, with this reason; false for one that is leased, delivered, of a later version or missing. */
  readonly discard: (id: string, now: number, reason: string) => Stored<boolean>
  /** Those that were discarded are not counted: they ask for nobody. */
  readonly counts: Stored<
    ReadonlyArray<{ readonly kind: string; readonly state: string; readonly count: number }>
  >
  /** When the oldest report whose delivery is not over was stored; none when all are. A sweep waits on purpose, and does not count. */
  readonly oldestOpen: Stored<Option.Option<number>>
}

/** How a destination fares as a whole, for all processes and across restarts. */
export interface DestinationState {
  /** Failures in a row. */
  readonly failures: number
  /** It refused our settings, and an operator must act. */
  readonly stopped: boolean
  readonly pausedUntil: number
  readonly lastFailure: Option.Option<string>
}

export interface Destinations {
  /** A destination that nobody spoke of yet has never failed. */
  readonly find: (name: string) => Stored<DestinationState>
  /** One more failure in a row; a pause is never shortened, and what is stopped stays so. Tells the state before. */
  readonly failed: (
    name: string,
    trouble: {
      readonly now: number
      readonly pausedUntil: number
      readonly stopped: boolean
      readonly failure: string
    }
  ) => Stored<DestinationState>
  /** It answered. Only an accepted write ends a stop: a look tells nothing about the right to write. Tells the state before. */
  readonly answered: (
    name: string,
    answer: { readonly now: number; readonly wrote: boolean }
  ) => Stored<DestinationState>
  /** Books the next time at which a write may go out: `spacing` milliseconds after the last, and at most `hourly` in any hour, for all processes together. */
  readonly reserveWrite: (
    name: string,
    pace: { readonly now: number; readonly spacing: number; readonly hourly: number }
  ) => Stored<number>
}

/** Removes what was kept long enough, a few hundred rows a call, and tells how many; bounds are milliseconds since the epoch. */
export interface Retention {
  /** Only reports whose delivery is over. */
  readonly reports: (createdBefore: number) => Stored<number>
  readonly webhooks: (receivedBefore: number) => Stored<number>
  /** Only deliveries that are over; those of a report that was not filed only once the report is gone. */
  readonly deliveries: (finishedBefore: number) => Stored<number>
  /** Only registrations that are inactive: their absence says the same. */
  readonly recipients: (changedBefore: number) => Stored<number>
  readonly loginOutcomes: (recordedBefore: number) => Stored<number>
  /** The list of refused telemetry records. */
  readonly refusals: (refusedBefore: number) => Stored<number>
}

export interface StoreService {
  readonly recipients: Recipients
  readonly loginOutcomes: LoginOutcomes
  readonly reports: Reports
  readonly webhooks: Webhooks
  readonly spool: Spool
  readonly planes: KnownPlanes
  readonly deliveries: Deliveries
  readonly destinations: Destinations
  readonly retention: Retention
  /** Answers when the database does and its migrations are applied. */
  readonly check: Stored<void>
  /** Each completes once something was committed, by any process on this database, since it last completed, so that a worker need not wait for its next look. Each has one consumer. */
  readonly wakeups: { readonly deliveries: Effect.Effect<void>; readonly spool: Effect.Effect<void> }
}

export class Store extends Context.Tag("music/Store")<Store, StoreService>() {}
