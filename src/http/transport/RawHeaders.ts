/** Headers as they were sent. */
import { randomUUID } from "node:crypto"
import type { IncomingMessage } from "node:http"
import { requestIdPattern } from "../../schema/Patterns.ts"
import { redact } from "../../services/text/Redaction.ts"

/** How often a header was sent. Counts the raw list, because Node keeps the first of some headers and joins others. */
export const countHeader = ({ rawHeaders }: IncomingMessage, name: string): number => {
  let count = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const raw = rawHeaders[at]
    if (raw !== undefined && raw.length === name.length && raw.toLowerCase() === name) count += 1
  }
  return count
}

/** The caller's own request id when it is well-formed, sent once and no misplaced credential; otherwise a new one. */
export const resolveRequestId = (given: string | undefined): string =>
  given !== undefined && requestIdPattern.test(given) && redact(given) === given
    ? given
    : `req_${randomUUID().replaceAll("-", "")}`
