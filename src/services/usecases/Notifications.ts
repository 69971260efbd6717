import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { Failure, refuseField } from "../../schema/Failure.ts"
import { scopes } from "../../schema/Identity.ts"
import { type TingRequest, tingBodyLimit } from "../../schema/Ting.ts"
import { digestOf, sha256 } from "../Digest.ts"
import { type Caller, Iam, type Proof } from "../Iam.ts"
import { attemptKey, Idempotency } from "../combinators/Idempotency.ts"
import { retryTransient } from "../combinators/Retry.ts"
import { iamFailures, tingFailures } from "../combinators/UpstreamErrorMapping.ts"
import { UpstreamPlaces } from "../combinators/UpstreamPlaces.ts"
import { countReplay } from "../Metrics.ts"
import { type Plane, planeId } from "../Plane.ts"
import { writeBestEffort } from "../StoreFailures.ts"
import { Settings } from "../Settings.ts"
import { Store } from "../Store.ts"
import { type PreparedCall, Ting } from "../Ting.ts"
import type { UpstreamFailure } from "../UpstreamFailure.ts"

/** Fails before a proof is requested when the token lacks the scope: only a new login grants one. */
const requireScope = ({ membership }: Caller, scope: string) =>
  [scope, scopes.identity].every((needed) => membership.scopes.includes(needed))
    ? Effect.void
    : new Failure("reconsent_required")

/** The row of the caller's registration. It is only for `ting_ready`: Ting is the source of truth. */
export const recipientOf = (plane: Plane, { actor, membership }: Caller) => ({
  plane: planeId(plane),
  organisation: membership.org_id,
  organisationUuid: membership.organization_id,
  publicId: actor.public_id
})

/** Of a write to that row, without which a request succeeds. */
const unlessUnrecorded = writeBestEffort("Registration not recorded")

/** Registers the caller as a recipient, and sends tings to them. */
export class Notifications extends Effect.Service<Notifications>()("music/Notifications", {
  effect: Effect.gen(function* () {
    const settings = yield* Settings
    const iam = yield* Iam
    const ting = yield* Ting
    const { recipients } = yield* Store
    const { executeOnce } = yield* Idempotency
    const { within } = yield* UpstreamPlaces

    /**
     * Calls Ting on the caller's behalf, with a new proof for every attempt over the same bytes. `map` is for a refusal of Ting; IAM, which
     * issues the proof, means another thing by the same code.
     */
    const callWithProof = <A, F>(
      plane: Plane,
      { credential, membership }: Caller,
      prepared: PreparedCall,
      use: (prepared: PreparedCall, proof: Proof) => Effect.Effect<A, UpstreamFailure>,
      map: (failure: UpstreamFailure) => F
    ) =>
      Effect.gen(function* () {
        const { body, endpoint } = prepared
        const key = yield* attemptKey
        const proof = yield* iam.prove(plane, {
          subject: credential.token,
          organisation: membership.org_id,
          endpoint,
          body,
          key
        })
        return yield* use(prepared, proof)
      }).pipe(
        // Both calls are idempotent at Ting: by the ting's key, and by the recipient.
        retryTransient,
        Effect.mapError((failure) =>
          failure.dependency === "iam" ? iamFailures.prove(plane)(failure) : map(failure)
        )
      )

    const subscribe = (plane: Plane, caller: Caller) =>
      Effect.gen(function* () {
        yield* requireScope(caller, scopes.register)
        const recipient = recipientOf(plane, caller)
        const prepared = ting.prepareRegistration(recipient)
        const registered = yield* callWithProof(plane, caller, prepared, ting.register, tingFailures.register)
        yield* unlessUnrecorded(recipients.activate({ ...recipient, subscriptionId: registered.id }))
        return registered
      }).pipe(within("ting", digestOf(caller.credential.token)))

    const send = Effect.fnUntraced(function* (plane: Plane, caller: Caller, request: TingRequest) {
      const recipient = recipientOf(plane, caller)
      const { organisation, publicId } = recipient
      if (!request.key.startsWith(`${publicId}/`))
        return yield* refuseField("key", "must start with your own public id and a slash")
      if (!settings.ting.types.includes(request.type)) return yield* new Failure("not_found")
      const prepared = ting.prepareTing({ ...request, organisation, recipient: publicId })
      if (prepared.body.length > tingBodyLimit) return yield* new Failure("payload_too_large")
      yield* requireScope(caller, scopes.send)
      const token = digestOf(caller.credential.token)
      const sentAt = yield* Clock.currentTimeMillis
      let hasJoined = true
      const sent = yield* Effect.suspend(() => {
        hasJoined = false
        return callWithProof(plane, caller, prepared, ting.send, tingFailures.send)
      }).pipe(
        Effect.tap(({ replayed }) => {
          countReplay("ting", replayed)
          // Ting accepts a ting of a registered recipient only.
          const activate = Effect.unlessEffect(recipients.activate(recipient), recipients.isActive(recipient))
          return replayed ? Effect.void : unlessUnrecorded(activate)
        }),
        Effect.tapErrorTag("recipient_not_registered", () =>
          unlessUnrecorded(recipients.deactivate(recipient, sentAt))
        ),
        executeOnce({ operation: "ting", plane, content: `${token}:${sha256(prepared.body)}` }),
        // Covers the proof too, although IAM issues it: a separate IAM place could be refused between two attempts.
        within("ting", token)
      )
      // A request that joined an identical one in flight repeats it.
      return { ...sent, replayed: sent.replayed || hasJoined }
    })

    return { subscribe, send } as const
  })
}) {}
