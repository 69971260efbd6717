/** A later service, and what is no service: the client of today against answers with everything that may be added. */
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import { describe, expect, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import { MusicClient as MusicClientService } from "../../../client/effect.ts"
import { clientErrorTable } from "../../../client/failures/ErrorTable.ts"
import {
  createMusicClient,
  type MusicClient,
  type PromiseClientOptions,
  type Result,
  type SessionStore
} from "../../../client/index.ts"
import { fileSessionStore } from "../../../client/node.ts"
import { answerBytes } from "../../../client/transport/Transport.ts"
import { examples } from "../../../src/http/openapi/Examples.ts"
import { failureTable } from "../../../src/schema/FailureTable.ts"
import { scratch } from "../support/Built.ts"
import { type Answers, stubService } from "../support/StubService.ts"
import { stretchTimers } from "../support/Timers.ts"

interface Call {
  /** Last part of the path. */
  readonly path: string
  readonly response: unknown
  readonly run: (client: MusicClient) => Promise<Result<unknown>>
}

/** The calls that pass the service's value on as it is. */
const calls: Readonly<Record<string, Call>> = {
  me: { path: "me", response: examples["auth.me"].response, run: (client) => client.me() },
  subscribe: {
    path: "subscription",
    response: examples["tings.subscribe"].response,
    run: (client) => client.subscribe()
  },
  ting: {
    path: "tings",
    response: examples["tings.send"].response,
    run: (client) => client.ting({ type: "music.trigger.fired", key: "trigger/7", data: {} })
  },
  report: {
    path: "reports",
    response: examples["reports.submit"].response,
    run: (client) => client.report({ message: "Playback stops after a seek." })
  },
  iam: { path: "iam", response: examples["descriptors.iam"].response, run: (client) => client.iam() },
  version: {
    path: "version",
    response: examples["descriptors.version"].response,
    run: (client) => client.version()
  },
  healthz: {
    path: "healthz",
    response: examples["system.healthz"].response,
    run: (client) => client.healthz()
  },
  readyz: { path: "readyz", response: examples["system.readyz"].response, run: (client) => client.readyz() }
}

type ValueOf<A> = A extends FastCheck.Arbitrary<infer Value> ? Value : never

const life = 1_800_000

/** A client that has logged in, its clock, and its requests since. */
const loggedIn = async (given: Partial<PromiseClientOptions> = {}) => {
  const answers: Record<string, Answers[string]> = {}
  const stub = stubService(answers)
  let now = 1_800_000_000_000
  const options: PromiseClientOptions = {
    baseUrl: "https://music.example",
    source: "daemon",
    telemetry: false,
    clock: { now: () => now, monotonic: () => now },
    random: () => 0,
    fetch: stub.fetch,
    ...given
  }
  const client = createMusicClient(options)
  expect(await client.login("oac_1")).toMatchObject({ ok: true })
  stub.calls.length = 0
  stub.keys.length = 0
  return {
    answers,
    calls: stub.calls,
    client,
    keys: stub.keys,
    again: () => createMusicClient(options),
    pass: (milliseconds: number) => {
      now += milliseconds
    }
  }
}

const laterHeaders = {
  "content-type": "application/problem+json; charset=utf-8; profile=2027",
  "x-music-next": "yes",
  "x-request-id": "later-1",
  ratelimit: '"address";r=59;t=1;pk=:cGs=:, "planet";r=1;t=2',
  "ratelimit-policy": '"planet";q=1;w=2'
}

const json = (value: unknown, status = 200, headers: Readonly<Record<string, string>> = laterHeaders) =>
  new Response(JSON.stringify(value), { status, headers })

/** Names that a later service may add, and names that every object has. */
const addedName = FastCheck.oneof(
  FastCheck.string({ minLength: 1 }),
  FastCheck.constantFrom("__proto__", "constructor", "toString", "hasOwnProperty", "length", "then", "_tag")
).filter((name) => !["subscription_id", "error"].includes(name))
const addedMembers = FastCheck.dictionary(addedName, FastCheck.jsonValue(), {
  minKeys: 1,
  noNullPrototype: true
})

/** Members whose known values are not the last. */
const enums = new Set(["type", "token_type", "status", "service", "api_version"])

/** The same answer a year later: further members at every level, and other values of every enum. */
const grow = (value: unknown, added: Readonly<Record<string, unknown>>, word: string, name = ""): unknown => {
  if (name === "api_versions") return ["v1", word]
  if (Array.isArray(value)) return value.map((item) => grow(item, added, word))
  if (typeof value !== "object" || value === null) return enums.has(name) ? word : value
  const own = Object.entries(value).map(([member, inner]) => [
    member,
    name === "checks" ? word : grow(inner, added, word, member)
  ])
  // A further check has a state, too.
  const further = name === "checks" ? [["fridge", word]] : Object.entries(added)
  return Object.fromEntries([...further, ...own])
}

const runs = { numRuns: 25 }

describe("A success of a later service", () => {
  for (const [name, { path, response, run }] of Object.entries(calls))
    it(`passes with everything that it gained, after one request: ${name}`, async () => {
      const { answers, calls: sent, client } = await loggedIn()
      await FastCheck.assert(
        FastCheck.asyncProperty(addedMembers, FastCheck.string(), async (added, word) => {
          sent.length = 0
          const later = grow(response, added, word)
          answers[path] = () => json(later)
          const result = await run(client)
          expect(result).toMatchObject({ ok: true, metadata: { requestId: "later-1" } })
          expect(JSON.stringify(result.ok && result.value)).toBe(JSON.stringify(later))
          expect(sent).toEqual([path])
        }),
        runs
      )
    })

  it("is a session that is stored, loaded by another program, refreshed and revoked", async () => {
    const { folder, remove } = await scratch()
    await FastCheck.assert(
      FastCheck.asyncProperty(addedMembers, FastCheck.string(), async (added, word) => {
        const kept = { sessionStore: fileSessionStore({ directory: folder }) }
        const { again, answers, calls: sent, client, pass } = await loggedIn(kept)
        answers.login = () => json(grow(examples["auth.login"].response, added, word))
        const rotated = {
          ...examples["auth.refresh"].response,
          access_token: "oat_2",
          refresh_token: "ort_2"
        }
        answers.refresh = () => json(grow(rotated, added, word))
        expect(await client.login("oac_2")).toMatchObject({ ok: true, value: { actor: { type: word } } })
        const other = again()
        expect(await other.session()).toMatchObject({
          ok: true,
          value: { actor: { type: word, public_id: "si:deejay" } }
        })
        expect(await other.me()).toMatchObject({ ok: true })
        pass(life)
        expect(await other.me()).toMatchObject({ ok: true })
        expect(await client.status()).toMatchObject({ state: "authenticated" })
        expect(await client.logout()).toMatchObject({ ok: true, value: { revoked: true } })
        expect(sent).toEqual(["login", "me", "refresh", "me", "me", "logout"])
      }),
      { numRuns: 10 }
    )
    await remove()
  })

  it("is a session whose lifetime may be any number", async () => {
    const { answers, client } = await loggedIn()
    await FastCheck.assert(
      FastCheck.asyncProperty(
        FastCheck.double({ noNaN: true, noDefaultInfinity: true }),
        FastCheck.uuid(),
        async (expires_in, token) => {
          answers.login = () => json({ ...examples["auth.login"].response, expires_in, access_token: token })
          expect(await client.login(`oac_${token}`)).toMatchObject({ ok: true })
          expect(await client.session()).toMatchObject({
            ok: true,
            value: { expires_at: expect.stringMatching(/Z$/) }
          })
          expect(await client.me()).toMatchObject({ ok: true })
        }
      ),
      runs
    )
  })

  it("keeps its rate limits, and its request id in any case of the header's name", async () => {
    const fetch = async () =>
      // What a fetch of the program's own may return.
      ({
        status: 200,
        headers: new Map([
          ["X-Request-ID", "later-1"],
          ["RateLimit", laterHeaders.ratelimit]
        ]),
        text: async () => JSON.stringify(examples["descriptors.version"].response)
      }) as unknown as Response
    const { client } = await loggedIn()
    const other = createMusicClient({
      baseUrl: "https://music.example",
      source: "cli",
      telemetry: false,
      fetch
    })
    expect(await other.version()).toMatchObject({
      ok: true,
      metadata: {
        requestId: "later-1",
        rateLimits: [
          { policy: "address", remaining: 59, resetSeconds: 1 },
          { policy: "planet", remaining: 1, resetSeconds: 2 }
        ]
      }
    })
    expect(await client.version()).toMatchObject({ ok: false })
  })
})

const statuses = [
  400, 401, 402, 403, 404, 405, 408, 409, 410, 418, 422, 425, 428, 429, 431, 451, 500, 501, 502, 503, 504,
  507, 511, 599
] as const
const clientCodes = Object.keys(clientErrorTable)
const laterCode = FastCheck.oneof(
  FastCheck.string(),
  FastCheck.constantFrom("quota_exhausted", "legal_hold", "__proto__", "constructor")
).filter((code) => !Object.hasOwn(failureTable, code) && !clientCodes.includes(code))

/** An unknown failure, with further members at every level. */
const laterFailure = FastCheck.record({
  code: laterCode,
  status: FastCheck.constantFrom(...statuses),
  message: FastCheck.string(),
  hint: FastCheck.string(),
  details: addedMembers,
  added: addedMembers
})

const failureBody = (
  { added, code, details, hint, message }: ValueOf<typeof laterFailure>,
  retryable: boolean
) => grow({ error: { code, message, hint, retryable, details } }, added, "")

const envelope = (code: string, status: number, retryable = false) =>
  json({ error: { code, message: "m", hint: "h", retryable } }, status)

/** And a call that this version does not know. */
const allCalls: Readonly<Record<string, Call>> = {
  ...calls,
  request: {
    path: "playlists",
    response: { id: "pl_1" },
    run: (client) => client.request("POST", "/api/v2/playlists", { body: { name: "Low Tide" } })
  }
}

describe("A failure of a later service", () => {
  for (const [name, { path, run }] of Object.entries(allCalls))
    it(`passes with the service's own words, after one request, and keeps the session: ${name}`, async () => {
      const { answers, calls: sent, client } = await loggedIn()
      await FastCheck.assert(
        FastCheck.asyncProperty(laterFailure, async (later) => {
          sent.length = 0
          answers[path] = () => json(failureBody(later, false), later.status)
          const result = await run(client)
          const { code, hint, message, status } = later
          expect(result).toMatchObject({
            ok: false,
            error: { code, status, message, hint, retryable: false, requestId: "later-1" }
          })
          expect(sent).toEqual([path])
          expect(await client.session()).toMatchObject({ ok: true, value: { org_id: "acme" } })
        }),
        runs
      )
    })

  it("is retried under the same key when the service calls it retryable", async () => {
    for (const [name, { path, response, run }] of Object.entries(allCalls)) {
      if (name === "readyz") continue
      const { answers, calls: sent, client, keys } = await loggedIn()
      let left = 1
      answers[path] = () => {
        left -= 1
        return left < 0 ? json(response) : envelope("legal_hold", 451, true)
      }
      expect([name, await run(client)]).toMatchObject([name, { ok: true }])
      expect(sent).toEqual([path, path])
      expect(keys[0]).toBe(keys[1])
      if (name === "report" || name === "request") expect(keys[0]).toMatch(/.{16,}/)
    }
  })

  it("is retried under the same key by login, refresh and logout", async () => {
    const { answers, calls: sent, client, keys, pass } = await loggedIn()
    const once = (path: string) => {
      answers[path] = () => {
        delete answers[path]
        return envelope("legal_hold", 451, true)
      }
    }
    once("login")
    expect(await client.login("oac_2")).toMatchObject({ ok: true })
    once("refresh")
    pass(life)
    expect(await client.me()).toMatchObject({ ok: true })
    once("logout")
    expect(await client.logout()).toMatchObject({ ok: true, value: { revoked: true } })
    expect(sent).toEqual(["login", "login", "refresh", "refresh", "me", "logout", "logout"])
    const [login, loginAgain, refresh, refreshAgain, , logout, logoutAgain] = keys
    expect([login, refresh, logout]).toEqual([loginAgain, refreshAgain, logoutAgain])
    expect(login).toMatch(/^[0-9a-f]{64}$/)
  })

  it("never ends a session, also in answer to a refresh", async () => {
    const { answers, calls: sent, client, pass } = await loggedIn()
    pass(life)
    await FastCheck.assert(
      FastCheck.asyncProperty(laterFailure, async (later) => {
        sent.length = 0
        answers.refresh = () => json(failureBody(later, false), later.status)
        expect(await client.status()).toMatchObject({
          state: "unknown",
          error: { code: later.code, message: later.message, hint: later.hint, status: later.status }
        })
        expect(sent).toEqual(["refresh"])
      }),
      runs
    )
    delete answers.refresh
    expect(await client.status()).toMatchObject({ state: "authenticated" })
  })

  it("is not mistaken for a failure of the client, under the same code", async () => {
    const { answers, client, pass } = await loggedIn()
    for (const code of clientCodes) {
      const expected = { state: "unknown", error: { code: `service_${code}`, message: "m", hint: "h" } }
      answers.me = () => envelope(code, 401)
      expect(await client.status()).toMatchObject(expected)
    }
    delete answers.me
    // The access token is still valid: a failed early refresh is no failure of the call.
    pass(life - 30_000)
    for (const code of clientCodes) {
      answers.refresh = () => envelope(code, 401)
      expect(await client.me()).toMatchObject({ ok: true })
      pass(1)
    }
    pass(life)
    for (const code of clientCodes) {
      answers.refresh = () => envelope(code, 401)
      expect(await client.me()).toMatchObject({ ok: false, error: { code: `service_${code}` } })
    }
    delete answers.refresh
    expect(await client.me()).toMatchObject({ ok: true })
  })

  it("leaves the stored session as it was after a refused login or logout", async () => {
    const { answers, client } = await loggedIn()
    for (const code of ["quota_exhausted", ...clientCodes]) {
      answers.login = () => envelope(code, 401)
      answers.logout = () => envelope(code, 401)
      expect(await client.login("oac_2")).toMatchObject({ ok: false, error: { message: "m", hint: "h" } })
      expect(await client.logout()).toMatchObject({ ok: false, error: { message: "m", hint: "h" } })
      expect(await client.session()).toMatchObject({ ok: true, value: { org_id: "acme" } })
    }
  })

  it("leaves telemetry in the queue when it is retryable", async () => {
    const { answers, client } = await loggedIn({ telemetry: true, deadlineMilliseconds: 100 })
    answers.telemetry = () => envelope("legal_hold", 451, true)
    expect(client.telemetry.record("musicclidaemon", { type: "x" })).toMatchObject({ ok: true })
    expect(await client.telemetry.flush()).toMatchObject({ ok: false, error: { message: "m", hint: "h" } })
    expect(client.telemetry.stats()).toMatchObject({ queued: 1, dropped: 0 })
    await client.close()
  })
})

const withoutBody = new Set([204, 205, 304])

/** An answer of any kind: no service, half a service, another service. */
const anyBody = FastCheck.oneof(
  FastCheck.uint8Array({ maxLength: 200 }),
  FastCheck.string().map((text) => new TextEncoder().encode(text)),
  FastCheck.json().map((text) => new TextEncoder().encode(text)),
  FastCheck.record(
    {
      error: FastCheck.record(
        {
          code: FastCheck.oneof(
            FastCheck.jsonValue(),
            FastCheck.constantFrom("unauthenticated", "idempotency_response_expired", ...clientCodes)
          ),
          message: FastCheck.oneof(FastCheck.jsonValue(), FastCheck.string()),
          hint: FastCheck.oneof(FastCheck.jsonValue(), FastCheck.string()),
          retryable: FastCheck.oneof(FastCheck.jsonValue(), FastCheck.boolean()),
          details: FastCheck.jsonValue()
        },
        { requiredKeys: [] }
      )
    },
    { requiredKeys: [] }
  ).map((value) => new TextEncoder().encode(JSON.stringify(value)))
)
/** The statuses with which the service itself ends a session are left out. */
const anyStatus = FastCheck.integer({ min: 200, max: 599 }).filter(
  (status) => status !== 401 && status !== 409
)
const anyAnswer = FastCheck.record({
  body: anyBody,
  status: anyStatus,
  headers: FastCheck.record(
    {
      "retry-after": FastCheck.constantFrom("1", "-1", "x", "99999999999999999999"),
      ratelimit: FastCheck.constantFrom(",", '"a";r=;t=')
    },
    { requiredKeys: [] }
  )
})

const responseOf = ({ body, headers, status }: ValueOf<typeof anyAnswer>) =>
  new Response(withoutBody.has(status) ? null : body, {
    status,
    // Absent members are left out, as JSON does.
    headers: JSON.parse(JSON.stringify(headers)) as Record<string, string>
  })

/** A deadline that leaves no room for a second attempt, by a clock that does not move; its timer is stretched. */
const oneAttempt = { deadlineMilliseconds: 100 }

/** A body that never ends, and whether the client gave it up. */
const endless = (status: number, begin = "[") => {
  const state = { cancelled: false, bytes: 0 }
  const chunk = new TextEncoder().encode("1,".repeat(32 * 1024))
  const response = () =>
    new Response(
      new ReadableStream<Uint8Array>({
        start: (controller) => controller.enqueue(new TextEncoder().encode(begin)),
        pull: (controller) => {
          state.bytes += chunk.byteLength
          controller.enqueue(chunk)
        },
        cancel: () => {
          state.cancelled = true
        }
      }),
      { status }
    )
  return { state, response }
}

/** A body that breaks after its first bytes. */
const broken = (status: number) => () =>
  new Response(
    new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(new TextEncoder().encode('{"authenticated":')),
      pull: (controller) => controller.error(new TypeError("terminated"))
    }),
    { status }
  )

