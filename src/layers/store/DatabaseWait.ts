/** A server that starts before its database, as machines and clusters do, waits for it. */
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import { recurWithin } from "../../services/MonotonicTime.ts"
import type { StoreUnavailable } from "../../services/Store.ts"

/** Seconds. */
const longestWait = 60
/** Attempts. */
const betweenLines = 10

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

/** Opens a database. While its server does not answer, says so and tries again, for 60 s at most. */
export const waitForDatabase = <A>(
  open: Effect.Effect<A, StoreUnavailable, Scope.Scope>
): Effect.Effect<A, StoreUnavailable, Scope.Scope> =>
  Effect.suspend(() => {
    let failures = 0
    const report = ({ kind, reason }: StoreUnavailable) =>
      Effect.suspend(() => {
        if (kind !== "unanswered") return Effect.void
        failures += 1
        return failures % betweenLines === 1
          ? Effect.logWarning("Waiting for the database", { reason, at_most_seconds: longestWait })
          : Effect.void
      })
    return freeingFailures(open).pipe(
      Effect.tapError(report),
      Effect.retry({
        while: ({ kind }) => kind === "unanswered",
        schedule: Schedule.intersect(Schedule.spaced("1 second"), recurWithin(longestWait * 1_000))
      }),
      Effect.tap(() => (failures > 0 ? Effect.logInfo("The database answers") : Effect.void))
    )
  })
