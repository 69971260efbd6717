import * as Data from "effect/Data"
import type * as Option from "effect/Option"
import type { TingOutcome } from "../../schema/Session.ts"
import type { UpstreamKey } from "../Iam.ts"
import type { PlaneId } from "../Plane.ts"
import type { Stored } from "./StoreUnavailable.ts"

/** How a login ended that IAM granted: registered with Ting or not, or refused by us. */
export type LoginOutcome = Data.TaggedEnum<{
  /** `transient`: it failed in a way that a later attempt may not. */
  Registration: { readonly ting: TingOutcome; readonly transient: boolean }
  /** `reason` may be one that only a later version knows. */
  Refusal: { readonly reason: string }
}>
export const LoginOutcome = Data.taggedEnum<LoginOutcome>()

/** Outcomes of logins by upstream key, for 12 hours: later the key may belong to another caller's login. */
export interface LoginOutcomes {
  /** Overwrites a refusal or a transient registration; the first lasting registration stays. */
  readonly record: (key: UpstreamKey, plane: PlaneId, outcome: LoginOutcome) => Stored<void>
  readonly find: (key: UpstreamKey) => Stored<Option.Option<LoginOutcome>>
}
