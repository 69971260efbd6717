import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Failure, RateLimited } from "../../schema/Failure.ts"
import type { Actor } from "../../schema/Identity.ts"
import {
  type Caller,
  type Credential,
  CurrentCredential,
  OptionalCredential,
  PlaneSelector
} from "../../services/RequestCredentials.ts"
import { type Plane, planeId } from "../../services/Plane.ts"
import { Planes } from "../../services/Planes.ts"
import { Sessions } from "../../services/Sessions.ts"
import { noting } from "../middleware/RequestState.ts"
import { RateLimits } from "../middleware/RateLimits.ts"
import { DetachedWork } from "../../services/DetachedWork.ts"

/** As much of an endpoint as the gate needs. */
interface Endpoint<E> {
  readonly method: string
  readonly errorSchema: Schema.Schema<E, unknown>
}

/**
 * Narrows a use case's failures to those that the endpoint declares. One that it does not declare is a gap in the
 * contract: it reaches the caller all the same, as the defect that the envelope knows again.
 */
const declaredBy =
  <E>({ errorSchema }: Endpoint<E>) =>
  (failure: Failure): Effect.Effect<never, E> =>
    Schema.is(errorSchema)(failure)
      ? Effect.fail(failure)
      : Effect.zipRight(
          Effect.logWarning("A call gave a failure that it does not declare", { code: failure.code }),
          Effect.die(failure)
        )

/** Whom IAM vouched for, for the log line. */
export const knownActor = ({ type }: Pick<Actor, "type">): Effect.Effect<void> =>
  noting((exchange) => {
    exchange.actor = type
  })

/**
 * What stands between a well-formed request and its use case: rate limits, then the plane, then the bearer. What commits
 * something outlives the connection it came on.
 */
export class RequestGuard extends Effect.Service<RequestGuard>()("music/http/RequestGuard", {
  effect: Effect.gen(function* () {
    const planes = yield* Planes
    const sessions = yield* Sessions
    const limits = yield* RateLimits
    const work = yield* DetachedWork

    const decoded = noting((exchange) => {
      exchange.decoded = true
    })

    const counted = (credential: Option.Option<Credential>): Effect.Effect<void, RateLimited> =>
      Effect.zipRight(decoded, limits.admit(credential))

    const selected = Effect.flatMap(PlaneSelector, planes.resolve).pipe(
      Effect.tap((plane) =>
        noting((exchange) => {
          exchange.plane = planeId(plane)
        })
      )
    )

    const declared = <E, A, R>(
      endpoint: Endpoint<E>,
      use: Effect.Effect<A, Failure, R>
    ): Effect.Effect<A, E, R> =>
      Effect.catchAll(endpoint.method === "POST" ? work.run(use) : use, declaredBy(endpoint))

    const run = <E, A, R>(
      endpoint: Endpoint<E>,
      credential: Option.Option<Credential>,
      use: Effect.Effect<A, Failure, R>
    ): Effect.Effect<A, E, R> =>
      Effect.zipRight(Effect.catchAll(counted(credential), declaredBy(endpoint)), declared(endpoint, use))

    /** For IAM's deliveries: a few addresses send all of them, and a refused one only comes again. */
    const unmetered = <E, A, R>(
      endpoint: Endpoint<E>,
      use: Effect.Effect<A, Failure, R>
    ): Effect.Effect<A, E, R> => Effect.zipRight(decoded, declared(endpoint, use))

    /** For calls that neither a plane nor a bearer belongs to. */
    const open = <E, A, R>(
      endpoint: Endpoint<E>,
      use: Effect.Effect<A, Failure, R>
    ): Effect.Effect<A, E, R> => run(endpoint, Option.none(), use)

    /** For calls in a plane, without a bearer. */
    const inPlane = <E, A, R>(
      endpoint: Endpoint<E>,
      use: (plane: Plane) => Effect.Effect<A, Failure, R>
    ): Effect.Effect<A, E, R | PlaneSelector> => run(endpoint, Option.none(), Effect.flatMap(selected, use))

    /** For calls in a plane that a bearer may sign. */
    const signed = <E, A, R>(
      endpoint: Endpoint<E>,
      use: (plane: Plane, credential: Option.Option<Credential>) => Effect.Effect<A, Failure, R>
    ): Effect.Effect<A, E, R | PlaneSelector | OptionalCredential> =>
      Effect.flatMap(OptionalCredential, (credential) =>
        run(
          endpoint,
          credential,
          Effect.flatMap(selected, (plane) => use(plane, credential))
        )
      )

    /** For calls of a caller whom IAM vouches for. */
    const authenticated = <E, A, R>(
      endpoint: Endpoint<E>,
      use: (plane: Plane, caller: Caller) => Effect.Effect<A, Failure, R>
    ): Effect.Effect<A, E, R | PlaneSelector | CurrentCredential> =>
      Effect.flatMap(CurrentCredential, (credential) =>
        run(
          endpoint,
          Option.some(credential),
          Effect.flatMap(selected, (plane) =>
            Effect.flatMap(sessions.authenticate(plane, credential), (caller) =>
              Effect.zipRight(knownActor(caller.actor), use(plane, caller))
            )
          )
        )
      )

    return { open, unmetered, inPlane, signed, authenticated } as const
  })
}) {}
