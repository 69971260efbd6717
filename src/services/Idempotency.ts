/**
 * Executes an operation once. Across processes and crashes IAM replays it by the upstream key, so this service stores no
 * credential to replay; inside a process identical requests in flight share one execution.
 */
import * as Effect from "effect/Effect"
import * as Iterable from "effect/Iterable"
import * as Redacted from "effect/Redacted"
import { IdempotencyConflict } from "../schema/Failure.ts"
import { randomHex, sha256 } from "./Digest.ts"
import type { UpstreamKey } from "./Iam.ts"
import { type Execution, makeInFlight } from "./InFlight.ts"
import { type Plane, planeId } from "./Plane.ts"
import { RequestContext } from "./RequestContext.ts"

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
  /** Digest of the caller's idempotency key; none for reads. */
  readonly callerKey?: string
  /** Digest of the credential and of all content. */
  readonly content: string
  readonly organisation?: string
}

/** A request without a key cannot conflict with another. */
type ConflictOf<S extends Sharing> = "callerKey" extends keyof S ? IdempotencyConflict : never

/** The telemetry preference is part of the key: it is sent to IAM. */
const executionKey = (sharing: Sharing, recording: boolean): string =>
  JSON.stringify([
    sharing.operation,
    planeId(sharing.plane),
    sharing.callerKey ?? null,
    sharing.content,
    sharing.organisation ?? null,
    recording
  ])

const sameKey = (left: Sharing, right: Sharing): boolean =>
  left.callerKey === right.callerKey &&
  left.operation === right.operation &&
  planeId(left.plane) === planeId(right.plane)

export class Idempotency extends Effect.Service<Idempotency>()("music/Idempotency", {
  scoped: Effect.gen(function* () {
    const { share } = yield* makeInFlight
    const running = new Map<
      string,
      { readonly sharing: Sharing; readonly execution: Execution<unknown, unknown> }
    >()

    const hasConflict = (sharing: Sharing): boolean =>
      sharing.callerKey !== undefined &&
      Iterable.some(
        running.values(),
        (other) => sameKey(other.sharing, sharing) && other.sharing.content !== sharing.content
      )

    /**
     * Runs the effect, or joins the identical request in flight (`InFlight`). Fails with `IdempotencyConflict` while the same caller
     * key is in flight with other content.
     */
    const executeOnce =
      <S extends Sharing>(sharing: S) =>
      <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | ConflictOf<S>, R> =>
        Effect.flatMap(RequestContext, ({ recording }) => {
          const key = executionKey(sharing, recording)
          return share<A, E, ConflictOf<S>>({
            operation: sharing.operation,
            // Safe: the key names the operation, so that an execution under it was started with an effect of this type.
            find: () => running.get(key)?.execution as Execution<A, E> | undefined,
            // Only a keyed request has one.
            refuse: () => (hasConflict(sharing) ? (new IdempotencyConflict() as ConflictOf<S>) : undefined),
            put: (execution) =>
              running.set(key, { sharing, execution: execution as Execution<unknown, unknown> }),
            onEnd: () => running.delete(key)
          })(effect)
        })

    return { executeOnce } as const
  })
}) {}
