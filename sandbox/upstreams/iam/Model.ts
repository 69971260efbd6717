/** What the simulated IAM remembers (identity-service.md 14). Every plane has all of it for itself. Times in milliseconds. */
import type { Now, Reply } from "../Simulator.ts"
import type { ActorKind } from "./Grammar.ts"

/** `"production"`, or the UUID of a testing environment. */
export type PlaneId = string

export const production: PlaneId = "production"

export interface Environment {
  readonly id: string
  readonly orgId: string
  readonly name: string
  readonly description: string | null
  readonly createdAt: number
  readonly creator: string
  rootKey: string
  /** Rises with every cleaning; goes out in testing webhooks. */
  generation: number
  keyGeneration: number
  version: number
  cleanedAt: number | null
  deleted: boolean
}

export interface Organization {
  readonly id: string
  readonly handle: string
  readonly name: string
  status: "active" | "suspended"
  version: number
}

export interface Actor {
  readonly publicId: string
  readonly kind: ActorKind
  displayName: string
  status: "active" | "inactive"
  epoch: number
  version: number
}

export type OrgRole = "owner" | "admin" | "member"

export interface Tag {
  readonly id: string
  readonly name: string
}

export interface Membership {
  readonly id: string
  readonly actor: string
  readonly org: string
  role: OrgRole
  tags: ReadonlyArray<Tag>
  status: "active" | "removed"
  version: number
  epoch: number
}

export interface Endpoint {
  readonly endpointId: string
  path: string
  ttlSeconds: number
  critical: boolean
  /** A schema: each key is required at exchange, with an optional `{ "type": … }`. */
  metadata: Readonly<Record<string, unknown>>
  active: boolean
}

export interface Webhook {
  readonly url: string
  readonly secret: string
  readonly keyVersion: number
}

export type WebhookCategory = "full" | "membership" | "updates" | "trust"

export interface App {
  readonly appId: string
  readonly orgId: string
  readonly name: string
  readonly baseUrl: string
  readonly visibility: "public" | "private"
  /** Brought into a testing plane from production, rather than created inside it. */
  readonly imported: boolean
  secret: string
  status: "active" | "disabled"
  approvedScopes: ReadonlySet<string>
  readonly endpoints: Map<string, Endpoint>
  /** Its own; an imported app without one uses production's. */
  webhook: Webhook | undefined
  webhookScope: ReadonlyArray<WebhookCategory>
}

/** A parent IAM session: what the user has with IAM itself. It outlives every application login made from it. */
export interface Session {
  readonly id: string
  readonly actor: string
  /** The session's own IAM credential, never valid on the routes of an application. */
  readonly bearer: string
  readonly createdAt: number
  status: "active" | "revoked"
  version: number
  /** Selected organisations by application; public applications add to it, private ones replace it. */
  readonly selected: Map<string, ReadonlySet<string>>
}

export interface Slt {
  readonly token: string
  readonly appId: string
  readonly actor: string
  readonly sessionId: string
  readonly scopes: ReadonlyArray<string>
  readonly expiresAt: number
  spent: boolean
}

export interface Family {
  readonly id: string
  readonly appId: string
  readonly actor: string
  readonly sessionId: string
  /** The scopes of the login; a refresh never goes beyond them. */
  readonly scopes: ReadonlyArray<string>
  readonly createdAt: number
  readonly expiresAt: number
  status: "active" | "revoked" | "compromised"
}

interface Token {
  readonly token: string
  readonly family: Family
  readonly scopes: ReadonlyArray<string>
  readonly issuedAt: number
  readonly expiresAt: number
}

export interface AccessToken extends Token {
  revoked: boolean
}

export interface RefreshToken extends Token {
  consumed: boolean
}

export interface Proof {
  readonly proof: string
  readonly id: string
  readonly issuer: string
  readonly audience: string
  readonly subject: AccessToken
  /** The handle. */
  readonly org: string
  readonly membershipEpoch: number
  readonly endpointId: string
  readonly path: string
  readonly metadata: Readonly<Record<string, unknown>>
  readonly method: string
  readonly bodySha256: string
  readonly expiresAt: number
  consumedAt: number | null
  revoked: boolean
}

export interface IdempotencyRecord {
  readonly digest: string
  readonly createdAt: number
  readonly replayUntil: number
  readonly reply: Reply
  /** Whether the stored result is still good; a consumed proof is not replayed. */
  readonly live: () => boolean
}

export interface RateBucket {
  readonly startedAt: number
  count: number
}

export interface Plane {
  readonly id: PlaneId
  /** `undefined` in production. */
  readonly environment: Environment | undefined
  readonly organizations: Map<string, Organization>
  readonly actors: Map<string, Actor>
  /** By membership id, `c:ana[acme]`. */
  readonly memberships: Map<string, Membership>
  readonly apps: Map<string, App>
  readonly sessions: Map<string, Session>
  readonly slts: Map<string, Slt>
  readonly families: Map<string, Family>
  readonly accessTokens: Map<string, AccessToken>
  readonly refreshTokens: Map<string, RefreshToken>
  readonly proofs: Map<string, Proof>
  /** Consented scopes by `actor app`. */
  readonly consents: Map<string, ReadonlySet<string>>
  readonly idempotency: Map<string, IdempotencyRecord>
  readonly rates: Map<string, RateBucket>
}

export interface State {
  readonly now: Now
  /** Requests per 60 s for one (claimed app id, path) of a plane. */
  readonly rateLimit: number
  readonly planes: Map<PlaneId, Plane>
  /** Every credential ever made, so that a test can look for it where it must not be. */
  readonly minted: Array<string>
  /** Idempotency keys whose first request is made to look unfinished, with the end of the lease. */
  readonly held: Map<string, number>
  readonly sunset: Set<string>
  testingAvailable: boolean
}

export const makePlane = (id: PlaneId, environment: Environment | undefined): Plane => ({
  id,
  environment,
  organizations: new Map(),
  actors: new Map(),
  memberships: new Map(),
  apps: new Map(),
  sessions: new Map(),
  slts: new Map(),
  families: new Map(),
  accessTokens: new Map(),
  refreshTokens: new Map(),
  proofs: new Map(),
  consents: new Map(),
  idempotency: new Map(),
  rates: new Map()
})

/** Forgets everything of a plane, its secrets and identities first of all. */
export const emptyPlane = (plane: Plane): void => {
  for (const value of Object.values(plane)) if (value instanceof Map) value.clear()
}

export const makeState = (now: Now, rateLimit: number): State => ({
  now,
  rateLimit,
  planes: new Map([[production, makePlane(production, undefined)]]),
  minted: [],
  held: new Map(),
  sunset: new Set(),
  testingAvailable: true
})

/** Notes a credential in `minted` and hands it back. */
export const mint = (state: State, credential: string): string => {
  state.minted.push(credential)
  return credential
}
