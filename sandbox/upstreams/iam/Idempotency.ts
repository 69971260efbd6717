/** Idempotency keys: one record per (plane, application, route, key) (identity-service.md 4). */
import type { Reply, Seen } from "../Simulator.ts"
import { ErrorResponse, preconditionRequired, validationFailed } from "./Errors.ts"
import { canonicalJson, lifetimes, sha256, shapes } from "./Identifiers.ts"
import { type Call, headerValues } from "./Requests.ts"

export interface Outcome {
  readonly reply: Reply
  /** How long the reply is replayed, milliseconds from the record's creation. */
  readonly window: number
  /** Default: always, within the window. */
  readonly live?: () => boolean
}

/** A missing key is a 428, a malformed or repeated one a 422. */
export const requireIdempotencyKey = (request: Seen): string => {
  const [key, ...others] = headerValues(request, "idempotency-key")
  if (key === undefined) throw preconditionRequired("Idempotency-Key")
  if (others.length > 0 || !shapes.idempotencyKey.test(key))
    throw validationFailed({
      field: "idempotency_key",
      message: "must be 16 to 255 visible ASCII characters"
    })
  return key
}

const conflict = (code: string, message: string) => new ErrorResponse(409, `idempotency_${code}`, message)

/**
 * Runs an operation once per key. An `ErrorResponse` thrown by `run` leaves the key free. An outcome that it returns,
 * also a negative one, is stored and replayed.
 */
export const once = (
  call: Call,
  options: { readonly route: string; readonly key: string; readonly payload: unknown },
  run: () => Outcome
): Reply => {
  const { plane, state } = call
  const now = state.now()
  const lease = state.held.get(options.key)
  if (lease !== undefined && now < lease)
    throw conflict("in_progress", "the first request with this key is still running")

  const id = canonicalJson([call.app.appId, options.route, options.key])
  const digest = sha256(canonicalJson(options.payload))
  const record = plane.idempotency.get(id)
  if (record !== undefined && now < record.createdAt + lifetimes.record) {
    if (record.digest !== digest) throw conflict("conflict", "the key was used with another payload")
    if (now >= record.replayUntil || !record.live())
      throw conflict("response_expired", "the stored result is no longer available")
    return { ...record.reply, headers: { ...record.reply.headers, "idempotency-replayed": "true" } }
  }

  const outcome = run()
  plane.idempotency.set(id, {
    digest,
    createdAt: now,
    replayUntil: now + outcome.window,
    reply: outcome.reply,
    live: outcome.live ?? (() => true)
  })
  return outcome.reply
}
