/** Answers kept for a while, so that asking again costs no round trip, and look-ups that their callers share. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FiberId from "effect/FiberId"
import * as Metric from "effect/Metric"
import type * as Scope from "effect/Scope"
import { sharedRequests } from "../../services/Metrics.ts"
import { monotonicMillis } from "../../services/MonotonicTime.ts"
import { RequestContext } from "../../services/RequestContext.ts"

interface Entry<A, E> {
  readonly answer: Deferred.Deferred<A, E>
  readonly expiresAt: number
  readonly recording: boolean
  settled: boolean
}

export interface TtlCache<A, E> {
  /**
   * The remembered answer, or that of the look-up. Identical look-ups in flight share one execution, which no caller's
   * disconnection stops; only callers of the same telemetry preference share. Failures are not remembered.
   */
  readonly get: (key: string, lookUp: Effect.Effect<A, E>) => Effect.Effect<A, E>
  /** Who asks from now on starts anew, also when a look-up is in flight. */
  readonly forget: (key: string) => Effect.Effect<void>
  readonly forgetWhere: (isOver: (key: string) => boolean) => Effect.Effect<void>
}

/** `millis` counts from the start of a look-up; with 0 only look-ups in flight are shared. Over `capacity` the oldest answer goes. */
export const makeTtlCache = <A, E>(options: {
  readonly capacity: number
  readonly millis: number
  /** Answers that are worth remembering; the default is all of them. */
  readonly keep?: (answer: A) => boolean
  /** Counts those who join a look-up in flight, under this name. */
  readonly operation?: string
}): Effect.Effect<TtlCache<A, E>, never, Scope.Scope> =>
  Effect.map(Effect.scope, (scope) => {
    const entries = new Map<string, Entry<A, E>>()

    const remove = (key: string, entry: Entry<A, E>) => {
      if (entries.get(key) === entry) entries.delete(key)
    }

    const settle = (key: string, entry: Entry<A, E>, exit: Exit.Exit<A, E>) =>
      Effect.suspend(() => {
        entry.settled = true
        if (Exit.isFailure(exit) || options.keep?.(exit.value) === false) remove(key, entry)
        return Deferred.done(entry.answer, exit)
      })

    /** Not an effect: between the look-up and the entry nobody else may run. */
    const open = (key: string, now: number, recording: boolean): Entry<A, E> => {
      const answer = Deferred.unsafeMake<A, E>(FiberId.none)
      const entry: Entry<A, E> = { answer, expiresAt: now + options.millis, recording, settled: false }
      entries.delete(key)
      entries.set(key, entry)
      for (const oldest of entries.keys()) {
        if (entries.size <= options.capacity) break
        entries.delete(oldest)
      }
      return entry
    }

    const get = (key: string, lookUp: Effect.Effect<A, E>) =>
      Effect.uninterruptibleMask((restore) =>
        Effect.gen(function* () {
          const now = yield* monotonicMillis
          const { recording } = yield* RequestContext
          const found = entries.get(key)
          if (
            found !== undefined &&
            (found.settled ? now < found.expiresAt : found.recording === recording)
          ) {
            if (!found.settled && options.operation !== undefined)
              yield* Metric.increment(sharedRequests({ operation: options.operation }))
            return yield* restore(Deferred.await(found.answer))
          }
          const entry = open(key, now, recording)
          yield* Effect.interruptible(lookUp).pipe(
            Effect.onExit((exit) => settle(key, entry, exit)),
            Effect.forkIn(scope)
          )
          return yield* restore(Deferred.await(entry.answer))
        })
      )

    return {
      get,
      forget: (key) => Effect.sync(() => void entries.delete(key)),
      forgetWhere: (isOver) =>
        Effect.sync(() => {
          for (const key of entries.keys()) if (isOver(key)) entries.delete(key)
        })
    }
  })
