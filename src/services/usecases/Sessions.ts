import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { Failure } from "../../schema/Failure.ts"
import { type Actor, actorTypeOf, type Credential, scopes } from "../../schema/Identity.ts"
import { accessTokenPattern, refreshTokenPattern } from "../../schema/Patterns.ts"
import { failureTable } from "../../schema/FailureTable.ts"
import type { Me, Session, TingOutcome } from "../../schema/Session.ts"
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
import { retryTransient } from "../combinators/Retry.ts"
import { iamFailures, planeFailure } from "../combinators/UpstreamErrorMapping.ts"
import { UpstreamPlaces } from "../combinators/UpstreamPlaces.ts"
import { countReplay } from "../Metrics.ts"
import { environmentIdOf, type Plane, Production, type TestingPlane } from "../Plane.ts"
import { LoginOutcome, Store } from "../Store.ts"
import { logAndMapStoreFailure, writeBestEffort } from "../StoreFailures.ts"
import { Notifications, recipientOf } from "./Notifications.ts"

/** The membership a session starts in: IAM's own choice when the grant names one, else the first handle in order. */
const chooseMembership = (
  { organisation }: TokenGrant,
  { memberships }: Introspection
): Membership | undefined =>
  memberships.find((one) => Option.contains(organisation, one.org_id)) ?? memberships[0]

const toActor = (public_id: string): Actor => ({ type: actorTypeOf(public_id), public_id })

/**
 * The actor of a token in one organisation. Without `self.identity.read` IAM withholds it; the token's own public id, whose
 * prefix gives the type, still identifies callers to themselves.
 */
const resolveActor = (introspection: Introspection, { public_id }: Membership): Option.Option<Actor> =>
  Option.map(Option.fromNullable(public_id ?? introspection.public_id), toActor)

/** Seconds until the access token expires: a replayed grant still states the full lifetime (identity-service.md 4). */
const secondsLeft = ({ expiresInSeconds }: TokenGrant, { answeredAt, expires_at }: Introspection): number =>
  Math.max(0, Math.min(expiresInSeconds, expires_at - Math.floor(answeredAt / 1000)))

const toSession = (
  plane: Plane,
  grant: TokenGrant,
  introspection: Introspection,
  { org_id }: Membership,
  actor: Actor
): Session => ({
  access_token: Redacted.value(grant.accessToken),
  refresh_token: Redacted.value(grant.refreshToken),
  token_type: "Bearer",
  expires_in: secondsLeft(grant, introspection),
  scope: [...grant.scopes].sort().join(" "),
  actor,
  org_id,
  org_ids: introspection.memberships.map((membership) => membership.org_id).sort(),
  testing_environment_id: environmentIdOf(plane)
})

/** The session cannot be refreshed: its refresh token is no live one. */
const refreshRefused = ({ details }: Pick<Failure, "details"> = {}) =>
  new Failure("unauthenticated", {
    ...(details === undefined ? {} : { details }),
    message: "The refresh token is malformed, spent, expired or revoked.",
    hint: "Log in again with a new short-lived token; this session cannot be refreshed."
  })

/** IAM granted a session without any organisation. */
const noOrganisation = () => new Failure("forbidden", { details: { reason: "no_organization" } })

/** The registration of a login has so long, so that a slow Ting cannot hold a login up. */
const longestRegistration = "5 seconds"

const notRegistered = ({ code }: Pick<Failure, "code">): TingOutcome => ({ subscribed: false, error: code })

/** Characters; IAM revokes no longer token (identity-service.md 7). */
const longestRevocable = 4_096

const isRevocable = (token: string): boolean =>
  token.length <= longestRevocable && (refreshTokenPattern.test(token) || accessTokenPattern.test(token))

/** A token under the caller's Idempotency-Key. */
interface Presented {
  readonly token: Redacted.Redacted
  readonly key: Redacted.Redacted
}

