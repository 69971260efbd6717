import * as Effect from "effect/Effect"
import { Failure } from "../../schema/Failure.ts"
import { scopes } from "../../schema/Identity.ts"
import type { Caller } from "../RequestCredentials.ts"
import { Iam, type Proof } from "../Iam.ts"
import { attemptKey } from "../combinators/Idempotency.ts"
import { type Plane, planeId } from "../Plane.ts"
import { writeBestEffort } from "../StoreFailures.ts"
import {
  failWith,
  iamFailures,
  repeatableProofRefusals,
  tingFailures
} from "../combinators/UpstreamErrorMapping.ts"
import { retryTransient } from "../combinators/Retry.ts"
import { Store } from "../Store.ts"
import { type PreparedCall, Ting } from "../Ting.ts"
import type { Dependency, UpstreamFailure } from "../UpstreamFailure.ts"

export interface RetryLimits {
  readonly attempts?: number
  readonly withinMillis?: number
}

/** Calls Ting on the caller's behalf, with a new proof for every attempt over the same bytes; and registers recipients. */
export class TingOnBehalf extends Effect.Service<TingOnBehalf>()("music/TingOnBehalf", {
  effect: Effect.gen(function* () {
    const iam = yield* Iam
    const ting = yield* Ting
    const store = yield* Store

    /** Fails before a proof is requested when the token lacks the scope: only a new login grants one. */
    const requireScope = (
      caller: Caller,
      scope: string
    ): Effect.Effect<void, Failure<"reconsent_required">> =>
      [scope, scopes.identity].every((needed) => caller.membership.scopes.includes(needed))
        ? Effect.void
        : Effect.fail(new Failure("reconsent_required"))

    /** `map` is for a refusal of Ting; IAM, which issues the proof, means another thing by the same code. */
    const callWithProof = <A, F>(
      plane: Plane,
      caller: Caller,
      prepared: PreparedCall,
      use: (prepared: PreparedCall, proof: Proof) => Effect.Effect<A, UpstreamFailure>,
      map: (failure: UpstreamFailure, now: number) => F,
      options: RetryLimits = {}
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
        retryTransient({
          dependency: () => waitingFor,
          // Both calls are idempotent at Ting: by the ting's key, and by the recipient.
          repeatable: true,
          again: (refused) => refused.dependency === "ting" && repeatableProofRefusals.includes(refused.code),
          ...options
        }),
        failWith((failure, now) =>
          failure.dependency === "iam" ? iamFailures.prove(plane)(failure, now) : map(failure, now)
        )
      )
    }

    const register = Effect.fnUntraced(function* (plane: Plane, caller: Caller, options: RetryLimits = {}) {
      yield* requireScope(caller, scopes.register)
      const { organisation, organisationUuid } = caller.membership
      const publicId = caller.actor.public_id
      const prepared = ting.prepareRegistration({ organisation, publicId })
      const registered = yield* callWithProof(
        plane,
        caller,
        prepared,
        ting.register,
        tingFailures.register,
        options
      )
      // Ting is the source of truth; our row is only for `ting_ready`, so the registration succeeds without it.
      yield* store.recipients
        .activate({
          plane: planeId(plane),
          organisation,
          organisationUuid,
          publicId,
          subscriptionId: registered.id
        })
        .pipe(writeBestEffort("Registration not recorded"))
      return registered
    })

    return { requireScope, callWithProof, register } as const
  })
}) {}
