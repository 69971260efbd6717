/** Formats, lifetimes and generators of IAM's identifiers (identity-service.md 2). Times are milliseconds. */
import { createHash, randomBytes, randomInt, timingSafeEqual } from "node:crypto"

const second = 1000
const hour = 3600 * second

/** Fixed by the service, milliseconds (identity-service.md 2 and 4). */
export const lifetimes = {
  slt: 120 * second,
  access: 1800 * second,
  family: 900 * 24 * hour,
  secretReplay: 600 * second,
  plainReplay: 24 * hour,
  record: 24 * hour,
  lease: 30 * second,
  rateWindow: 60 * second
} as const

/** Largest difference of an OBO timestamp from now, seconds, in both directions, inclusive. */
export const timestampTolerance = 60

export const bodyLimit = 65_536

export const shapes = {
  appId: /^[a-z][a-z0-9_-]{0,79}$/,
  orgHandle: /^[a-z0-9_-]{3,50}$/,
  carbon: /^c:[a-z0-9_-]{3,30}$/,
  silicon: /^si:[a-z0-9_-]{3,50}$/,
  uuid: /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i,
  appSecret: /^ask_[A-Za-z0-9_-]{43}$/,
  slt: /^oac_[A-Za-z0-9_-]{43}$/,
  proof: /^obo_[A-Za-z0-9_-]{43}$/,
  rootKey: /^[A-Za-z0-9]{32}$/,
  webhookSecret: /^[\x21-\x7e]{32,512}$/,
  idempotencyKey: /^[\x21-\x7e]{16,255}$/,
  endpointId: /^[a-z][a-z0-9_.:-]{2,127}$/,
  sha256: /^[0-9a-f]{64}$/,
  method: /^[!#$%&'*+.^_`|~0-9A-Z-]{1,32}$/,
  unixSeconds: /^(0|[1-9][0-9]{0,19})$/
} as const

export type ActorKind = "carbon" | "silicon"

/** The kind of a public id, or `undefined` when it is malformed. */
export const kindOf = (publicId: string): ActorKind | undefined =>
  shapes.carbon.test(publicId) ? "carbon" : shapes.silicon.test(publicId) ? "silicon" : undefined

export type Prefix = "ask" | "oat" | "ort" | "oac" | "obo"

/** 256 random bits behind a prefix: 47 characters. */
export const randomToken = (prefix: Prefix): string => `${prefix}_${randomBytes(32).toString("base64url")}`

const alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

export const randomRootKey = (): string =>
  Array.from({ length: 32 }, () => alphanumeric.charAt(randomInt(alphanumeric.length))).join("")

export const randomWebhookSecret = (): string => `whs_${randomBytes(32).toString("base64url")}`

/** A UUID of version 7 for a time in milliseconds. */
export const uuidAt = (milliseconds: number): string => {
  const bytes = randomBytes(16)
  bytes.writeUIntBE(Math.floor(milliseconds), 0, 6)
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x70, 6)
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8)
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5")
}

export const sha256 = (value: string | Buffer): string => createHash("sha256").update(value).digest("hex")

/** Compares two secrets in constant time; the lengths do not leak either. */
export const sameSecret = (left: string, right: string): boolean =>
  timingSafeEqual(createHash("sha256").update(left).digest(), createHash("sha256").update(right).digest())

/** RFC 3339 in UTC; a fraction only when there is one, without trailing zeros. */
export const rfc3339 = (milliseconds: number): string =>
  new Date(milliseconds).toISOString().replace(/\.?0+Z$/, "Z")

export const unixSeconds = (milliseconds: number): number => Math.floor(milliseconds / second)

export const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** JSON with sorted keys, so that equal payloads have equal digests. */
export const canonicalJson = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`
  if (!isRecord(value)) return JSON.stringify(value) ?? "null"
  const members = Object.keys(value)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonicalJson(value[key])}`)
  return `{${members.join(",")}}`
}
