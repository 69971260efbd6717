/**
 * Executes an operation once. Across processes and crashes IAM replays it by the upstream key, so this service stores no
 * credential to replay; inside a process identical requests in flight share one execution.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { Failure } from "../../schema/Failure.ts"
import { randomHex, sha256 } from "../Digest.ts"
import type { UpstreamKey } from "../Iam.ts"
import { type Plane, planeId } from "../Plane.ts"
import { makeShare } from "./Share.ts"

export type KeyedOperation = "login" | "abandon" | "refresh" | "logout"

// The one place where a string becomes an UpstreamKey; 64 hex characters fit IAM's grammar (identity-service.md 4).
const brand = (hex: string): UpstreamKey => hex as UpstreamKey

/**
 * The key under which IAM executes an operation once. A digest, so that the caller's key never leaves this process, and two planes
 * or two operations never collide. Frozen by a test vector: another value breaks every replay in flight across a deployment.
 */
export const upstreamKey = (
  operation: KeyedOperation,
  plane: Plane,
  callerKey: Redacted.Redacted
): UpstreamKey =>
  brand(sha256(`music-backend/v1\n${operation}\n${planeId(plane)}\n${Redacted.value(callerKey)}`))

/** A key for one attempt that must never be replayed, as each proof needs (notification-service.md 1). */
export const attemptKey: Effect.Effect<UpstreamKey> = Effect.sync(() => brand(randomHex(32)))

/** What makes two requests identical. Digests only, no credential. */
export interface Sharing {
  readonly operation: string
  readonly plane: Plane
  /** Digest of the caller's idempotency key, which stands for one content; without it any content has an execution of its own. */
  readonly callerKey?: string
  /** Digest of the credential and of all content. */
  readonly content: string
}

export class Idempotency extends Effect.Service<Idempotency>()("music/Idempotency", {
  scoped: Effect.gen(function* () {
    const { get } = yield* makeShare<unknown, unknown>()

    /**
     * Runs the effect, or joins the identical request in flight (`Share`). Fails with `idempotency_conflict` while the same caller key is in
     * flight with other content.
     */
    const executeOnce =
      ({ callerKey, content, operation, plane }: Sharing) =>
      <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | Failure<"idempotency_conflict">, R> => {
        const key = [operation, planeId(plane), callerKey ?? content].join("\n")
        const conflict = () => new Failure("idempotency_conflict")
        // Safe: the key names the operation, so an execution under it was started with an effect of this type.
        return get(key, effect, { content, conflict }) as Effect.Effect<A, E | ReturnType<typeof conflict>, R>
      }

    return { executeOnce } as const
  })
}) {}
