import * as Data from "effect/Data"
import type * as Option from "effect/Option"
import type { Stored } from "./StoreUnavailable.ts"

export const deliveryStates = ["waiting", "leased", "unknown", "delivered", "failed"] as const
export type DeliveryState = (typeof deliveryStates)[number]
/** `report`: file it as an issue. `sweep`: search, much later, for duplicates of an issue that was sent more than once. */
export const deliveryKinds = ["report", "sweep"] as const
export type DeliveryKind = (typeof deliveryKinds)[number]

/** A row as it is listed, also one of an unknown kind or state. */
export interface StoredDelivery {
  readonly id: string
  readonly kind: string
  /** Id of the record that caused it. */
  readonly subject: string
  readonly state: string
  /** Sends begun: grows with `Sending`, not with a lease. */
  readonly attempts: number
  readonly availableAt: number
  /** When the last attempt that may have succeeded was sent; none before the first. */
  readonly sentAt: Option.Option<number>
  /** Complete searches after an unknown outcome that found nothing. */
  readonly searches: number
  readonly lastFailure: Option.Option<string>
  /** Grows with every lease; a write under an older one changes nothing. */
  readonly fence: number
  readonly createdAt: number
  /** When an operator gave it up; only a `failed` delivery has it. */
  readonly discardedAt: Option.Option<number>
}

/** A delivery that may be leased. */
export interface Delivery extends StoredDelivery {
  readonly kind: DeliveryKind
  readonly state: DeliveryState
}

/** Writes of the holder of a lease. */
export type DeliveryUpdate = Data.TaggedEnum<{
  /** Committed before the call that cannot be repeated; after a crash from here on, the outcome is unknown. */
  Sending: { readonly at: number }
  /** `issue` is written to the report; with `sweepAt` a sweep is enqueued in the same transaction. */
  Delivered: {
    readonly at: number
    readonly issue: Option.Option<{ readonly number: number; readonly url: string }>
    readonly sweepAt: Option.Option<number>
  }
  /** Certainly not delivered: try again at `availableAt`. */
  Waiting: { readonly availableAt: number; readonly failure: string }
  /** May have been delivered: search first. */
  Unknown: { readonly availableAt: number; readonly failure: string; readonly searches: number }
  Failed: { readonly at: number; readonly failure: string }
}>
export const DeliveryUpdate = Data.taggedEnum<DeliveryUpdate>()

export interface Deliveries {
  /**
   * Leases due deliveries of these kinds; all processes together hold at most `concurrency` of them. First those with an
   * unknown outcome, then those with priority (verified reporters, sweeps, retries by an operator), then the rest; each
   * group in the order in which they fell due. When a holder dies, its deliveries return
   * once the lease has ended: as `unknown` if one was being sent.
   */
  readonly lease: (request: {
    readonly kinds: ReadonlyArray<DeliveryKind>
    readonly count: number
    readonly concurrency: number
    readonly now: number
    readonly leaseUntil: number
    readonly owner: string
  }) => Stored<ReadonlyArray<Delivery>>
  /** False when the fence is no longer the newest. */
  readonly extend: (id: string, fence: number, leaseUntil: number) => Stored<boolean>
  /** False, without effect, when the fence is no longer the newest. */
  readonly update: (id: string, fence: number, update: DeliveryUpdate) => Stored<boolean>
  /**
   * Milliseconds since the epoch at which the next delivery that `lease` takes falls due or a lease ends; none when there
   * is none. While `concurrency` of them are leased, it is the end of the first lease.
   */
  readonly nextDueAt: (
    kinds: ReadonlyArray<DeliveryKind>,
    concurrency?: number
  ) => Stored<Option.Option<number>>
  readonly find: (id: string) => Stored<Option.Option<StoredDelivery>>
  /**
   * By an operator: due now, and with a search first unless nothing was ever sent. False for a delivery that is leased,
   * delivered or missing, or whose report was removed; with `onlyFailed` also for one that did not fail or was discarded.
   */
  readonly retry: (id: string, now: number, options?: { readonly onlyFailed: boolean }) => Stored<boolean>
  /**
   * By an operator: `failed` and discarded, for this reason. False for a delivery that is leased, delivered or
   * missing.
   */
  readonly discard: (id: string, now: number, reason: string) => Stored<boolean>
  /** Without discarded ones, which need no operator. */
  readonly counts: Stored<
    ReadonlyArray<{ readonly kind: string; readonly state: string; readonly count: number }>
  >
  /** When the oldest report whose delivery is not over was stored. Sweeps wait on purpose and do not count. */
  readonly oldestOpen: Stored<Option.Option<number>>
}
