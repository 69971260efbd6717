import { readFileSync } from "node:fs"
import { type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from "node:http"
import { gunzipSync } from "node:zlib"
import * as HttpApi from "@effect/platform/HttpApi"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import { createConfig, lintFromString } from "@redocly/openapi-core"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Api } from "../../src/http/Api.ts"
import { examples } from "../../src/http/openapi/Examples.ts"
import { BodyBound, NoStore } from "../../src/http/api/EndpointAnnotations.ts"
import { failureStatus } from "../../src/schema/Envelope.ts"
import { type FailureCode, failureClasses, failureTable } from "../../src/schema/Failure.ts"
import { type Call, callsOf, freshDocument } from "./Documented.ts"
import { sharedBackend, call } from "./support.ts"

const codes = Object.keys(failureTable) as ReadonlyArray<FailureCode>

const document = freshDocument()
const text = JSON.stringify(document)

const operations = callsOf(document)
const operationOf = (id: string) => operations.find(({ operationId }) => operationId === id) as Call

const named = ({ parameters }: Call) =>
  parameters.map((given) => ("name" in given ? given.name : given.$ref.replace(/.*\//, "")))

/** The annotations of the endpoints, by operation id. */
const declared = (() => {
  const found = new Map<
    string,
    { readonly errorSchema: Schema.Schema<unknown>; bound: number; noStore: boolean }
  >()
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ group, endpoint }) => {
      found.set(`${group.identifier}.${endpoint.name}`, {
        // Reflection gives endpoints without the types of their schemas.
        errorSchema: endpoint.errorSchema as unknown as Schema.Schema<unknown>,
        bound: Context.get(endpoint.annotations, BodyBound),
        noStore: Context.get(endpoint.annotations, NoStore)
      })
    }
  })
  return found
})()

/** The answer without decompression. */
const bytesOf = (url: string, headers: OutgoingHttpHeaders) =>
  new Promise<{ status: number; headers: IncomingHttpHeaders; body: Buffer }>((resolve, reject) => {
    const sent = request(url, { headers, agent: false }, (response) => {
      const parts: Array<Buffer> = []
      response.on("data", (part: Buffer) => parts.push(part))
      response.on("end", () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: Buffer.concat(parts)
        })
      )
    })
    sent.on("error", reject).end()
  })

