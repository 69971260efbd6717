import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Failure } from "../schema/Failure.ts"
import { ReconsentRequired } from "../schema/Failure.ts"
import { scopes } from "../schema/Identity.ts"
import type { Caller } from "./RequestCredentials.ts"
import { Iam, type Proof } from "./Iam.ts"
import { attemptKey } from "./Idempotency.ts"
import { type Plane, planeId } from "./Plane.ts"
import { writeBestEffort } from "./StoreErrors.ts"
import { mapIamFailure, mapTingFailure, repeatableProofRefusals } from "./UpstreamErrors.ts"
import { retryTransient } from "./Retry.ts"
import { Store } from "./Store.ts"
import { type PreparedCall, type RegisteredRecipient as Registered, Ting } from "./Ting.ts"
import type { UpstreamFailure } from "./UpstreamFailure.ts"

/** Says where a call to Ting failed: at IAM, which proves it, or at Ting itself; the answers mean different things. */
const mapped = (plane: Plane, now: number) => (failure: UpstreamFailure) =>
  failure.dependency === "iam" ? mapIamFailure("prove", plane, now)(failure) : mapTingFailure(failure, now)

export interface Attempts {
  readonly attempts?: number
  readonly withinMillis?: number
}

/** Calls to Ting on the caller's behalf: a fresh proof for every attempt, always over the same bytes. */
export class TingRegistration extends Effect.Service<TingRegistration>()("music/Registration", {
  effect: Effect.gen(function* () {
    const iam = yield* Iam
    const ting = yield* Ting
    const store = yield* Store

    /** Fails before a proof is asked for when the token cannot do it: only a new login grants a scope. */
    const demand = (caller: Caller, scope: string): Effect.Effect<void, ReconsentRequired> =>
      [scope, scopes.identity].every((needed) => caller.membership.scopes.includes(needed))
        ? Effect.void
        : Effect.fail(new ReconsentRequired())

    const call = <A>(
      plane: Plane,
      caller: Caller,
      prepared: PreparedCall,
      use: (prepared: PreparedCall, proof: Proof) => Effect.Effect<A, UpstreamFailure>,
      options: Attempts = {}
    ): Effect.Effect<A, Failure> =>
      Effect.gen(function* () {
        const proof = yield* iam.prove(plane, {
          subject: caller.credential.token,
          organisation: caller.membership.organisation,
          endpoint: prepared.endpoint,
          body: prepared.body,
          key: yield* attemptKey
        })
        return yield* use(prepared, proof)
      }).pipe(
        retryTransient({
          dependency: "ting",
          // Ting knows the ting's key and the recipient's grant: repeating either call changes nothing.
          repeatable: true,
          again: (refused) => refused.dependency === "ting" && repeatableProofRefusals.includes(refused.code),
          ...options
        }),
        Effect.catchAll((failure) =>
          Effect.flatMap(Clock.currentTimeMillis, (now) => Effect.fail(mapped(plane, now)(failure)))
        )
      )

    const register = Effect.fn("TingRegistration.register")(function* (
      plane: Plane,
      caller: Caller,
      options: Attempts = {}
    ): Effect.fn.Return<Registered, Failure> {
      yield* demand(caller, scopes.register)
      const { organisation, organisationUuid } = caller.membership
      const publicId = caller.actor.public_id
      const prepared = ting.prepareRegistration({ organisation, publicId })
      const registered = yield* call(plane, caller, prepared, ting.register, options)
      // Ting holds the truth; our note of it only feeds `ting_ready`, so losing it must not fail what was done.
      yield* store.recipients
        .activate({
          plane: planeId(plane),
          organisation,
          organisationUuid,
          publicId,
          subscriptionId: registered.id
        })
        .pipe(writeBestEffort("Registration not noted"))
      return registered
    })

    return { demand, call, register } as const
  })
}) {}
