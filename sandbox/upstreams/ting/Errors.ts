/** Ting's error responses: one envelope, a fixed status for each code (notification-service.md 8). */
import type { Reply } from "../Simulator.ts"

const codes = {
  invalid_input: [400, "the request does not fit the contract", "correct the request; do not retry it"],
  test_context_required: [400, "only one testing header was sent", "send both testing headers or neither"],
  authentication_required: [401, "a bearer is required", "send a proof or a session"],
  invalid_proof: [401, "the proof does not fit this request", "obtain a new proof for these bytes"],
  proof_expired: [401, "the proof has expired", "obtain a new proof; keep the body and the key"],
  proof_consumed: [401, "the proof was already used", "obtain a new proof; keep the body and the key"],
  session_expired: [401, "the testing credentials were refused", "obtain a new testing context"],
  permission_denied: [403, "this caller may not do this", "check the application, the actor and the plane"],
  recipient_not_registered: [403, "the recipient has no active grant", "ask the recipient to register"],
  required_delivery_not_enabled: [403, "required delivery is not allowed", "send an ordinary ting"],
  test_context_mismatch: [403, "the testing context is another one", "use one plane for the whole call"],
  not_found: [404, "the resource was not found", "check the identifier"],
  idempotency_conflict: [409, "the key was used with other content", "use a new key for new content"],
  payload_too_large: [413, "the body is too large", "shorten the content"],
  temporarily_rate_limited: [429, "too many requests", "wait, then use a new proof and the same key"],
  dependency_unavailable: [
    503,
    "a dependency did not answer",
    "retry later with a new proof and the same key"
  ],
  storage_unavailable: [503, "the database failed", "retry with a new proof and the same key"],
  proof_verification_uncertain: [503, "the proof could not be verified", "retry with a new proof"]
} as const satisfies Readonly<Record<string, readonly [number, string, string]>>

export type TingCode = keyof typeof codes

/** An error response. It is thrown before anything is stored. */
export class TingError extends Error {
  readonly code: TingCode
  constructor(code: TingCode, message?: string) {
    super(message ?? codes[code][1])
    this.code = code
  }
}

/** The reply of a code. `retryable` depends on the status alone. */
export const errorReply = (
  code: TingCode,
  options: {
    readonly message?: string
    readonly status?: number
    readonly retryAfter?: number
  } = {}
): Reply => {
  const [usual, message, hint] = codes[code]
  const status = options.status ?? usual
  return {
    status,
    headers: options.retryAfter === undefined ? {} : { "retry-after": String(options.retryAfter) },
    body: {
      error: { code, message: options.message ?? message, hint, retryable: status === 429 || status === 503 }
    }
  }
}

export const invalidInput = (message: string) => new TingError("invalid_input", message)
