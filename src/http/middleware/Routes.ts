/** The paths and methods of the service, read from the contract. The library's router answers 404 for every other request. */
import * as HttpApi from "@effect/platform/HttpApi"
import * as Context from "effect/Context"
import * as Option from "effect/Option"
import { Failure } from "../../schema/Failure.ts"
import { Api } from "../Api.ts"
import { Traits } from "../api/Endpoint.ts"
import { findProblemBy } from "../body/ValidationErrors.ts"
import type { Call, Route } from "./Exchange.ts"

/** Paths of the OpenAPI document and of its page. Neither is a call of the API itself. */
export const documentPath = "/openapi.json"
export const docsPath = "/docs"

const noProblem = () => undefined

const makeRoute = (pattern: string, calls: ReadonlyMap<string, Call>): Route => {
  const get = calls.get("GET")
  const served = get === undefined ? calls : new Map([...calls, ["HEAD", get] as const])
  return { pattern, calls: served, allow: [...served.keys(), "OPTIONS"].join(", ") }
}

/** Every path by its exact text; none has a parameter. */
export const routes: ReadonlyMap<string, Route> = (() => {
  const found = new Map<string, Route>(
    [documentPath, docsPath].map((path) => {
      return [path, makeRoute(path, new Map([["GET", { findProblem: noProblem }]]))]
    })
  )
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint: { annotations, method, path, payloadSchema } }) => {
      const call: Call = {
        ...Context.get(annotations, Traits),
        findProblem: Option.match(payloadSchema, { onNone: () => noProblem, onSome: findProblemBy })
      }
      found.set(path, makeRoute(path, new Map([...(found.get(path)?.calls ?? []), [method, call]])))
    }
  })
  return found
})()

/** The failure of a request that no call serves: an unknown path, or a method that the path does not take. */
export const refuseUnrouted = (route: Route | undefined): Failure =>
  route === undefined ? new Failure("not_found") : new Failure("method_not_allowed", { allow: route.allow })

/** The Allow header that answers `OPTIONS`; undefined for an unknown path. `*` is the server as a whole (RFC 9110, 9.3.7). */
export const allowedMethods = (route: Route | undefined, path: string): string | undefined =>
  path === "*" ? "GET, HEAD, POST, OPTIONS" : route?.allow

/** Scheme and authority of an absolute-form target, which every server must accept (RFC 9112, 3.2.2). */
const authority = /^https?:\/\/[^/?#]*/i

/** The path of a request target without its query: undecoded, exact in case and slashes. */
export const toPath = (target: string): string => {
  const local = target.startsWith("/") ? target : target.replace(authority, "")
  const end = local.search(/[?#]/)
  return end === -1 ? local : local.slice(0, end)
}