describe("Any other answer", () => {
  stretchTimers()

  for (const [name, { path, run }] of Object.entries(calls))
    it(`is a failure, never a defect, and keeps the session: ${name}`, async () => {
      const { answers, client } = await loggedIn(oneAttempt)
      await FastCheck.assert(
        FastCheck.asyncProperty(anyAnswer, async (answer) => {
          answers[path] = () => responseOf(answer)
          const result = await run(client)
          expect(result).toMatchObject({ ok: false })
          expect(!result.ok && result.error.code).not.toBe("client_defect")
          expect(await client.session()).toMatchObject({ ok: true, value: { org_id: "acme" } })
        }),
        { numRuns: 50 }
      )
    })

  it("to a refresh, a login or a logout keeps the session", async () => {
    const { answers, client, pass } = await loggedIn(oneAttempt)
    pass(life)
    await FastCheck.assert(
      FastCheck.asyncProperty(anyAnswer, async (answer) => {
        // A 204 without a body is the service's answer to a logout.
        FastCheck.pre(answer.status !== 204)
        for (const path of ["login", "refresh", "logout"]) answers[path] = () => responseOf(answer)
        for (const result of [await client.me(), await client.login("oac_2"), await client.logout()]) {
          expect(result).toMatchObject({ ok: false })
          expect(!result.ok && result.error.code).not.toBe("client_defect")
        }
        expect(await client.session()).toMatchObject({ ok: true, value: { org_id: "acme" } })
      }),
      { numRuns: 50 }
    )
    for (const path of ["login", "refresh", "logout"]) delete answers[path]
    expect(await client.me()).toMatchObject({ ok: true })
  })

  it("to telemetry is a failure of the flush, never a defect", async () => {
    const { answers, client } = await loggedIn({ ...oneAttempt, telemetry: true })
    await FastCheck.assert(
      FastCheck.asyncProperty(anyAnswer, async (answer) => {
        FastCheck.pre(answer.status !== 204)
        answers.telemetry = () => responseOf(answer)
        client.telemetry.record("musicclidaemon", { type: "x" })
        const result = await client.telemetry.flush()
        expect(!result.ok && result.error.code).not.toBe("client_defect")
      }),
      runs
    )
    await client.close()
  })

  it("is a failure of the Effect client, never a defect", async () => {
    const answers: Record<string, Answers[string]> = {}
    const { fetch } = stubService(answers)
    const layer = MusicClientService.layer({
      baseUrl: "https://music.example",
      source: "daemon",
      telemetry: false,
      ...oneAttempt
    }).pipe(Layer.provide(FetchHttpClient.layer))
    const run = Effect.gen(function* () {
      const client = yield* MusicClientService
      yield* client.login("oac_1")
      yield* Effect.promise(() =>
        FastCheck.assert(
          FastCheck.asyncProperty(anyAnswer, async (answer) => {
            answers.me = () => responseOf(answer)
            const exit = await Effect.runPromiseExit(client.me())
            expect(Exit.isFailure(exit) && exit.cause._tag).toBe("Fail")
          }),
          { numRuns: 50 }
        )
      )
      const { response, state } = endless(200)
      answers.me = response
      const tooLarge = yield* Effect.flip(client.me())
      expect(tooLarge).toMatchObject({ _tag: "UnexpectedAnswer", details: { reason: "too_large" } })
      expect(state.cancelled).toBe(true)
      answers.me = broken(401)
      const incomplete = yield* Effect.flip(client.me())
      expect(incomplete).toMatchObject({ _tag: "UnexpectedAnswer", details: { reason: "incomplete" } })
      expect(yield* client.session).toMatchObject({ _tag: "Some" })
    })
    await Effect.runPromise(
      run.pipe(
        Effect.provide(layer),
        Effect.provideService(FetchHttpClient.Fetch, fetch),
        Effect.withClock(Object.assign(Clock.make(), { currentTimeNanos: Effect.succeed(0n) }))
      )
    )
  })
})

