import { readFileSync } from "node:fs"
import { describe, expect } from "vitest"
import { createConfig, lintFromString } from "@redocly/openapi-core"
import * as Effect from "effect/Effect"
import { mintSlt } from "../../sandbox/SimulatedUpstreams.ts"
import { production, seedEnvironment, signWebhook } from "../../sandbox/upstreams/Iam.ts"
import { placeholders } from "../../src/http/openapi/Examples.ts"
import { failureStatus } from "../../src/schema/Envelope.ts"
import { type FailureCode, failureClasses, failureTable } from "../../src/schema/Failure.ts"
import { startTestSandbox } from "../support/Sandbox.ts"
import { advanceClockDuring } from "../support/UseCaseLayers.ts"
import { it } from "../world/Test.ts"
import { type Call, callsOf, freshDocument, misfits, type Parameter, type RealAnswer } from "./Documented.ts"
import { bounds, withKeys, withPlane } from "./Inputs.ts"
import {
  type Answer,
  type Backend,
  bearer,
  type CallName,
  type Change,
  errorOf,
  freshKey,
  type Good,
  goodRequests,
  inMemory,
  json,
  requests,
  withBody,
  withHeaders
} from "./support.ts"
import { type Fault, paths, refusal, tingRefusal } from "./Upstreams.ts"

const document = freshDocument()
const calls = callsOf(document)
const codesOf = ({ responses }: Call): ReadonlyArray<string> =>
  Object.values(responses)
    .flatMap(({ content }) => Object.keys(content?.["application/json"].examples ?? {}))
    .filter((name) => name !== "success")
