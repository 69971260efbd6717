import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { examples, placeholders } from "../../src/http/openapi/Examples.ts"
import { signWebhook } from "../../sandbox/upstreams/Iam.ts"
import { mintSlt } from "../../sandbox/SimulatedUpstreams.ts"
import { startTestSandbox } from "../support/Sandbox.ts"
import { type Call, callsOf, freshDocument, misfits, type Parameter, type RealAnswer } from "./Documented.ts"

const document = freshDocument()
const calls = callsOf(document)

/** An order in which each call succeeds: a refresh spends the session that the others use. */
const order = [
  "system.healthz",
  "system.readyz",
  "descriptors.iam",
  "descriptors.version",
  "auth.login",
  "auth.me",
  "tings.subscribe",
  "tings.send",
  "reports.submit",
  "telemetry.accept",
  "webhooks.receive",
  "auth.refresh",
  "auth.logout"
]

const parametersOf = ({ parameters }: Call): ReadonlyArray<Parameter> =>
  parameters.flatMap((given) =>
    "name" in given ? [given] : (document.components.parameters[given.$ref.replace(/.*\//, "")] ?? [])
  )

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
    : {})
})

/** Names and types; the names in `checks` vary. */
const shapeOf = (value: unknown, name = ""): unknown => {
  if (name === "checks") return "checks"
  if (Array.isArray(value)) return [...new Set(value.map((item) => JSON.stringify(shapeOf(item))))]
  if (typeof value !== "object" || value === null) return value === null ? "null" : typeof value
  return Object.fromEntries(
    Object.entries(value)
      .sort(([left], [right]) => (left < right ? -1 : 1))
      .map(([member, inner]) => [member, shapeOf(inner, member)])
  )
}

const filled = (text: string, values: Readonly<Record<string, string>>): string =>
  Object.entries(values).reduce((result, [placeholder, value]) => result.replaceAll(placeholder, value), text)

describe("The examples of the document", () => {
  it.scopedLive("are equal to real requests and responses", function* () {
    expect(calls.map(({ operationId }) => operationId).sort()).toEqual([...order].sort())
    const { world, base, clock } = yield* startTestSandbox
    const values: Record<string, string> = { [placeholders.slt]: mintSlt(world) }
    const answers: Array<RealAnswer> = []

    for (const id of order) {
      const call = calls.find(({ operationId }) => operationId === id) as Call
      const example = call.requestBody?.content["application/json"].examples?.success?.value
      const body = example === undefined ? undefined : filled(JSON.stringify(example), values)
      const headers = headersOf(call)
      // Below the oldest supported version, so that the response has every documented header.
      if ("X-Music-Client-Version" in headers) headers["X-Music-Client-Version"] = "0.0.1"
      if (id === "webhooks.receive") {
        const timestamp = String(Math.floor(clock.now() / 1000))
        const { webhookSecret, webhookKeyVersion } = world.seeded.production
        headers["X-Silicon-IAM-Timestamp"] = timestamp
        headers["X-Silicon-IAM-Key-Version"] = String(webhookKeyVersion)
        headers["X-Silicon-IAM-Signature"] = signWebhook(webhookSecret, timestamp, Buffer.from(body ?? ""))
      }
      const response = yield* Effect.promise(() =>
        fetch(`${base}${call.path}`, {
          method: call.method,
          headers: Object.fromEntries(
            Object.entries(headers).map(([name, value]) => [name, filled(value, values)])
          ),
          ...(body === undefined ? {} : { body })
        })
      )
      const text = yield* Effect.promise(() => response.text())

      const [status, documented] = Object.entries(call.responses)[0] ?? []
      expect([id, response.status], text).toEqual([id, Number(status)])
      const missing = Object.keys(documented?.headers ?? {}).filter((name) => !response.headers.has(name))
      expect([id, missing]).toEqual([id, []])
      expect([id, response.headers.get("x-request-id")]).toEqual([id, headers["X-Request-Id"]])

      const shown = documented?.content?.["application/json"].examples?.success?.value
      if (shown === undefined) {
        expect([id, text]).toEqual([id, ""])
        continue
      }
      const answer: unknown = JSON.parse(text)
      expect([id, shapeOf(answer)]).toEqual([id, shapeOf(shown)])
      answers.push({ operationId: id, status: response.status, name: "success", body: answer })
      const { access_token, refresh_token } = answer as Record<string, string | undefined>
      if (access_token !== undefined) values[placeholders.accessToken] = access_token
      if (refresh_token !== undefined) values[placeholders.refreshToken] = refresh_token
    }

    expect(answers.length).toBe(order.length - 2)
    expect(yield* Effect.promise(() => misfits(answers))).toEqual([])
  })

  it("match their schemas", async () => {
    const { response } = examples["auth.me"]
    const { scopes: _, ...incomplete } = response
    const found = await misfits([
      { operationId: "auth.me", status: 200, name: "success", body: { ...response, ting_ready: "yes" } },
      { operationId: "auth.refresh", status: 200, name: "success", body: incomplete },
      {
        operationId: "tings.send",
        status: 200,
        name: "success",
        body: { ...examples["tings.send"].response, more: 1 }
      },
      { operationId: "auth.logout", status: 200, name: "success", body: {} }
    ])
    expect(found[0]).toBe("auth.logout 200 success: is not documented")
    expect(found.join("\n")).toMatch(/auth~1me.*ting_ready/)
    expect(found.join("\n")).toMatch(/auth~1refresh/)
    expect(found.join("\n")).toMatch(/tings\/post.*more/)
  })
})
