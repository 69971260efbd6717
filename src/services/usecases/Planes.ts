import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import { digestOf } from "../Digest.ts"
import { Iam } from "../Iam.ts"
import { type Plane, Production, type TestingPlane } from "../Plane.ts"
import { writeBestEffort } from "../StoreFailures.ts"
import { planeFailure } from "../combinators/UpstreamErrorMapping.ts"
import { retryTransient } from "../combinators/Retry.ts"
import { Store } from "../Store.ts"
import { UpstreamPlaces } from "../combinators/UpstreamPlaces.ts"

/** Resolves the plane of a request. A selector that cannot be resolved is refused and never means production. */
export class Planes extends Effect.Service<Planes>()("music/Planes", {
  effect: Effect.gen(function* () {
    const iam = yield* Iam
    const store = yield* Store
    const { within } = yield* UpstreamPlaces

    // Webhooks of a testing environment are accepted once it is known here. The request succeeds without it.
    const remember = ({ environmentId, webhookKeyDigest }: TestingPlane) =>
      webhookKeyDigest === undefined
        ? Effect.void
        : store.planes
            .remember(environmentId, webhookKeyDigest)
            .pipe(writeBestEffort("Testing environment not remembered"))

    const resolveTesting = Effect.fnUntraced(function* (secret: Redacted.Redacted) {
      const plane = yield* iam
        .resolvePlane(secret)
        .pipe(
          retryTransient({ dependency: () => "iam" }),
          Effect.mapError(planeFailure),
          within("iam", digestOf(secret))
        )
      yield* remember(plane)
      return plane
    })

    const production = Effect.succeed<Plane>(Production())

    /** The plane of a testing secret; none means production. */
    const resolve = (selector: Option.Option<Redacted.Redacted>) =>
      Option.isNone(selector) ? production : resolveTesting(selector.value)

    return { resolve } as const
  })
}) {}
