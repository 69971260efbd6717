/** Reading answers: what the service's schemas can produce passes, what lacks a promised member does not. */
import { readFileSync } from "node:fs"
import * as HttpApi from "@effect/platform/HttpApi"
import { describe, expect, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"
import { decodeAnswer, unexpectedAnswer } from "../../../client/calls/AnswerDecoder.ts"
import { readRateLimits, readRetryAfter } from "../../../client/calls/AnswerHeaders.ts"
import { isMe } from "../../../client/calls/Answers.ts"
import { type Endpoint, type EndpointName, endpoints } from "../../../client/calls/Endpoints.ts"
import { clientErrorTable } from "../../../client/failures/ErrorTable.ts"
import { answerBytes } from "../../../client/transport/Transport.ts"
import { Api } from "../../../src/http/Api.ts"
import { examples } from "../../../src/http/openapi/Examples.ts"
import { Envelope } from "../../../src/schema/Envelope.ts"
import { type FailureCode, failureTable } from "../../../src/schema/FailureTable.ts"

/** Our own constants: their keys are the names. */
const names = Object.keys(endpoints) as ReadonlyArray<EndpointName>
const codes = Object.keys(failureTable) as ReadonlyArray<FailureCode>
const speaking = names.filter((name) => endpoints[name].answer !== "empty")

/** The schema of each call's answer, by method and path. */
const answerSchemas = (() => {
  const found = new Map<string, Schema.Schema<unknown>>()
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint }) => {
      // Reflection gives endpoints without the types of their schemas.
      const schema = endpoint.successSchema as unknown as Schema.Schema<unknown>
      found.set(`${endpoint.method} ${endpoint.path}`, schema)
    }
  })
  return found
})()

const answerSchemaOf = (name: EndpointName): Schema.Schema<unknown> => {
  const { method, path } = endpoints[name]
  const schema = answerSchemas.get(`${method} ${path}`)
  if (schema === undefined) throw new Error(`${name} is not in the contract`)
  return schema
}

const exampleAnswers: Readonly<Record<string, unknown>> = {
  login: examples["auth.login"].response,
  refresh: examples["auth.refresh"].response,
  me: examples["auth.me"].response,
  subscribe: examples["tings.subscribe"].response,
  ting: examples["tings.send"].response,
  report: examples["reports.submit"].response,
  iam: examples["descriptors.iam"].response,
  version: examples["descriptors.version"].response,
  healthz: examples["system.healthz"].response,
  readyz: examples["system.readyz"].response
}

const decode = (name: EndpointName, body: string, status = 200) =>
  // The table has answers of different types.
  decodeAnswer<unknown>(
    endpoints[name] as Endpoint<unknown>,
    { status, headers: {}, body },
    `https://music.example${endpoints[name].path}`
  )

const envelope = (error: object) => JSON.stringify({ error })

const refused = (body: string, status: number) => {
  const answer = decode("me", body, status)
  return "value" in answer ? undefined : answer
}

describe("An answer of the service", () => {
  for (const name of speaking)
    it(`passes whatever the schema of ${name} can produce`, () => {
      const schema = answerSchemaOf(name)
      const encode = Schema.encodeSync(schema)
      FastCheck.assert(
        FastCheck.property(Arbitrary.make(schema), (value) => {
          const body = JSON.stringify(encode(value))
          const read = decode(name, body)
          expect("value" in read && JSON.stringify(read.value)).toBe(body)
        })
      )
    })

  it("may have the status 204 and no body, for calls without a value", () => {
    for (const name of names.filter((one) => !speaking.includes(one)))
      expect(decode(name, "", 204)).toEqual({ value: undefined })
  })

  it("passes every failure that the schemas can produce, with its message, hint and details", () => {
    for (const code of codes)
      FastCheck.assert(
        FastCheck.property(Arbitrary.make(Envelope(code)), (value) => {
          const { details, message, retryable } = value.error
          // The service never calls these retryable; an intermediary that does must not end a session.
          FastCheck.pre(!(retryable && ["unauthenticated", "idempotency_response_expired"].includes(code)))
          const failure = refused(JSON.stringify(value), failureTable[code].status)
          expect(failure).toMatchObject({ code, status: failureTable[code].status })
          expect(failure?.message.startsWith(message.replace(/\.$/, ""))).toBe(true)
          expect(JSON.stringify(failure?.details)).toBe(JSON.stringify(details))
        }),
        { numRuns: 20 }
      )
  })
})

