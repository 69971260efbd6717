/** The identity service as the backend needs it. Contract: identity-service.md; failures are typed by outcome. */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import type { Actor, ActorType } from "../schema/Identity.ts"
import type { Plane, TestingPlane } from "./Plane.ts"
import type { UpstreamFailure } from "./UpstreamFailure.ts"

/** 64 lower-case hex characters, see `Idempotency.upstreamKey`. */
export type UpstreamKey = string & { readonly UpstreamKey: unique symbol }

/** A fresh pair of tokens. */
export interface TokenGrant {
  readonly accessToken: Redacted.Redacted
  readonly refreshToken: Redacted.Redacted
  /** Seconds, as IAM says it: on a replay it is not what is left. */
  readonly expiresInSeconds: number
  readonly scopes: ReadonlyArray<string>
  readonly actor: Option.Option<Actor>
  /** Only for a token that is bound to one organisation. */
  readonly organisation: Option.Option<string>
  /** IAM answered with `Idempotency-Replayed: true`. */
  readonly replayed: boolean
}

/** What a token may do in one organisation, recomputed by IAM at every look. */
export interface Membership {
  readonly organisation: string
  readonly organisationUuid: string
  /** Like `si:deejay[acme]`. */
  readonly membershipId: string
  readonly membershipVersion: number
  readonly authorizationEpoch: number
  readonly scopes: ReadonlyArray<string>
  /** None without `self.identity.read`. */
  readonly actor: Option.Option<Actor>
}

/** A live access token. All checks that the contract recommends have passed (identity-service.md 6.3). */
export interface Introspection {
  readonly publicId: Option.Option<string>
  readonly actorType: Option.Option<ActorType>
  readonly sessionId: string
  readonly scopes: ReadonlyArray<string>
  /** Unix seconds. */
  readonly issuedAt: number
  readonly expiresAt: number
  /** The answer's own `Date`, milliseconds since the epoch; our clock when it has none. */
  readonly answeredAt: number
  /** One per organisation that the token reaches, ascending by handle. */
  readonly memberships: ReadonlyArray<Membership>
}

export type TingEndpoint = "subscriptions.register" | "tings.send"

/** A single-use proof, bound to the bytes it was asked for. Never logged, never stored, never reused. */
export interface Proof {
  readonly bearer: Redacted.Redacted
  /** Path that the proof is bound to, from the catalogue. */
  readonly path: string
  /** Ting's own test credentials; present exactly in a testing plane. */
  readonly testing: Option.Option<{
    readonly applicationSecret: Redacted.Redacted
    readonly environmentKey: Redacted.Redacted
  }>
}

/** A delivery whose signature, form and plane fields were checked (identity-service.md 11.2). Holds no testing key. */
export interface WebhookEvent {
  readonly plane: { readonly _tag: "Production" } | WebhookTestingPlane
  readonly eventId: string
  readonly eventType: string
  readonly occurredAt: string
  readonly organisationUuid: Option.Option<string>
  readonly aggregate: { readonly type: string; readonly id: string; readonly version: number }
  readonly data: Readonly<Record<string, unknown>>
}

export interface WebhookTestingPlane {
  readonly _tag: "Testing"
  /** Absent in deliveries of older senders. */
  readonly environmentId: Option.Option<string>
  /** Lower-case hex SHA-256 of the delivery's testing key; the key itself is dropped. */
  readonly keyDigest: string
}

/** The delivery is not IAM's. `reason` names the failed step, for the log; it holds nothing of the delivery. */
export class WebhookRejected extends Data.TaggedError("WebhookRejected")<{ readonly reason: string }> {}

export interface IamService {
  /**
   * Spends an SLT. Replays under the same key for 600 s (identity-service.md 5). Fails with nothing spent while looks at
   * tokens fail: the grant could not be completed.
   */
  readonly exchange: (
    plane: Plane,
    slt: Redacted.Redacted,
    key: UpstreamKey
  ) => Effect.Effect<TokenGrant, UpstreamFailure>
  /**
   * Rotates a refresh token. Replays under the same key for 600 s; under another key a consumed token kills its family.
   * Fails with nothing spent while looks at tokens fail.
   */
  readonly refresh: (
    plane: Plane,
    refreshToken: Redacted.Redacted,
    key: UpstreamKey
  ) => Effect.Effect<TokenGrant, UpstreamFailure>
  /** Revokes a family (`ort_`) or one token (`oat_`); succeeds for unknown tokens too. */
  readonly revoke: (
    plane: Plane,
    token: Redacted.Redacted,
    key: UpstreamKey
  ) => Effect.Effect<void, UpstreamFailure>
  /** Looks at an access token without naming an organisation; none when it is not live (identity-service.md 6.2). */
  readonly introspect: (
    plane: Plane,
    accessToken: Redacted.Redacted
  ) => Effect.Effect<Option.Option<Introspection>, UpstreamFailure>
  /** Verifies a test application secret with IAM; remembered for at most 60 s by a digest. */
  readonly resolvePlane: (secret: Redacted.Redacted) => Effect.Effect<TestingPlane, UpstreamFailure>
  /** Asks for a proof over the exact bytes of one call to Ting. One key, one proof: a retry takes a new key. */
  readonly prove: (
    plane: Plane,
    request: {
      readonly subject: Redacted.Redacted
      readonly organisation: string
      readonly endpoint: TingEndpoint
      readonly body: Uint8Array
      readonly key: UpstreamKey
    }
  ) => Effect.Effect<Proof, UpstreamFailure>
  /** Fetches Ting's catalogue when it is not in the cache, so that a later `prove` needs no extra round trip. Never fails. */
  readonly warmCatalogue: (plane: Plane) => Effect.Effect<void>
  /** Verifies a delivery over the raw header list (`[name, value, name, value, …]`) and the exact bytes. */
  readonly verifyWebhook: (delivery: {
    readonly rawHeaders: ReadonlyArray<string>
    readonly body: Uint8Array
  }) => Effect.Effect<WebhookEvent, WebhookRejected>
}

export class Iam extends Context.Tag("music/Iam")<Iam, IamService>() {}
