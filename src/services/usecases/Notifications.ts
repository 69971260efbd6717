import * as Effect from "effect/Effect"
import { Failure } from "../../schema/Failure.ts"
import { scopes } from "../../schema/Identity.ts"
import { type SentTing, type Subscription, type TingRequest, tingBodyLimit } from "../../schema/Ting.ts"
import type { Caller } from "../RequestCredentials.ts"
import { digestOf, sha256 } from "../Digest.ts"
import { Idempotency } from "../combinators/Idempotency.ts"
import { countReplay } from "../Metrics.ts"
import { type Plane, planeId } from "../Plane.ts"
import { writeBestEffort } from "../StoreFailures.ts"
import { TingOnBehalf } from "./TingOnBehalf.ts"
import { Settings } from "../Settings.ts"
import { Store } from "../Store.ts"
import { type AcceptedTing, Ting } from "../Ting.ts"
import { tingFailures } from "../combinators/UpstreamErrorMapping.ts"
import { UpstreamPlaces } from "../combinators/UpstreamPlaces.ts"

/** Registers the caller as a recipient, and sends tings to them. */
export class Notifications extends Effect.Service<Notifications>()("music/Notifications", {
  effect: Effect.gen(function* () {
    const settings = yield* Settings
    const ting = yield* Ting
    const store = yield* Store
    const { callWithProof, register, requireScope } = yield* TingOnBehalf
    const { executeOnce } = yield* Idempotency
    const { within } = yield* UpstreamPlaces

    const subscribe = Effect.fnUntraced(function* (plane: Plane, caller: Caller) {
      const token = digestOf(caller.credential.token)
      const registered = yield* register(plane, caller).pipe(
        executeOnce({
          operation: "subscribe",
          plane,
          organisation: caller.membership.organisation,
          content: token
        }),
        within("ting", token)
      )
      const subscription: Subscription = {
        id: registered.id,
        app_id: registered.applicationId,
        for: registered.recipient,
        active: true
      }
      return subscription
    })

    /** Records, for `ting_ready`, what Ting's response implies about the recipient's registration. The request succeeds without it. */
    const recordRegistration = (plane: Plane, caller: Caller, active: boolean): Effect.Effect<void> => {
      const { organisation, organisationUuid } = caller.membership
      const recipient = { plane: planeId(plane), organisation, publicId: caller.actor.public_id }
      return store.recipients.isActive(recipient).pipe(
        Effect.flatMap((known) =>
          known === active
            ? Effect.void
            : active
              ? store.recipients.activate({ ...recipient, organisationUuid })
              : store.recipients.deactivate(recipient)
        ),
        writeBestEffort("Registration not recorded")
      )
    }

    const checkKey = (caller: Caller, { key }: TingRequest): Effect.Effect<void, Failure<"invalid_input">> =>
      key.startsWith(`${caller.actor.public_id}/`)
        ? Effect.void
        : Effect.fail(
            new Failure("invalid_input", {
              hint: "Start the key with your own public id and a slash, as GET /api/v1/auth/me reports it.",
              details: {
                fields: [{ path: "key", problem: "must start with your own public id and a slash" }]
              }
            })
          )

    const checkType = ({ type }: TingRequest): Effect.Effect<void, Failure<"not_found">> =>
      settings.ting.types.includes(type)
        ? Effect.void
        : Effect.fail(
            new Failure("not_found", {
              message: "This application has no ting type of that name.",
              hint: "Use one of the ting_types that GET /api/v1/iam lists."
            })
          )

    const send = Effect.fnUntraced(function* (plane: Plane, caller: Caller, request: TingRequest) {
      yield* checkKey(caller, request)
      yield* checkType(request)
      const { organisation } = caller.membership
      const prepared = ting.prepareTing({
        organisation,
        recipient: caller.actor.public_id,
        type: request.type,
        key: request.key,
        data: request.data,
        metadata: request.metadata
      })
      if (prepared.body.length > tingBodyLimit) {
        return yield* new Failure("payload_too_large", {
          hint: `Shorten data or metadata: the ting with all its fields may have ${tingBodyLimit} bytes.`
        })
      }
      yield* requireScope(caller, scopes.send)
      const token = digestOf(caller.credential.token)
      let joined = true
      const sent: AcceptedTing = yield* Effect.suspend(() => {
        joined = false
        return callWithProof(plane, caller, prepared, ting.send, tingFailures.send)
      }).pipe(
        Effect.tap(({ replayed }) => {
          countReplay("ting", replayed)
          return replayed ? Effect.void : recordRegistration(plane, caller, true)
        }),
        Effect.tapErrorTag("recipient_not_registered", () => recordRegistration(plane, caller, false)),
        executeOnce({
          operation: "ting",
          plane,
          organisation,
          content: `${token}:${sha256(prepared.body)}`
        }),
        // Covers the proof too, although IAM issues it: a separate IAM place could be refused between two attempts.
        within("ting", token)
      )
      const answer: SentTing = {
        id: sent.id,
        created_at: sent.createdAt,
        key: sent.key,
        silent: sent.silent,
        // A request that joined an identical one in flight repeats it.
        replayed: sent.replayed || joined
      }
      return answer
    })

    return { subscribe, send } as const
  })
}) {}
