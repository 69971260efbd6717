import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import {
  DependencyUnavailable,
  type Failure,
  Forbidden,
  ReconsentRequired,
  Unauthenticated
} from "../schema/Failure.ts"
import { type Actor, accessTokenPattern, refreshTokenPattern, scopes } from "../schema/Identity.ts"
import type { LoginSession, Me, Session } from "../schema/Session.ts"
import { actorOf } from "./Actors.ts"
import type { Caller, Credential } from "./RequestCredentials.ts"
import { digestOf } from "./Digest.ts"
import { Iam, type Introspection, type Membership, type TokenGrant } from "./Iam.ts"
import { Idempotency, upstreamKey } from "./Idempotency.ts"
import { type LoginRefusal, loginOutcomes, loginRefusals } from "./LoginOutcomes.ts"
import { countReplay } from "./Metrics.ts"
import { BackendTelemetry } from "./BackendTelemetry.ts"
import { environmentIdOf, type Plane, planeId } from "./Plane.ts"
import { fromIam, loggingStore } from "./UpstreamErrors.ts"
import * as Retry from "./Retry.ts"
import { Store } from "./Store.ts"
import type { UpstreamFailure } from "./UpstreamFailure.ts"
import { UpstreamPlaces } from "./UpstreamPlaces.ts"

const retry = Retry.transient({ dependency: "iam", repeatable: true })

/** The organisation a session starts in: IAM's own choice when it was granted, else the first handle in order. */
const chosen = (grant: TokenGrant, { memberships }: Introspection): Option.Option<Membership> =>
  Option.orElse(
    Option.flatMap(grant.organisation, (handle) =>
      Option.fromNullable(memberships.find(({ organisation }) => organisation === handle))
    ),
    () => Option.fromNullable(memberships[0])
  )

/** Seconds that are left: a replayed answer still says the full lifetime (identity-service.md 4). */
const secondsLeft = (grant: TokenGrant, { expiresAt, answeredAt }: Introspection): number =>
  Math.max(0, Math.min(grant.expiresInSeconds, expiresAt - Math.floor(answeredAt / 1000)))

const sessionOf = (
  plane: Plane,
  grant: TokenGrant,
  live: Introspection,
  home: Membership,
  actor: Actor
): Session => ({
  access_token: Redacted.value(grant.accessToken),
  refresh_token: Redacted.value(grant.refreshToken),
  token_type: "Bearer",
  expires_in: secondsLeft(grant, live),
  scope: [...grant.scopes].sort().join(" "),
  actor,
  org_id: home.organisation,
  org_ids: live.memberships.map(({ organisation }) => organisation).sort(),
  testing_environment_id: environmentIdOf(plane)
})

/** Characters; IAM revokes no longer token (identity-service.md 7). */
const longestRevocable = 4_096

const isRevocable = (token: string): boolean =>
  token.length <= longestRevocable && (refreshTokenPattern.test(token) || accessTokenPattern.test(token))

export interface Keyed {
  /** The caller's Idempotency-Key. */
  readonly key: Redacted.Redacted
}

