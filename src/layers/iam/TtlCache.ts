/** Remembers results of calls for a while, and shares calls in flight. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Scope from "effect/Scope"
import { monotonicNow, requestOf } from "../../services/FiberContext.ts"
import { type Execution, makeInFlight } from "../../services/InFlight.ts"
import { putBounded } from "./BoundedMap.ts"

interface Entry<A, E> {
  readonly execution: Execution<A, E>
  /** Set when the execution has ended. */
  exit: Exit.Exit<A, E> | undefined
  readonly expiresAt: number
  readonly recording: boolean
}

export interface TtlCache<A, E> {
  /**
   * The remembered result, or that of the look-up. Identical look-ups in flight share one execution (`InFlight`), but only between
   * callers of the same telemetry preference, which is sent to IAM. Failures are not remembered.
   */
  readonly get: (key: string, lookUp: Effect.Effect<A, E>) => Effect.Effect<A, E>
  /** Later callers start anew, also while a look-up is in flight; its result is not remembered. */
  readonly forget: (key: string) => void
  readonly forgetWhere: (matches: (key: string) => boolean) => void
}

/**
 * `millis` counts from the start of a look-up; with 0 only look-ups in flight are shared. Beyond `capacity` the oldest entry is
 * dropped.
 */
export const makeTtlCache = <A, E>(options: {
  readonly capacity: number
  readonly millis: number
  /** Results to remember; all by default. */
  readonly keep?: (result: A) => boolean
  /** Counts callers that join a look-up in flight, under this name. */
  readonly operation?: string
}): Effect.Effect<TtlCache<A, E>, never, Scope.Scope> =>
  Effect.map(makeInFlight, ({ share }) => {
    const entries = new Map<string, Entry<A, E>>()

    const get = (key: string, lookUp: Effect.Effect<A, E>): Effect.Effect<A, E> =>
      Effect.withFiberRuntime((fiber) => {
        const now = monotonicNow(fiber)
        const remembered = entries.get(key)
        if (remembered?.exit !== undefined && now < remembered.expiresAt) return remembered.exit
        const { recording } = requestOf(fiber)
        const isUsable = ({ exit, expiresAt, recording: shared }: Entry<A, E>): boolean =>
          exit === undefined ? shared === recording : now < expiresAt
        return share<A, E>({
          ...(options.operation === undefined ? {} : { operation: options.operation }),
          find: () => {
            const entry = entries.get(key)
            return entry !== undefined && isUsable(entry) ? entry.execution : undefined
          },
          put: (execution) =>
            putBounded(
              entries,
              key,
              { execution, exit: undefined, expiresAt: now + options.millis, recording },
              options.capacity
            ),
          onEnd: (execution, exit) => {
            const entry = entries.get(key)
            if (entry?.execution !== execution) return
            if (Exit.isFailure(exit) || options.keep?.(exit.value) === false) entries.delete(key)
            else entry.exit = exit
          }
        })(lookUp)
      })

    return {
      get,
      forget: (key) => void entries.delete(key),
      forgetWhere: (matches) => {
        for (const key of entries.keys()) if (matches(key)) entries.delete(key)
      }
    }
  })
