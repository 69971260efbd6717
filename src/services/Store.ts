/** The store: one repository for each noun, in `store/`. No credential is ever stored, only digests that rank calls to IAM. Times are milliseconds since the epoch. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { Backups } from "./store/Backups.ts"
import type { Deliveries } from "./store/Deliveries.ts"
import type { Destinations } from "./store/Destinations.ts"
import type { IamCalls } from "./store/IamCalls.ts"
import type { KnownPlanes } from "./store/KnownPlanes.ts"
import type { LoginOutcomes } from "./store/LoginOutcomes.ts"
import type { Recipients } from "./store/Recipients.ts"
import type { StoredReports } from "./store/Reports.ts"
import type { Retention } from "./store/Retention.ts"
import type { SessionDigests } from "./store/SessionDigests.ts"
import type { Stored } from "./store/StoreUnavailable.ts"
import type { StoreUsage } from "./store/StoreUsage.ts"
import type { TelemetrySpool } from "./store/TelemetrySpool.ts"
import type { WebhookInbox } from "./store/WebhookInbox.ts"

export * from "./store/Backups.ts"
export * from "./store/Deliveries.ts"
export * from "./store/Destinations.ts"
export * from "./store/IamCalls.ts"
export * from "./store/KnownPlanes.ts"
export * from "./store/LoginOutcomes.ts"
export * from "./store/Recipients.ts"
export * from "./store/Reports.ts"
export * from "./store/Retention.ts"
export * from "./store/SessionDigests.ts"
export * from "./store/StoreUnavailable.ts"
export * from "./store/StoreUsage.ts"
export * from "./store/TelemetrySpool.ts"
export * from "./store/WebhookInbox.ts"

export interface StoreService {
  readonly recipients: Recipients
  readonly loginOutcomes: LoginOutcomes
  readonly sessionDigests: SessionDigests
  readonly iamCalls: IamCalls
  readonly reports: StoredReports
  readonly webhooks: WebhookInbox
  readonly spool: TelemetrySpool
  readonly planes: KnownPlanes
  readonly deliveries: Deliveries
  readonly destinations: Destinations
  readonly retention: Retention
  readonly backups: Backups
  readonly usage: StoreUsage
  /** Makes a small write. Succeeds when the database takes it and has all migrations of this version. Never after a corruption. */
  readonly check: Stored<void>
  /** Whether a write or a check failed while no other write succeeded, and no check has succeeded since; for ever after a corruption. */
  readonly isFailing: () => boolean
  /**
   * Each completes once any process has committed work of the kind since it last completed, so that a worker need not wait for
   * its next poll. Each has one consumer.
   */
  readonly wakeups: { readonly deliveries: Effect.Effect<void>; readonly spool: Effect.Effect<void> }
}

export class Store extends Context.Tag("music/Store")<Store, StoreService>() {}
