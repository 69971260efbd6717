/** The credentials of a request. Their form is checked; IAM has not verified them, except for a `Caller`. */
import * as Context from "effect/Context"
import type * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import type { Actor } from "../schema/Identity.ts"
import type { Introspection, Membership } from "./Iam.ts"

/** An access token and the organisation it is used for. */
export interface Credential {
  readonly token: Redacted.Redacted
  readonly organisation: string
}

/** The caller's own Idempotency-Key; never leaves the process, see `Idempotency.upstreamKey`. */
export class CallerKey extends Context.Tag("music/CallerKey")<CallerKey, Redacted.Redacted>() {}

/** The bearer of the current request. */
export class CurrentCredential extends Context.Tag("music/CurrentCredential")<
  CurrentCredential,
  Credential
>() {}

/** The bearer of the current request, where it is optional. */
export class OptionalCredential extends Context.Tag("music/OptionalCredential")<
  OptionalCredential,
  Option.Option<Credential>
>() {}

/** The testing secret that the request carries; none means production. */
export class PlaneSelector extends Context.Tag("music/PlaneSelector")<
  PlaneSelector,
  Option.Option<Redacted.Redacted>
>() {}

/** A caller that IAM has just verified, in the requested organisation. */
export interface Caller {
  readonly credential: Credential
  readonly actor: Actor
  readonly membership: Membership
  readonly introspection: Introspection
}
