/** IAM's own error responses as faults, for `fail` (identity-service.md 3). */
import type { Fault } from "../Simulator.ts"

const envelope = (
  status: number,
  code: string,
  headers: Readonly<Record<string, string>> = {},
  details?: unknown
): Fault => ({
  kind: "reply",
  reply: {
    status,
    headers: { "cache-control": "no-store", "silicon-iam-api-version": "v1", ...headers },
    body: {
      error: {
        code,
        message: code.replaceAll("_", " "),
        ...(details === undefined ? {} : { details })
      }
    }
  }
})

export const iamFaults = {
  rateLimited: (seconds: number): Fault =>
    envelope(
      429,
      "rate_limited",
      {
        "retry-after": String(seconds),
        "ratelimit-limit": "120",
        "ratelimit-remaining": "0",
        "ratelimit-reset": String(seconds)
      },
      { limit: 120, remaining: 0, reset_after_seconds: seconds, retry_after_seconds: seconds }
    ),
  internalError: (): Fault => envelope(500, "internal_error"),
  serviceUnavailable: (): Fault => envelope(503, "service_unavailable", { "retry-after": "5" })
} as const
