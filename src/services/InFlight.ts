/**
 * One execution for all callers that ask for the same thing while it runs. The execution belongs to the process: a caller that
 * disconnects interrupts neither it nor the other callers. Every caller gets its result, also a failure or a defect. The end of the
 * scope interrupts the execution and all that wait for it.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as FiberId from "effect/FiberId"
import * as Metric from "effect/Metric"
import type * as Scope from "effect/Scope"
import { makeDetachedWork } from "./DetachedWork.ts"
import { sharedRequests } from "./Metrics.ts"
import { monotonicMillis } from "./MonotonicTime.ts"

export interface Execution<A, E> {
  readonly result: Deferred.Deferred<A, E>
  /** A result that is still kept is joined like a running execution. */
  ended: boolean
}

/** Where the owner keeps its executions. `find`, `refuse` and `put` are called in this order with nothing running between them. */
export interface ExecutionSlot<A, E, Refusal = never> {
  /** The execution to join. */
  readonly find: () => Execution<A, E> | undefined
  /** The failure for a caller that may not start an execution; undefined when it may. */
  readonly refuse?: () => Refusal | undefined
  /** Keeps an execution that is about to start. */
  readonly put: (execution: Execution<A, E>) => void
  /** Called when it has ended, before any caller gets the result. */
  readonly onEnd?: (execution: Execution<A, E>, exit: Exit.Exit<A, E>) => void
  /** Counts callers that join a running execution, under this name. */
  readonly operation?: string
}

export interface InFlight {
  /** Runs the effect, or joins the execution in the slot. The effect runs interruptibly, whatever its first caller is. */
  readonly share: <A, E, Refusal = never>(
    slot: ExecutionSlot<A, E, Refusal>
  ) => <R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E | Refusal, R>
}

export const makeInFlight: Effect.Effect<InFlight, never, Scope.Scope> = Effect.map(
  makeDetachedWork,
  (work) => ({
    share:
      <A, E, Refusal = never>(slot: ExecutionSlot<A, E, Refusal>) =>
      <R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | Refusal, R> =>
        Effect.uninterruptibleMask((restore) =>
          Effect.suspend((): Effect.Effect<A, E | Refusal, R> => {
            const found = slot.find()
            if (found !== undefined) {
              const joined = restore(Deferred.await(found.result))
              return found.ended || slot.operation === undefined
                ? joined
                : Effect.zipRight(Metric.increment(sharedRequests({ operation: slot.operation })), joined)
            }
            const refusal = slot.refuse?.()
            if (refusal !== undefined) return Effect.fail(refusal)
            // Made without an effect: nothing else may run between `find` and `put`.
            const execution: Execution<A, E> = {
              result: Deferred.unsafeMake<A, E>(FiberId.none),
              ended: false
            }
            slot.put(execution)
            return Effect.flatMap(work.start(Effect.interruptible(effect)), (fiber) => {
              fiber.addObserver((exit) => {
                execution.ended = true
                slot.onEnd?.(execution, exit)
                Deferred.unsafeDone(execution.result, exit)
              })
              return restore(Deferred.await(execution.result))
            })
          })
        )
  })
)

/**
 * Runs the effect at most once in `millis`, from start to start, and shares the result with all that ask meanwhile. Not
 * `Effect.cachedWithTTL`, which goes by the wall clock.
 */
export const shareFor = <A, R>(
  millis: number,
  effect: Effect.Effect<A, never, R>
): Effect.Effect<Effect.Effect<A, never, R>, never, Scope.Scope> =>
  Effect.map(makeInFlight, ({ share }) => {
    let last: { readonly execution: Execution<A, never>; readonly startedAt: number } | undefined
    return Effect.flatMap(monotonicMillis, (now) =>
      share<A, never>({
        find: () =>
          last !== undefined && (!last.execution.ended || now - last.startedAt < millis)
            ? last.execution
            : undefined,
        put: (execution) => {
          last = { execution, startedAt: now }
        }
      })(effect)
    )
  })
