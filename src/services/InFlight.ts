/**
 * One execution for all callers that ask for the same thing while it runs. The execution belongs to the process: a caller that
 * disconnects interrupts neither it nor the other callers. Every caller gets its result, also a failure or a defect. The end of the
 * scope interrupts the execution and all that wait for it.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as FiberId from "effect/FiberId"
import * as FiberSet from "effect/FiberSet"
import * as Runtime from "effect/Runtime"
import * as RuntimeFlags from "effect/RuntimeFlags"
import type * as Scope from "effect/Scope"
import { recordNow, sharedRequests } from "./Metrics.ts"
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

/** Whether the scope has ended. */
const makeClosed: Effect.Effect<() => boolean, never, Scope.Scope> = Effect.suspend(() => {
  let closed = false
  return Effect.as(
    Effect.addFinalizer(() =>
      Effect.sync(() => {
        closed = true
      })
    ),
    () => closed
  )
})

export const makeInFlight: Effect.Effect<InFlight, never, Scope.Scope> = Effect.map(
  Effect.zip(FiberSet.make<unknown, unknown>(), makeClosed),
  ([executions, isClosed]) => {
    /** Starts the effect in a fiber of the process: its first caller may disconnect, and the others still wait. */
    const start = <A, E, R>(runtime: Runtime.Runtime<R>, effect: Effect.Effect<A, E, R>) => {
      const fiber = Runtime.runFork(Runtime.enableRuntimeFlag(runtime, RuntimeFlags.Interruption))(effect)
      // The end of the scope interrupts it.
      FiberSet.unsafeAdd(executions, fiber)
      return fiber
    }

    return {
      share:
        <A, E, Refusal = never>(slot: ExecutionSlot<A, E, Refusal>) =>
        <R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | Refusal, R> =>
          // Nothing else runs between `find` and `put`.
          Effect.flatMap(Effect.runtime<R>(), (runtime): Effect.Effect<A, E | Refusal> => {
            const found = slot.find()
            if (found !== undefined) {
              if (!found.ended && slot.operation !== undefined)
                recordNow(sharedRequests({ operation: slot.operation }), 1)
              return Deferred.await(found.result)
            }
            // Its fiber would begin before the set could interrupt it.
            if (isClosed()) return Effect.interrupt
            const refusal = slot.refuse?.()
            if (refusal !== undefined) return Effect.fail(refusal)
            const execution: Execution<A, E> = {
              result: Deferred.unsafeMake<A, E>(FiberId.none),
              ended: false
            }
            slot.put(execution)
            start(runtime, effect).addObserver((exit) => {
              execution.ended = true
              slot.onEnd?.(execution, exit)
              Deferred.unsafeDone(execution.result, exit)
            })
            return Deferred.await(execution.result)
          })
    }
  }
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
