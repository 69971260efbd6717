import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { type Failure, PlaneMismatch, WebhookSignatureInvalid } from "../schema/Failure.ts"
import { PublicId } from "../schema/Identity.ts"
import type { WebhookReceipt } from "../schema/Webhook.ts"
import { Iam, type WebhookEvent } from "./Iam.ts"
import { countReplay } from "./Metrics.ts"
import { BackendTelemetry } from "./BackendTelemetry.ts"
import { readNamedActors } from "./NamedActors.ts"
import { type PlaneId, productionId } from "./Plane.ts"
import { Settings } from "./Settings.ts"
import { logAndMapStoreFailure } from "./StoreErrorMapping.ts"
import { actorDigest, Store } from "./Store.ts"
import { tracedFn } from "./Tracing.ts"

const Rows = Schema.Struct({ current: Schema.Struct({ members: Schema.Array(Schema.Unknown) }) })

/** The fields of a member's row that a removal needs; a tombstone has no public id (identity-service.md 11.5). */
const NamedRow = Schema.Struct({
  resource: Schema.Struct({ status: Schema.Literal("removed") }),
  principal: Schema.Struct({ public_id: PublicId })
})

const removals: ReadonlyArray<string> = [
  "organization.membership.removed.v1",
  "organization.silicon.removed.v1"
]

/** Public ids of the people that the event removes from its organisation, where it has them. */
export const readRemovedPeople = (event: WebhookEvent): ReadonlyArray<string> =>
  removals.includes(event.eventType)
    ? Option.match(Schema.decodeUnknownOption(Rows)(event.data), {
        onNone: () => [],
        onSome: ({ current }) =>
          Arr.filterMap(current.members, (row) =>
            Option.map(Schema.decodeUnknownOption(NamedRow)(row), ({ principal }) => principal.public_id)
          )
      })
    : []

const utf8 = new TextDecoder()
const parseJson = Option.liftThrowable((text: string): unknown => JSON.parse(text))

/** Whether a body, verified or not, claims a testing plane by a top-level `test` (identity-service.md 11.4). */
export const claimsTesting = (body: Uint8Array): boolean =>
  Option.exists(
    parseJson(utf8.decode(body)),
    (value) => typeof value === "object" && value !== null && Object.hasOwn(value, "test")
  )

/** Receives IAM's deliveries: verifies, commits, then acknowledges. A duplicate is acknowledged and has no effect. */
export class Webhooks extends Effect.Service<Webhooks>()("music/Webhooks", {
  effect: Effect.gen(function* () {
    const iam = yield* Iam
    const store = yield* Store
    const events = yield* BackendTelemetry
    const { applicationSecret } = (yield* Settings).iam

    /** The key digest proves the environment; an environment id beside it must agree (identity-service.md 11.4). */
    const planeOf = ({ plane }: WebhookEvent): Effect.Effect<PlaneId, Failure> =>
      Effect.gen(function* () {
        if (plane._tag === "Production") return productionId
        const known = yield* store.planes.findByKeyDigest(plane.keyDigest).pipe(logAndMapStoreFailure)
        if (Option.isNone(known)) return yield* new PlaneMismatch()
        const environmentId = known.value
        if (Option.exists(plane.environmentId, (claimed) => claimed !== environmentId))
          return yield* new PlaneMismatch()
        return environmentId
      })

    const recordRefusal = ({ code }: Failure): Effect.Effect<void> =>
      events.record({ kind: "webhook", fields: { outcome: "error", error_code: code } })

    const receive = tracedFn(
      "Webhooks.receive",
      Effect.fnUntraced(function* (delivery: {
        readonly rawHeaders: ReadonlyArray<string>
        readonly body: Uint8Array
      }): Effect.fn.Return<WebhookReceipt, Failure> {
        const event = yield* iam.verifyWebhook(delivery).pipe(
          Effect.tapError(({ reason }) => Effect.logWarning("Webhook delivery rejected", { reason })),
          Effect.mapError(() => new WebhookSignatureInvalid()),
          Effect.tapError((failure) => (claimsTesting(delivery.body) ? Effect.void : recordRefusal(failure)))
        )
        const plane = yield* planeOf(event)
        const fresh = yield* store.webhooks
          .receive(
            {
              plane,
              eventId: event.eventId,
              eventType: event.eventType,
              occurredAt: event.occurredAt,
              organisationUuid: Option.getOrNull(event.organisationUuid),
              aggregateType: event.aggregate.type,
              aggregateId: event.aggregate.id,
              aggregateVersion: event.aggregate.version,
              data: JSON.stringify(event.data),
              receivedAt: yield* Clock.currentTimeMillis
            },
            readRemovedPeople(event),
            readNamedActors(event).map((publicId) => actorDigest(applicationSecret, plane, publicId))
          )
          .pipe(
            logAndMapStoreFailure,
            Effect.tapError((failure) => (plane === productionId ? recordRefusal(failure) : Effect.void))
          )
        countReplay("webhook", !fresh)
        if (plane === productionId) {
          yield* events.record({
            kind: "webhook",
            fields: { outcome: fresh ? "ok" : "duplicate", event_type: event.eventType }
          })
        }
        return { received: true }
      })
    )

    return { receive } as const
  })
}) {}