describe("A fetch of the program's own", () => {
  const whole = JSON.stringify(examples["descriptors.version"].response)
  const returned: Readonly<Record<string, unknown>> = {
    nothing: undefined,
    null: null,
    "a number": 7,
    "an object": {},
    "a status alone": { status: 200 },
    "headers that are none": { status: 200, headers: null, text: async () => whole },
    "a text that is none": { status: 200, headers: new Headers(), text: async () => undefined },
    "a text that cannot be read": {
      status: 200,
      headers: new Headers(),
      text: () => Promise.reject(new Error("gone"))
    },
    "no status": { headers: new Headers(), text: async () => whole },
    "a body that was read before": (() => {
      const response = new Response(whole)
      void response.text()
      return response
    })()
  }
  const thrown: ReadonlyArray<unknown> = [
    undefined,
    null,
    "gone",
    7,
    {},
    new Error("gone"),
    new DOMException("x", "AbortError")
  ]

  stretchTimers()
  const versionWith = (fetch: () => Promise<unknown>) =>
    createMusicClient({
      baseUrl: "https://music.example",
      source: "cli",
      telemetry: false,
      random: () => 0,
      clock: { now: () => 0, monotonic: () => 0 },
      ...oneAttempt,
      // Programs without a type checker may pass any function.
      fetch: fetch as unknown as typeof globalThis.fetch
    }).version()

  for (const [name, value] of Object.entries(returned))
    it(`may return something else than a response: ${name}`, async () => {
      const result = await versionWith(async () => value)
      expect(["transport_failed", "unexpected_answer"]).toContain(!result.ok && result.error.code)
    })

  it("may reject with anything, or throw", async () => {
    for (const reason of thrown)
      for (const fetch of [
        () => Promise.reject(reason),
        () => {
          throw reason
        }
      ])
        expect(await versionWith(fetch)).toMatchObject({
          ok: false,
          error: { code: "transport_failed", retryable: true, details: { reason: "network" } }
        })
  })
})

