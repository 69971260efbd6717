import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { Failure } from "../../schema/Failure.ts"
import { type Actor, actorTypeOf, type Credential, scopes } from "../../schema/Identity.ts"
import { accessTokenPattern, refreshTokenPattern } from "../../schema/Patterns.ts"
import type { LoginSession, Me, Session } from "../../schema/Session.ts"
import { digestOf } from "../Digest.ts"
import { Iam, type Introspection, type Membership, type TokenGrant, type UpstreamKey } from "../Iam.ts"
import { Idempotency, upstreamKey } from "../combinators/Idempotency.ts"
import { type LoginRefusal, loginRefusals, makeLoginOutcomes } from "./LoginRegistration.ts"
import { countReplay } from "../Metrics.ts"
import { environmentIdOf, type Plane, planeId } from "../Plane.ts"
import type { Caller } from "../RequestCredentials.ts"
import { retryTransient } from "../combinators/Retry.ts"
import { Store } from "../Store.ts"
import { logAndMapStoreFailure } from "../StoreFailures.ts"
import { failWith, iamFailures, refreshRefused } from "../combinators/UpstreamErrorMapping.ts"
import { UpstreamPlaces } from "../combinators/UpstreamPlaces.ts"

/** The membership a session starts in: IAM's own choice when the grant names one, else the first handle in order. */
const chooseMembership = (grant: TokenGrant, { memberships }: Introspection): Option.Option<Membership> =>
  Option.orElse(
    Option.flatMap(grant.organisation, (handle) =>
      Option.fromNullable(memberships.find(({ organisation }) => organisation === handle))
    ),
    () => Option.fromNullable(memberships[0])
  )

const actorFromPublicId = (publicId: string): Actor => ({
  type: actorTypeOf(publicId),
  public_id: publicId
})

/**
 * The actor of a token in one organisation. Without `self.identity.read` IAM withholds it; the token's own public id, whose
 * prefix gives the type, still identifies callers to themselves.
 */
const resolveActor = (introspection: Introspection, membership: Membership): Option.Option<Actor> =>
  Option.orElse(membership.actor, () => Option.map(introspection.publicId, actorFromPublicId))

/** Seconds until the access token expires: a replayed grant still states the full lifetime (identity-service.md 4). */
const secondsLeft = (grant: TokenGrant, { expiresAt, answeredAt }: Introspection): number =>
  Math.max(0, Math.min(grant.expiresInSeconds, expiresAt - Math.floor(answeredAt / 1000)))

const toSession = (
  plane: Plane,
  grant: TokenGrant,
  introspection: Introspection,
  membership: Membership,
  actor: Actor
): Session => ({
  access_token: Redacted.value(grant.accessToken),
  refresh_token: Redacted.value(grant.refreshToken),
  token_type: "Bearer",
  expires_in: secondsLeft(grant, introspection),
  scope: [...grant.scopes].sort().join(" "),
  actor,
  org_id: membership.organisation,
  org_ids: introspection.memberships.map(({ organisation }) => organisation).sort(),
  testing_environment_id: environmentIdOf(plane)
})

/** Characters; IAM revokes no longer token (identity-service.md 7). */
const longestRevocable = 4_096

const isRevocable = (token: string): boolean =>
  token.length <= longestRevocable && (refreshTokenPattern.test(token) || accessTokenPattern.test(token))

interface Keyed {
  /** The caller's Idempotency-Key. */
  readonly key: Redacted.Redacted
}

