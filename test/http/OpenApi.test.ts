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
import {
  type Call,
  callsOf,
  freshDocument,
  misfits,
  nameOf,
  parametersOf,
  type RealAnswer
} from "./Documented.ts"
import type { Answer } from "../world/Driver.ts"
import {
  type Backend,
  bearer,
  bounds,
  type CallName,
  type Change,
  errorOf,
  freshKey,
  goodRequests,
  inMemory,
  json,
  requests,
  withHeaders,
  withKeys,
  withPlane
} from "./support.ts"
import { type Fault, paths, refusal, tingRefusal } from "./Upstreams.ts"

const document = freshDocument()
const calls = callsOf(document)
const codesOf = ({ responses }: Call): ReadonlyArray<string> =>
  Object.values(responses)
    .flatMap(({ content }) => Object.keys(content?.["application/json"].examples ?? {}))
    .filter((name) => name !== "success")

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
    // The library's own errors, and the names of its filters.
    expect(committed).not.toMatch(
      /HttpApiDecodeError|"_tag"|\/schemas\/unknown|maxLength\(|\(s\) long|item\(s\)/
    )
    const named = new Set(calls.flatMap(codesOf))
    // It belongs to no call.
    expect(Object.keys(failureTable).filter((code) => !named.has(code))).toEqual(["method_not_allowed"])
  })

  it.each(calls.map((each) => [each.operationId, each] as const))(
    "describes %s: its parameters, bound and headers",
    (id, call) => {
      const { path, requestBody, responses } = call
      const bound = bounds[nameOf(id) as keyof typeof bounds] ?? 0
      expect(requestBody?.["x-max-bytes"] ?? 0).toBe(bound)
      const versioned = path.startsWith("/api/v1/")
      const parameters = parametersOf(document, call)
      for (const { description, name, schema } of parameters)
        expect([name, description, schema.examples?.length]).toEqual([name, expect.stringMatching(/\w/), 1])
      expect(parameters.some(({ name }) => name === "X-Music-Client-Version")).toBe(versioned)
      for (const [status, { content, description, headers }] of Object.entries(responses)) {
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
        const present = Object.keys(wanted).map((name) => [name, name in headers])
        expect([status, Object.fromEntries(present)]).toEqual([status, wanted])
        for (const code of failed ? listed : [])
          expect([code, failureStatus(new failureClasses[code]({})), description]).toEqual([
            code,
            Number(status),
            expect.stringContaining(code)
          ])
      }
    }
  )

  it.scoped("is served as JSON", function* () {
    const answer = yield* (yield* inMemory()).send({ path: "/openapi.json" })
    expect([answer.status, answer.headers["content-type"]]).toEqual([200, "application/json"])
    expect(json(answer)).toEqual(JSON.parse(JSON.stringify(document)))
  })
})

/** Headers of the document that are not sent: the plane selector, the opt-out and the origin. */
const unsent = ["X-Testing-Environment-Key", "X-Music-Telemetry", "Origin"]

const headersOf = (call: Call): Record<string, string> => ({
  ...Object.fromEntries(
    parametersOf(document, call)
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
    // The check itself finds missing fields, and answers that are not documented.
    const [one] = answers.filter(({ operationId }) => operationId === "auth.me") as [RealAnswer]
    expect(yield* Effect.promise(() => misfits([{ ...one, body: {} }]))).not.toEqual([])
    expect(yield* Effect.promise(() => misfits([{ ...one, status: 201 }]))).not.toEqual([])
  })
})

const ofAny = [
  [401, "invalid_client"],
  [403, "forbidden"],
  [422, "validation_failed"],
  [503, "service_unavailable"]
] as const
const ofKeys = [
  [409, "idempotency_in_progress"],
  [409, "idempotency_response_expired"],
  [409, "idempotency_conflict"]
] as const
/** What IAM answers, by path, and the calls that ask it. */
const iamRefusals = [
  [paths.tokens, ["login", "refresh"], [...ofAny, ...ofKeys, [400, "invalid_grant"]]],
  [paths.revoke, ["logout"], [...ofAny, ...ofKeys]],
  [paths.introspect, ["login", "refresh", "me", "subscribe", "send", "submit"], ofAny],
  [paths.context, withPlane, ofAny],
  // Its key is random, so it has no conflict.
  [paths.proof, ["subscribe", "send"], [...ofAny, ...ofKeys.slice(0, 2), [400, "invalid_subject_token"]]]
] as const
const tingCodes = ["permission_denied", "test_context_mismatch", "temporarily_rate_limited"] as const
const ofSending = [
  "recipient_not_registered",
  "required_delivery_not_enabled",
  "not_found",
  "idempotency_conflict",
  "payload_too_large"
] as const

const quota = (name: string) => ({ name, quota: 1, windowSeconds: 6_000 })
const limits = { address: quota("address"), credential: quota("credential") }

