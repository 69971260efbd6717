/**
 * One execution for all callers that ask for the same thing, in flight and for a while after it. An execution belongs to the process:
 * a caller that disconnects interrupts neither it nor the other callers. Every caller gets its end, also a failure or a defect. The end
 * of the scope interrupts the executions and all that wait for them.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FiberId from "effect/FiberId"
import * as FiberSet from "effect/FiberSet"
import * as Iterable from "effect/Iterable"
import type * as Scope from "effect/Scope"
import { putBounded } from "./BoundedMap.ts"
import { recordNow, sharedRequests } from "../Metrics.ts"
import { unsafeMonotonicMillis } from "../MonotonicTime.ts"
import { RequestContext } from "../RequestContext.ts"

interface Execution<A, E> {
  readonly result: Deferred.Deferred<A, E>
  readonly recording: boolean
  /** Monotonic milliseconds. */
  readonly startedAt: number
  hasEnded: boolean
}

interface SharedCall<E> {
  /** Counts callers that join an execution in flight under this name. */
  readonly operation?: string
  /** The failure for a caller that may not start an execution. Nothing else runs between this check and the start. */
  readonly refuse?: () => E | undefined
}

export interface Share<A, E> {
  /**
   * The result that is kept, or that of the effect. Callers in flight share it only with the same telemetry preference, which is sent to
   * IAM.
   */
  readonly get: <R, E2 = never>(
    key: string,
    effect: Effect.Effect<A, E, R>,
    options?: SharedCall<E2>
  ) => Effect.Effect<A, E | E2, R>
  /** Later callers start anew, also while an execution is in flight; its result is not kept. */
  readonly forget: (key: string) => void
  readonly forgetWhere: (matches: (key: string) => boolean) => void
  /** Whether one of the executions in flight, or of the results that are kept, has a key that matches. */
  readonly has: (matches: (key: string) => boolean) => boolean
}

/** Failures are not kept. */
export const makeShare = <A, E>(
  options: {
    /** Milliseconds from the start of an execution for which its result is kept; 0 shares only what is in flight. */
    readonly millis?: number
    /** Beyond it the oldest entry is dropped. */
    readonly capacity?: number
    /** The results to keep; all by default. */
    readonly keep?: (result: A) => boolean
  } = {}
): Effect.Effect<Share<A, E>, never, Scope.Scope> =>
  Effect.map(FiberSet.make<A, E>(), (running) => {
    const { capacity = Number.POSITIVE_INFINITY, keep, millis = 0 } = options
    const executions = new Map<string, Execution<A, E>>()

    const join = ({ hasEnded, result }: Execution<A, E>, operation?: string): Effect.Effect<A, E> => {
      if (!hasEnded && operation !== undefined) recordNow(sharedRequests({ operation }), 1)
      return Deferred.await(result)
    }

    /** Keeps the execution at once, and starts it. Uninterruptible up to the wait for its result. */
    const start = <R>(key: string, effect: Effect.Effect<A, E, R>, now: number, recording: boolean) => {
      const execution: Execution<A, E> = {
        result: Deferred.unsafeMake(FiberId.none),
        recording,
        startedAt: now,
        hasEnded: false
      }
      putBounded(executions, key, execution, capacity)
      const end = (exit: Exit.Exit<A, E>): void => {
        execution.hasEnded = true
        const isKept = millis > 0 && Exit.isSuccess(exit) && keep?.(exit.value) !== false
        if (!isKept && executions.get(key) === execution) executions.delete(key)
        Deferred.unsafeDone(execution.result, exit)
      }
      return Effect.map(Effect.forkDaemon(Effect.interruptible(effect)), (fiber) => {
        // Not `onExit`: a fiber of a set that has ended is interrupted before it begins.
        fiber.addObserver(end)
        FiberSet.unsafeAdd(running, fiber)
        return execution
      })
    }

    const get = <R, E2 = never>(
      key: string,
      effect: Effect.Effect<A, E, R>,
      { operation, refuse }: SharedCall<E2> = {}
    ): Effect.Effect<A, E | E2, R> =>
      Effect.clockWith((clock) =>
        Effect.flatMap(RequestContext, ({ recording }) =>
          Effect.uninterruptibleMask((restore): Effect.Effect<A, E | E2, R> => {
            const now = unsafeMonotonicMillis(clock)
            const found = executions.get(key)
            const isUsable =
              found !== undefined &&
              (found.hasEnded ? now - found.startedAt < millis : found.recording === recording)
            if (isUsable) return restore(join(found, operation))
            const refusal = refuse?.()
            if (refusal !== undefined) return Effect.fail(refusal)
            return Effect.flatMap(start(key, effect, now, recording), ({ result }) =>
              restore(Deferred.await(result))
            )
          })
        )
      )

    return {
      get,
      forget: (key) => void executions.delete(key),
      forgetWhere: (matches) => {
        for (const key of executions.keys()) if (matches(key)) executions.delete(key)
      },
      has: (matches) => Iterable.some(executions.keys(), matches)
    }
  })

/** Runs the effect at most once in `millis`. Not `Effect.cachedWithTTL`, which goes by the wall clock. */
export const shareFor = <A>(
  millis: number,
  effect: Effect.Effect<A>
): Effect.Effect<Effect.Effect<A>, never, Scope.Scope> =>
  Effect.map(makeShare<A, never>({ millis }), ({ get }) => get("", effect))
