import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { Failure } from "../../schema/Failure.ts"
import { type Actor, actorTypeOf, type Credential, scopes } from "../../schema/Identity.ts"
import { accessTokenPattern, refreshTokenPattern } from "../../schema/Patterns.ts"
import type { LoginSession, Me, Session } from "../../schema/Session.ts"
import { digestOf } from "../Digest.ts"
import {
  type Caller,
  Iam,
  type Introspection,
  type Membership,
  type TokenGrant,
  type UpstreamKey
} from "../Iam.ts"
import { Idempotency, upstreamKey } from "../combinators/Idempotency.ts"
import { type RetryPolicy, retryTransient } from "../combinators/Retry.ts"
import { iamFailures } from "../combinators/UpstreamErrorMapping.ts"
import { UpstreamPlaces } from "../combinators/UpstreamPlaces.ts"
import { countReplay } from "../Metrics.ts"
import { environmentIdOf, type Plane, planeId } from "../Plane.ts"
import { Store } from "../Store.ts"
import { logAndMapStoreFailure } from "../StoreFailures.ts"
import { type LoginRefusal, loginRefusals, makeLoginOutcomes } from "./LoginRegistration.ts"

/** The membership a session starts in: IAM's own choice when the grant names one, else the first handle in order. */
const chooseMembership = (
  { organisation }: TokenGrant,
  { memberships }: Introspection
): Membership | undefined =>
  memberships.find((one) => Option.contains(organisation, one.organisation)) ?? memberships[0]

/**
 * The actor of a token in one organisation. Without `self.identity.read` IAM withholds it; the token's own public id, whose
 * prefix gives the type, still identifies callers to themselves.
 */
const resolveActor = ({ publicId }: Introspection, { actor }: Membership): Option.Option<Actor> =>
  Option.orElse(actor, () =>
    Option.map(publicId, (public_id) => ({ type: actorTypeOf(public_id), public_id }))
  )

/** Seconds until the access token expires: a replayed grant still states the full lifetime (identity-service.md 4). */
const secondsLeft = ({ expiresInSeconds }: TokenGrant, { answeredAt, expiresAt }: Introspection): number =>
  Math.max(0, Math.min(expiresInSeconds, expiresAt - Math.floor(answeredAt / 1000)))

const toSession = (
  plane: Plane,
  grant: TokenGrant,
  introspection: Introspection,
  { organisation }: Membership,
  actor: Actor
): Session => ({
  access_token: Redacted.value(grant.accessToken),
  refresh_token: Redacted.value(grant.refreshToken),
  token_type: "Bearer",
  expires_in: secondsLeft(grant, introspection),
  scope: [...grant.scopes].sort().join(" "),
  actor,
  org_id: organisation,
  org_ids: introspection.memberships.map((membership) => membership.organisation).sort(),
  testing_environment_id: environmentIdOf(plane)
})

/** The session cannot be refreshed: its refresh token is no live one. */
const refreshRefused = () =>
  new Failure("unauthenticated", {
    message: "The refresh token is malformed, spent, expired or revoked.",
    hint: "Log in again with a new short-lived token; this session cannot be refreshed."
  })

/** Characters; IAM revokes no longer token (identity-service.md 7). */
const longestRevocable = 4_096

const isRevocable = (token: string): boolean =>
  token.length <= longestRevocable && (refreshTokenPattern.test(token) || accessTokenPattern.test(token))

interface Keyed {
  /** The caller's Idempotency-Key. */
  readonly key: Redacted.Redacted
}

/** Every call here is a read or runs under an upstream key. */
const policy: RetryPolicy = { dependency: () => "iam" }
const retryIam = retryTransient(policy)