describe("The codes of the document", () => {
  it.scoped(
    "are all reachable, no call answers with another, and all are in the envelope of their schemas",
    function* () {
      const provoked = new Map<string, RealAnswer>()
      const idOf = new Map(calls.map(({ operationId }) => [nameOf(operationId), operationId]))
      const keep = (name: CallName, answer: Answer) => {
        if (answer.status < 400) return
        const [operationId = "", { code }] = [idOf.get(name), errorOf(answer)]
        const real = { operationId, status: answer.status, name: code, body: json(answer) }
        provoked.set(`${operationId} ${code}`, real)
      }
      /** Sends a good request of each of the calls with a change, each under a new key, while a call to an upstream fails. */
      const ask = (
        server: Backend,
        names: ReadonlyArray<CallName>,
        change: Change = (sent) => sent,
        failing?: { readonly path?: string; readonly fault: Fault }
      ) =>
        Effect.gen(function* () {
          const good = yield* goodRequests(server)
          if (failing !== undefined) server.upstreams.fail(failing)
          const sent = names.map((name) => {
            const keyed = withKeys.includes(name) ? withHeaders(freshKey())(good[name]) : good[name]
            return Effect.map(server.send(change(keyed)), (answer) => keep(name, answer))
          })
          yield* advanceClockDuring(Effect.all(sent, { concurrency: "unbounded" }), "3 seconds")
          server.upstreams.clearFaults()
          // The pause of an upstream that failed.
          if (failing !== undefined) yield* advanceClockDuring(Effect.void, "6 seconds")
        })

      // Retries end with their request, after few seconds of the clock.
      const server = yield* inMemory({
        settings: { requestDeadlineSeconds: 2, iam: { introspectionCacheSeconds: 0 } }
      })
      const { me, ...others } = yield* goodRequests(server)
      const everyCall = Object.keys({ me, ...others }) as ReadonlyArray<CallName>
      const { environment } = server.upstreams.seeded
      const { controls } = server.upstreams.iam
      const headers = [
        { host: ["a", "b"] },
        { "content-type": "text/plain" },
        { "content-length": "2000000" },
        { "idempotency-key": undefined },
        { "x-testing-environment-key": "" },
        { authorization: "Bearer short" },
        { origin: "https://elsewhere.example" },
        { "x-silicon-iam-signature": "v1=0" },
        { "x-org-id": "zenith" }
      ]
      for (const change of headers) yield* ask(server, everyCall, withHeaders(change))
      yield* ask(server, withKeys, withHeaders({ "idempotency-key": "short" }))
      for (const [path, names, refusals] of iamRefusals)
        for (const [status, code] of refusals) {
          // A verdict on a secret is kept, so each is of a secret of its own.
          const { musicSecret } = seedEnvironment(controls, `${status} ${code}`)
          const secret = path === paths.context ? { "x-testing-environment-key": musicSecret } : {}
          yield* ask(server, names, withHeaders(secret), { path, fault: refusal(status, code) })
        }
      for (const code of [...tingCodes, ...ofSending])
        yield* ask(server, ["send"], undefined, { path: "/v1/tings", fault: tingRefusal(code) })
      for (const code of tingCodes)
        yield* ask(server, ["subscribe"], undefined, { path: "/v1/subscriptions", fault: tingRefusal(code) })
      for (const secret of [undefined, environment.musicSecret])
        yield* ask(server, everyCall, withHeaders({ "x-testing-environment-key": secret }), {
          fault: { kind: "drop" }
        })

      // Callers that may not do what they ask for.
      const signed = withHeaders(me.headers)
      yield* ask(server, ["submit"], (sent) => withHeaders({ "x-org-id": "zenith" })(signed(sent)))
      yield* ask(server, ["submit"], withHeaders(bearer(`oat_${"x".repeat(43)}`)))
      const withoutNames = (body: unknown): unknown =>
        JSON.parse(JSON.stringify(body), (name, value: unknown) =>
          ["public_id", "actor", "actor_type"].includes(name) ? undefined : value
        )
      const alter: Fault = {
        kind: "alter",
        alter: ({ body, status }) => ({ status, body: withoutNames(body) })
      }
      const nameless = { path: paths.introspect, fault: alter }
      yield* ask(server, ["refresh", "me"], undefined, nameless)
      yield* ask(server, ["submit"], signed, nameless)
      const sltWith = (scope: string) =>
        controls.mintSlt(production, { appId: "music", actor: "si:deejay", scopes: [scope] })
      const narrow = json(yield* server.send(requests.login(sltWith("self.identity.read"))))
      const { access_token } = narrow as { readonly access_token: string }
      yield* ask(server, ["subscribe", "send"], withHeaders(bearer(access_token)))
      for (const slt of [sltWith("self.profile.read"), "oac_unknown"])
        yield* ask(server, ["login"], (sent) => ({ ...sent, body: JSON.stringify({ slt }) }))
      const other = { ...others.submit, body: '{"message":"Something else under the same key."}' }
      for (const one of [others.submit, other]) keep("submit", yield* server.send(one))
      const event = controls.events.membershipUpdated(environment.environmentId, "si:lyra", "acme")
      const elsewhere = controls.buildWebhook(environment.environmentId, event)
      const lower = Object.entries(elsewhere.headers).map(([name, value]) => [name.toLowerCase(), value])
      yield* ask(server, ["receive"], (sent) =>
        withHeaders(Object.fromEntries(lower))({ ...sent, body: String(elsewhere.body) })
      )

      // A server that is busy, limited, full, broken, or ends.
      yield* ask(yield* inMemory({ inFlight: 0 }), everyCall)
      const limited = yield* inMemory({ settings: { rateLimit: true }, policies: limits })
      for (const name of [...everyCall, ...everyCall]) yield* ask(limited, [name])
      for (let at = 0; at < 61; at += 1)
        keep("receive", yield* limited.send({ ...others.receive, body: "{}" }))
      const full = yield* inMemory({ settings: { reportsBytes: 1, telemetry: { spoolBytes: 1 } } })
      yield* ask(full, ["submit", "accept"])
      yield* full.store.breakDown("webhooks.receive")
      yield* ask(full, ["receive"])
      const broken = yield* inMemory()
      const dying = ["resolve", "check", "verify"].map((useCase) => [useCase, Effect.die("a fault")])
      yield* Effect.forEach(everyCall, (name) =>
        Effect.gen(function* () {
          const good = yield* goodRequests(broken)
          Object.assign(broken.during, Object.fromEntries(dying))
          keep(name, yield* broken.send(good[name]))
        })
      )
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
