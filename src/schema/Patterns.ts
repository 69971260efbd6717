/** Forms of identifiers and credentials (identity-service.md 2), without a library: the client uses them, too. */

/** A person (`c:`) or a machine identity (`si:`). */
export const publicIdPattern = /^(?:c:[a-z0-9_-]{3,30}|si:[a-z0-9_-]{3,50})$/
export const organisationPattern = /^[a-z0-9_-]{3,50}$/
/** Opaque: any visible ASCII characters, up to IAM's longest token. */
export const accessTokenPattern = /^oat_[\x21-\x7e]{28,8188}$/
export const refreshTokenPattern = /^ort_[\x21-\x7e]{28,8188}$/
export const testingSecretPattern = /^ask_[A-Za-z0-9_-]{43}$/
export const idempotencyKeyPattern = /^[\x21-\x7e]{16,255}$/
export const requestIdPattern = /^[A-Za-z0-9._-]{8,128}$/
export const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
/** RFC 3339 with any offset and an optional fraction: `Date.parse` alone also accepts local times and bare years. */
export const rfc3339Pattern = /^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:[Zz]|[+-]\d{2}:\d{2})$/

/**
 * A UUID of version 7, made of a random one: it begins with the time, so that an index of such ids grows at its end, in pages that a database
 * holds in memory. 74 bits stay random.
 */
export const orderedUuid = (millis: number, random: string): string => {
  const time = Math.max(0, Math.trunc(millis)).toString(16).padStart(12, "0").slice(-12)
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(15)}`
}

/** Three numbers, and an optional pre-release or build, in 64 characters. */
export const clientVersionPattern = /^(?=.{5,64}$)\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]+)?$/

/** The three numbers of a version; a pre-release counts as its release. */
const numbersOf = (version: string): string => /^[\d.]+/.exec(version)?.[0] ?? "0"

/** Whether a version precedes another one. */
export const isLowerVersion = (one: string, other: string): boolean =>
  numbersOf(one).localeCompare(numbersOf(other), "en", { numeric: true }) < 0
