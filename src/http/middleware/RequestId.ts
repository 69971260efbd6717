import { requestIdPattern } from "../../schema/Identity.ts"
import { randomHex } from "../../services/Digest.ts"

/** A caller's own id when it is well-formed and sent once, otherwise a new one. */
export const requestIdOf = (given: string | undefined): string =>
  given !== undefined && requestIdPattern.test(given) ? given : `req_${randomHex(16)}`