interface DocumentedExample {
  readonly value?: unknown
  readonly $ref?: string
}
interface DocumentedResponse {
  readonly content?: {
    readonly "application/json": { readonly examples: Readonly<Record<string, DocumentedExample>> }
  }
}

describe("An example of the published document", () => {
  const document = JSON.parse(
    readFileSync(new URL("../../../docs/openapi.json", import.meta.url), "utf8")
  ) as {
    readonly paths: Record<
      string,
      Record<string, { readonly responses: Record<string, DocumentedResponse> } | undefined> | undefined
    >
    readonly components: { readonly examples: Record<string, DocumentedExample | undefined> }
  }

  for (const name of names)
    it(`is read as what it is: ${name}`, () => {
      const { method, path } = endpoints[name]
      const responses = Object.entries(document.paths[path]?.[method.toLowerCase()]?.responses ?? {})
      expect(responses.length).toBeGreaterThan(1)
      for (const [status, { content }] of responses)
        for (const [code, given] of Object.entries(content?.["application/json"].examples ?? {})) {
          const { value } = given.$ref === undefined ? given : (document.components.examples[code] ?? {})
          const read = decode(name, JSON.stringify(value), Number(status))
          if (Number(status) < 300) expect(read).toEqual({ value })
          else
            expect(read).toMatchObject({
              ...(value as { error: object }).error,
              hint: expect.any(String),
              message: expect.any(String),
              status: Number(status)
            })
        }
    })
})

/** Values of each kind of JSON. */
const kinds: ReadonlyArray<unknown> = [null, true, 7, "7", [7], { seven: 7 }]
const kindOf = (value: unknown) => (value === null ? "null" : Array.isArray(value) ? "array" : typeof value)

/** Members that may be null, or that the client promises to no program. */
const nullable = new Set(["testing_environment_id", "issue_url", "reporter"])
const unpromised = new Set(["token_type", "subscription_id", "error"])

interface Mutant {
  readonly path: string
  readonly value: unknown
}

const replaced = (value: unknown, path: string, name: string): ReadonlyArray<Mutant> =>
  kinds
    .filter((kind) => kindOf(kind) !== kindOf(value))
    .filter((kind) => !(nullable.has(name) && (kind === null || typeof kind === "string")))
    .map((kind) => ({ path: `${path} as ${JSON.stringify(kind)}`, value: kind }))

/** The value with one member left out or of another kind, at any depth. */
const mutantsOf = (value: unknown, path = "answer", name = ""): ReadonlyArray<Mutant> => {
  const own = replaced(value, path, name)
  if (Array.isArray(value))
    return [
      ...own,
      ...value.flatMap((item, index) =>
        mutantsOf(item, `${path}[${index}]`).map((mutant) => ({
          path: mutant.path,
          value: value.with(index, mutant.value)
        }))
      )
    ]
  if (typeof value !== "object" || value === null) return own
  return [
    ...own,
    ...Object.entries(value)
      .filter(([member]) => !unpromised.has(member))
      .flatMap(([member, inner]) => {
        const { [member]: _, ...without } = value as Record<string, unknown>
        const left = name === "checks" ? [] : [{ path: `${path} without ${member}`, value: without }]
        const changed = mutantsOf(inner, `${path}.${member}`, member).map((mutant) => ({
          path: mutant.path,
          value: { ...value, [member]: mutant.value }
        }))
        return [...left, ...changed]
      })
  ]
}

