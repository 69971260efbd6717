import { readFileSync } from "node:fs"
import * as OpenApi from "@effect/platform/OpenApi"
import { expect } from "vitest"
import { createConfig, lintFromString } from "@redocly/openapi-core"
import { Effect } from "effect"
import { mintSlt } from "../../sandbox/SimulatedUpstreams.ts"
import { signWebhook } from "../../sandbox/upstreams/Iam.ts"
import { Api } from "../../src/http/Api.ts"
import { placeholders } from "../../src/http/openapi/Examples.ts"
import { renderExamples } from "../../scripts/openapi/examples.ts"
import { failureTable } from "../../src/schema/Failure.ts"
import { startTestSandbox } from "../world/Sandbox.ts"
import { it } from "../world/Test.ts"
import {
  document,
  documentedCalls as calls,
  type DocumentedCall as Call,
  parametersOf
} from "../world/Contract.ts"

const codesOf = ({ responses }: Call): ReadonlyArray<string> =>
  Object.values(responses)
    .flatMap(({ content }) => Object.keys(content?.["application/json"]?.examples ?? {}))
    .filter((name) => name !== "success")

it("The OpenAPI document passes the linter without an error or a warning, examples included, and is the committed one", async () => {
  const rules = {
    "no-invalid-media-type-examples": "error",
    "no-invalid-schema-examples": "error",
    "no-unused-components": "error"
  } as const
  const config = await createConfig({ extends: ["recommended"], rules })
  const problems = await lintFromString({ source: JSON.stringify(document), config })
  expect(problems.map(({ ruleId, message, location }) => [ruleId, message, location[0]?.pointer])).toEqual([])
  // `npm run openapi` writes it.
  const committed = readFileSync(new URL("../../docs/openapi.json", import.meta.url), "utf8")
  expect(committed).toBe(`${JSON.stringify(OpenApi.fromApi(Api), null, 2)}\n`)
  const page = readFileSync(new URL("../../docs/api.md", import.meta.url), "utf8")
  expect(page).toBe(renderExamples(page))
  expect(calls.filter(({ operationId }) => !page.includes(`<!-- example: ${operationId} -->`))).toEqual([])
  // The library's own errors, and the names of its filters.
  expect(committed).not.toMatch(
    /HttpApiDecodeError|"_tag"|\/schemas\/unknown|maxLength\(|\(s\) long|item\(s\)/
  )
  const named = new Set(calls.flatMap(codesOf))
  // It belongs to no call.
  expect(Object.keys(failureTable).filter((code) => !named.has(code))).toEqual(["method_not_allowed"])
})

/** Headers of the document that are not sent: the plane selector, the opt-out and the origin. */
const unsent = ["X-Testing-Environment-Key", "X-Music-Telemetry", "Origin"]

const headersOf = (call: Call): Record<string, string> => ({
  ...Object.fromEntries(
    parametersOf(call)
      .filter(({ name }) => !unsent.includes(name))
      .map(({ name, schema }) => [name, String(schema.examples?.[0])])
  ),
  ...(call.requestBody === undefined ? {} : { "content-type": "application/json" }),
  ...(call.security.some((scheme) => "bearer" in scheme)
    ? { authorization: `Bearer ${placeholders.accessToken}` }
    : {}),
  // Below the oldest supported version, so that the response has every documented header.
  ...(call.path.startsWith("/api/v1/") ? { "X-Music-Client-Version": "0.0.1" } : {})
})

/** Names and types; the names in `checks` vary. */
const shapeOf = (value: unknown, name = ""): unknown => {
  if (name === "checks") return "checks"
  if (Array.isArray(value)) return [...new Set(value.map((item) => JSON.stringify(shapeOf(item))))]
  if (typeof value !== "object" || value === null) return value === null ? "null" : typeof value
  const members = Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1))
  return Object.fromEntries(members.map(([member, inner]) => [member, shapeOf(inner, member)]))
}

it.scopedLive("The examples of the document are equal to real requests and responses", function* () {
  const { base, clock, world } = yield* startTestSandbox
  const values: Record<string, string> = { [placeholders.slt]: mintSlt(world) }
  const fill = (text: string) =>
    Object.entries(values).reduce(
      (filled, [placeholder, value]) => filled.replaceAll(placeholder, value),
      text
    )
  let answers = 0
  const served: unknown = yield* Effect.promise(async () => (await fetch(`${base}/openapi.json`)).json())
  expect(served).toEqual(document)
  // In an order in which each call succeeds: a refresh spends the session that the others use.
  const last = ["auth.refresh", "auth.logout"]
  const first = ["auth.login"]
  const place = ({ operationId }: Call) => last.indexOf(operationId) - first.indexOf(operationId)
  for (const call of [...calls].sort((left, right) => place(left) - place(right))) {
    const id = call.operationId
    const example = call.requestBody?.content["application/json"]?.examples?.success?.value
    const body = example === undefined ? undefined : fill(JSON.stringify(example))
    const headers = headersOf(call)
    if (id === "webhooks.receive") {
      const timestamp = String(Math.floor(clock.now() / 1000))
      const { webhookKeyVersion, webhookSecret } = world.seeded.production
      headers["X-Silicon-IAM-Timestamp"] = timestamp
      headers["X-Silicon-IAM-Key-Version"] = String(webhookKeyVersion)
      headers["X-Silicon-IAM-Signature"] = signWebhook(webhookSecret, timestamp, Buffer.from(body ?? ""))
    }
    const [response, text] = yield* Effect.promise(async () => {
      const sent = await fetch(base + call.path, {
        method: call.method,
        headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, fill(value)])),
        ...(body === undefined ? {} : { body })
      })
      return [sent, await sent.text()] as const
    })
    const [status, documented] = Object.entries(call.responses)[0] ?? []
    expect([id, response.status], text).toEqual([id, Number(status)])
    const missing = Object.keys(documented?.headers ?? {}).filter((name) => !response.headers.has(name))
    expect([id, missing, response.headers.get("x-request-id")]).toEqual([id, [], headers["X-Request-Id"]])
    const shown = documented?.content?.["application/json"]?.examples?.success?.value
    expect([id, text === ""]).toEqual([id, shown === undefined])
    if (shown === undefined) continue
    const answer = JSON.parse(text) as Record<string, string | undefined>
    expect([id, shapeOf(answer)]).toEqual([id, shapeOf(shown)])
    // The linter has compared the example with its schema.
    answers += 1
    if (answer.access_token !== undefined) values[placeholders.accessToken] = answer.access_token
    if (answer.refresh_token === undefined) continue
    values[placeholders.refreshToken] = answer.refresh_token
    values[placeholders.endedToken] = answer.refresh_token
  }
  expect(answers).toBe(calls.length - 2)
})
