/**
 * Remembers, under a login's key, why the login was refused or how its registration with Ting ended, so that a repetition gets
 * the same answer. IAM's own replay covers everything else.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { Failure } from "../../schema/Failure.ts"
import { failureTable } from "../../schema/FailureTable.ts"
import type { TingOutcome } from "../../schema/Session.ts"
import { digestOf } from "../Digest.ts"
import type { Caller, UpstreamKey } from "../Iam.ts"
import { type Plane, planeId } from "../Plane.ts"
import { logAndMapStoreFailure, mapStoreFailure, writeBestEffort } from "../StoreFailures.ts"
import { LoginOutcome, Store } from "../Store.ts"
import { UpstreamPlaces } from "../combinators/UpstreamPlaces.ts"
import { Notifications } from "./Notifications.ts"

/** The failure of each reason for which a login is refused after IAM granted it. */
export const loginRefusals = {
  no_organization: () =>
    new Failure("forbidden", {
      message: "The login shared no organisation with this application.",
      hint: "Log in again and grant at least one organisation.",
      details: { reason: "no_organization" }
    }),
  reconsent_required: () => new Failure("reconsent_required")
} as const
export type LoginRefusal = keyof typeof loginRefusals

/** A later version may have recorded another reason. */
const isKnown = (reason: string): reason is LoginRefusal => Object.hasOwn(loginRefusals, reason)

/** Registering at a login has 2 attempts and 5 s in all, so that a slow Ting cannot hold a login up. */
const registrationBound = { attempts: 2, withinMillis: 5_000 }

const notRegistered = ({ code }: Pick<Failure, "code">): TingOutcome => ({ subscribed: false, error: code })

export const makeLoginOutcomes = Effect.gen(function* () {
  const { loginOutcomes } = yield* Store
  const { register } = yield* Notifications
  const { within } = yield* UpstreamPlaces

  const record = (plane: Plane, key: UpstreamKey, outcome: LoginOutcome, message: string) =>
    loginOutcomes.record(key, planeId(plane), outcome).pipe(writeBestEffort(message))

  /** Fails with the refusal that an earlier attempt recorded, if there is one. */
  const failRefused = Effect.fnUntraced(function* (key: UpstreamKey) {
    const recorded = yield* logAndMapStoreFailure(loginOutcomes.find(key))
    if (Option.isSome(recorded) && recorded.value._tag === "Refusal" && isKnown(recorded.value.reason))
      return yield* loginRefusals[recorded.value.reason]()
  })

  const registerAndRecord = (plane: Plane, caller: Caller, key: UpstreamKey): Effect.Effect<TingOutcome> =>
    register(plane, caller, registrationBound).pipe(
      within("ting", digestOf(caller.credential.token)),
      Effect.match({
        onSuccess: ({ id }) => ({ ting: { subscribed: true, subscription_id: id }, transient: false }),
        onFailure: (failure) => ({
          ting: notRegistered(failure),
          transient: failureTable[failure.code].retryable
        })
      }),
      Effect.tap((registration) =>
        record(plane, key, LoginOutcome.Registration(registration), "Registration outcome not recorded")
      ),
      Effect.map(({ ting }) => ting)
    )

  return {
    /** A later success under the same key overwrites the record: the session may live on when its revocation failed. */
    recordRefusal: (plane: Plane, key: UpstreamKey, reason: LoginRefusal) =>
      record(plane, key, LoginOutcome.Refusal({ reason }), "Refusal of a login not recorded"),
    failRefused,
    /**
     * Fails a login whose session has ended, which happens to replays only: with the recorded refusal, or else with
     * `slt_rejected`, since the token is spent.
     */
    failEndedSession: (key: UpstreamKey) => Effect.zipRight(failRefused(key), new Failure("slt_rejected")),
    /**
     * Registers at a first login. A replayed login returns the recorded outcome unless that is transient: registering again could
     * re-activate a grant revoked in between. When the record cannot be read, the login succeeds without a registration.
     */
    registerOnce: (plane: Plane, caller: Caller, key: UpstreamKey, replayed: boolean) =>
      Effect.gen(function* () {
        const recorded = replayed ? yield* loginOutcomes.find(key) : Option.none()
        return Option.isSome(recorded) && recorded.value._tag === "Registration" && !recorded.value.transient
          ? recorded.value.ting
          : yield* registerAndRecord(plane, caller, key)
      }).pipe(Effect.catchAll((failure) => Effect.succeed(notRegistered(mapStoreFailure(failure)))))
  }
})