describe("An answer outside the contract", () => {
  for (const name of speaking)
    it(`is a failure that no retry helps: ${name} without a member, or with one of another kind`, () => {
      const mutants = mutantsOf(exampleAnswers[name])
      expect(mutants.length).toBeGreaterThan(10)
      for (const { path, value } of mutants)
        expect({ path, ...decode(name, JSON.stringify(value)) }).toMatchObject({
          path,
          code: "unexpected_answer",
          status: 200,
          retryable: false,
          details: { reason: "outside_contract" }
        })
    })

  it("does not get a promised member from a prototype", () => {
    const { actor, ...rest } = examples["auth.me"].response
    const hidden = Object.fromEntries([...Object.entries(rest), ["__proto__", { actor }]])
    expect(decode("me", JSON.stringify(hidden))).toMatchObject({ code: "unexpected_answer" })
    expect(isMe(Object.create(examples["auth.me"].response))).toBe(false)
    const whole = Object.fromEntries([
      ["__proto__", { authenticated: false }],
      ...Object.entries(rest),
      ["actor", actor]
    ])
    expect(decode("me", JSON.stringify(whole))).toHaveProperty("value")
  })

  it("may be no JSON at all: a retry helps only in place of a 200, and against a failing intermediary", () => {
    const whole = JSON.stringify(examples["auth.me"].response)
    const pages = [
      "<html><body>Sign in</body></html>",
      "",
      "\uFEFF",
      "null null",
      "NaN",
      whole.slice(0, -1),
      whole.slice(1)
    ]
    for (const page of pages)
      for (const [status, retryable] of [
        [200, true],
        [401, false],
        [404, false],
        [408, true],
        [429, true],
        [500, true],
        [503, true],
        [511, true]
      ] as const)
        expect({ page, ...decode("me", page, status) }).toMatchObject({
          page,
          code: "unexpected_answer",
          status,
          retryable,
          details: { reason: "not_json" }
        })
  })

  it("may be a redirect: it is not repeated, and the right address is named where the target shows it", () => {
    const redirect = (location?: string) =>
      decodeAnswer(
        endpoints.me,
        { status: 301, body: "<html>", headers: location === undefined ? {} : { location } },
        "http://music.example/base/api/v1/auth/me"
      )
    const facts = { code: "unexpected_answer", retryable: false, details: { reason: "redirect" } }
    expect(redirect("https://music.example/base/api/v1/auth/me")).toMatchObject({
      ...facts,
      hint: "Use https://music.example/base as baseUrl."
    })
    for (const location of [
      undefined,
      "/api/v1/auth/me",
      "https://music.example/sign-in",
      "https://evil.example/api/v1/auth/me",
      "javascript:0"
    ])
      expect(redirect(location)).toMatchObject({ ...facts, hint: expect.stringMatching(/^Check baseUrl/) })
  })

  it("may be cut off: a retry helps with every status", () => {
    for (const status of [200, 302, 401, 404, 409, 500])
      expect(unexpectedAnswer(status, "incomplete").retryable).toBe(true)
  })

  it("may nest deeply", () => {
    const deep = `${"[".repeat(answerBytes / 2)}${"]".repeat(answerBytes / 2)}`
    expect(decode("me", deep)).toMatchObject({ code: "unexpected_answer" })
    expect(decode("me", envelope({}).replace("{}", deep), 500)).toMatchObject({ code: "unexpected_answer" })
  })

  it("is a success that should be empty and is not, or has another status", () => {
    for (const name of ["logout", "telemetry"] as const) {
      expect(decode(name, "{}", 200)).toMatchObject({ code: "unexpected_answer", retryable: false })
      expect(decode(name, "", 200)).toMatchObject({ code: "unexpected_answer", retryable: true })
    }
    expect(decode("me", "", 204)).toMatchObject({ code: "unexpected_answer", retryable: true })
  })
})

const full = { message: "What happened.", hint: "What to do.", retryable: false }

