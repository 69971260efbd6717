import type * as Option from "effect/Option"
import type { TingOutcome } from "../../schema/Session.ts"
import type { UpstreamKey } from "../Iam.ts"
import type { PlaneId } from "../Plane.ts"
import type { Stored } from "./StoreUnavailable.ts"

/**
 * Outcomes of logins by upstream key, so that a replayed login answers the same: its registration, or why that was
 * refused. Kept for half a day; later the key may be another caller's.
 */
export interface LoginOutcomes {
  /** A `transient` outcome is overwritten by the next one under the same key. */
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
