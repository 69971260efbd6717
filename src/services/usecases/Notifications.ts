import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { Failure } from "../../schema/Failure.ts"
import { scopes } from "../../schema/Identity.ts"
import { type TingRequest, tingBodyLimit } from "../../schema/Ting.ts"
import { digestOf, sha256 } from "../Digest.ts"
import { type Caller, Iam, type Proof } from "../Iam.ts"
import { attemptKey, Idempotency } from "../combinators/Idempotency.ts"
import { type RetryPolicy, retryTransient } from "../combinators/Retry.ts"
import { iamFailures, repeatableProofRefusals, tingFailures } from "../combinators/UpstreamErrorMapping.ts"
import { UpstreamPlaces } from "../combinators/UpstreamPlaces.ts"
import { countReplay } from "../Metrics.ts"
import { type Plane, planeId } from "../Plane.ts"
import { writeBestEffort } from "../StoreFailures.ts"
import { Settings } from "../Settings.ts"
import { Store } from "../Store.ts"
import { type PreparedCall, Ting } from "../Ting.ts"
import type { Dependency, UpstreamFailure } from "../UpstreamFailure.ts"

const wrongKey = () =>
  new Failure("invalid_input", {
    hint: "Start the key with your own public id and a slash, as GET /api/v1/auth/me reports it.",
    details: { fields: [{ path: "key", problem: "must start with your own public id and a slash" }] }
  })
const unknownType = () =>
  new Failure("not_found", {
    message: "This application has no ting type of that name.",
    hint: "Use one of the ting_types that GET /api/v1/iam lists."
  })
const tooLarge = () =>
  new Failure("payload_too_large", {
    hint: `Shorten data or metadata: the ting with all its fields may have ${tingBodyLimit} bytes.`
  })

/** Fails before a proof is requested when the token lacks the scope: only a new login grants one. */
const requireScope = (
  { membership }: Caller,
  scope: string
): Effect.Effect<void, Failure<"reconsent_required">> =>
  [scope, scopes.identity].every((needed) => membership.scopes.includes(needed))
    ? Effect.void
    : new Failure("reconsent_required")

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
      caller: Caller,
      prepared: PreparedCall,
      use: (prepared: PreparedCall, proof: Proof) => Effect.Effect<A, UpstreamFailure>,
      map: (failure: UpstreamFailure) => F,
      bound: Pick<RetryPolicy, "attempts" | "withinMillis"> = {}
    ) => {
      let waitingFor: Dependency = "iam"
      return Effect.gen(function* () {
        waitingFor = "iam"
        const proof = yield* iam.prove(plane, {
          subject: caller.credential.token,
          organisation: caller.membership.organisation,
          endpoint: prepared.endpoint,
          body: prepared.body,
          key: yield* attemptKey
        })
        waitingFor = "ting"
        return yield* use(prepared, proof)
      }).pipe(
        // Both calls are idempotent at Ting: by the ting's key, and by the recipient.
        retryTransient({
          dependency: () => waitingFor,
          again: (refused) => refused.dependency === "ting" && repeatableProofRefusals.includes(refused.code),
          ...bound
        }),
        Effect.mapError((failure) =>
          failure.dependency === "iam" ? iamFailures.prove(plane)(failure) : map(failure)
        )
      )
    }

    const recipientOf = (
      plane: Plane,
      { actor, membership: { organisation, organisationUuid } }: Caller
    ) => ({
      plane: planeId(plane),
      organisation,
      organisationUuid,
      publicId: actor.public_id
    })

    const register = Effect.fnUntraced(function* (
      plane: Plane,
      caller: Caller,
      bound: Pick<RetryPolicy, "attempts" | "withinMillis"> = {}
    ) {
      yield* requireScope(caller, scopes.register)
      const { organisation } = caller.membership
      const prepared = ting.prepareRegistration({ organisation, publicId: caller.actor.public_id })
      const map = tingFailures.register
      const registered = yield* callWithProof(plane, caller, prepared, ting.register, map, bound)
      // Ting is the source of truth; our row is only for `ting_ready`, so the registration succeeds without it.
      yield* recipients
        .activate({ ...recipientOf(plane, caller), subscriptionId: registered.id })
        .pipe(writeBestEffort("Registration not recorded"))
      return registered
    })

    const subscribe = (plane: Plane, caller: Caller) => {
      const content = digestOf(caller.credential.token)
      const { organisation } = caller.membership
      return register(plane, caller).pipe(
        executeOnce({ operation: "subscribe", plane, organisation, content }),
        within("ting", content)
      )
    }

    /**
     * Records, for `ting_ready`, what Ting's response implies about the recipient's registration. `refusedSentAt`: when the ting was sent that
     * Ting refused, because there is none. The request succeeds without it.
     */
    const recordRegistration = (
      plane: Plane,
      caller: Caller,
      refusedSentAt?: number
    ): Effect.Effect<void> => {
      const recipient = recipientOf(plane, caller)
      const active = refusedSentAt === undefined
      const record = active ? recipients.activate(recipient) : recipients.deactivate(recipient, refusedSentAt)
      return recipients.isActive(recipient).pipe(
        Effect.flatMap((known) => (known === active ? Effect.void : record)),
        writeBestEffort("Registration not recorded")
      )
    }

    const send = Effect.fnUntraced(function* (plane: Plane, caller: Caller, request: TingRequest) {
      const { data, key, metadata, type } = request
      const recipient = caller.actor.public_id
      if (!key.startsWith(`${recipient}/`)) return yield* wrongKey()
      if (!settings.ting.types.includes(type)) return yield* unknownType()
      const { organisation } = caller.membership
      const prepared = ting.prepareTing({ organisation, recipient, type, key, data, metadata })
      if (prepared.body.length > tingBodyLimit) return yield* tooLarge()
      yield* requireScope(caller, scopes.send)
      const token = digestOf(caller.credential.token)
      let sentAt: number | undefined
      const sent = yield* Effect.flatMap(Clock.currentTimeMillis, (now) => {
        sentAt = now
        return callWithProof(plane, caller, prepared, ting.send, tingFailures.send)
      }).pipe(
        Effect.tap(({ replayed }) => {
          countReplay("ting", replayed)
          return replayed ? Effect.void : recordRegistration(plane, caller)
        }),
        Effect.tapErrorTag("recipient_not_registered", () => recordRegistration(plane, caller, sentAt)),
        executeOnce({ operation: "ting", plane, organisation, content: `${token}:${sha256(prepared.body)}` }),
        // Covers the proof too, although IAM issues it: a separate IAM place could be refused between two attempts.
        within("ting", token)
      )
      // A request that joined an identical one in flight repeats it.
      return { ...sent, replayed: sent.replayed || sentAt === undefined }
    })

    return { register, subscribe, send } as const
  })
}) {}
