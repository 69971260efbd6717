import * as Effect from "effect/Effect"
import { StoreUnavailable } from "./Store.ts"

/** Bounds how long a write that may be lost delays the response. */
const longestWrite = "2 seconds"

/** Runs a write without which the request succeeds: a failure, or no answer within 2 s, is logged as `message` and ignored. */
export const writeBestEffort =
  (message: string) =>
  <A, R>(write: Effect.Effect<A, StoreUnavailable, R>): Effect.Effect<void, never, R> =>
    write.pipe(
      Effect.timeoutFail({
        duration: longestWrite,
        onTimeout: () => new StoreUnavailable({ kind: "unanswered" })
      }),
      Effect.matchEffect({
        onSuccess: () => Effect.void,
        onFailure: ({ reason }) => Effect.logWarning(message, reason)
      })
    )
