import type { PlaneId } from "../Plane.ts"
import type { Stored } from "./StoreUnavailable.ts"

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

export interface WebhookInbox {
  /**
   * Commits an event and its effect in one transaction; false, without effect, when (plane, event id) is known already.
   * The registrations of the `removed` people in the event's organisation become inactive, unless a newer version of the
   * aggregate was received or they registered after the event happened. The session digests of the `named` actors
   * (`actorDigest`) are removed.
   */
  readonly receive: (
    event: InboxEvent,
    removed: ReadonlyArray<string>,
    named?: ReadonlyArray<string>
  ) => Stored<boolean>
}