/** Login, refresh, logout, and who calls: the plane and the bearer. docs/api.md has the rules of every method under its call. */
export class Sessions extends Effect.Service<Sessions>()("music/Sessions", {
  effect: Effect.gen(function* () {
    const iam = yield* Iam
    const { loginOutcomes, planes, recipients } = yield* Store
    const { subscribe } = yield* Notifications
    const { executeOnce } = yield* Idempotency
    const { within } = yield* UpstreamPlaces

    // Webhooks of a testing environment are accepted once it is known here. The request succeeds without it.
    const rememberPlane = ({ environmentId, webhookKeyDigest }: TestingPlane) =>
      webhookKeyDigest === undefined
        ? Effect.void
        : planes
            .remember(environmentId, webhookKeyDigest)
            .pipe(writeBestEffort("Testing environment not remembered"))

    /** The plane of a testing secret; none means production. A secret that cannot be resolved is refused and never means production. */
    const resolvePlane = (selector: Option.Option<Redacted.Redacted>) =>
      Option.isNone(selector)
        ? Effect.succeed<Plane>(Production())
        : iam
            .resolvePlane(selector.value)
            .pipe(
              retryTransient,
              Effect.mapError(planeFailure),
              within("iam", digestOf(selector.value)),
              Effect.tap(rememberPlane)
            )

    const introspect = (plane: Plane, token: Redacted.Redacted) =>
      iam.introspect(plane, token).pipe(retryTransient, Effect.mapError(iamFailures.introspect(plane)))

    const revoke = (plane: Plane, token: Redacted.Redacted, key: UpstreamKey) =>
      iam.revoke(plane, token, key).pipe(
        retryTransient,
        // The first revocation under this key succeeded, longer ago than IAM replays.
        Effect.catchIf(
          (failure) => failure._tag === "Refused" && failure.code === "idempotency_response_expired",
          () => Effect.void
        ),
        Effect.mapError(iamFailures.revoke(plane))
      )

    /** Runs the work under the caller's key once, in a place for IAM that counts for the token. */
    const once =
      (operation: "login" | "refresh" | "logout", plane: Plane, { key, token }: Presented) =>
      <A, E, R>(work: Effect.Effect<A, E, R>) => {
        const content = digestOf(token)
        return work.pipe(
          executeOnce({ operation, plane, callerKey: digestOf(key), content }),
          within("iam", content)
        )
      }

    /** Introspects the bearer with IAM. */
    const authenticate = Effect.fnUntraced(function* (plane: Plane, credential: Credential) {
      const { organisation, token } = credential
      const introspected = yield* introspect(plane, token).pipe(within("iam", digestOf(token)))
      if (Option.isNone(introspected)) return yield* new Failure("unauthenticated")
      const introspection = introspected.value
      const membership = introspection.memberships.find((granted) => granted.org_id === organisation)
      if (membership === undefined)
        return yield* new Failure("forbidden", { details: { reason: "organization_not_granted" } })
      const actor = resolveActor(introspection, membership)
      if (Option.isNone(actor)) return yield* new Failure("reconsent_required")
      return { credential, actor: actor.value, membership, introspection } satisfies Caller
    })

    const recordOutcome = (key: UpstreamKey, outcome: LoginOutcome) =>
      loginOutcomes.record(key, outcome).pipe(writeBestEffort("Outcome of a login not recorded"))

    /** Where the record cannot be read, the login succeeds without a registration. */
    const findOutcome = (key: UpstreamKey) =>
      logAndMapStoreFailure(loginOutcomes.find(key)).pipe(
        Effect.map(Option.getOrUndefined),
        Effect.catchAll((failure) =>
          Effect.succeed(LoginOutcome.Registration({ ting: notRegistered(failure), transient: false }))
        )
      )

    /**
     * Refuses a login that IAM granted, and revokes the grant. The refusal is recorded first, so that a repetition gets the same
     * answer even if this process dies in between. A revocation that fails makes the login fail as an outage, to be retried.
     */
    const refuseLogin = Effect.fnUntraced(function* (
      plane: Plane,
      grant: TokenGrant,
      key: Redacted.Redacted,
      reason: string
    ) {
      yield* recordOutcome(upstreamKey("login", plane, key), LoginOutcome.Refusal({ reason }))
      yield* revoke(plane, grant.refreshToken, upstreamKey("abandon", plane, key))
      return yield* reason === "no_organization" ? noOrganisation() : new Failure("reconsent_required")
    })

    const registerAtLogin = (plane: Plane, caller: Caller, key: UpstreamKey) =>
      subscribe(plane, caller).pipe(
        Effect.timeoutFail({
          duration: longestRegistration,
          onTimeout: () => new Failure("dependency_unavailable")
        }),
        Effect.match({
          onSuccess: ({ id }) => ({ ting: { subscribed: true, subscription_id: id }, transient: false }),
          onFailure: (failure) => ({
            ting: notRegistered(failure),
            transient: failureTable[failure.code].retryable
          })
        }),
        Effect.tap((registration) => recordOutcome(key, LoginOutcome.Registration(registration))),
        Effect.map(({ ting }) => ting)
      )

    /**
     * IAM replays a login under its key, and what this service did beside it is recorded. A repetition of a refused login is refused again,
     * and one whose session has ended since is `slt_rejected`, for the token is spent. It registers again only after a transient failure:
     * anything else could re-activate a grant that the recipient revoked in between.
     */
    const login = (plane: Plane, given: Presented) =>
      Effect.gen(function* () {
        const { key, token } = given
        const iamKey = upstreamKey("login", plane, key)
        const grant = yield* iam
          .exchange(plane, token, iamKey)
          .pipe(retryTransient, Effect.mapError(iamFailures.login(plane)))
        const recorded = grant.replayed ? yield* findOutcome(iamKey) : undefined
        if (recorded?._tag === "Refusal") return yield* refuseLogin(plane, grant, key, recorded.reason)
        const introspected = yield* introspect(plane, grant.accessToken)
        if (Option.isNone(introspected)) return yield* new Failure("slt_rejected")
        const introspection = introspected.value
        const membership = chooseMembership(grant, introspection)
        if (membership === undefined) return yield* refuseLogin(plane, grant, key, "no_organization")
        if (membership.public_id == null) return yield* refuseLogin(plane, grant, key, "reconsent_required")
        const actor = toActor(membership.public_id)
        if (Option.exists(grant.actor, ({ public_id }) => public_id !== actor.public_id)) {
          return yield* new Failure("dependency_unavailable", {
            details: { dependency: "iam", reason: "actor_mismatch" }
          })
        }
        countReplay("login", grant.replayed)
        const credential = { token: grant.accessToken, organisation: membership.org_id }
        const caller: Caller = { credential, actor, membership, introspection }
        const ting =
          recorded?.transient === false ? recorded.ting : yield* registerAtLogin(plane, caller, iamKey)
        return { ...toSession(plane, grant, introspection, membership, actor), ting }
      }).pipe(once("login", plane, given))

    const refresh = (plane: Plane, given: Presented) =>
      Effect.gen(function* () {
        const { key, token } = given
        if (!refreshTokenPattern.test(Redacted.value(token))) return yield* refreshRefused()
        const grant = yield* iam
          .refresh(plane, token, upstreamKey("refresh", plane, key))
          .pipe(
            retryTransient,
            Effect.mapError(iamFailures.refresh(plane)),
            Effect.catchTag("unauthenticated", refreshRefused)
          )
        countReplay("refresh", grant.replayed)
        const introspection = yield* introspect(plane, grant.accessToken)
        if (Option.isNone(introspection)) return yield* refreshRefused()
        const membership = chooseMembership(grant, introspection.value)
        if (membership === undefined) return yield* noOrganisation()
        const actor = resolveActor(introspection.value, membership)
        if (Option.isNone(actor)) return yield* new Failure("reconsent_required")
        return toSession(plane, grant, introspection.value, membership, actor.value)
      }).pipe(once("refresh", plane, given))

    /** A string that is no token, or none that IAM revokes, names no session: it succeeds (RFC 7009) and is sent nowhere. */
    const logout = (plane: Plane, given: Presented) =>
      isRevocable(Redacted.value(given.token))
        ? revoke(plane, given.token, upstreamKey("logout", plane, given.key)).pipe(
            once("logout", plane, given)
          )
        : Effect.void

    const me = (plane: Plane, caller: Caller) => {
      const { actor, introspection, membership } = caller
      return recipients.isActive(recipientOf(plane, caller)).pipe(
        logAndMapStoreFailure,
        Effect.map(
          (isRegistered): Me => ({
            authenticated: true,
            actor,
            org_id: membership.org_id,
            membership_id: membership.membership_id,
            session_id: introspection.session_id,
            scopes: [...membership.scopes].sort(),
            ting_ready: isRegistered && membership.scopes.includes(scopes.send),
            testing_environment_id: environmentIdOf(plane)
          })
        )
      )
    }

    return { resolvePlane, authenticate, login, refresh, logout, me } as const
  })
}) {}
