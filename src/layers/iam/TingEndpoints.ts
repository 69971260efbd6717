/** The catalogue of Ting's endpoints at IAM: the paths that proofs are signed for (identity-service.md 10.1, 10.2). */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { TingEndpoint } from "../../services/Iam.ts"
import { type Plane, planeId } from "../../services/Plane.ts"
import { makeShare } from "../../services/Share.ts"
import { Refused, Unknown, type UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { expect, expectStatus, type ResponseReader, readJson } from "../upstream/UpstreamResponse.ts"
import type { Budget, IamPath } from "./Budget.ts"
import type { PlaneCall } from "./IamCall.ts"

/** Ting's application id, the audience of every proof. */
export const audience = "ting"

const path: IamPath = `/obo-access/applications/${audience}/endpoints`

const cacheMillis = 600_000
const maxCachedPlanes = 1_000
const maxPathLength = 2_048

const Endpoints = Schema.Struct({
  application: Schema.Struct({ app_id: Schema.String }),
  endpoints: Schema.Array(
    Schema.Struct({
      endpoint_id: Schema.String,
      path: Schema.String,
      metadata: Schema.Record({ key: Schema.String, value: Schema.Unknown })
    })
  )
})
type Endpoints = (typeof Endpoints.Type)["endpoints"]

const readBody = readJson(Endpoints)

const readEndpoints: ResponseReader<Endpoints> = (response) =>
  Either.gen(function* () {
    const { application, endpoints } = yield* readBody(response)
    yield* expect(application.app_id === audience, "is for another application")
    return endpoints
  })

/**
 * Absolute, at most 2048 characters, no leading `//`, no query, no fragment, no whitespace, no dot segments. A path that a
 * URL parser would rewrite is invalid too, because the sent path would differ from the signed one.
 */
export const isEndpointPath = (path: string): boolean =>
  path.length <= maxPathLength &&
  /^\/(?!\/)[^?#\s\\]*$/.test(path) &&
  !path.split("/").some((segment) => segment === "." || segment === "..") &&
  URL.canParse(path, "http://host") &&
  new URL(path, "http://host").pathname === path

const pathIn = (endpoints: Endpoints, id: TingEndpoint): Either.Either<string, UpstreamFailure> => {
  const [endpoint, second] = endpoints.filter(({ endpoint_id }) => endpoint_id === id)
  if (endpoint === undefined)
    return Either.left(new Refused({ dependency: "iam", status: 404, code: "not_found" }))
  return second === undefined && isEndpointPath(endpoint.path) && Object.keys(endpoint.metadata).length === 0
    ? Either.right(endpoint.path)
    : Either.left(new Unknown({ dependency: "iam", reason: `lists ${id} in another shape` }))
}

export interface TingEndpoints {
  /** From the cache or from IAM. An endpoint that is not listed fails as 404 `not_found`. */
  readonly pathOf: (plane: Plane, endpoint: TingEndpoint) => Effect.Effect<string, UpstreamFailure>
  readonly warm: (plane: Plane) => Effect.Effect<void>
  readonly forget: (plane: Plane) => void
}

/** Cached for 10 minutes per plane. */
export const makeTingEndpoints = (
  call: PlaneCall,
  budget: Budget
): Effect.Effect<TingEndpoints, never, Scope.Scope> =>
  Effect.map(
    makeShare<Endpoints, UpstreamFailure>({ capacity: maxCachedPlanes, millis: cacheMillis }),
    (catalogues) => {
      const fetch = (plane: Plane) =>
        catalogues.get(
          planeId(plane),
          call(plane, {
            operation: "catalogue",
            method: "GET",
            path,
            read: expectStatus(200, readEndpoints)
          }).pipe(budget.within({ plane: planeId(plane), path }, {}))
        )
      const forget = (plane: Plane) => catalogues.forget(planeId(plane))
      return {
        pathOf: (plane, endpoint) =>
          Effect.flatMap(fetch(plane), (endpoints) => {
            const found = pathIn(endpoints, endpoint)
            // A catalogue without a usable entry is dropped, so that a correction takes effect at once.
            if (Either.isLeft(found)) forget(plane)
            return found
          }),
        warm: (plane) => Effect.ignore(fetch(plane)),
        forget
      }
    }
  )
