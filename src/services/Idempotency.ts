/**
 * Doing a thing once. Across processes and crashes IAM replays by the upstream key, so we store no credential to
 * replay; inside a process identical requests in flight share one execution.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FiberId from "effect/FiberId"
import * as Metric from "effect/Metric"
import * as Redacted from "effect/Redacted"
import { IdempotencyConflict } from "../schema/Failure.ts"
import { randomHex, sha256 } from "./Digest.ts"
import type { UpstreamKey } from "./Iam.ts"
import * as Metrics from "./Metrics.ts"
import { type Plane, planeId } from "./Plane.ts"
import { RequestContext } from "./RequestContext.ts"

export type KeyedOperation = "login" | "abandon" | "refresh" | "logout"

// The one place where a string becomes an UpstreamKey; 64 hex characters fit IAM's grammar (identity-service.md 4).
const brand = (hex: string): UpstreamKey => hex as UpstreamKey

/**
 * The key under which IAM executes an operation once. A digest, so the caller's key never leaves, and two planes or
 * two operations never collide. Frozen by a test vector: another value breaks every replay in flight across a deployment.
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

interface Running {
  readonly sharing: Sharing
  // The answer's type is fixed by the share key, which names the operation; see `shared`.
  readonly answer: Deferred.Deferred<unknown, unknown>
}

const keyed = (sharing: Sharing, recording: boolean): string =>
  JSON.stringify([
    sharing.operation,
    planeId(sharing.plane),
    sharing.callerKey ?? null,
    sharing.content,
    sharing.organisation ?? null,
    recording
  ])

const sameSlot = (left: Sharing, right: Sharing): boolean =>
  left.callerKey === right.callerKey &&
  left.operation === right.operation &&
  planeId(left.plane) === planeId(right.plane)

export class Idempotency extends Effect.Service<Idempotency>()("music/Idempotency", {
  scoped: Effect.gen(function* () {
    const running = new Map<string, Running>()
    const scope = yield* Effect.scope

    const conflicts = (sharing: Sharing): boolean => {
      if (sharing.callerKey === undefined) return false
      for (const entry of running.values()) {
        if (sameSlot(entry.sharing, sharing) && entry.sharing.content !== sharing.content) return true
      }
      return false
    }

    /**
     * Runs the effect, or joins the identical one in flight and gets its answer. The execution belongs to the process:
     * a caller that disconnects interrupts neither it nor the others. The same caller key in flight with other content
     * fails `IdempotencyConflict`.
     */
    const shared =
      (sharing: Sharing) =>
      <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | IdempotencyConflict, R> =>
        Effect.uninterruptibleMask((restore) =>
          Effect.gen(function* () {
            const { recording } = yield* RequestContext
            const key = keyed(sharing, recording)
            const found = running.get(key)
            // Safe: an entry under this key was made by the same operation, so its answer has this type.
            if (found !== undefined) {
              yield* Metric.increment(Metrics.sharedRequests({ operation: sharing.operation }))
              return yield* restore(Deferred.await(found.answer as Deferred.Deferred<A, E>))
            }
            if (conflicts(sharing)) return yield* new IdempotencyConflict()
            // Not an effect: between the look-up above and the entry below nobody else may run.
            const answer = Deferred.unsafeMake<A, E>(FiberId.none)
            const entry: Running = { sharing, answer: answer as Deferred.Deferred<unknown, unknown> }
            running.set(key, entry)
            yield* Effect.forkIn(
              restore(effect).pipe(
                Effect.onExit((exit) =>
                  Effect.suspend(() => {
                    if (running.get(key) === entry) running.delete(key)
                    return Deferred.done(answer, exit)
                  })
                )
              ),
              scope
            )
            return yield* restore(Deferred.await(answer))
          })
        )

    return { shared } as const
  })
}) {}
