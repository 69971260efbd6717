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

/** Three numbers, and an optional pre-release or build. */
export const clientVersionPattern = /^\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]+)?$/

/** Characters of the longest version that a client may send. */
export const clientVersionMaxLength = 64
