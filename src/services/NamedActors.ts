import * as Schema from "effect/Schema"
import { PublicId } from "../schema/Identity.ts"
import type { WebhookEvent } from "./Iam.ts"

const Identity = Schema.Struct({ carbon_id: PublicId })
const Members = Schema.Struct({ members: Schema.Array(Schema.Unknown) })
const Member = Schema.Struct({ principal: Schema.Struct({ public_id: PublicId }) })

const isPublicId = Schema.is(PublicId)
const isIdentity = Schema.is(Identity)
const hasMembers = Schema.is(Members)
const isMember = Schema.is(Member)

/**
 * Public ids of the actors that an event is about, wherever its kind names them (identity-service.md 11.5): the identity itself,
 * the subject of a session, the members whose rows have one. A tombstone names none.
 */
export const readNamedActors = ({ aggregate, data }: WebhookEvent): ReadonlyArray<string> => {
  const { current, subject_id: subject } = data
  const members = hasMembers(current) ? current.members : []
  return [
    ...new Set([
      ...[aggregate.id, subject].filter(isPublicId),
      ...(isIdentity(current) ? [current.carbon_id] : []),
      ...members.filter(isMember).map(({ principal }) => principal.public_id)
    ])
  ]
}