/** Login, refresh, logout and the check of a bearer. docs/api.md has the rules of every method under its call. */
export class Sessions extends Effect.Service<Sessions>()("music/Sessions", {
  effect: Effect.gen(function* () {
    const iam = yield* Iam
    const store = yield* Store
    const loginOutcomes = yield* makeLoginOutcomes
    const { executeOnce } = yield* Idempotency
    const { within } = yield* UpstreamPlaces

    /** Every call here is a read or runs under an upstream key. */
    const retryIam = retryTransient({ dependency: "iam", repeatable: true })

    const introspect = (plane: Plane, token: Redacted.Redacted) =>
      iam.introspect(plane, token).pipe(retryIam, failWith(iamFailures.introspect(plane)))

    const revoke = (plane: Plane, token: Redacted.Redacted, key: UpstreamKey) =>
      iam.revoke(plane, token, key).pipe(
        retryIam,
        // The first revocation under this key succeeded, longer ago than IAM replays.
        Effect.catchIf(
          (failure) => failure._tag === "Refused" && failure.code === "idempotency_response_expired",
          () => Effect.void
        ),
        failWith(iamFailures.revoke(plane))
      )

    const identifyCaller = Effect.fnUntraced(function* (
      credential: Credential,
      introspected: ReturnType<typeof introspect>
    ) {
      const { token, organisation } = credential
      const introspection = yield* introspected.pipe(within("iam", digestOf(token)))
      if (Option.isNone(introspection)) return yield* new Failure("unauthenticated")
      const membership = introspection.value.memberships.find(
        (granted) => granted.organisation === organisation
      )
      if (membership === undefined) {
        return yield* new Failure("forbidden", {
          message: "The session does not reach this organisation.",
          hint: "Choose one of your organisations in X-Org-ID; the session's org_ids lists them.",
          details: { reason: "organization_not_granted" }
        })
      }
      const actor = resolveActor(introspection.value, membership)
      if (Option.isNone(actor)) return yield* new Failure("reconsent_required")
      const caller: Caller = {
        credential,
        actor: actor.value,
        membership,
        introspection: introspection.value
      }
      return caller
    })

    /** Introspects the bearer with IAM. */
    const authenticate = (plane: Plane, credential: Credential) =>
      identifyCaller(credential, introspect(plane, credential.token))

    /** The same in one attempt that must answer within `withinMillis`. */
    const authenticateOnce = (plane: Plane, credential: Credential, withinMillis: number) =>
      identifyCaller(
        credential,
        iam
          .introspect(plane, credential.token)
          .pipe(
            retryTransient({ dependency: "iam", repeatable: true, attempts: 1, withinMillis }),
            failWith(iamFailures.introspect(plane))
          )
      )

    /**
     * Refuses a login that IAM granted, and revokes the grant. The refusal is recorded first, so that a repetition gets the same
     * answer even if this process dies in between. A revocation that fails makes the login fail as an outage, to be retried.
     */
    const refuseLogin = (plane: Plane, grant: TokenGrant, key: Redacted.Redacted, refusal: LoginRefusal) =>
      loginOutcomes
        .recordRefusal(plane, upstreamKey("login", plane, key), refusal)
        .pipe(
          Effect.zipRight(revoke(plane, grant.refreshToken, upstreamKey("abandon", plane, key))),
          Effect.zipRight(Effect.fail(loginRefusals[refusal]()))
        )

    const login = Effect.fnUntraced(function* (
      plane: Plane,
      { slt, key }: Keyed & { readonly slt: Redacted.Redacted }
    ) {
      const iamKey = upstreamKey("login", plane, key)
      const logIn = Effect.gen(function* () {
        // Concurrent with the exchange and the introspection, so that an empty catalogue cache adds no round trip.
        yield* Effect.fork(iam.warmCatalogue(plane))
        const grant = yield* iam
          .exchange(plane, slt, iamKey)
          .pipe(retryIam, failWith(iamFailures.login(plane)))
        const introspection = yield* iam.introspect(plane, grant.accessToken).pipe(
          retryIam,
          Effect.catchAll((failure) =>
            // Another instance may have refused this login, and revoked its grant.
            Effect.when(
              loginOutcomes.failRefused(iamKey),
              () => grant.replayed && failure._tag === "Unknown" && failure.inactive === true
            ).pipe(Effect.zipRight(failWith(iamFailures.introspect(plane))(Effect.fail(failure))))
          )
        )
        if (Option.isNone(introspection)) return yield* loginOutcomes.failEndedSession(iamKey)
        const membership = chooseMembership(grant, introspection.value)
        if (Option.isNone(membership)) return yield* refuseLogin(plane, grant, key, "no_organization")
        const actor = membership.value.actor
        if (Option.isNone(actor)) return yield* refuseLogin(plane, grant, key, "reconsent_required")
        if (Option.exists(grant.actor, ({ public_id }) => public_id !== actor.value.public_id)) {
          return yield* new Failure("dependency_unavailable", {
            details: { dependency: "iam", reason: "actor_mismatch" }
          })
        }
        const caller: Caller = {
          credential: { token: grant.accessToken, organisation: membership.value.organisation },
          actor: actor.value,
          membership: membership.value,
          introspection: introspection.value
        }
        countReplay("login", grant.replayed)
        const ting = yield* loginOutcomes.registerOnce(plane, caller, iamKey, grant.replayed)
        const session: LoginSession = {
          ...toSession(plane, grant, introspection.value, membership.value, actor.value),
          ting
        }
        return session
      })
      return yield* logIn.pipe(
        executeOnce({ operation: "login", plane, callerKey: digestOf(key), content: digestOf(slt) }),
        within("iam", digestOf(slt))
      )
    })

    const refresh = Effect.fnUntraced(function* (
      plane: Plane,
      { refreshToken, key }: Keyed & { readonly refreshToken: Redacted.Redacted }
    ) {
      if (!refreshTokenPattern.test(Redacted.value(refreshToken))) return yield* refreshRefused()
      const rotate = Effect.gen(function* () {
        const grant = yield* iam
          .refresh(plane, refreshToken, upstreamKey("refresh", plane, key))
          .pipe(retryIam, failWith(iamFailures.refresh(plane)))
        countReplay("refresh", grant.replayed)
        const introspection = yield* introspect(plane, grant.accessToken)
        if (Option.isNone(introspection)) return yield* refreshRefused()
        const membership = chooseMembership(grant, introspection.value)
        if (Option.isNone(membership)) return yield* loginRefusals.no_organization()
        const actor = resolveActor(introspection.value, membership.value)
        if (Option.isNone(actor)) return yield* new Failure("reconsent_required")
        return toSession(plane, grant, introspection.value, membership.value, actor.value)
      })
      return yield* rotate.pipe(
        executeOnce({
          operation: "refresh",
          plane,
          callerKey: digestOf(key),
          content: digestOf(refreshToken)
        }),
        within("iam", digestOf(refreshToken))
      )
    })

    const logout = Effect.fnUntraced(function* (
      plane: Plane,
      { token, key }: Keyed & { readonly token: Redacted.Redacted }
    ) {
      // A string that is no token, or none that IAM revokes, names no session: it succeeds (RFC 7009) and is sent nowhere.
      if (!isRevocable(Redacted.value(token))) return
      yield* revoke(plane, token, upstreamKey("logout", plane, key)).pipe(
        executeOnce({ operation: "logout", plane, callerKey: digestOf(key), content: digestOf(token) }),
        within("iam", digestOf(token))
      )
    })

    const me = Effect.fnUntraced(function* (plane: Plane, caller: Caller) {
      const { membership, introspection, actor } = caller
      const registered = yield* store.recipients
        .isActive({
          plane: planeId(plane),
          organisation: membership.organisation,
          publicId: actor.public_id
        })
        .pipe(logAndMapStoreFailure)
      const session: Me = {
        authenticated: true,
        actor,
        org_id: membership.organisation,
        membership_id: membership.membershipId,
        session_id: introspection.sessionId,
        scopes: [...membership.scopes].sort(),
        ting_ready: registered && membership.scopes.includes(scopes.send),
        testing_environment_id: environmentIdOf(plane)
      }
      return session
    })

    return { authenticate, authenticateOnce, login, refresh, logout, me } as const
  })
}) {}
