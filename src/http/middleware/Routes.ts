/** The paths and methods of the service, read from the contract. The library's router answers 404 for every other request. */
import * as HttpApi from "@effect/platform/HttpApi"
import type * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as Context from "effect/Context"
import type * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import { Failure } from "../../schema/Failure.ts"
import { Api } from "../Api.ts"
import { BodyBound, BodyOptional, NoStore, Probe } from "../api/EndpointAnnotations.ts"
import { PlaneSelection } from "../api/Middleware.ts"

/** The parts of an endpoint of the contract that the server reads. */
interface Endpoint
  extends Pick<
    HttpApiEndpoint.HttpApiEndpoint.AnyWithProps,
    "method" | "path" | "annotations" | "middlewares"
  > {
  readonly payloadSchema: Option.Option<Schema.Schema<unknown, unknown>>
}

/** Properties of a call that the server needs before it runs. */
export interface Call {
  /** Undefined for the documents. */
  readonly endpoint: Endpoint | undefined
  /** Reads `X-Testing-Environment-Key`; other calls ignore it. */
  readonly selectsPlane: boolean
  /** Bytes; 0 takes no body. */
  readonly bodyBound: number
  /** An empty body means `{}`. */
  readonly bodyOptional: boolean
  readonly probe: boolean
  readonly noStore: boolean
  /** The `Vary` header of every response; under `/api/v1` the CORS rules set it. */
  readonly vary: string | undefined
}

export interface Route {
  readonly pattern: string
  /** The Allow header: every method that the path takes. */
  readonly allow: string
  readonly calls: ReadonlyMap<string, Call>
}

/** Paths of the OpenAPI document and its page; neither is a call of the API itself. */
export const documentPath = "/openapi.json"
export const docsPath = "/docs"
/** The page again, for browsers. */
export const rootPath = "/"

const makeDocumentCall = (vary: string): Call => ({
  endpoint: undefined,
  selectsPlane: false,
  bodyBound: 0,
  bodyOptional: false,
  probe: false,
  noStore: false,
  vary
})

const documents: ReadonlyArray<readonly [path: string, call: Call]> = [
  [documentPath, makeDocumentCall("Accept-Encoding")],
  [docsPath, makeDocumentCall("Accept-Encoding")],
  [rootPath, makeDocumentCall("Accept, Accept-Encoding")]
]

const makeCall = (endpoint: Endpoint): Call => ({
  endpoint,
  selectsPlane: Array.from(endpoint.middlewares).some(({ key }) => key === PlaneSelection.key),
  bodyBound: Context.get(endpoint.annotations, BodyBound),
  bodyOptional: Context.get(endpoint.annotations, BodyOptional),
  probe: Context.get(endpoint.annotations, Probe),
  noStore: Context.get(endpoint.annotations, NoStore),
  vary: undefined
})

const makeRoute = (pattern: string, calls: ReadonlyMap<string, Call>): Route => {
  const get = calls.get("GET")
  const served = get === undefined ? calls : new Map([...calls, ["HEAD", get] as const])
  return { pattern, calls: served, allow: [...served.keys(), "OPTIONS"].join(", ") }
}

/** Every path by its exact text; none has a parameter. */
export const routes: ReadonlyMap<string, Route> = (() => {
  const paths = new Map<string, Map<string, Call>>(
    documents.map(([path, call]) => [path, new Map([["GET", call]])])
  )
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint: reflected }) => {
      // Reflection gives endpoints without the types of their schemas.
      const endpoint = reflected as unknown as Endpoint
      const calls = paths.get(endpoint.path) ?? new Map<string, Call>()
      paths.set(endpoint.path, calls.set(endpoint.method, makeCall(endpoint)))
    }
  })
  return new Map([...paths].map(([pattern, calls]) => [pattern, makeRoute(pattern, calls)]))
})()

/** The failure of a request that no call serves: an unknown path, or a method that the path does not take. */
export const refuseUnrouted = (
  route: Route | undefined
): Failure<"not_found"> | Failure<"method_not_allowed"> =>
  route === undefined ? new Failure("not_found") : new Failure("method_not_allowed", { allow: route.allow })

const everyMethod = "GET, HEAD, POST, OPTIONS"

/** The Allow header that answers `OPTIONS`; undefined for an unknown path. `*` is the server as a whole (RFC 9110, 9.3.7). */
export const allowedMethods = (route: Route | undefined, path: string): string | undefined =>
  path === "*" ? everyMethod : route?.allow

/** Scheme and authority of an absolute-form target, which every server must accept (RFC 9112, 3.2.2). */
const authority = /^https?:\/\/[^/?#]*/i

/** The path of a request target without its query: undecoded, exact in case and slashes. */
export const toPath = (target: string): string => {
  const local = target.startsWith("/") ? target : target.replace(authority, "")
  const end = local.search(/[?#]/)
  return end === -1 ? local : local.slice(0, end)
}
