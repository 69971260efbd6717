/**
 * One execution for all callers that ask for the same thing, in flight and for a while after it. An execution belongs to the process:
 * a caller that disconnects interrupts neither it nor the other callers. Every caller gets its end, also a failure or a defect. The end
 * of the scope interrupts the executions and all that wait for them.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as FiberSet from "effect/FiberSet"
import { constTrue } from "effect/Function"
import * as Runtime from "effect/Runtime"
import { putBounded } from "./BoundedMap.ts"
import { unsafeMonotonicMillis } from "../MonotonicTime.ts"
import { RequestContext } from "../RequestContext.ts"

interface Execution<A, E> {
  readonly end: Effect.Effect<A, E>
  readonly content: string
  /** The telemetry preference of its caller, which is sent to IAM. */
  readonly recording: boolean
  /** Monotonic milliseconds. */
  readonly startedAt: number
  hasEnded: boolean
}

interface SharedCall<E> {
  /** What is asked for under the key. While it is in flight under the key, a caller with other content gets `conflict`. */
  readonly content?: string
  readonly conflict?: () => E
}

/**
 * Keeps a result for `millis` from the start of its execution, or only shares what is in flight, if `keep` wants it; failures are never
 * kept. Beyond `capacity` the oldest entry is dropped.
 */
export const makeShare = <A, E>(
  millis = 0,
  capacity = Number.POSITIVE_INFINITY,
  keep: (result: A) => boolean = constTrue
) =>
  Effect.map(FiberSet.make<A, E>(), (running) => {
    const executions = new Map<string, Execution<A, E>>()

    /** Before the effect begins, other callers find its execution. */
    const start = (
      key: string,
      fiber: Fiber.RuntimeFiber<A, E>,
      begun: Pick<Execution<A, E>, "content" | "recording" | "startedAt">
    ) => {
      // A caller that leaves is forgotten with the execution, which ends at its deadline.
      const end = Effect.async<A, E>((resume) => fiber.addObserver(resume))
      const execution = { ...begun, end, hasEnded: false }
      putBounded(executions, key, execution, capacity)
      fiber.addObserver((exit) => {
        execution.hasEnded = true
        const isKept = millis > 0 && Exit.isSuccess(exit) && keep(exit.value)
        if (!isKept && executions.get(key) === execution) executions.delete(key)
      })
      // A fiber of a set that has ended is interrupted before it begins.
      FiberSet.unsafeAdd(running, fiber)
      return end
    }

    return {
      /** The result that is kept, or that of the effect. Callers in flight share it only with the same telemetry preference. */
      get: <R, E2 = never>(
        key: string,
        effect: Effect.Effect<A, E, R>,
        { conflict, content = "" }: SharedCall<E2> = {}
      ): Effect.Effect<A, E | E2, R> =>
        Effect.clockWith((clock) =>
          Effect.flatMap(Effect.runtime<R>(), (runtime): Effect.Effect<A, E | E2> => {
            const now = unsafeMonotonicMillis(clock)
            const { recording } = Context.get(runtime.context, RequestContext)
            const found = executions.get(key)
            if (found !== undefined) {
              const { end, hasEnded, startedAt } = found
              if (conflict !== undefined && found.content !== content) return Effect.fail(conflict())
              if (hasEnded ? now - startedAt < millis : found.recording === recording) return end
            }
            const fiber = Runtime.runFork(runtime)(Effect.interruptible(effect), { immediate: false })
            return start(key, fiber, { content, recording, startedAt: now })
          })
        ),
      /** Later callers start anew, also while an execution is in flight; its result is not kept. */
      forget: (key: string): void => void executions.delete(key),
      /** The same for keys of which some have ended, and are kept. */
      forgetWhere: (matches: (key: string, hasEnded: boolean) => boolean): void => {
        for (const [key, { hasEnded }] of executions) if (matches(key, hasEnded)) executions.delete(key)
      }
    }
  })

/** Runs the effect at most once in `millis`, for callers of either telemetry preference. Not `Effect.cachedWithTTL`, which goes by the wall clock. */
export const shareFor = <A>(millis: number, effect: Effect.Effect<A>) =>
  Effect.map(makeShare<A, never>(millis), ({ get }) =>
    Effect.flatMap(RequestContext, (info) =>
      Effect.provideService(get("", effect), RequestContext, { ...info, recording: true })
    )
  )
