import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { Failure } from "../../schema/Failure.ts"
import { PublicId } from "../../schema/Identity.ts"
import { Iam, type IamService, type WebhookEvent, type WebhookRejected } from "../Iam.ts"
import { countReplay } from "../Metrics.ts"
import { monotonicMillis } from "../MonotonicTime.ts"
import { productionId } from "../Plane.ts"
import { makeQuota, takeAll } from "../combinators/Quota.ts"
import { RequestContext } from "../RequestContext.ts"
import { Settings } from "../Settings.ts"
import { logAndMapStoreFailure } from "../StoreFailures.ts"
import { actorDigest, Store } from "../Store.ts"

type Delivery = Parameters<IamService["verifyWebhook"]>[0]

const hasMembers = Schema.is(Schema.Struct({ members: Schema.Array(Schema.Unknown) }))
/** A row that names its member; a tombstone does not (identity-service.md 11.5). */
const isMember = Schema.is(Schema.Struct({ principal: Schema.Struct({ public_id: PublicId }) }))
const isRemoved = Schema.is(Schema.Struct({ resource: Schema.Struct({ status: Schema.Literal("removed") }) }))
const isPublicId = Schema.is(PublicId)
const isIdentity = Schema.is(Schema.Struct({ carbon_id: PublicId }))

const membersOf = ({ data: { current } }: WebhookEvent) =>
  hasMembers(current) ? current.members.filter(isMember) : []

const removals: ReadonlyArray<string> = [
  "organization.membership.removed.v1",
  "organization.silicon.removed.v1"
]

/** Public ids of the people that the event removes from its organisation, where it has them. */
export const readRemovedPeople = (event: WebhookEvent): ReadonlyArray<string> =>
  removals.includes(event.eventType)
    ? membersOf(event)
        .filter(isRemoved)
        .map(({ principal }) => principal.public_id)
    : []

/**
 * Public ids of the actors that an event is about, wherever its kind names them (identity-service.md 11.5): the identity itself,
 * the subject of a session, the members whose rows have one.
 */
const readNamedActors = (event: WebhookEvent): ReadonlyArray<string> => {
  const { current, subject_id: subject } = event.data
  const named = [event.aggregateId, subject].filter(isPublicId)
  const identities = isIdentity(current) ? [current.carbon_id] : []
  const members = membersOf(event).map(({ principal }) => principal.public_id)
  return [...new Set([...named, ...identities, ...members])]
}

/** How many deliveries without a good signature an address may send; IAM's own never count. */
const forgeryPolicy = { name: "webhook_signatures", quota: 60, windowSeconds: 60 }

/** Receives IAM's deliveries: verifies, commits, then acknowledges. A duplicate is acknowledged and has no effect. */
export class Webhooks extends Effect.Service<Webhooks>()("music/Webhooks", {
  effect: Effect.gen(function* () {
    const iam = yield* Iam
    const store = yield* Store
    const { iam: iamSettings, rateLimit } = yield* Settings
    const forgeries = makeQuota(forgeryPolicy)

    /** The key digest proves the environment; an environment id beside it must agree (identity-service.md 11.4). */
    const planeOf = Effect.fnUntraced(function* ({ testing }: WebhookEvent) {
      if (Option.isNone(testing)) return productionId
      const { environmentId, keyDigest } = testing.value
      const known = yield* store.planes.findByKeyDigest(keyDigest).pipe(logAndMapStoreFailure)
      return yield* Option.filter(known, (id) => Option.getOrElse(environmentId, () => id) === id).pipe(
        Effect.orElseFail(() => new Failure("plane_mismatch"))
      )
    })

    /** Only a delivery whose signature failed can be refused by the quota. */
    const refuse = Effect.fnUntraced(function* ({ reason, signed }: WebhookRejected) {
      const { clientNetwork } = yield* RequestContext
      const uses = signed || !rateLimit ? [] : [[forgeries, clientNetwork] as const]
      const { refusal } = takeAll(uses, yield* monotonicMillis)
      if (refusal !== undefined) return yield* refusal
      yield* Effect.logWarning("Webhook delivery rejected", { reason })
      return yield* new Failure("webhook_signature_invalid")
    })

    /** The event of a delivery from IAM. Any other delivery stays unread: it may claim a testing plane. */
    const verify = (delivery: Delivery) => Effect.catchAll(iam.verifyWebhook(delivery), refuse)

    const receive = Effect.fnUntraced(function* (event: WebhookEvent) {
      const { data, testing: _, ...facts } = event
      const plane = yield* planeOf(event)
      const fresh = yield* store.webhooks
        .receive(
          { ...facts, plane, data: JSON.stringify(data), receivedAt: yield* Clock.currentTimeMillis },
          readRemovedPeople(event),
          readNamedActors(event).map((publicId) =>
            actorDigest(iamSettings.applicationSecret, plane, publicId)
          )
        )
        .pipe(logAndMapStoreFailure)
      countReplay("webhook", !fresh)
      return { received: true as const }
    })

    return { verify, receive } as const
  })
}) {}
