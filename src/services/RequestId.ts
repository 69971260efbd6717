import { requestIdPattern } from "../schema/Identity.ts"
import { randomHex } from "./Digest.ts"
import { redact } from "./Redaction.ts"

/** A caller's own id when it is well-formed and sent once, and no credential put in the wrong place; otherwise a new one. */
export const requestIdOf = (given: string | undefined): string =>
  given !== undefined && requestIdPattern.test(given) && redact(given) === given
    ? given
    : `req_${randomHex(16)}`
