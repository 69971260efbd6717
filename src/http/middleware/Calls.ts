/** Steps 6 to 8 of the order of checks (docs/api.md), which a handler applies after the body: rate limits, plane, bearer. */
import * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import type { FailureOf } from "../../schema/Failure.ts"
import type { ActorType } from "../../schema/Identity.ts"
import { type Plane, planeId } from "../../services/Plane.ts"
import { Planes } from "../../services/usecases/Planes.ts"
import type { Caller } from "../../services/Iam.ts"
import { Sessions } from "../../services/usecases/Sessions.ts"
import { CurrentExchange, type Exchange } from "./Exchange.ts"
import { RateLimits } from "./RateLimits.ts"
import { SentCredential, SentKey, SentTestingSecret } from "./SentHeaders.ts"

/** Records the type of an actor for whom IAM vouched during the call. */
export const noteActor = (actor: ActorType): Effect.Effect<void> =>
  Effect.map(CurrentExchange, (exchange) => {
    exchange.actor = actor
  })

export class Calls extends Effect.Service<Calls>()("music/http/Calls", {
  effect: Effect.gen(function* () {
    const limits = yield* RateLimits
    const planes = yield* Planes
    const sessions = yield* Sessions

    /** Counts the call against the limits of its client. */
    const metered = <A, E, R>(call: (exchange: Exchange) => Effect.Effect<A, E, R>) =>
      Effect.flatMap(CurrentExchange, (exchange): Effect.Effect<A, E | FailureOf<"rate_limited">, R> => {
        exchange.decoded = true
        const refusal = limits.count(exchange)
        if (refusal !== undefined) return Effect.fail(refusal)
        exchange.committing = exchange.message.method === "POST"
        return call(exchange)
      })

    /** A metered call in the plane that its request selects. */
    const inPlane = <A, E, R>(call: (plane: Plane, exchange: Exchange) => Effect.Effect<A, E, R>) =>
      metered((exchange) =>
        Effect.flatMap(Effect.flatMap(SentTestingSecret, planes.resolve), (plane) => {
          exchange.plane = planeId(plane)
          return call(plane, exchange)
        })
      )

    /** A call in a plane under the idempotency key of its request. */
    const keyed = <A, E, R>(call: (plane: Plane, key: Redacted.Redacted) => Effect.Effect<A, E, R>) =>
      inPlane((plane) => Effect.flatMap(SentKey, (key) => call(plane, key)))

    /** A call in a plane of a caller for whom IAM vouches. */
    const signedIn = <A, E, R>(call: (plane: Plane, caller: Caller) => Effect.Effect<A, E, R>) =>
      inPlane((plane, exchange) =>
        SentCredential.pipe(
          Effect.flatMap((credential) => sessions.authenticate(plane, credential)),
          Effect.flatMap((caller) => {
            exchange.actor = caller.actor.type
            return call(plane, caller)
          })
        )
      )

    return { metered, inPlane, keyed, signedIn } as const
  })
}) {}
