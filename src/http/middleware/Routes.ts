/** The paths and methods of the service, read from the contract. The library's router answers 404 for every other request. */
import * as HttpApi from "@effect/platform/HttpApi"
import * as Context from "effect/Context"
import * as Option from "effect/Option"
import { Api } from "../Api.ts"
import { Traits } from "../api/Endpoint.ts"
import { findProblemBy } from "../body/ValidationErrors.ts"
import type { Call, Route } from "./Exchange.ts"

/** Paths of the OpenAPI document and of its page. Neither is a call of the API itself. */
export const documentPath = "/openapi.json"
export const docsPath = "/docs"

/** Every path by its exact text; none has a parameter. */
export const routes: ReadonlyMap<string, Route> = (() => {
  const found = new Map<string, Route>()
  const add = (path: string, method: string, call: Call): void => {
    const methods = method === "GET" ? ["GET", "HEAD"] : [method]
    const calls = new Map([
      ...(found.get(path)?.calls ?? []),
      ...methods.map((name) => [name, call] as const)
    ])
    found.set(path, { calls, allow: [...calls.keys(), "OPTIONS"].join(", ") })
  }
  for (const path of [documentPath, docsPath]) add(path, "GET", {})
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint: { annotations, method, path, payloadSchema } }) =>
      add(path, method, {
        ...Context.get(annotations, Traits),
        ...(Option.isSome(payloadSchema) ? { findProblem: findProblemBy(payloadSchema.value) } : {})
      })
  })
  return found
})()

/** Scheme and authority of an absolute-form target, which every server must accept (RFC 9112, 3.2.2). */
const authority = /^https?:\/\/[^/?#]*/i

/** The path of a request target without its query: undecoded, exact in case and slashes. */
export const toPath = (target: string): string => {
  const local = target.startsWith("/") ? target : target.replace(authority, "")
  const end = local.search(/[?#]/)
  return end === -1 ? local : local.slice(0, end)
}
