/** Whether IAM would give an actor a token to log in with. */
import * as Effect from "effect/Effect"
import type { SimulatedUpstreams } from "../SimulatedUpstreams.ts"
import { actorsOf } from "./Planes.ts"
import { type Refused, refuse } from "./Refused.ts"
import { restoringEvent } from "./WebhookEvents.ts"

/** Fails with why not, and what to do on the page. */
export const checkMint = (
  world: SimulatedUpstreams,
  person: { readonly plane: string; readonly actor: string }
): Effect.Effect<void, Refused> => {
  const actor = actorsOf(world).find(
    ({ plane, publicId }) => plane === person.plane && publicId === person.actor
  )
  if (actor === undefined)
    return refuse(`There is no actor ${person.actor} in this plane`, "choose an actor of the list")
  return actor.organizations.length === 0
    ? refuse(
        `${person.actor} is in no organisation, so it cannot log in`,
        `restore it: in the console, under Do and Webhook, send ${restoringEvent(person.actor)} for ${person.actor}`
      )
    : Effect.void
}
