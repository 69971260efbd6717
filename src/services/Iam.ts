/** The port of the identity service. Contract: identity-service.md. Failures are typed by outcome (`UpstreamFailure`). */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import type { Actor, Credential } from "../schema/Identity.ts"
import type { Plane, TestingPlane } from "./Plane.ts"
import type { InboxEvent } from "./store/People.ts"
import type { UpstreamFailure } from "./UpstreamFailure.ts"

/** 64 lower-case hex characters, see `Idempotency.upstreamKey`. */
export type UpstreamKey = string & { readonly UpstreamKey: unique symbol }

/** Codes that end the presented token (identity-service.md 3). */
export const deadTokenCodes = ["invalid_grant", "refresh_token_reuse", "invalid_token"] as const
export type DeadTokenCode = (typeof deadTokenCodes)[number]

/** A fresh pair of tokens. */
export interface TokenGrant {
  readonly accessToken: Redacted.Redacted
  readonly refreshToken: Redacted.Redacted
  /** Seconds, as IAM states them: the full lifetime, also on a replay. */
  readonly expiresInSeconds: number
  readonly scopes: ReadonlyArray<string>
  readonly actor: Option.Option<Actor>
  /** Present when the token is bound to one organisation. */
  readonly organisation: Option.Option<string>
  /** IAM answered with `Idempotency-Replayed: true`. */
  readonly replayed: boolean
}

/** The rights of a token in one organisation, recomputed by IAM at every introspection (identity-service.md 6.3). */
export interface Membership {
  readonly org_id: string
  readonly organization_id: string
  /** For example `si:deejay[acme]`. */
  readonly membership_id: string
  readonly scopes: ReadonlyArray<string>
  /** Withheld without `self.identity.read`. */
  readonly public_id?: string | null | undefined
}

/** A live access token. All checks that the contract recommends have passed (identity-service.md 6.3). */
export interface Introspection {
  readonly public_id?: string | null | undefined
  readonly session_id: string
  /** Unix seconds. */
  readonly expires_at: number
  /** Milliseconds since the epoch: the response's own `Date`, or our clock when it has none. */
  readonly answeredAt: number
  /** One per organisation that the token reaches, ascending by handle. */
  readonly memberships: ReadonlyArray<Membership>
}

/** A caller whom IAM has just verified, in the requested organisation. */
export interface Caller {
  readonly credential: Credential
  readonly actor: Actor
  readonly membership: Membership
  readonly introspection: Introspection
}

export type TingEndpoint = "subscriptions.register" | "tings.send"

/** A single-use proof over the exact bytes of one call. Never logged, never stored, never reused. */
export interface Proof {
  readonly bearer: Redacted.Redacted
  /** The path that the proof is bound to, from Ting's catalogue. */
  readonly path: string
  /** Ting's own test credentials; present only in a testing plane. */
  readonly testing: Option.Option<{
    readonly app_secret: Redacted.Redacted
    readonly iam_test_key: Redacted.Redacted
  }>
}

/** A webhook delivery whose signature, form and plane fields are valid (identity-service.md 11.2). Holds no testing key. */
export interface WebhookEvent extends Omit<InboxEvent, "plane" | "data" | "receivedAt"> {
  /** None in production. */
  readonly testing: Option.Option<{
    /** Older senders leave it out. */
    readonly environmentId: Option.Option<string>
    /** Lower-case hex SHA-256 of the delivery's testing key; the key itself is dropped. */
    readonly keyDigest: string
  }>
  readonly data: Readonly<Record<string, unknown>>
}

/**
 * The delivery does not come from IAM, or, when it is `signed` with its secret, breaks another rule. `reason` names the failed check
 * for the log and holds nothing of the delivery.
 */
export class WebhookRejected extends Data.TaggedError("WebhookRejected")<{
  readonly reason: string
  readonly signed: boolean
}> {}

/** Presents a token under a key: IAM executes it once, and replays it under the same key for 600 s (identity-service.md 5). */
type KeyedCall<A> = (
  plane: Plane,
  token: Redacted.Redacted,
  key: UpstreamKey
) => Effect.Effect<A, UpstreamFailure>

export interface IamService {
  /** Exchanges an SLT for tokens. While introspections fail it fails without spending the SLT: the login could not be completed. */
  readonly exchange: KeyedCall<TokenGrant>
  /** The same with a refresh token; under another key a consumed token revokes its family. */
  readonly refresh: KeyedCall<TokenGrant>
  /** Revokes a token family (`ort_`) or one access token (`oat_`); also succeeds for unknown tokens. */
  readonly revoke: KeyedCall<void>
  /** Introspects an access token without naming an organisation; none when it is not live (identity-service.md 6.2). */
  readonly introspect: (
    plane: Plane,
    accessToken: Redacted.Redacted
  ) => Effect.Effect<Option.Option<Introspection>, UpstreamFailure>
  /** Verifies a test application secret with IAM; the result is cached by a digest for at most 60 s. */
  readonly resolvePlane: (secret: Redacted.Redacted) => Effect.Effect<TestingPlane, UpstreamFailure>
  /** Requests a proof over the exact bytes of one call to Ting. Each proof needs a new key, also on a retry. */
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
  /** Verifies a delivery by its raw header list (`[name, value, name, value, …]`) and the exact bytes of its body. */
  readonly verifyWebhook: (delivery: {
    readonly rawHeaders: ReadonlyArray<string>
    readonly body: Uint8Array
  }) => Effect.Effect<WebhookEvent, WebhookRejected>
}

export class Iam extends Context.Tag("music/Iam")<Iam, IamService>() {}