describe("A failure of the service", () => {
  it("needs its code, message, hint and retryable", () => {
    const whole = { code: "forbidden", ...full }
    for (const { path, value } of mutantsOf(whole))
      expect({ path, ...decode("me", JSON.stringify({ error: value }), 403) }).toMatchObject({
        path,
        code: "unexpected_answer",
        status: 403,
        retryable: false,
        details: { reason: "outside_contract" }
      })
  })

  it("ends a session only with the service's own status", () => {
    for (const [code, own] of [
      ["unauthenticated", 401],
      ["idempotency_response_expired", 409]
    ] as const) {
      expect(refused(envelope({ code, ...full }), own)).toMatchObject({ code })
      for (const status of [301, 400, 402, 403, 404, 407, 410, 429, 500, 502, 503].filter(
        (one) => one !== own
      ))
        expect(refused(envelope({ code, ...full }), status)).toMatchObject({
          code: "unexpected_answer",
          status
        })
    }
  })

  it("is none of the client's own, also under the same code", () => {
    for (const code of Object.keys(clientErrorTable)) {
      const failure = refused(envelope({ code, ...full, message: "Not now." }), 409)
      expect(failure).toMatchObject({
        _tag: "UnknownFailure",
        code: `service_${code}`,
        status: 409,
        message: "Not now.",
        hint: full.hint
      })
    }
  })

  it("passes under any other code, with the service's own words", () => {
    FastCheck.assert(
      FastCheck.property(
        FastCheck.oneof(FastCheck.string(), FastCheck.constantFrom("__proto__", "constructor", "toString")),
        FastCheck.constantFrom(400, 401, 402, 403, 409, 410, 418, 422, 425, 451, 500, 507, 599),
        FastCheck.record({
          message: FastCheck.string(),
          hint: FastCheck.string(),
          retryable: FastCheck.boolean()
        }),
        (code, status, facts) => {
          FastCheck.pre(!Object.hasOwn(failureTable, code) && !Object.hasOwn(clientErrorTable, code))
          expect(refused(envelope({ code, ...facts }), status)).toMatchObject({
            _tag: "UnknownFailure",
            code,
            status,
            ...facts
          })
        }
      )
    )
  })

  it("may gain members", () => {
    const error = { code: "forbidden", ...full, docs: { url: "https://music.example/errors" }, severity: 3 }
    for (const code of codes)
      expect(
        decode("me", JSON.stringify({ error: { ...error, code }, trace: ["a"] }), failureTable[code].status)
      ).toMatchObject({
        code,
        status: failureTable[code].status,
        message: full.message
      })
  })

  it("keeps new details, and leaves out known ones of another kind", () => {
    const added = { retry_window: { from: 1 }, quota: [1, 2], note: null }
    const known = {
      fields: [{ path: "org", problem: "is unknown", rule: "exists" }],
      reason: "organization_not_granted",
      dependency: "iam",
      upstream_code: "x",
      upstream_request_id: "y",
      checks: { database: "asleep" }
    }
    const detailsOf = (details: unknown) =>
      refused(envelope({ code: "forbidden", ...full, details }), 403)?.details
    expect(detailsOf({ ...known, ...added })).toEqual({ ...known, ...added })
    for (const [name, value] of Object.entries(known))
      for (const other of kinds.filter((kind) => kindOf(kind) !== kindOf(value)))
        expect(detailsOf({ ...known, ...added, [name]: other })).toEqual({
          ...Object.fromEntries(Object.entries(known).filter(([one]) => one !== name)),
          ...added
        })
    for (const fields of [[1], [{ path: "org" }], [{ path: 1, problem: "p" }], [null]])
      expect(detailsOf({ fields, ...added })).toEqual(added)
    expect(detailsOf({ checks: { database: 1 }, ...added })).toEqual(added)
    for (const none of [null, 1, "text", [1]]) expect(detailsOf(none)).toBeUndefined()
  })

  it("never passes as a success", () => {
    FastCheck.assert(
      FastCheck.property(FastCheck.json(), FastCheck.integer({ min: 300, max: 599 }), (body, status) => {
        for (const name of names) expect(decode(name, body, status)).not.toHaveProperty("value")
      })
    )
  })
})

const now = Date.parse("2026-11-22T15:00:00Z")
const retryAfter = (value: string, headers: Readonly<Record<string, string>> = {}) =>
  readRetryAfter({ status: 503, headers: { "retry-after": value, ...headers } }, now)