/** Login, refresh, logout and what a live session is. Every method's rules stand in docs/api.md under its call. */
export class Sessions extends Effect.Service<Sessions>()("music/Sessions", {
  effect: Effect.gen(function* () {
    const iam = yield* Iam
    const store = yield* Store
    const outcomes = yield* loginOutcomes
    const { shared } = yield* Idempotency
    const { within } = yield* UpstreamPlaces
    const events = yield* BackendTelemetry

    const failing = (operation: Parameters<typeof fromIam>[0], plane: Plane) =>
      Effect.catchAll((failure: UpstreamFailure) =>
        Effect.flatMap(Clock.currentTimeMillis, (now) => Effect.fail(fromIam(operation, plane, now)(failure)))
      )

    const introspect = (plane: Plane, token: Redacted.Redacted) =>
      iam.introspect(plane, token).pipe(retry, failing("introspect", plane))

    const vouch = Effect.fnUntraced(function* (
      plane: Plane,
      credential: Credential,
      look: typeof introspect
    ): Effect.fn.Return<Caller, Failure> {
      const { token, organisation } = credential
      const live = yield* look(plane, token).pipe(within("iam", digestOf(token)))
      if (Option.isNone(live)) return yield* new Unauthenticated()
      const membership = live.value.memberships.find((granted) => granted.organisation === organisation)
      if (membership === undefined) {
        return yield* new Forbidden({
          message: "The session does not reach this organisation.",
          hint: "Choose one of your organisations in X-Org-ID; the session's org_ids lists them.",
          details: { reason: "organization_not_granted" }
        })
      }
      const actor = actorOf(live.value, membership)
      if (Option.isNone(actor)) return yield* new ReconsentRequired()
      return { credential, actor: actor.value, membership, introspection: live.value }
    })

    /** Asks IAM about the bearer, live. */
    const authenticate = Effect.fn("Sessions.authenticate")((plane: Plane, credential: Credential) =>
      vouch(plane, credential, introspect)
    )

    /** The same in one attempt that must answer within `withinMillis`. */
    const authenticateOnce = Effect.fn("Sessions.authenticateOnce")(
      (plane: Plane, credential: Credential, withinMillis: number) =>
        vouch(plane, credential, (within, token) =>
          iam
            .introspect(within, token)
            .pipe(
              Retry.transient({ dependency: "iam", repeatable: true, attempts: 1, withinMillis }),
              failing("introspect", within)
            )
        )
    )

    /** Why stands beside the key before the family is ended: a repetition is told the same even if this process dies in between. */
    const refuse = (
      plane: Plane,
      grant: TokenGrant,
      key: Redacted.Redacted,
      refusal: LoginRefusal
    ): Effect.Effect<never, Failure> =>
      outcomes
        .refused(plane, upstreamKey("login", plane, key), refusal)
        .pipe(
          Effect.zipRight(abandon(plane, grant, key)),
          Effect.zipRight(Effect.fail(loginRefusals[refusal]()))
        )

    /** Ends a family that a login cannot be told about; failing to do so fails the login as an outage, to be retried. */
    const abandon = (plane: Plane, grant: TokenGrant, key: Redacted.Redacted) =>
      iam.revoke(plane, grant.refreshToken, upstreamKey("abandon", plane, key)).pipe(
        retry,
        Effect.catchIf(
          (failure) => failure._tag === "Refused" && failure.code === "idempotency_response_expired",
          () => Effect.void
        ),
        failing("revoke", plane)
      )

    const login = Effect.fn("Sessions.login")(function* (
      plane: Plane,
      { slt, key }: Keyed & { readonly slt: Redacted.Redacted }
    ): Effect.fn.Return<LoginSession, Failure> {
      const iamKey = upstreamKey("login", plane, key)
      const run = Effect.gen(function* () {
        // Beside the two calls that come first anyway, so that a cold catalogue costs no round trip of its own.
        yield* Effect.fork(iam.warmCatalogue(plane))
        const grant = yield* iam.exchange(plane, slt, iamKey).pipe(retry, failing("login", plane))
        const found = yield* introspect(plane, grant.accessToken)
        if (Option.isNone(found)) return yield* outcomes.ended(iamKey)
        const live = found.value
        const home = chosen(grant, live)
        if (Option.isNone(home)) return yield* refuse(plane, grant, key, "no_organization")
        const actor = home.value.actor
        if (Option.isNone(actor)) return yield* refuse(plane, grant, key, "reconsent_required")
        if (Option.exists(grant.actor, ({ public_id }) => public_id !== actor.value.public_id)) {
          return yield* new DependencyUnavailable({
            details: { dependency: "iam", reason: "actor_mismatch" }
          })
        }
        const caller: Caller = {
          credential: { token: grant.accessToken, organisation: home.value.organisation },
          actor: actor.value,
          membership: home.value,
          introspection: live
        }
        yield* countReplay("login", grant.replayed)
        const ting = yield* outcomes.ofRegistration(plane, caller, iamKey, grant.replayed)
        return { ...sessionOf(plane, grant, live, home.value, actor.value), ting }
      })
      return yield* run.pipe(
        shared({ operation: "login", plane, callerKey: digestOf(key), content: digestOf(slt) }),
        within("iam", digestOf(slt)),
        events.outcome("login", plane)
      )
    })

    const refresh = Effect.fn("Sessions.refresh")(function* (
      plane: Plane,
      { refreshToken, key }: Keyed & { readonly refreshToken: Redacted.Redacted }
    ): Effect.fn.Return<Session, Failure> {
      if (!refreshTokenPattern.test(Redacted.value(refreshToken))) return yield* new Unauthenticated()
      const run = Effect.gen(function* () {
        const grant = yield* iam
          .refresh(plane, refreshToken, upstreamKey("refresh", plane, key))
          .pipe(retry, failing("refresh", plane))
        yield* countReplay("refresh", grant.replayed)
        const found = yield* introspect(plane, grant.accessToken)
        if (Option.isNone(found)) return yield* new Unauthenticated()
        const home = chosen(grant, found.value)
        if (Option.isNone(home)) return yield* loginRefusals.no_organization()
        const actor = actorOf(found.value, home.value)
        if (Option.isNone(actor)) return yield* new ReconsentRequired()
        return sessionOf(plane, grant, found.value, home.value, actor.value)
      })
      return yield* run.pipe(
        shared({ operation: "refresh", plane, callerKey: digestOf(key), content: digestOf(refreshToken) }),
        within("iam", digestOf(refreshToken))
      )
    })

    const logout = Effect.fn("Sessions.logout")(function* (
      plane: Plane,
      { token, key }: Keyed & { readonly token: Redacted.Redacted }
    ): Effect.fn.Return<void, Failure> {
      const value = Redacted.value(token)
      // What is no token, or none that IAM revokes, is as revoked as it can be (RFC 7009), and the string is sent nowhere.
      if (!isRevocable(value)) return
      yield* iam.revoke(plane, token, upstreamKey("logout", plane, key)).pipe(
        retry,
        // The first revocation under this key succeeded, longer ago than IAM replays.
        Effect.catchIf(
          (failure) => failure._tag === "Refused" && failure.code === "idempotency_response_expired",
          () => Effect.void
        ),
        failing("revoke", plane),
        shared({ operation: "logout", plane, callerKey: digestOf(key), content: digestOf(token) }),
        within("iam", digestOf(token))
      )
    })

    const me = Effect.fn("Sessions.me")(function* (
      plane: Plane,
      caller: Caller
    ): Effect.fn.Return<Me, Failure> {
      const { membership, introspection, actor } = caller
      const registered = yield* store.recipients
        .isActive({ plane: planeId(plane), organisation: membership.organisation, publicId: actor.public_id })
        .pipe(loggingStore)
      return {
        authenticated: true,
        actor,
        org_id: membership.organisation,
        membership_id: membership.membershipId,
        session_id: introspection.sessionId,
        scopes: [...membership.scopes].sort(),
        ting_ready: registered && membership.scopes.includes(scopes.send),
        testing_environment_id: environmentIdOf(plane)
      }
    })

    return { authenticate, authenticateOnce, login, refresh, logout, me } as const
  })
}) {}