describe("A 401 that is not the service's own", () => {
  stretchTimers()

  const pages: Readonly<Record<string, () => Response>> = {
    "a page": () => new Response("<html>Sign in to the network</html>", { status: 401 }),
    "an empty answer": () => new Response(null, { status: 401 }),
    "another API": () => json({ error: "unauthenticated" }, 401),
    "half an envelope": () => json({ error: { code: "unauthenticated", message: "m" } }, 401),
    "an envelope in a list": () => json([{ error: { code: "unauthenticated", message: "m" } }], 401),
    "an envelope that was cut off": () =>
      new Response('{"error":{"code":"unauthenticated","message":"m","hint":"h","retryable":fal', {
        status: 401
      }),
    "the envelope as a 403": () => envelope("unauthenticated", 403),
    "the envelope as a 200": () => envelope("unauthenticated", 200),
    "the envelope as a 503": () => envelope("unauthenticated", 503),
    "the envelope of a lost answer as a 401": () => envelope("idempotency_response_expired", 401)
  }
  for (const [name, page] of Object.entries(pages))
    it(`does not end a session: ${name}`, async () => {
      const { answers, calls: sent, client, pass } = await loggedIn(oneAttempt)
      answers.me = page
      expect(await client.status()).toMatchObject({ state: "unknown", error: { code: "unexpected_answer" } })
      // No new token is requested either.
      expect(sent).toEqual(["me"])
      delete answers.me
      answers.refresh = page
      pass(life)
      expect(await client.status()).toMatchObject({ state: "unknown", error: { code: "unexpected_answer" } })
      expect(await client.session()).toMatchObject({ ok: true, value: { org_id: "acme" } })
      delete answers.refresh
      expect(await client.status()).toMatchObject({ state: "authenticated" })
    })

  it("is distinguished from the service's own, which ends it", async () => {
    const { answers, client, pass } = await loggedIn()
    answers.refresh = () => envelope("unauthenticated", 401)
    pass(life)
    expect(await client.status()).toMatchObject({ state: "logged_out", reason: "revoked" })
  })
})

