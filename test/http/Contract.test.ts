import * as HttpApi from "@effect/platform/HttpApi"
import { describe, expect, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { Api } from "../../src/http/Api.ts"
import { BodyBound } from "../../src/http/api/EndpointAnnotations.ts"
import { routes } from "../../src/http/middleware/Routes.ts"
import { type FailureCode, failureClasses, failureTable } from "../../src/schema/Failure.ts"

const codes = Object.keys(failureTable) as ReadonlyArray<FailureCode>

interface Endpoint {
  readonly name: string
  readonly method: string
  readonly path: string
  readonly bound: number
  readonly payload: Schema.Schema.AnyNoContext | undefined
  readonly errorSchema: Schema.Schema<unknown, unknown>
}

const endpoints: ReadonlyArray<Endpoint> = (() => {
  const found: Array<Endpoint> = []
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint }) => {
      // Reflection gives endpoints without the types of their schemas.
      const { payloadSchema, errorSchema } = endpoint as unknown as {
        readonly payloadSchema: Option.Option<Schema.Schema.AnyNoContext>
        readonly errorSchema: Endpoint["errorSchema"]
      }
      found.push({
        name: endpoint.name,
        method: endpoint.method,
        path: endpoint.path,
        bound: Context.get(endpoint.annotations, BodyBound),
        payload: Option.getOrUndefined(payloadSchema),
        errorSchema
      })
    }
  })
  return found
})()

const declares = ({ errorSchema }: Endpoint, code: FailureCode) =>
  Schema.is(errorSchema)(new failureClasses[code]({}))

describe("The contract", () => {
  it("has the thirteen calls, and the second path of the webhook", () => {
    expect(endpoints.map(({ method, path }) => `${method} ${path}`).sort()).toEqual([
      "GET /api/v1/auth/me",
      "GET /api/v1/iam",
      "GET /api/v1/version",
      "GET /healthz",
      "GET /readyz",
      "POST /api/v1/auth/login",
      "POST /api/v1/auth/logout",
      "POST /api/v1/auth/refresh",
      "POST /api/v1/reports",
      "POST /api/v1/telemetry",
      "POST /api/v1/ting/subscription",
      "POST /api/v1/tings",
      "POST /webhook",
      "POST /webhook/"
    ])
    // And the documents: OpenAPI, the page, and the page at the root.
    expect(routes.size).toBe(endpoints.length + 3)
  })

  it("limits every body and refuses unknown fields", () => {
    for (const { path, payload, bound, method } of endpoints) {
      expect([path, bound > 0, payload !== undefined]).toEqual([path, method === "POST", method === "POST"])
      // A delivery is verified by its bytes and may gain fields.
      if (payload === undefined || path.startsWith("/webhook")) continue
      const decoded = Schema.decodeUnknownEither(payload)({ unknown_field: 1 })
      const paths = Either.match(decoded, {
        onLeft: (error) =>
          ParseResult.ArrayFormatter.formatErrorSync(error).map((issue) => issue.path.join(".")),
        onRight: () => []
      })
      expect([path, paths]).toEqual([path, expect.arrayContaining(["unknown_field"])])
    }
  })

  it("declares every failure on a call, except the wrong method, which belongs to none", () => {
    const undeclared = codes.filter((code) => !endpoints.some((endpoint) => declares(endpoint, code)))
    expect(undeclared).toEqual(["method_not_allowed"])
  })

  it("declares on every call the failures before it begins", () => {
    for (const endpoint of endpoints) {
      const { path, bound } = endpoint
      const probe = path === "/healthz" || path === "/readyz"
      expect([path, declares(endpoint, "internal"), declares(endpoint, "invalid_input")]).toEqual([
        path,
        true,
        true
      ])
      for (const code of ["overloaded", "shutting_down", "rate_limited"] as const)
        expect([path, code, declares(endpoint, code)]).toEqual([path, code, !probe])
      for (const code of ["payload_too_large", "unsupported_media_type"] as const) {
        expect([path, code, declares(endpoint, code)]).toEqual([path, code, bound > 0])
      }
    }
  })
})