describe("Retry-After", () => {
  it("is a whole number of seconds", () => {
    expect(retryAfter("0")).toBe(0)
    expect(retryAfter(" 120 ")).toBe(120)
    expect(readRetryAfter({ status: 503, headers: {} }, now)).toBeUndefined()
  })

  it("is a date, counted from the answer's own date", () => {
    const date = "Sun, 22 Nov 2026 14:00:00 GMT"
    expect(retryAfter("Sun, 22 Nov 2026 14:00:30 GMT", { date })).toBe(30)
    expect(retryAfter("Sunday, 22-Nov-26 14:00:30 GMT", { date })).toBe(30)
    expect(retryAfter("Sun, 22 Nov 2026 13:00:00 GMT", { date })).toBe(0)
  })

  it("is a date, counted from this machine's time where the answer has no date that can be read", () => {
    for (const headers of [{}, { date: "" }, { date: "soon" }, { date: "wait 5" }, { date: "5" }]) {
      expect(retryAfter("Sun, 22 Nov 2026 15:01:00 GMT", headers)).toBe(60)
      expect(retryAfter("Sun, 22 Nov 2026 14:59:00 GMT", headers)).toBe(0)
    }
  })

  it("is rounded up: a retry is never too early", () => {
    const value = "Sun, 22 Nov 2026 15:00:01 GMT"
    expect(readRetryAfter({ status: 503, headers: { "retry-after": value } }, now + 1)).toBe(1)
  })

  it("is as long as it says, also beyond every timer", () => {
    expect(retryAfter("999999999")).toBe(999_999_999)
    for (const huge of ["99999999999", "9".repeat(400)])
      expect(retryAfter(huge)).toBeGreaterThanOrEqual(999_999_999)
    expect(Number.isFinite(retryAfter("9".repeat(400)))).toBe(true)
    expect(retryAfter("Fri, 31 Dec 9999 23:59:59 GMT")).toBeGreaterThan(200_000_000_000)
  })

  it("is ignored in any other form", () => {
    for (const garbage of [
      "",
      " ",
      "-5",
      "+5",
      "1.5",
      "1e3",
      "0x10",
      "5s",
      "wait 5",
      "in May 5",
      "Mon 5",
      "120, 120",
      "NaN",
      "Infinity",
      "tomorrow",
      "2026-11-22T15:01:00Z",
      "Sun, 99 Nov 2026 15:01:00 GMT",
      "Sun, 22 Nov 2026 15:01:00"
    ])
      expect([garbage, retryAfter(garbage)]).toEqual([garbage, undefined])
  })

  it("is never negative, and never NaN", () => {
    FastCheck.assert(
      FastCheck.property(FastCheck.string(), FastCheck.string(), (value, date) => {
        const seconds = retryAfter(value, { date })
        expect(seconds === undefined || seconds >= 0).toBe(true)
      })
    )
  })
})

const limits = (ratelimit: string) => readRateLimits({ status: 200, headers: { ratelimit } })

describe("RateLimit", () => {
  it("has the state of each quota", () => {
    expect(limits('"address";r=59;t=1')).toEqual([{ policy: "address", remaining: 59, resetSeconds: 1 }])
    expect(limits('"address";r=59;t=1, "credential";r=0;t=42')).toEqual([
      { policy: "address", remaining: 59, resetSeconds: 1 },
      { policy: "credential", remaining: 0, resetSeconds: 42 }
    ])
    expect(readRateLimits({ status: 200, headers: {} })).toEqual([])
  })

  it("may gain parameters, in any order and with spaces", () => {
    const expected = [{ policy: "address", remaining: 59, resetSeconds: 1 }]
    for (const later of [
      '"address";r=59;t=1;pk=:cGs=:',
      '"address";pk=:cGs=:;r=59;t=1',
      '"address"; r=59; t=1',
      '"address";t=1;r=59',
      '"address";r=59;t=1;note="a,b"'
    ])
      expect([later, limits(later)]).toEqual([later, expected])
  })

  it("is left out in any other form", () => {
    for (const other of [
      "",
      ",",
      "limit=60, remaining=59, reset=1",
      "address;r=59;t=1",
      '"address";r=59',
      '"address";t=1',
      '"address";r=-1;t=1',
      '"address";r=1.5;t=1',
      '"address";r=x;t=1',
      `"address";r=${"9".repeat(400)};t=1`,
      '"";r=59;t=1'
    ])
      expect([other, limits(other)]).toEqual([other, []])
  })
})
