/** Named failures of the tracker, before or after the write has taken place (issue-tracker.md 3 and 7). */
import type { Fault } from "../Simulator.ts"
import { secondaryMessage } from "./Limits.ts"
import { badCredentials, htmlError, message, noPermission, validationFailed } from "./Replies.ts"

const serverError = message(500, "Server Error")
const unavailable = {
  status: 503,
  body: {
    code: "unavailable",
    message: "Service unavailable",
    documentation_url: "https://docs.github.com/rest"
  }
}
const spam = "The listed endpoint has been spammed."

export const failures = {
  "500": { kind: "reply", reply: serverError },
  "500-after": { kind: "reply-after", reply: serverError },
  "502": { kind: "reply", reply: htmlError(502) },
  "502-after": { kind: "reply-after", reply: htmlError(502) },
  "503": { kind: "reply", reply: unavailable },
  "503-after": { kind: "reply-after", reply: unavailable },
  "504": { kind: "reply", reply: htmlError(504) },
  "504-after": { kind: "reply-after", reply: htmlError(504) },
  drop: { kind: "drop" },
  "drop-after": { kind: "drop-after" },
  hang: { kind: "hang" },
  "hang-after": { kind: "hang-after" },
  "bad-credentials": { kind: "reply", reply: badCredentials },
  "no-permission": { kind: "reply", reply: noPermission },
  blocked: { kind: "reply", reply: message(403, "User is blocked") },
  legal: { kind: "reply", reply: message(451, "Repository access blocked") },
  spammed: {
    kind: "reply",
    reply: validationFailed({ resource: "Issue", field: "base", code: "unprocessable", message: spam })
  }
} as const satisfies Readonly<Record<string, Fault>>

export type TrackerFailure = keyof typeof failures

/** A secondary limit, with or without `Retry-After` in seconds. The request is not executed. */
export const secondaryLimit = (options: {
  readonly status: 403 | 429
  readonly retryAfter: number | undefined
}): Fault => ({
  kind: "reply",
  reply: message(
    options.status,
    secondaryMessage,
    options.retryAfter === undefined ? {} : { "retry-after": String(options.retryAfter) }
  )
})
