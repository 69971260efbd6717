/** Hands the calls of the last minute over to the process that is started next: IAM counts the application, not its processes. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { randomHex } from "../../services/Digest.ts"
import { monotonicMillis } from "../../services/MonotonicTime.ts"
import type { IamCalls, Stored } from "../../services/Store.ts"
import type { IamBudget } from "./budget/IamBudget.ts"
import { shares } from "./budget/Shares.ts"

/** A database that is slow delays neither the start nor the stop by more. */
const longestWait = "500 millis"

/** Milliseconds: no place is taken for longer, whatever the wall clocks of two processes say. */
const longest = 60_000

const isShare = Schema.is(Schema.Literal(...shares))

const briefly = <A>(access: Stored<A>) =>
  Effect.option(Effect.timeout(Effect.disconnect(Effect.interruptible(access)), longestWait))

/** Takes what stopped processes left, and leaves the own calls when the scope closes. */
export const handOver = (calls: IamCalls, budget: IamBudget): Effect.Effect<void, never, Scope.Scope> =>
  Effect.gen(function* () {
    const left = yield* briefly(calls.take())
    const now = yield* Clock.currentTimeMillis
    if (left._tag === "Some")
      budget.occupy(
        left.value.flatMap(({ freeAt, share, window }) =>
          isShare(share) && freeAt > now ? [{ window, share, millis: Math.min(freeAt - now, longest) }] : []
        ),
        yield* monotonicMillis
      )
    yield* Effect.addFinalizer(() =>
      Effect.gen(function* () {
        const at = yield* Clock.currentTimeMillis
        const taken = budget
          .taken(yield* monotonicMillis)
          // The window of a testing secret has its digest in its name.
          .filter(({ window }) => !window.startsWith("secret "))
          .map(({ millis, share, window }) => ({ window, share, freeAt: at + Math.ceil(millis) }))
        if (taken.length > 0) yield* briefly(calls.leave(randomHex(16), taken))
      })
    )
  })
