/** The state of the simulated IAM (identity-service.md 14). Each plane has its own copy of everything. Times are milliseconds. */
import type { Now, Reply } from "../Simulator.ts"
import type { ActorKind } from "./Identifiers.ts"

/** `"production"`, or the UUID of a testing environment. */
export type PlaneId = string

export const production: PlaneId = "production"

export interface Environment {
  readonly id: string
  readonly orgId: string
  readonly name: string
  readonly createdAt: number
  readonly creator: string
  readonly rootKey: string
  deleted: boolean
}

export interface Organization {
  readonly id: string
  readonly handle: string
  readonly name: string
}

export interface Actor {
  readonly publicId: string
  readonly kind: ActorKind
  readonly epoch: number
}

export interface Membership {
  readonly id: string
  readonly actor: string
  readonly org: string
  status: "active" | "removed"
  version: number
  epoch: number
}

export interface Endpoint {
  readonly endpointId: string
  path: string
  readonly ttlSeconds: number
  active: boolean
}

export interface Webhook {
  readonly url: string
  readonly secret: string
  readonly keyVersion: number
}

export interface App {
  readonly appId: string
  readonly orgId: string
  readonly name: string
  /** Copied into a testing plane from production, rather than created inside it. */
  readonly imported: boolean
  secret: string
  approvedScopes: ReadonlySet<string>
  readonly endpoints: Map<string, Endpoint>
  /** Its own webhook. An imported app without one uses production's. */
  webhook: Webhook | undefined
}

/** A parent IAM session. One login of one application is made from it. */
export interface Session {
  readonly id: string
  readonly actor: string
  /** The organisations that the user selected for the application. */
  readonly organizations: ReadonlySet<string>
}

export interface Slt {
  readonly token: string
  readonly appId: string
  readonly session: Session
  readonly scopes: ReadonlyArray<string>
  readonly expiresAt: number
  spent: boolean
}

export interface Family {
  readonly id: string
  readonly appId: string
  readonly actor: string
  readonly session: Session
  /** The scopes of the login. A refresh never exceeds them. */
  readonly scopes: ReadonlyArray<string>
  readonly expiresAt: number
  status: "active" | "revoked" | "compromised"
}

interface Token {
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
  readonly id: string
  readonly issuer: string
  readonly audience: string
  readonly subject: AccessToken
  /** The organisation's handle. */
  readonly org: string
  readonly membershipEpoch: number
  readonly endpointId: string
  readonly path: string
  readonly method: string
  readonly bodySha256: string
  readonly expiresAt: number
  consumedAt: number | null
}

export interface IdempotencyRecord {
  readonly digest: string
  readonly createdAt: number
  readonly replayUntil: number
  readonly reply: Reply
  /** False when the stored result may no longer be replayed, such as a consumed proof. */
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
  /** Every credential ever made, so that a test can search logs and databases for leaks. */
  readonly minted: Array<string>
  /** End of the simulated lease by idempotency key; until then the key answers `idempotency_in_progress`. */
  readonly held: Map<string, number>
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

export const makeState = (now: Now, rateLimit: number): State => ({
  now,
  rateLimit,
  planes: new Map([[production, makePlane(production, undefined)]]),
  minted: [],
  held: new Map()
})

/** Records a credential in `minted` and returns it. */
export const mint = (state: State, credential: string): string => {
  state.minted.push(credential)
  return credential
}
