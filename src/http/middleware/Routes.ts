/** Which paths there are and which methods they take, from the contract itself. */
import * as HttpApi from "@effect/platform/HttpApi"
import * as Context from "effect/Context"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { Api } from "../Api.ts"
import { BodyBound, BodyOptional, NoStore, Probe } from "../api/EndpointAnnotations.ts"
import { PlaneSelection } from "../api/Middleware.ts"

/** What the server must know of a call before it runs. */
export interface Call {
  /** Bytes; 0 takes no body. */
  readonly bodyBound: number
  /** An empty body is as good as `{}`. */
  readonly bodyOptional: boolean
  /** Reads a decoded body only as far as its first problem. */
  readonly firstProblem: ((body: unknown) => Option.Option<ParseResult.ParseError>) | undefined
  readonly probe: boolean
  readonly noStore: boolean
  /** Reads `X-Testing-Environment-Key`; the other calls ignore it. */
  readonly planes: boolean
  /** One of the backend's own events is recorded for it. */
  readonly recorded: boolean
  /** The `Vary` header of every answer; the cross-origin rules set it for the API. */
  readonly vary: string | undefined
}

export interface Route {
  readonly pattern: string
  /** The Allow header: every method that the path takes. */
  readonly allow: string
  readonly calls: ReadonlyMap<string, Call>
}

/** Where the contract is, for programs and for people; neither is a call of the API itself. */
export const documentPath = "/openapi.json"
export const docsPath = "/docs"
/** The page once more, for a browser. */
export const rootPath = "/"

const documentCall = (vary: string): Call => ({
  bodyBound: 0,
  bodyOptional: false,
  firstProblem: undefined,
  probe: false,
  noStore: false,
  planes: false,
  recorded: false,
  vary
})

const documents: ReadonlyArray<readonly [path: string, call: Call]> = [
  [documentPath, documentCall("Accept-Encoding")],
  [docsPath, documentCall("Accept-Encoding")],
  [rootPath, documentCall("Accept, Accept-Encoding")]
]

const routeOf = (pattern: string, calls: ReadonlyMap<string, Call>): Route => {
  const get = calls.get("GET")
  const served = get === undefined ? calls : new Map([...calls, ["HEAD", get] as const])
  return { pattern, calls: served, allow: [...served.keys(), "OPTIONS"].join(", ") }
}

/** The contract's own schemas collect every problem; this one stops. */
const firstProblemOf = (payload: Schema.Schema.All) => {
  const decode = Schema.decodeUnknownEither(
    // A payload needs no service to be read.
    payload.annotations({
      parseOptions: { onExcessProperty: "error", errors: "first" }
    }) as Schema.Schema<unknown>
  )
  return (body: unknown) => Either.getLeft(decode(body))
}

/** Every path by its exact text: none has a parameter. */
export const routes: ReadonlyMap<string, Route> = (() => {
  const paths = new Map<string, Map<string, Call>>(
    documents.map(([path, call]) => [path, new Map([["GET", call]])])
  )
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, middleware }) => {
      const calls = paths.get(endpoint.path) ?? new Map<string, Call>()
      const probe = Context.get(endpoint.annotations, Probe)
      calls.set(endpoint.method, {
        bodyBound: Context.get(endpoint.annotations, BodyBound),
        bodyOptional: Context.get(endpoint.annotations, BodyOptional),
        firstProblem: Option.getOrUndefined(Option.map(endpoint.payloadSchema, firstProblemOf)),
        probe,
        noStore: Context.get(endpoint.annotations, NoStore),
        planes: Array.from(middleware, ({ key }) => key).includes(PlaneSelection.key),
        recorded: !probe,
        vary: undefined
      })
      paths.set(endpoint.path, calls)
    }
  })
  return new Map([...paths].map(([pattern, calls]) => [pattern, routeOf(pattern, calls)]))
})()

/** Scheme and authority of an absolute-form target, which every server must take (RFC 9112, 3.2.2). */
const authority = /^https?:\/\/[^/?#]*/i

/** The path as it was sent, undecoded: exact in case and slashes. */
export const pathOf = (target: string): string => {
  const local = target.startsWith("/") ? target : target.replace(authority, "")
  const end = local.search(/[?#]/)
  return end === -1 ? local : local.slice(0, end)
}