/** Login, refresh, logout and the check of a bearer. docs/api.md has the rules of every method under its call. */
export class Sessions extends Effect.Service<Sessions>()("music/Sessions", {
  effect: Effect.gen(function* () {
    const iam = yield* Iam
    const store = yield* Store
    const loginOutcomes = yield* makeLoginOutcomes
    const { executeOnce } = yield* Idempotency
    const { within } = yield* UpstreamPlaces

    const introspect = (plane: Plane, token: Redacted.Redacted, retry = retryIam) =>
      iam.introspect(plane, token).pipe(retry, Effect.mapError(iamFailures.introspect(plane)))

    const revoke = (plane: Plane, token: Redacted.Redacted, key: UpstreamKey) =>
      iam.revoke(plane, token, key).pipe(
        retryIam,
        // The first revocation under this key succeeded, longer ago than IAM replays.
        Effect.catchIf(
          (failure) => failure._tag === "Refused" && failure.code === "idempotency_response_expired",
          () => Effect.void
        ),
        Effect.mapError(iamFailures.revoke(plane))
      )

    /** Runs the work under the caller's key once, in a place for IAM that counts for the token. */
    const once =
      (
        operation: "login" | "refresh" | "logout",
        plane: Plane,
        key: Redacted.Redacted,
        token: Redacted.Redacted
      ) =>
      <A, E, R>(work: Effect.Effect<A, E, R>) => {
        const content = digestOf(token)
        return work.pipe(
          executeOnce({ operation, plane, callerKey: digestOf(key), content }),
          within("iam", content)
        )
      }

    /** Introspects the bearer with IAM; with `withinMillis` in one attempt that must answer within that time. */
    const authenticate = Effect.fnUntraced(function* (
      plane: Plane,
      credential: Credential,
      withinMillis?: number
    ) {
      const { organisation, token } = credential
      const retry =
        withinMillis === undefined ? retryIam : retryTransient({ ...policy, attempts: 1, withinMillis })
      const introspected = yield* introspect(plane, token, retry).pipe(within("iam", digestOf(token)))
      if (Option.isNone(introspected)) return yield* new Failure("unauthenticated")
      const introspection = introspected.value
      const membership = introspection.memberships.find((granted) => granted.organisation === organisation)
      if (membership === undefined) {
        return yield* new Failure("forbidden", {
          message: "The session does not reach this organisation.",
          hint: "Choose one of your organisations in X-Org-ID; the session's org_ids lists them.",
          details: { reason: "organization_not_granted" }
        })
      }
      const actor = resolveActor(introspection, membership)
      if (Option.isNone(actor)) return yield* new Failure("reconsent_required")
      return { credential, actor: actor.value, membership, introspection } satisfies Caller
    })

    /**
     * Refuses a login that IAM granted, and revokes the grant. The refusal is recorded first, so that a repetition gets the same
     * answer even if this process dies in between. A revocation that fails makes the login fail as an outage, to be retried.
     */
    const refuseLogin = Effect.fnUntraced(function* (
      plane: Plane,
      grant: TokenGrant,
      key: Redacted.Redacted,
      refusal: LoginRefusal
    ) {
      yield* loginOutcomes.recordRefusal(plane, upstreamKey("login", plane, key), refusal)
      yield* revoke(plane, grant.refreshToken, upstreamKey("abandon", plane, key))
      return yield* loginRefusals[refusal]()
    })

    const login = (plane: Plane, { key, slt }: Keyed & { readonly slt: Redacted.Redacted }) =>
      Effect.gen(function* () {
        const iamKey = upstreamKey("login", plane, key)
        // Concurrent with the exchange and the introspection, so that an empty catalogue cache adds no round trip.
        yield* Effect.fork(iam.warmCatalogue(plane))
        const grant = yield* iam
          .exchange(plane, slt, iamKey)
          .pipe(retryIam, Effect.mapError(iamFailures.login(plane)))
        const introspected = yield* iam.introspect(plane, grant.accessToken).pipe(
          retryIam,
          Effect.catchAll((failure) => {
            // Another instance may have refused this login, and revoked its grant.
            const mayBeRefused = grant.replayed && failure._tag === "Unknown" && failure.inactive === true
            const failed = Effect.fail(iamFailures.introspect(plane)(failure))
            return mayBeRefused ? Effect.zipRight(loginOutcomes.failRefused(iamKey), failed) : failed
          })
        )
        if (Option.isNone(introspected)) return yield* loginOutcomes.failEndedSession(iamKey)
        const introspection = introspected.value
        const membership = chooseMembership(grant, introspection)
        if (membership === undefined) return yield* refuseLogin(plane, grant, key, "no_organization")
        if (Option.isNone(membership.actor))
          return yield* refuseLogin(plane, grant, key, "reconsent_required")
        const actor = membership.actor.value
        if (Option.exists(grant.actor, ({ public_id }) => public_id !== actor.public_id)) {
          return yield* new Failure("dependency_unavailable", {
            details: { dependency: "iam", reason: "actor_mismatch" }
          })
        }
        countReplay("login", grant.replayed)
        const credential = { token: grant.accessToken, organisation: membership.organisation }
        const caller: Caller = { credential, actor, membership, introspection }
        const ting = yield* loginOutcomes.registerOnce(plane, caller, iamKey, grant.replayed)
        const session: LoginSession = { ...toSession(plane, grant, introspection, membership, actor), ting }
        return session
      }).pipe(once("login", plane, key, slt))

    const rotate = Effect.fnUntraced(function* (
      plane: Plane,
      token: Redacted.Redacted,
      key: Redacted.Redacted
    ) {
      const grant = yield* iam
        .refresh(plane, token, upstreamKey("refresh", plane, key))
        .pipe(
          retryIam,
          Effect.mapError(iamFailures.refresh(plane)),
          Effect.catchTag("unauthenticated", refreshRefused)
        )
      countReplay("refresh", grant.replayed)
      const introspection = yield* introspect(plane, grant.accessToken)
      if (Option.isNone(introspection)) return yield* refreshRefused()
      const membership = chooseMembership(grant, introspection.value)
      if (membership === undefined) return yield* loginRefusals.no_organization()
      const actor = resolveActor(introspection.value, membership)
      if (Option.isNone(actor)) return yield* new Failure("reconsent_required")
      return toSession(plane, grant, introspection.value, membership, actor.value)
    })

    const refresh = (
      plane: Plane,
      { key, refreshToken }: Keyed & { readonly refreshToken: Redacted.Redacted }
    ) =>
      refreshTokenPattern.test(Redacted.value(refreshToken))
        ? rotate(plane, refreshToken, key).pipe(once("refresh", plane, key, refreshToken))
        : Effect.fail(refreshRefused())

    /** A string that is no token, or none that IAM revokes, names no session: it succeeds (RFC 7009) and is sent nowhere. */
    const logout = (plane: Plane, { key, token }: Keyed & { readonly token: Redacted.Redacted }) =>
      isRevocable(Redacted.value(token))
        ? revoke(plane, token, upstreamKey("logout", plane, key)).pipe(once("logout", plane, key, token))
        : Effect.void

    const me = (plane: Plane, { actor, introspection, membership }: Caller) => {
      const { organisation, organisationUuid, scopes: granted } = membership
      const recipient = { plane: planeId(plane), organisation, organisationUuid, publicId: actor.public_id }
      return store.recipients.isActive(recipient).pipe(
        logAndMapStoreFailure,
        Effect.map(
          (isRegistered): Me => ({
            authenticated: true,
            actor,
            org_id: organisation,
            membership_id: membership.membershipId,
            session_id: introspection.sessionId,
            scopes: [...granted].sort(),
            ting_ready: isRegistered && granted.includes(scopes.send),
            testing_environment_id: environmentIdOf(plane)
          })
        )
      )
    }

    return { authenticate, login, refresh, logout, me } as const
  })
}) {}
