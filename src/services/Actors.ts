import * as Option from "effect/Option"
import type { Actor } from "../schema/Identity.ts"
import type { Introspection, Membership } from "./Iam.ts"

const named = (publicId: string): Actor => ({
  type: publicId.startsWith("si:") ? "silicon" : "carbon",
  public_id: publicId
})

/**
 * The actor of a token in one organisation. Without `self.identity.read` the snapshot withholds it; the token's own
 * public id, whose prefix tells the kind, still names the caller to themselves.
 */
export const actorOf = (introspection: Introspection, membership: Membership): Option.Option<Actor> =>
  Option.orElse(membership.actor, () => Option.map(introspection.publicId, named))
