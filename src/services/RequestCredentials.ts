/** The credentials of a request. Their form is checked; IAM has not verified them, except for a `Caller`. */
import type * as Redacted from "effect/Redacted"
import type { Actor } from "../schema/Identity.ts"
import type { Introspection, Membership } from "./Iam.ts"

/** An access token and the organisation it is used for. */
export interface Credential {
  readonly token: Redacted.Redacted
  readonly organisation: string
}

/** A caller that IAM has just verified, in the requested organisation. */
export interface Caller {
  readonly credential: Credential
  readonly actor: Actor
  readonly membership: Membership
  readonly introspection: Introspection
}
