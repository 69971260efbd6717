import { randomUUID } from "node:crypto"
import { requestIdPattern } from "../schema/Patterns.ts"
import { redact } from "./text/Redaction.ts"

/** The caller's own request id when it is well-formed, sent once and no misplaced credential; otherwise a new one. */
export const resolveRequestId = (given: string | undefined): string =>
  given !== undefined && requestIdPattern.test(given) && redact(given) === given
    ? given
    : `req_${randomUUID().replaceAll("-", "")}`