describe("The OpenAPI document", () => {
  it("passes the linter without an error or a warning, examples included", async () => {
    const config = await createConfig({
      extends: ["recommended"],
      rules: {
        "no-invalid-media-type-examples": "error",
        "no-invalid-schema-examples": "error",
        "no-unused-components": "error"
      }
    })
    const problems = await lintFromString({ source: text, config })
    expect(problems.map(({ ruleId, message, location }) => [ruleId, message, location[0]?.pointer])).toEqual(
      []
    )
  })

  it("equals docs/openapi.json; npm run openapi writes it", () => {
    const committed = readFileSync(new URL("../../docs/openapi.json", import.meta.url), "utf8")
    expect(committed).toBe(`${JSON.stringify(document, null, 2)}\n`)
  })

  it("is OpenAPI 3.1 and names the service", () => {
    expect(document).toMatchObject({
      openapi: "3.1.0",
      info: { title: "Music backend", license: { name: "MIT" } },
      servers: [{ url: "/" }]
    })
    expect(document.tags.every(({ description }) => description !== undefined)).toBe(true)
  })

  it("contains neither the library's own errors nor the names of its filters", () => {
    expect(text).not.toMatch(/HttpApiDecodeError|"_tag"|\/schemas\/unknown|maxLength\(|\(s\) long|item\(s\)/)
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
        expect([operation.operationId, status, "Retry-After" in headers]).toEqual([
          operation.operationId,
          status,
          status === "429" || status === "503" || listed.includes("idempotency_in_progress")
        ])
        if (listed.includes("unauthenticated")) expect(headers).toHaveProperty("WWW-Authenticate")
      }
    }
  })

  it("lists exactly the codes that the endpoint declares", () => {
    for (const operation of operations) {
      const endpoint = declared.get(operation.operationId)
      const listed = Object.values(operation.responses).flatMap(({ content }) =>
        Object.keys(content?.["application/json"].examples ?? {})
      )
      const given = listed.filter((name) => name !== "success").sort()
      expect(given).toEqual(
        codes
          .filter(
            (code) => endpoint !== undefined && Schema.is(endpoint.errorSchema)(new failureClasses[code]({}))
          )
          .sort()
      )
    }
  })

  it("has an example of every request and response with a body, and no others", () => {
    expect(Object.keys(examples).sort()).toEqual(operations.map(({ operationId }) => operationId).sort())
    for (const { operationId, requestBody, responses } of operations) {
      const asked = requestBody?.content["application/json"].examples?.success
      expect([operationId, asked !== undefined]).toEqual([operationId, requestBody !== undefined])
      const [status, response] = Object.entries(responses)[0] ?? []
      const answered = response?.content?.["application/json"].examples?.success
      expect([operationId, answered !== undefined]).toEqual([operationId, status === "200"])
    }
  })

  it("states the bounds of bodies and the responses with no-store", () => {
    for (const { operationId, requestBody, responses } of operations) {
      const { bound = 0, noStore = false } = declared.get(operationId) ?? {}
      expect([operationId, requestBody?.["x-max-bytes"] ?? 0]).toEqual([operationId, bound])
      if (bound > 0) expect(requestBody?.description).toContain(bound.toLocaleString("en"))
      // The only call whose body may be empty.
      if (bound > 0)
        expect([operationId, requestBody?.required]).toEqual([operationId, operationId !== "tings.subscribe"])
      const [success] = Object.values(responses)
      expect([operationId, "Cache-Control" in (success?.headers ?? {})]).toEqual([operationId, noStore])
    }
  })

  it("lists the headers of each call, with an example", () => {
    const of = (id: string) => named(operationOf(id))
    expect(of("auth.login")).toEqual([
      "Idempotency-Key",
      "TestingEnvironmentKey",
      "MusicSource",
      "MusicClientVersion",
      "MusicTelemetry",
      "RequestId",
      "Traceparent"
    ])
    expect(of("reports.submit")).toEqual(expect.arrayContaining(["Idempotency-Key", "X-Org-ID"]))
    expect(of("auth.me")).toEqual(expect.arrayContaining(["X-Org-ID", "TestingEnvironmentKey"]))
    expect(of("descriptors.version")).not.toContain("TestingEnvironmentKey")
    expect(of("webhooks.receive")).toEqual(expect.arrayContaining(["X-Silicon-IAM-Signature"]))
    const parameters = [
      ...operations.flatMap(({ parameters }) =>
        parameters.flatMap((given) => ("name" in given ? [given] : []))
      ),
      ...Object.values(document.components.parameters)
    ]
    for (const { name, description, schema } of parameters) {
      expect([name, description]).toEqual([name, expect.stringMatching(/\w/)])
      expect([name, schema.examples?.length]).toEqual([name, 1])
    }
  })

  it("lists the quotas with every response of a call that counts, since a request counts before its bearer is checked", () => {
    for (const { operationId, path, responses } of operations)
      for (const [status, { headers }] of Object.entries(responses)) {
        // The webhook counts only its forged deliveries.
        const counts = path === "/webhook" ? status === "429" : "429" in responses
        expect([operationId, status, "RateLimit" in headers, "RateLimit-Policy" in headers]).toEqual([
          operationId,
          status,
          counts,
          counts
        ])
      }
  })

  it("lists X-Music-Client-Version and X-Music-Min-Cli under /api/v1 only", () => {
    for (const call of operations) {
      const isVersioned = call.path.startsWith("/api/v1/")
      expect([call.path, named(call).includes("MusicClientVersion")]).toEqual([call.path, isVersioned])
      for (const [status, { headers }] of Object.entries(call.responses))
        expect([call.path, status, "X-Music-Min-Cli" in headers]).toEqual([call.path, status, isVersioned])
    }
  })

  it("states where a bearer is required, and where it is optional", () => {
    const security = Object.fromEntries(
      operations.map(({ operationId, security }) => [operationId, security])
    )
    expect(security["auth.me"]).toEqual([{ bearer: [] }])
    expect(security["tings.send"]).toEqual([{ bearer: [] }])
    expect(security["reports.submit"]).toEqual([{ bearer: [] }, {}])
    expect(security["auth.login"]).toEqual([])
    expect(document.components.securitySchemes).toMatchObject({ bearer: { type: "http", scheme: "bearer" } })
  })

  it("closes request schemas and leaves response schemas open", () => {
    const { schemas } = document.components
    const closed = Object.keys(schemas).filter((name) =>
      JSON.stringify(schemas[name]).includes('Properties":false')
    )
    expect(closed.sort()).toEqual([
      "Attachment",
      "LoginRequest",
      "LogoutRequest",
      "RefreshRequest",
      "ReportRequest",
      "SubscriptionRequest",
      "TelemetryRequest",
      "TingRequest"
    ])
  })

  it.scoped("is served as JSON with a request id", function* () {
    const server = yield* sharedBackend
    const answer = yield* call(server, { path: "/openapi.json" })
    expect([answer.status, answer.headers["content-type"]]).toEqual([200, "application/json"])
    expect(JSON.parse(answer.text)).toEqual(JSON.parse(text))
    expect(answer.headers["x-request-id"]).toMatch(/^req_/)
  })

  it.scoped("is compressed for clients that accept gzip, and 304 for a current copy", function* () {
    const { port } = yield* sharedBackend
    const get = (headers: Record<string, string>) =>
      Effect.promise(() => bytesOf(`http://127.0.0.1:${port}/openapi.json`, headers))
    const zipped = yield* get({ "accept-encoding": "br;q=1, GZIP;q=0.5" })
    expect(zipped.headers).toMatchObject({
      "content-encoding": "gzip",
      vary: "Accept-Encoding",
      "cache-control": "no-cache",
      "x-content-type-options": "nosniff"
    })
    expect(gunzipSync(zipped.body).toString("utf8")).toBe(text)
    for (const refused of ["", "identity", "gzip;q=0", "gzip; q=0.000", "x-gzip2"]) {
      const plain = yield* get({ "accept-encoding": refused })
      expect([refused, plain.headers["content-encoding"]]).toEqual([refused, undefined])
      expect(plain.body.toString("utf8")).toBe(text)
    }
    const tag = zipped.headers.etag ?? ""
    expect(tag).toMatch(/^W\/"[\w-]{22}"$/)
    for (const known of [tag, tag.slice(2), `"other", ${tag}`, "*"]) {
      const again = yield* get({ "if-none-match": known })
      expect([known, again.status, again.body.length, again.headers.etag]).toEqual([known, 304, 0, tag])
    }
    expect((yield* get({ "if-none-match": '"other"' })).status).toBe(200)
  })
})
