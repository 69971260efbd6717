/**
 * Remembers, under a login's key, why the login was refused or how its registration with Ting ended, so that a repetition gets
 * the same answer. IAM's own replay covers everything else.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Struct from "effect/Struct"
import { Failure } from "../../schema/Failure.ts"
import { failureTable } from "../../schema/FailureTable.ts"
import type { TingOutcome } from "../../schema/Session.ts"
import type { Caller } from "../RequestCredentials.ts"
import { digestOf } from "../Digest.ts"
import type { UpstreamKey } from "../Iam.ts"
import { type Plane, planeId } from "../Plane.ts"
import { logAndMapStoreFailure, mapStoreFailure, writeBestEffort } from "../StoreFailures.ts"
import { TingOnBehalf } from "./TingOnBehalf.ts"
import { LoginOutcome, Store } from "../Store.ts"
import { UpstreamPlaces } from "../combinators/UpstreamPlaces.ts"

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

type RecordedFailure = ReturnType<(typeof loginRefusals)[LoginRefusal]> | Failure<"dependency_unavailable">

/** The failure that an earlier attempt recorded; none for a registration, or a reason of a later version. */
const recordedRefusal = (
  outcome: LoginOutcome
): Option.Option<Failure<"forbidden"> | Failure<"reconsent_required">> =>
  outcome._tag === "Refusal"
    ? Option.map(
        Option.fromNullable(Struct.keys(loginRefusals).find((refusal) => refusal === outcome.reason)),
        (refusal) => loginRefusals[refusal]()
      )
    : Option.none()

/** Registering at a login has 2 attempts and 5 s in all, so that a slow Ting cannot hold a login up. */
const registrationBound = { attempts: 2, withinMillis: 5_000 }

const notRegistered = ({ code }: Pick<Failure, "code">): TingOutcome => ({ subscribed: false, error: code })

/** A replayed login tries again after such a failure. */
const isTransient = ({ code }: Pick<Failure, "code">): boolean => failureTable[code].retryable

export const makeLoginOutcomes = Effect.gen(function* () {
  const { loginOutcomes } = yield* Store
  const { register } = yield* TingOnBehalf
  const { within } = yield* UpstreamPlaces

  const record = (plane: Plane, key: UpstreamKey, outcome: LoginOutcome, message: string) =>
    loginOutcomes.record(key, planeId(plane), outcome).pipe(writeBestEffort(message))

  /** Fails with the recorded refusal, if there is one. */
  const failRefused = (key: UpstreamKey): Effect.Effect<void, RecordedFailure> =>
    loginOutcomes.find(key).pipe(
      logAndMapStoreFailure,
      Effect.flatMap((recorded) =>
        Option.match(Option.flatMap(recorded, recordedRefusal), {
          onNone: () => Effect.void,
          onSome: (refusal) => Effect.fail(refusal)
        })
      )
    )

  const registerAndRecord = (plane: Plane, caller: Caller, key: UpstreamKey): Effect.Effect<TingOutcome> =>
    register(plane, caller, registrationBound).pipe(
      within("ting", digestOf(caller.credential.token)),
      Effect.match({
        onSuccess: ({ id }) => ({ ting: { subscribed: true, subscription_id: id }, transient: false }),
        onFailure: (failure) => ({ ting: notRegistered(failure), transient: isTransient(failure) })
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
