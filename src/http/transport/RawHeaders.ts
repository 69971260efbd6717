import type { IncomingMessage } from "node:http"

/** How often a header was sent. Counts the raw list, because Node keeps the first of some headers and joins others. */
export const countHeader = ({ rawHeaders }: IncomingMessage, name: string): number => {
  let count = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const raw = rawHeaders[at]
    if (raw !== undefined && raw.length === name.length && raw.toLowerCase() === name) count += 1
  }
  return count
}