describe("A body", () => {
  it("that never ends is given up at the bound, after one request", async () => {
    const { answers, calls: sent, client } = await loggedIn()
    const { response, state } = endless(200)
    answers.me = response
    expect(await client.me()).toMatchObject({
      ok: false,
      error: {
        code: "unexpected_answer",
        status: 200,
        retryable: false,
        requestId: expect.stringMatching(/^daemon-/),
        details: { reason: "too_large" }
      }
    })
    expect(sent).toEqual(["me"])
    expect(state.cancelled).toBe(true)
    expect(state.bytes).toBeLessThan(2 * answerBytes)
  })

  it("that never ends is retried in a 503, and does not end a session in a 401", async () => {
    const { answers, calls: sent, client, pass } = await loggedIn()
    answers.me = () => {
      delete answers.me
      return endless(503).response()
    }
    expect(await client.me()).toMatchObject({ ok: true })
    expect(sent).toEqual(["me", "me"])
    answers.refresh = endless(401, '{"error":{"code":"unauthenticated","fill":[').response
    pass(life)
    expect(await client.status()).toMatchObject({
      state: "unknown",
      error: { details: { reason: "too_large" } }
    })
  })

  it("that breaks off is requested again, with every status", async () => {
    for (const status of [200, 401, 404, 409, 503]) {
      const { answers, calls: sent, client } = await loggedIn()
      answers.me = () => {
        delete answers.me
        return broken(status)()
      }
      expect([status, await client.me()]).toMatchObject([status, { ok: true }])
      expect(sent).toEqual(["me", "me"])
    }
  })

  it("that breaks off at each attempt says so", async () => {
    const { answers, client } = await loggedIn(oneAttempt)
    answers.me = broken(200)
    expect(await client.me()).toMatchObject({
      ok: false,
      error: { code: "unexpected_answer", status: 200, retryable: true, details: { reason: "incomplete" } }
    })
  })

  it("that nests deeply is no defect, also in a new member of a session", async () => {
    const depth = 500_000
    const deep = `${"[".repeat(depth)}${"]".repeat(depth)}`
    const store = new Map<string, string>()
    const sessionStore: SessionStore = {
      load: async (slot) => {
        const found = store.get(slot)
        return found === undefined ? undefined : JSON.parse(found)
      },
      save: async (slot, session) => {
        store.set(slot, JSON.stringify(session))
      },
      clear: async (slot) => {
        store.delete(slot)
      }
    }
    const { answers, client } = await loggedIn({ sessionStore })
    const withDeep = (value: unknown) =>
      new Response(JSON.stringify(value).replace('"type":', `"deep":${deep},"type":`), { status: 200 })
    answers.me = () => withDeep(examples["auth.me"].response)
    expect(await client.me()).toMatchObject({ ok: true, value: { org_id: "acme" } })
    answers.login = () => withDeep(examples["auth.login"].response)
    // Only known members are stored: `JSON.stringify` would overflow its stack on this one.
    expect(await client.login("oac_2")).toMatchObject({ ok: true })
    expect(await client.session()).toMatchObject({ ok: true, value: { org_id: "acme" } })
    answers.me = () => new Response(deep, { status: 200 })
    expect(await client.me()).toMatchObject({ ok: false, error: { code: "unexpected_answer" } })
  })
})
