/** A server that starts before its database, as machines and clusters do, waits for it. */
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import { monotonicMillis, recurWithin } from "../../services/MonotonicTime.ts"
import type { StoreUnavailable } from "../../services/Store.ts"
import type { StoreProblem } from "../../services/store/StoreUnavailable.ts"

/** Seconds. */
const longestWait = 60
const betweenLines = 10
const betweenAttempts = "1 second"

/** Problems that end by themselves. A wrong password, database, version or pooler does not. */
const passing: ReadonlySet<StoreProblem["kind"]> = new Set<StoreProblem["kind"]>([
  "unreachable",
  "timed_out",
  "too_many_connections"
])

/** Frees at once what a failed attempt has opened. */
const freeingFailures = <A>(
  open: Effect.Effect<A, StoreUnavailable, Scope.Scope>
): Effect.Effect<A, StoreUnavailable, Scope.Scope> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const scope = yield* Scope.fork(yield* Effect.scope, ExecutionStrategy.sequential)
      const exit = yield* Effect.exit(restore(Scope.extend(open, scope)))
      if (Exit.isFailure(exit)) yield* Scope.close(scope, exit)
      return yield* exit
    })
  )

/** Opens a database. While its server is away, says so and tries again, for 60 s at most. */
export const waitForDatabase = <A>(
  open: Effect.Effect<A, StoreUnavailable, Scope.Scope>
): Effect.Effect<A, StoreUnavailable, Scope.Scope> =>
  Effect.gen(function* () {
    const startedAt = yield* monotonicMillis
    let lines = 0
    const report = ({ problem, reason }: StoreUnavailable) =>
      Effect.gen(function* () {
        if (!passing.has(problem.kind)) return
        const waited = Math.floor(((yield* monotonicMillis) - startedAt) / 1_000)
        if (waited < lines * betweenLines) return
        lines = Math.floor(waited / betweenLines) + 1
        yield* Effect.logWarning("Waiting for the database", {
          reason,
          waited_seconds: waited,
          at_most_seconds: longestWait
        })
      })
    const opened = yield* Effect.retry(Effect.tapError(freeingFailures(open), report), {
      while: ({ problem }) => passing.has(problem.kind),
      schedule: Schedule.intersect(Schedule.spaced(betweenAttempts), recurWithin(longestWait * 1_000))
    })
    if (lines > 0) yield* Effect.logInfo("The database answers")
    return opened
  })