const parametersOf = ({ parameters }: Call): ReadonlyArray<Parameter> =>
  parameters.flatMap((given) =>
    "name" in given ? [given] : (document.components.parameters[given.$ref.replace(/.*\//, "")] ?? [])
  )

describe("The OpenAPI document", () => {
  it("passes the linter without an error or a warning, examples included, and is the committed one", async () => {
    const rules = {
      "no-invalid-media-type-examples": "error",
      "no-invalid-schema-examples": "error",
      "no-unused-components": "error"
    } as const
    const config = await createConfig({ extends: ["recommended"], rules })
    const problems = await lintFromString({ source: JSON.stringify(document), config })
    expect(problems.map(({ ruleId, message, location }) => [ruleId, message, location[0]?.pointer])).toEqual(
      []
    )
    // `npm run openapi` writes it.
    const committed = readFileSync(new URL("../../docs/openapi.json", import.meta.url), "utf8")
    expect(committed).toBe(`${JSON.stringify(document, null, 2)}\n`)
  })

  it("has the thirteen calls, and neither the library's own errors nor the names of its filters", () => {
    expect(calls.map(({ method, path }) => `${method} ${path}`).sort()).toEqual([
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
      "POST /webhook"
    ])
    const text = JSON.stringify(document)
    expect(text).not.toMatch(/HttpApiDecodeError|"_tag"|\/schemas\/unknown|maxLength\(|\(s\) long|item\(s\)/)
    expect(Object.keys(document.components.schemas)).not.toContain("Issue")
  })

  it.each(calls.map((each) => [each.operationId, each] as const))(
    "describes %s: its codes, headers and bounds",
    (id, call) => {
      const { description, path, requestBody, responses, summary } = call
      const codes = codesOf(call)
      const probe = path === "/healthz" || path === "/readyz"
      expect([summary, description]).toEqual([expect.stringMatching(/\w/), expect.stringMatching(/\w/)])
      for (const code of ["invalid_input", "internal"]) expect(codes).toContain(code)
      for (const code of ["overloaded", "shutting_down", "rate_limited"])
        expect([code, codes.includes(code)]).toEqual([code, !probe])
      const bound = bounds[nameOf(id) as keyof typeof bounds] ?? 0
      for (const code of ["payload_too_large", "unsupported_media_type"])
        expect([code, codes.includes(code)]).toEqual([code, bound > 0])
      expect([requestBody?.["x-max-bytes"] ?? 0, requestBody?.required ?? true]).toEqual([
        bound,
        id !== "tings.subscribe"
      ])
      const versioned = path.startsWith("/api/v1/")
      for (const { name, ...parameter } of parametersOf(call))
        expect([name, parameter.description, parameter.schema.examples?.length]).toEqual([
          name,
          expect.stringMatching(/\w/),
          1
        ])
      expect(parametersOf(call).some(({ name }) => name === "X-Music-Client-Version")).toBe(versioned)
      for (const [status, { content, description: said, headers }] of Object.entries(responses)) {
        const listed = Object.keys(content?.["application/json"].examples ?? {}) as ReadonlyArray<FailureCode>
        // A request counts before its bearer is checked; the webhook counts only its forged deliveries.
        const counts = path === "/webhook" ? status === "429" : "429" in responses
        const failed = Number(status) >= 400
        const wanted = {
          "X-Request-Id": true,
          "X-Music-Min-Cli": versioned,
          RateLimit: counts,
          "RateLimit-Policy": counts,
          "Retry-After": status === "429" || status === "503" || listed.includes("idempotency_in_progress"),
          "WWW-Authenticate": listed.includes("unauthenticated"),
          ...(failed ? {} : { "Cache-Control": id.startsWith("auth.") })
        }
        for (const [name, present] of Object.entries(wanted))
          expect([id, status, name, name in headers]).toEqual([id, status, name, present])
        if (!failed) continue
        expect(listed.length).toBeGreaterThan(0)
        for (const code of listed) {
          expect([code, failureStatus(new failureClasses[code]({}))]).toEqual([code, Number(status)])
          expect(said).toContain(code)
        }
      }
    }
  )

  it("names every code, except the wrong method, which belongs to no call", () => {
    const named = new Set(calls.flatMap(codesOf))
    expect(Object.keys(failureTable).filter((code) => !named.has(code))).toEqual(["method_not_allowed"])
  })

  it("states which headers a call reads, and where a bearer is required or optional", () => {
    const reads = (name: string) =>
      calls
        .filter((call) => parametersOf(call).some((one) => one.name === name))
        .map(({ operationId }) => nameOf(operationId))
    expect(reads("Idempotency-Key").sort()).toEqual([...withKeys].sort())
    expect(reads("X-Testing-Environment-Key").sort()).toEqual([...withPlane].sort())
    expect(reads("X-Org-ID").sort()).toEqual(["me", "send", "submit", "subscribe"])
    expect(reads("X-Silicon-IAM-Signature")).toEqual(["receive"])
    const security = Object.fromEntries(
      calls.map(({ operationId, security }) => [nameOf(operationId), security])
    )
    expect(security).toMatchObject({
      me: [{ bearer: [] }],
      send: [{ bearer: [] }],
      submit: [{ bearer: [] }, {}],
      login: []
    })
  })

  it("closes request schemas and leaves response schemas open", () => {
    const closed = Object.entries(document.components.schemas).filter(([, schema]) =>
      JSON.stringify(schema).includes('Properties":false')
    )
    expect(closed.map(([name]) => name).sort()).toEqual([
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

  it.scoped("is served as JSON", function* () {
    const answer = yield* (yield* inMemory()).send({ path: "/openapi.json" })
    expect([answer.status, answer.headers["content-type"]]).toEqual([200, "application/json"])
    expect(json(answer)).toEqual(JSON.parse(JSON.stringify(document)))
  })
})

/** The last part of an operation's id. */
const nameOf = (id: string): CallName => id.replace(/.*\./, "") as CallName

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

describe("The examples of the document", () => {
  it.scopedLive("are equal to real requests and responses", function* () {
    const { base, clock, world } = yield* startTestSandbox
    const values: Record<string, string> = { [placeholders.slt]: mintSlt(world) }
    const fill = (text: string) =>
      Object.entries(values).reduce(
        (filled, [placeholder, value]) => filled.replaceAll(placeholder, value),
        text
      )
    const answers: Array<RealAnswer> = []
    // In an order in which each call succeeds: a refresh spends the session that the others use.
    const last = ["auth.refresh", "auth.logout"]
    const first = ["auth.login"]
    const place = ({ operationId }: Call) => last.indexOf(operationId) - first.indexOf(operationId)
    for (const call of [...calls].sort((left, right) => place(left) - place(right))) {
      const id = call.operationId
      const example = call.requestBody?.content["application/json"].examples?.success?.value
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
      const shown = documented?.content?.["application/json"].examples?.success?.value
      expect([id, text === ""]).toEqual([id, shown === undefined])
      if (shown === undefined) continue
      const answer = JSON.parse(text) as Record<string, string | undefined>
      expect([id, shapeOf(answer)]).toEqual([id, shapeOf(shown)])
      answers.push({ operationId: id, status: response.status, name: "success", body: answer })
      if (answer.access_token !== undefined) values[placeholders.accessToken] = answer.access_token
      if (answer.refresh_token !== undefined) values[placeholders.refreshToken] = answer.refresh_token
    }
    expect(answers.length).toBe(calls.length - 2)
    expect(yield* Effect.promise(() => misfits(answers))).toEqual([])
    // The check itself finds fields that are missing, wrong and too many, and answers that are not documented.
    const [one] = answers.filter(({ operationId }) => operationId === "auth.me") as [RealAnswer]
    for (const body of [{}, { ...Object(one.body), ting_ready: "yes" }, { ...Object(one.body), more: 1 }])
      expect(yield* Effect.promise(() => misfits([{ ...one, body }]))).not.toEqual([])
    expect(yield* Effect.promise(() => misfits([{ ...one, status: 201 }]))).not.toEqual([])
  })
})

const anyRefusal = [
  [401, "invalid_client"],
  [401, "unauthenticated"],
  [403, "forbidden"],
  [404, "not_found"],
  [422, "validation_failed"],
  [500, "internal_error"],
  [503, "service_unavailable"],
  [429, "rate_limited"]
] as const
const keyRefusals = [
  [409, "idempotency_in_progress"],
  [409, "idempotency_response_expired"],
  [409, "idempotency_conflict"]
] as const
/** What IAM may answer by its contract, by path, and the calls that ask it. */
const iamRefusals = [
  [paths.tokens, ["login", "refresh"], [...anyRefusal, ...keyRefusals, [400, "invalid_grant"]]],
  [paths.revoke, ["logout"], [...anyRefusal, ...keyRefusals]],
  [paths.introspect, ["login", "refresh", "me", "subscribe", "send", "submit"], anyRefusal],
  [paths.context, withPlane, anyRefusal],
  [
    paths.proof,
    ["subscribe", "send"],
    [
      ...anyRefusal,
      // Its key is random, so it has no conflict.
      ...keyRefusals.slice(0, 2),
      [400, "invalid_subject_token"],
      [403, "obo_subject_token_forbidden"],
      [403, "obo_organization_not_authorized"]
    ]
  ]
] as const
const tingCodes = [
  "proof_consumed",
  "session_expired",
  "permission_denied",
  "test_context_mismatch",
  "temporarily_rate_limited",
  "storage_unavailable",
  "invalid_input"
] as const
/** Of tings only. */
const tingsCodes = [
  "recipient_not_registered",
  "required_delivery_not_enabled",
  "not_found",
  "idempotency_conflict",
  "payload_too_large"
] as const

describe("The codes of the document", () => {
  it.scoped(
    "are all reachable, no call answers with another, and all are in the envelope of their schemas",
    function* () {
      const provoked = new Map<string, RealAnswer>()
      const idOf = new Map(calls.map(({ operationId }) => [nameOf(operationId), operationId]))
      const keep = (name: CallName, answer: Answer) => {
        if (answer.status < 400) return
        const [operationId = "", { code }] = [idOf.get(name), errorOf(answer)]
        provoked.set(`${operationId} ${code}`, {
          operationId,
          status: answer.status,
          name: code,
          body: json(answer)
        })
      }
      const everyCall = Object.keys(yield* goodRequests(yield* inMemory())) as ReadonlyArray<CallName>
      /** Sends a good request of each of the calls with a change, each under a new key. */
      const ask = (
        server: Backend,
        names: ReadonlyArray<CallName>,
        change: Change = (sent) => sent,
        good?: Good
      ) =>
        Effect.gen(function* () {
          const prepared = good ?? (yield* goodRequests(server))
          const answers = Effect.forEach(
            names,
            (name) =>
              Effect.map(
                server.send(
                  change(withKeys.includes(name) ? withHeaders(freshKey())(prepared[name]) : prepared[name])
                ),
                (answer) => keep(name, answer)
              ),
            { concurrency: "unbounded" }
          )
          yield* advanceClockDuring(answers, "3 seconds")
        })
      /** The same while a call to an upstream fails. */
      const askDuring = (
        server: Backend,
        path: string | undefined,
        fault: Fault,
        names: ReadonlyArray<CallName>,
        change?: Change
      ) =>
        Effect.gen(function* () {
          const good = yield* goodRequests(server)
          server.upstreams.fail({ path, fault })
          yield* ask(server, names, change, good)
          server.upstreams.clearFaults()
          yield* advanceClockDuring(Effect.void, "6 seconds")
        })

      // Retries end with their request, after few seconds of the clock.
      const server = yield* inMemory({
        settings: { requestDeadlineSeconds: 2, iam: { introspectionCacheSeconds: 0 } }
      })
      const { environment } = server.upstreams.seeded
      const inPlane = withHeaders({ "x-testing-environment-key": environment.musicSecret })
      for (const change of [
        withHeaders({ host: ["a", "b"] }),
        withHeaders({ "content-type": "text/plain" }),
        withHeaders({ "content-length": "2000000" }),
        withHeaders({ "idempotency-key": undefined }),
        withHeaders({ "x-testing-environment-key": "" }),
        withHeaders({ authorization: "Bearer short" }),
        withHeaders({ origin: "https://elsewhere.example" }),
        withHeaders({ "x-silicon-iam-signature": "v1=0" })
      ])
        yield* ask(server, everyCall, change)
      yield* ask(server, withKeys, (sent) => ({
        ...sent,
        headers: { ...sent.headers, "idempotency-key": "short" }
      }))
      for (const [path, names, refusals] of iamRefusals)
        for (const [status, code] of refusals) {
          // A verdict on a secret is kept, so each is of a secret of its own.
          const { musicSecret } = seedEnvironment(server.upstreams.iam.controls, `${status} ${code}`)
          const change =
            path === paths.context ? withHeaders({ "x-testing-environment-key": musicSecret }) : undefined
          yield* askDuring(server, path, refusal(status, code), names, change)
        }
      for (const code of [...tingCodes, ...tingsCodes]) {
        yield* askDuring(server, "/v1/tings", tingRefusal(code), ["send"])
        if (!tingsCodes.some((one) => one === code))
          yield* askDuring(server, "/v1/subscriptions", tingRefusal(code), ["subscribe"])
      }
      yield* askDuring(server, undefined, { kind: "drop" }, everyCall)
      yield* askDuring(server, undefined, { kind: "drop" }, everyCall, inPlane)

      // Callers that may not do what they ask for.
      const { me, submit } = yield* goodRequests(server)
      const signed = withHeaders(me.headers)
      yield* ask(server, everyCall, withHeaders({ "x-org-id": "zenith" }))
      yield* ask(server, ["submit"], (sent) => withHeaders({ "x-org-id": "zenith" })(signed(sent)))
      yield* ask(server, ["submit"], withHeaders(bearer(`oat_${"x".repeat(43)}`)))
      const withoutNames = (body: unknown): unknown =>
        JSON.parse(JSON.stringify(body), (name, value: unknown) =>
          ["public_id", "actor", "actor_type"].includes(name) ? undefined : value
        )
      const nameless: Fault = {
        kind: "alter",
        alter: ({ body, status }) => ({ status, body: withoutNames(body) })
      }
      yield* askDuring(server, paths.introspect, nameless, ["refresh", "me", "submit"], (sent) =>
        sent.path === submit.path ? signed(sent) : sent
      )
      const slt = server.upstreams.iam.controls.mintSlt(production, {
        appId: "music",
        actor: "si:deejay",
        scopes: ["self.identity.read"]
      })
      const narrow = json(yield* server.send(requests.login(slt))) as { readonly access_token: string }
      yield* ask(server, ["subscribe", "send"], withHeaders(bearer(narrow.access_token)))
      const scopeless = server.upstreams.iam.controls.mintSlt(production, {
        appId: "music",
        actor: "si:deejay",
        scopes: ["self.profile.read"]
      })
      yield* ask(server, ["login"], withBody(JSON.stringify({ slt: scopeless })))
      yield* ask(server, ["login"], withBody('{"slt":"oac_unknown"}'))
      const other = withBody('{"message":"Something else under the same key."}')
      for (const one of [submit, other(submit)]) keep("submit", yield* server.send(one))
      const { controls } = server.upstreams.iam
      const elsewhere = controls.buildWebhook(
        environment.environmentId,
        controls.events.membershipUpdated(environment.environmentId, "si:lyra", "acme")
      )
      const lower = Object.entries(elsewhere.headers).map(([name, value]) => [name.toLowerCase(), value])
      yield* ask(server, ["receive"], (sent) =>
        withHeaders(Object.fromEntries(lower))({ ...sent, body: elsewhere.body })
      )

      // A server that is busy, limited, full, broken, or ends.
      yield* ask(yield* inMemory({ inFlight: 0 }), everyCall)
      const quota = (name: string) => ({ name, quota: 1, windowSeconds: 6_000 })
      const limited = yield* inMemory({
        settings: { rateLimit: true },
        policies: { address: quota("address"), credential: quota("credential") }
      })
      for (const name of everyCall) yield* ask(limited, [name])
      const { receive } = yield* goodRequests(limited)
      for (let at = 0; at < 61; at += 1) keep("receive", yield* limited.send({ ...receive, body: "{}" }))
      const full = yield* inMemory({ settings: { reportsBytes: 1, telemetry: { spoolBytes: 1 } } })
      yield* ask(full, ["submit", "accept"])
      yield* full.store.breakDown("webhooks.receive")
      yield* ask(full, ["receive"])
      const broken = yield* inMemory()
      const good = yield* goodRequests(broken)
      for (const useCase of ["resolve", "check", "verify"]) broken.during[useCase] = Effect.die("a fault")
      yield* ask(broken, everyCall, undefined, good)
      const ending = yield* inMemory()
      yield* ending.drain.begin
      yield* ask(ending, everyCall)

      const documented = calls.flatMap((call) => codesOf(call).map((code) => `${call.operationId} ${code}`))
      expect([...provoked.keys()].filter((pair) => !documented.includes(pair))).toEqual([])
      // They have no dependency that could fail.
      const unreachable = ["system.healthz internal", "descriptors.version internal"]
      expect(documented.filter((pair) => !provoked.has(pair)).sort()).toEqual(unreachable.sort())
      expect(yield* Effect.promise(() => misfits([...provoked.values()]))).toEqual([])
    }
  )
})
