import type { Actor, Credential } from "../schema/Identity.ts"
import type { Introspection, Membership } from "./Iam.ts"

/** A caller that IAM has just verified, in the requested organisation. */
export interface Caller {
  readonly credential: Credential
  readonly actor: Actor
  readonly membership: Membership
  readonly introspection: Introspection
}
