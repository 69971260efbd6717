/** The identifiers and the state of the simulated IAM (identity-service.md 2 and 14). Times are milliseconds. */
import { createHash, randomBytes, randomInt, timingSafeEqual } from "node:crypto"
import type { Now, Reply } from "../Contract.ts"

const second = 1_000
const hour = 3_600 * second

/** Fixed by the service (identity-service.md 2 and 4). */
export const lifetimes = {
  slt: 120 * second,
  access: 1_800 * second,
  family: 900 * 24 * hour,
  secretReplay: 600 * second,
  plainReplay: 24 * hour,
  record: 24 * hour,
  lease: 30 * second,
  rateWindow: 60 * second
} as const

export const shapes = {
  appId: /^[a-z][a-z0-9_-]{0,79}$/,
  orgHandle: /^[a-z0-9_-]{3,50}$/,
  carbon: /^c:[a-z0-9_-]{3,30}$/,
  silicon: /^si:[a-z0-9_-]{3,50}$/,
  uuid: /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i,
  appSecret: /^ask_[A-Za-z0-9_-]{43}$/,
  slt: /^oac_[A-Za-z0-9_-]{43}$/,
  proof: /^obo_[A-Za-z0-9_-]{43}$/,
  idempotencyKey: /^[\x21-\x7e]{16,255}$/,
  endpointId: /^[a-z][a-z0-9_.:-]{2,127}$/,
  sha256: /^[0-9a-f]{64}$/,
  method: /^[!#$%&'*+.^_`|~0-9A-Z-]{1,32}$/,
  unixSeconds: /^(0|[1-9][0-9]{0,19})$/
} as const

type ActorKind = "carbon" | "silicon"

/** The kind of a public id, or `undefined` when it is malformed. */
export const kindOf = (publicId: string): ActorKind | undefined =>
  shapes.carbon.test(publicId) ? "carbon" : shapes.silicon.test(publicId) ? "silicon" : undefined

/** 256 random bits behind a prefix: 47 characters. */
export const randomToken = (prefix: "ask" | "oat" | "ort" | "oac" | "obo" | "whs"): string =>
  `${prefix}_${randomBytes(32).toString("base64url")}`

const alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

export const randomRootKey = (): string =>
  Array.from({ length: 32 }, () => alphanumeric.charAt(randomInt(alphanumeric.length))).join("")

/** A UUID of version 7 for a time in milliseconds. */
export const uuidAt = (milliseconds: number): string => {
  const bytes = randomBytes(16)
  bytes.writeUIntBE(Math.floor(milliseconds), 0, 6)
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x70, 6)
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8)
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5")
}

/** Compares two secrets in constant time; the lengths do not leak either. */
export const sameSecret = (left: string, right: string): boolean =>
  timingSafeEqual(createHash("sha256").update(left).digest(), createHash("sha256").update(right).digest())

/** RFC 3339 in UTC; a fraction only when there is one, without trailing zeros. */
export const rfc3339 = (milliseconds: number): string =>
  new Date(milliseconds).toISOString().replace(/\.?0+Z$/, "Z")

export const unixSeconds = (milliseconds: number): number => Math.floor(milliseconds / second)

/** `"production"`, or the UUID of a testing environment. */
export type PlaneId = string
export const production: PlaneId = "production"

export interface Environment {
  readonly id: string
  readonly orgId: string
  readonly name: string
  readonly createdAt: number
  readonly rootKey: string
  deleted: boolean
}

export interface Organization {
  readonly id: string
  readonly handle: string
  readonly name: string
}

export interface Membership {
  readonly id: string
  readonly actor: string
  readonly org: string
  status: "active" | "removed"
  /** Raised by every change; so is the epoch of its authority. */
  version: number
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

interface Slt {
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
  readonly membershipVersion: number
  readonly endpointId: string
  readonly path: string
  readonly method: string
  readonly bodySha256: string
  readonly expiresAt: number
  consumedAt: number | null
}

interface IdempotencyRecord {
  readonly digest: string
  readonly createdAt: number
  readonly replayUntil: number
  readonly reply: Reply
  /** False when the stored result may no longer be replayed, such as a consumed proof. */
  readonly live: () => boolean
}

export const makePlane = (id: PlaneId, environment: Environment | undefined) => ({
  id,
  /** `undefined` in production. */
  environment,
  organizations: new Map<string, Organization>(),
  /** Kinds by public id. */
  actors: new Map<string, ActorKind>(),
  /** By membership id, `c:ana[acme]`. */
  memberships: new Map<string, Membership>(),
  apps: new Map<string, App>(),
  slts: new Map<string, Slt>(),
  families: new Map<string, Family>(),
  accessTokens: new Map<string, AccessToken>(),
  refreshTokens: new Map<string, RefreshToken>(),
  proofs: new Map<string, Proof>(),
  idempotency: new Map<string, IdempotencyRecord>(),
  rates: new Map<string, { readonly startedAt: number; count: number }>()
})

/** Each plane has its own copy of everything. */
export type Plane = Readonly<ReturnType<typeof makePlane>>

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

/** Records a credential in `minted` and returns it. */
export const mint = (state: State, credential: string): string => {
  state.minted.push(credential)
  return credential
}

/** A plane that exists. Throws for an unknown id, which is a mistake of the test. */
export const planeOf = (state: State, id: PlaneId): Plane => {
  const plane = state.planes.get(id)
  if (plane === undefined || plane.environment?.deleted === true) throw new Error(`there is no plane ${id}`)
  return plane
}

/** An entry that exists. Throws for an unknown name, which is a mistake of the test. */
export const known = <A>(entries: ReadonlyMap<string, A>, name: string): A => {
  const entry = entries.get(name)
  if (entry === undefined) throw new Error(`there is no ${name}`)
  return entry
}
