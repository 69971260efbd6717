/**
 * Callers that come together are served together. A request waits for the store until its deadline at most; what it began there goes on,
 * and is idempotent.
 */
import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Runtime from "effect/Runtime"
import type * as Scope from "effect/Scope"
import { unsafeMonotonicMillis } from "../MonotonicTime.ts"
import { RequestContext } from "../RequestContext.ts"
import { concernsAll, StoreUnavailable } from "./StoreUnavailable.ts"

/** Milliseconds until the deadline of the request; infinite outside of requests. */
export const timeLeft: Effect.Effect<number> = Effect.clockWith((clock) =>
  Effect.map(RequestContext, ({ deadlineAt }) => Math.max(0, deadlineAt - unsafeMonotonicMillis(clock)))
)

/**
 * Like `Effect.async` for an access. Fails as `unanswered` at the request's deadline. `start` returns what ends the wait of an
 * interrupted or late caller. A timer, because a fiber beside each access would cost more than many accesses do.
 */
export const waitWithinDeadline = <A, E>(
  start: (resume: (exit: Exit.Exit<A, E | StoreUnavailable>) => void) => () => void
): Effect.Effect<A, E | StoreUnavailable> =>
  Effect.flatMap(timeLeft, (left) =>
    Effect.async<A, E | StoreUnavailable>((resume) => {
      let leave = () => {}
      const timer = Number.isFinite(left)
        ? setTimeout(() => {
            leave()
            resume(new StoreUnavailable({ kind: "unanswered" }))
          }, left)
        : undefined
      leave = start((exit) => {
        clearTimeout(timer)
        resume(exit)
      })
      return Effect.sync(() => {
        clearTimeout(timer)
        leave()
      })
    })
  )

/** A turn of the event loop: callers of the same turn join the group, and other work runs between two groups. */
const turn = Effect.async<void>((resume) => {
  setImmediate(() => resume(Effect.void))
})

/** An item until it is settled. */
interface Waiting<A, B, E> {
  readonly item: A
  readonly settle: (exit: Exit.Exit<B, E>) => void
  hasLeft: boolean
}

/** Weight of a group, which holds up the others, and in SQLite the thread. A heavier item is a group of its own. */
const groupWeight = 1_000

/** A worker that hangs does not keep a process from stopping. */
const closeWithin = "5 seconds"

/**
 * Hands items to one worker, all at once that wait for it; it returns the result of each. When it fails, each item is worked on alone,
 * unless the failure concerns all. An interrupted or late caller withdraws its item; what the worker has goes on. When the scope closes,
 * what waits is still worked on, and a later item fails.
 */
export const makeGroups = <A, B, E>(
  work: (items: Arr.NonEmptyReadonlyArray<A>) => Effect.Effect<ReadonlyArray<B>, E>,
  weightOf: (item: A) => number = () => 1
): Effect.Effect<(item: A) => Effect.Effect<B, E | StoreUnavailable>, never, Scope.Scope> =>
  Effect.gen(function* () {
    const fork = Runtime.runFork(yield* Effect.runtime<never>())
    const pending: Array<Waiting<A, B, E>> = []
    let worker: Fiber.RuntimeFiber<void> | undefined
    let isClosed = false

    const takeGroup = (): ReadonlyArray<Waiting<A, B, E>> => {
      let weight = 0
      const end = pending.findIndex(({ item }, index) => {
        weight += weightOf(item)
        return index > 0 && weight > groupWeight
      })
      return pending.splice(0, end === -1 ? pending.length : end).filter(({ hasLeft }) => !hasLeft)
    }
    // A defect ends its own group: no caller waits for ever, and later ones are served.
    const serve = (group: Arr.NonEmptyReadonlyArray<Waiting<A, B, E>>): Effect.Effect<void> =>
      Effect.flatMap(Effect.exit(work(Arr.map(group, ({ item }) => item))), (exit) => {
        if (Exit.isSuccess(exit))
          for (const [{ settle }, result] of Arr.zip(group, exit.value)) settle(Exit.succeed(result))
        else if (group.length > 1 && !Option.exists(Cause.failureOption(exit.cause), concernsAll))
          return Effect.forEach(group, (one) => serve([one]), { discard: true })
        else for (const { settle } of group) settle(Exit.failCause(exit.cause))
        return Effect.void
      })
    const workOnAll = Effect.gen(function* () {
      while (pending.length > 0) {
        yield* turn
        const group = takeGroup()
        if (Arr.isNonEmptyReadonlyArray(group)) yield* serve(group)
      }
      worker = undefined
    })

    yield* Effect.addFinalizer(() =>
      Effect.suspend(() => {
        isClosed = true
        return worker === undefined ? Effect.void : Fiber.await(worker)
      }).pipe(Effect.interruptible, Effect.timeoutOption(closeWithin))
    )
    return (item) =>
      waitWithinDeadline<B, E | StoreUnavailable>((resume) => {
        const waiting: Waiting<A, B, E> = { item, settle: resume, hasLeft: false }
        const closed = { phrase: "is closed", advice: "start the server again" }
        if (isClosed) resume(Exit.fail(new StoreUnavailable({ kind: "other", ...closed })))
        else {
          pending.push(waiting)
          worker ??= fork(workOnAll)
        }
        return () => {
          waiting.hasLeft = true
        }
      })
  })
