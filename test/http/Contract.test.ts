import * as HttpApi from "@effect/platform/HttpApi"
import * as OpenApi from "@effect/platform/OpenApi"
import { describe, expect, it } from "@effect/vitest"
import { createConfig, lintFromString } from "@redocly/openapi-core"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { Api } from "../../src/http/Api.ts"
import { BodyBound } from "../../src/http/api/Facts.ts"
import { routes } from "../../src/http/middleware/Routes.ts"
import { type FailureCode, failureClasses, failureStatus, failureTable } from "../../src/schema/Failure.ts"
import { backend, call, errorOf } from "./support.ts"

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
  it("has the thirteen calls, and the webhook's second spelling", () => {
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
    expect(routes.size).toBe(endpoints.length + 1)
  })

  it("every body is bounded and refuses unknown fields", () => {
    for (const { path, payload, bound, method } of endpoints) {
      expect([path, bound > 0, payload !== undefined]).toEqual([path, method === "POST", method === "POST"])
      // A delivery is verified by its bytes and may grow.
      if (payload === undefined || path.startsWith("/webhook")) continue
      const decoded = Schema.decodeUnknownEither(payload)({ nobody_knows_this: 1 })
      const paths = Either.match(decoded, {
        onLeft: (error) =>
          ParseResult.ArrayFormatter.formatErrorSync(error).map((issue) => issue.path.join(".")),
        onRight: () => []
      })
      expect([path, paths]).toEqual([path, expect.arrayContaining(["nobody_knows_this"])])
    }
  })

  it("every failure is declared on a call, but for the wrong method, which belongs to none", () => {
    const undeclared = codes.filter((code) => !endpoints.some((endpoint) => declares(endpoint, code)))
    expect(undeclared).toEqual(["method_not_allowed"])
  })

  it("a call declares what can happen to it before it begins", () => {
    for (const endpoint of endpoints) {
      const { path, bound } = endpoint
      const probe = path === "/healthz" || path === "/readyz"
      expect([path, declares(endpoint, "internal"), declares(endpoint, "invalid_input")]).toEqual([
        path,
        true,
        true
      ])
      for (const code of ["overloaded", "shutting_down", "rate_limited"] as const) {
        const unmetered = path.startsWith("/webhook") && code === "rate_limited"
        expect([path, code, declares(endpoint, code)]).toEqual([path, code, !probe && !unmetered])
      }
      for (const code of ["payload_too_large", "unsupported_media_type"] as const) {
        expect([path, code, declares(endpoint, code)]).toEqual([path, code, bound > 0])
      }
    }
  })

  it("refresh never asks for consent", () => {
    const refresh = endpoints.find(({ name }) => name === "refresh")
    expect(refresh && declares(refresh, "reconsent_required")).toBe(false)
  })
})

const document = OpenApi.fromApi(Api)
const text = JSON.stringify(document)

interface Operation {
  readonly operationId: string
  readonly summary?: string
  readonly description?: string
  readonly security: ReadonlyArray<object>
  readonly parameters: ReadonlyArray<{
    readonly name?: string
    readonly $ref?: string
    readonly description?: string
    readonly required?: boolean
  }>
  readonly responses: Readonly<
    Record<
      string,
      {
        readonly description: string
        readonly headers: Readonly<Record<string, unknown>>
        readonly content?: {
          readonly "application/json": {
            readonly schema: unknown
            readonly examples?: Readonly<Record<string, unknown>>
          }
        }
      }
    >
  >
}

const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.values(item).map((operation) => ({ path, ...(operation as unknown as Operation) }))
)

