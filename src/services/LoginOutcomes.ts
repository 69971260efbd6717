/**
 * What a login's key remembers beside IAM's own replay: why the login was refused, or what its registration with Ting came
 * to. A repetition is told the same as the first time.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Struct from "effect/Struct"
import { type Failure, Forbidden, ReconsentRequired, SltRejected } from "../schema/Failure.ts"
import type { TingOutcome } from "../schema/Session.ts"
import type { Caller } from "./RequestCredentials.ts"
import { digestOf } from "./Digest.ts"
import type { UpstreamKey } from "./Iam.ts"
import { type Plane, planeId } from "./Plane.ts"
import { fromStore, loggingStore, noting } from "./UpstreamErrors.ts"
import { Registration } from "./TingRegistration.ts"
import { Store } from "./Store.ts"
import { UpstreamPlaces } from "./UpstreamPlaces.ts"

const noOrganisation = () =>
  new Forbidden({
    message: "The login shared no organisation with this application.",
    hint: "Log in again and grant at least one organisation.",
    details: { reason: "no_organization" }
  })

/** Why a login that IAM granted is refused. */
export const loginRefusals = {
  no_organization: noOrganisation,
  reconsent_required: () => new ReconsentRequired()
} as const
export type LoginRefusal = keyof typeof loginRefusals

/** Marks a recorded outcome as the login's own, not its registration's; no error code has a colon. */
const refusalMark = "login:"

const refusalIn = ({ outcome }: { readonly outcome: TingOutcome }): Option.Option<LoginRefusal> =>
  Option.fromNullable(
    Struct.keys(loginRefusals).find((refusal) => outcome.error === `${refusalMark}${refusal}`)
  )

/** Registering at a login has 2 attempts and 5 s in all, so that a slow Ting cannot hold a login up. */
const registrationBound = { attempts: 2, withinMillis: 5_000 }

const notRegistered = ({ code }: Failure): TingOutcome => ({ subscribed: false, error: code })

/** A registration that failed for a while only, so that a replayed login tries again. */
const isTransient = (failure: Failure): boolean =>
  failure.code === "dependency_unavailable" ||
  failure.code === "overloaded" ||
  failure.code === "rate_limited" ||
  failure.code === "temporarily_rate_limited"

export interface LoginOutcomes {
  /**
   * Records a refusal for good. The record is one that gives way (`transient`): a family that lives on after all may log in
   * later.
   */
  readonly refused: (plane: Plane, key: UpstreamKey, refusal: LoginRefusal) => Effect.Effect<void>
  /** Only a replay can meet a session that has ended: by a refusal that was recorded, or its token is spent for good. */
  readonly ended: (key: UpstreamKey) => Effect.Effect<never, Failure>
  /**
   * Registers at a first login. A replayed one tells the recorded outcome: registering again could re-activate a grant
   * revoked in between. A record that cannot be read is no reason to lose the session, nor to register.
   */
  readonly ofRegistration: (
    plane: Plane,
    caller: Caller,
    key: UpstreamKey,
    replayed: boolean
  ) => Effect.Effect<TingOutcome>
}

export const loginOutcomes: Effect.Effect<LoginOutcomes, never, Store | Registration | UpstreamPlaces> =
  Effect.gen(function* () {
    const { loginOutcomes: records } = yield* Store
    const registration = yield* Registration
    const { within } = yield* UpstreamPlaces

    const refused: LoginOutcomes["refused"] = (plane, key, refusal) =>
      records
        .record(key, planeId(plane), { subscribed: false, error: `${refusalMark}${refusal}` }, true)
        .pipe(noting("Refusal of a login not recorded"))

    const ended: LoginOutcomes["ended"] = (key) =>
      records.find(key).pipe(
        loggingStore,
        Effect.flatMap((recorded) =>
          Effect.fail(
            Option.match(Option.flatMap(recorded, refusalIn), {
              onNone: () => new SltRejected(),
              onSome: (refusal) => loginRefusals[refusal]()
            })
          )
        )
      )

    const registerAnew = (plane: Plane, caller: Caller, key: UpstreamKey): Effect.Effect<TingOutcome> =>
      registration.register(plane, caller, registrationBound).pipe(
        within("ting", digestOf(caller.credential.token)),
        Effect.match({
          onSuccess: ({ id }) => ({ outcome: { subscribed: true, subscription_id: id }, transient: false }),
          onFailure: (failure) => ({
            outcome: notRegistered(failure),
            transient: isTransient(failure)
          })
        }),
        Effect.tap(({ outcome, transient }) =>
          records
            .record(key, planeId(plane), outcome, transient)
            .pipe(noting("Registration outcome not recorded"))
        ),
        Effect.map(({ outcome }) => outcome)
      )

    const ofRegistration: LoginOutcomes["ofRegistration"] = (plane, caller, key, replayed) =>
      Effect.gen(function* () {
        const recorded = replayed ? yield* records.find(key) : Option.none()
        return Option.isSome(recorded) && !recorded.value.transient
          ? recorded.value.outcome
          : yield* registerAnew(plane, caller, key)
      }).pipe(Effect.catchAll((failure) => Effect.succeed(notRegistered(fromStore(failure)))))

    return { refused, ended, ofRegistration }
  })