const named = (operation: Operation) =>
  operation.parameters.map(({ name, $ref }) => name ?? $ref?.replace(/.*\//, ""))

describe("The OpenAPI document", () => {
  it("passes the linter without an error or a warning", async () => {
    const config = await createConfig({ extends: ["recommended"] })
    const problems = await lintFromString({ source: text, config })
    expect(problems.map(({ ruleId, message, location }) => [ruleId, message, location[0]?.pointer])).toEqual(
      []
    )
  })

  it("is OpenAPI 3.1 and says who it is", () => {
    expect(document).toMatchObject({
      openapi: "3.1.0",
      info: { title: "Music backend", license: { name: "MIT" } },
      servers: [{ url: "/" }]
    })
    expect(document.tags.every(({ description }) => description !== undefined)).toBe(true)
  })

  it("shows nothing of the framework's own errors", () => {
    expect(text).not.toMatch(/HttpApiDecodeError|"_tag"|\/schemas\/unknown|maxLength\(/)
    expect(Object.keys(document.components.schemas)).not.toEqual(expect.arrayContaining(["Issue"]))
  })

  it("documents every call: summary, description, headers, errors and their codes", () => {
    expect(operations.length).toBe(13)
    for (const operation of operations) {
      expect(operation.summary).toMatch(/\w/)
      expect(operation.description).toMatch(/\w/)
      expect(operation.responses).toHaveProperty("500")
      for (const [status, { headers, content, description }] of Object.entries(operation.responses)) {
        expect(headers).toHaveProperty("X-Request-Id")
        if (Number(status) < 400) continue
        const listed = Object.keys(content?.["application/json"].examples ?? {}) as ReadonlyArray<FailureCode>
        expect(listed.length).toBeGreaterThan(0)
        for (const code of listed) {
          expect(failureStatus(new failureClasses[code]({}))).toBe(Number(status))
          expect(description).toContain(code)
        }
        if (status === "429" || status === "503") expect(headers).toHaveProperty("Retry-After")
        if (listed.includes("unauthenticated")) expect(headers).toHaveProperty("WWW-Authenticate")
      }
    }
  })

  it("lists exactly the codes that the endpoint declares", () => {
    for (const operation of operations) {
      const endpoint = endpoints.find(({ path }) => path === operation.path)
      const listed = Object.values(operation.responses).flatMap(({ content }) =>
        Object.keys(content?.["application/json"].examples ?? {})
      )
      expect(listed.sort()).toEqual(
        codes.filter((code) => endpoint !== undefined && declares(endpoint, code)).sort()
      )
    }
  })

  it("says which headers a call takes", () => {
    const of = (id: string) => named(operations.find(({ operationId }) => operationId === id) as Operation)
    expect(of("auth.login")).toEqual([
      "Idempotency-Key",
      "TestingEnvironmentKey",
      "MusicSource",
      "MusicTelemetry",
      "RequestId",
      "Traceparent"
    ])
    expect(of("reports.submit")).toEqual(expect.arrayContaining(["Idempotency-Key", "X-Org-ID"]))
    expect(of("auth.me")).toEqual(expect.arrayContaining(["X-Org-ID", "TestingEnvironmentKey"]))
    expect(of("descriptors.version")).not.toContain("TestingEnvironmentKey")
    expect(of("webhooks.receive")).toEqual(expect.arrayContaining(["X-Silicon-IAM-Signature"]))
    for (const operation of operations) {
      for (const parameter of operation.parameters) {
        if (parameter.$ref === undefined) expect(parameter.description).toMatch(/\w/)
      }
    }
  })

  it("says where a bearer is needed, and where it is optional", () => {
    const security = Object.fromEntries(
      operations.map(({ operationId, security }) => [operationId, security])
    )
    expect(security["auth.me"]).toEqual([{ bearer: [] }])
    expect(security["tings.send"]).toEqual([{ bearer: [] }])
    expect(security["reports.submit"]).toEqual([{ bearer: [] }, {}])
    expect(security["auth.login"]).toEqual([])
    expect(document.components.securitySchemes).toMatchObject({ bearer: { type: "http", scheme: "bearer" } })
  })

  it("closes every object that the service itself defines", () => {
    for (const name of [
      "LoginRequest",
      "TingRequest",
      "ReportRequest",
      "TelemetryRequest",
      "SubscriptionRequest",
      "Session",
      "Unauthenticated"
    ]) {
      expect([name, document.components.schemas[name]]).toMatchObject([name, { additionalProperties: false }])
    }
  })

  it.scoped("is served like everything else: request id, HEAD, OPTIONS, 405, 404", () =>
    Effect.gen(function* () {
      const server = yield* backend()
      const answer = yield* call(server, { path: "/openapi.json" })
      expect([answer.status, answer.headers["content-type"]]).toEqual([200, "application/json"])
      expect(JSON.parse(answer.text)).toEqual(JSON.parse(text))
      expect(answer.headers["x-request-id"]).toMatch(/^req_/)
      const posted = yield* call(server, { method: "POST", path: "/openapi.json" })
      expect([posted.status, posted.headers.allow]).toEqual([405, "GET, HEAD, OPTIONS"])
      expect(errorOf(yield* call(server, { path: "/openapi.json/" })).code).toBe("not_found")
    })
  )
})
