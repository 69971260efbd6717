/** Reading answers: those of the contract, those of a later service with everything that may be added, and those that are none. */
import { describe, expect, it, vi } from "vitest"
import { clientErrorTable } from "../../client/failures/ErrorTable.ts"
import type { PromiseClientOptions } from "../../client/index.ts"
import { examples } from "../../src/http/openapi/Examples.ts"
import { failed, loggedIn, makeClient, type Method, methods, ok } from "./support/ClientWorld.ts"
import { type Answer, changed, failure, json, life, loginOf, pairOf, responses } from "./support/Service.ts"

const kept = { ok: true, value: { org_id: "acme" } }

/** Every request of the client; that of a refresh belongs to a call whose token has expired. */
const kinds: Readonly<Record<string, Method>> = {
  ...methods,
  refresh: { path: "refresh", run: (client) => client.me() }
}

/** A client that has logged in and is about to make a request. */
const about = async (kind: string) => {
  const world = await loggedIn({ deadlineMilliseconds: 20_000 })
  const { path, run } = kinds[kind] ?? expect.unreachable(kind)
  if (kind === "refresh") world.pass(life)
  return {
    ...world,
    path,
    run: () => run(world.client),
    /** Each request gets this answer, after which no time is left for another attempt. */
    provoke: (answer: Answer, call = path) => {
      world.answers[call] = (right) => {
        world.pass(20_000)
        return answer(right)
      }
    }
  }
}

/** One attempt, so the result is that of this answer. */
const readyzOf = (response: Response, given: Partial<PromiseClientOptions> = {}) => {
  const { answers, client } = makeClient(given)
  answers.readyz = () => response
  return client.readyz()
}

/** The answers that pass on as they are, and those that are a session. */
const passed = Object.entries(methods).flatMap(([name, { path }]) =>
  path in responses ? [[name, responses[path]] as const] : []
)
const sessions = [["login", loginOf(2)] as const, ["refresh", pairOf(2)] as const]

const later = (value: unknown, status = 200) =>
  json(value, { "content-type": "application/problem+json; profile=2027", "x-request-id": "later-1" }, status)

/** Members that a later service may add, also under names that every object has. */
const added: object = JSON.parse('{"__proto__":1,"constructor":null,"then":{"a":[]},"_tag":"x","later":[1]}')

/** Members whose known values are not the last. */
const enums = new Set(["type", "token_type", "status", "service", "api_version"])

/** The same answer a year later: further members at every level, and other values of every enum. */
const grow = (value: unknown, name = ""): unknown => {
  if (name === "api_versions") return ["v1", "v9"]
  if (Array.isArray(value)) return value.map((item) => grow(item))
  if (typeof value !== "object" || value === null) return enums.has(name) ? "later" : value
  const own = Object.entries(value).map(([member, inner]) => [
    member,
    name === "checks" ? "later" : grow(inner, member)
  ])
  // A further check has a state, too.
  const further = name === "checks" ? [["fridge", "later"]] : Object.entries(added)
  return Object.fromEntries([...further, ...own])
}

it.each(passed)("A success of %s passes with all that it may gain", async (name, value) => {
  const { answers, calls, path, run } = await about(name)
  const sent = grow(value)
  answers[path] = () => later(sent)
  const result = await run()
  expect(result).toMatchObject({ ok: true, metadata: { requestId: "later-1" } })
  expect(JSON.stringify(result.value)).toBe(JSON.stringify(sent))
  expect(calls()).toEqual([path])
})

it.each([0.001, 999_999_999])("A session of %d s is one, whatever it gains", async (expires_in) => {
  const { again, answers, client, expire, pass } = await loggedIn()
  expire(expires_in)
  for (const call of ["login", "refresh"]) answers[call] = async (right) => later(grow(await right().json()))
  const actor = { type: "later" }
  expect(await client.login("oac_2")).toMatchObject({ ok: true, value: { actor } })
  expect(await again().session()).toMatchObject({ value: { actor, expires_at: expect.stringMatching(/Z$/) } })
  pass(life)
  expect(await again().me()).toMatchObject(ok)
  expect(await client.logout()).toMatchObject({ ok: true, value: { revoked: true } })
})

/** Values of each kind of JSON. */
const values: ReadonlyArray<unknown> = [null, true, 7, "7", [7], { seven: 7 }]
const kindOf = (value: unknown) => (value === null ? "null" : Array.isArray(value) ? "array" : typeof value)

/** Members that may be null, and those that the client promises to no program. */
const nullable = new Set(["testing_environment_id", "issue_url", "reporter"])
const unpromised = new Set(["token_type", "subscription_id", "error"])

/** The value with one member left out or of another kind, at any depth. */
const mutantsOf = (value: unknown, name = ""): ReadonlyArray<unknown> => {
  const own = values.filter(
    (other) =>
      kindOf(other) !== kindOf(value) &&
      !(nullable.has(name) && (other === null || typeof other === "string"))
  )
  if (Array.isArray(value))
    return [...own, ...value.flatMap((item, at) => mutantsOf(item).map((mutant) => value.with(at, mutant)))]
  if (typeof value !== "object" || value === null) return own
  const members = Object.entries(value).filter(([member]) => !unpromised.has(member))
  return [
    ...own,
    ...members.flatMap(([member, inner]) => {
      const { [member]: _, ...without } = value as Record<string, unknown>
      const changed = mutantsOf(inner, member).map((mutant) => ({ ...value, [member]: mutant }))
      return name === "checks" ? changed : [without, ...changed]
    })
  ]
}

/** Members with which no client can use a session, and a refresh that is another actor's. */
const useless: ReadonlyArray<object> = [
  ...["", "ort_1\nx", "***", "ort_****1", "[REDACTED]"].flatMap((token) => [
    { access_token: token },
    { refresh_token: token }
  ]),
  ...[0, 1e9, 1e300].map((expires_in) => ({ expires_in }))
]
const strange = { actor: { type: "silicon", public_id: "si:other" } }

const unexpected = (reason?: string, more?: object) => failed("unexpected_answer", reason, more)

describe("An answer outside the contract", () => {
  it.each([...passed, ...sessions])(
    "fails for good: %s with a member missing, of another kind or useless",
    async (name, good) => {
      const { answers, calls, client, path, requests, run } = await about(name)
      const changes = [...(path in responses ? [] : useless), ...(name === "refresh" ? [strange] : [])]
      const mutants = [...mutantsOf(good), ...changes.map((change) => ({ ...Object(good), ...change }))]
      expect(mutants.length).toBeGreaterThan(10)
      for (const mutant of mutants) {
        requests.length = 0
        answers[path] = () => json(mutant)
        const facts = unexpected("outside_contract", { status: 200, retryable: false })
        expect([mutant, await run()]).toMatchObject([mutant, facts])
        expect(calls()).toEqual([path])
      }
      expect(await client.session()).toMatchObject(kept)
    }
  )

  it.each(["login", "refresh"])("is a %s with more than a store takes", async (name) => {
    const { answers, client, path, run } = await about(name)
    const long = "\u20ac".repeat(180_000)
    answers[path] = changed(name === "login" ? { ting: { subscribed: false, error: long } } : { scope: long })
    expect(await run()).toMatchObject(unexpected("too_large"))
    expect(await client.session()).toMatchObject(kept)
  })

  it("is a page or a failure for a call without an answer, and nothing else", async () => {
    const { answers, calls, client, provoke } = await about("logout")
    for (const page of ["<html>Sign in</html>", ""]) {
      provoke(() => new Response(page, { headers: { "content-type": "text/html" } }))
      expect(await client.logout()).toMatchObject(unexpected("not_json", { retryable: true }))
    }
    answers.logout = () => json({ error: { code: "forbidden", message: "m" } })
    expect(await client.logout()).toMatchObject(unexpected("outside_contract", { retryable: false }))
    expect(await client.session()).toMatchObject(kept)
    answers.logout = () => json({ accepted: true }, {}, 202)
    expect(await client.logout()).toMatchObject({ ok: true, value: { revoked: true } })
    expect(calls()).toEqual(["logout", "logout", "logout", "logout"])
  })

  const whole = JSON.stringify(examples["system.readyz"].response)
  const statuses = { 200: true, 401: false, 404: false, 408: true, 429: true, 500: true, 511: true }
  it.each(["<html>Sign in</html>", "", "\uFEFF", whole.slice(0, -1)])(
    "that is no JSON is repeated only in place of a 200, and from a failing intermediary: %j",
    async (page) => {
      for (const [status, retryable] of Object.entries(statuses))
        expect(await readyzOf(new Response(page, { status: Number(status) }))).toMatchObject(
          unexpected("not_json", { status: Number(status), retryable })
        )
    }
  )
})

describe("A failure of the service", () => {
  it.each(Object.keys(kinds))("of a later version passes once and keeps the session: %s", async (name) => {
    const { answers, calls, client, keys, once, path, requests, run } = await about(name)
    for (const [code, status] of [
      ["quota_exhausted", 401],
      ["", 409],
      ["__proto__", 503]
    ] as const) {
      requests.length = 0
      const given = { code, message: "m2", hint: "h2", retryable: false }
      answers[path] = () => later({ error: { ...added, ...given, details: added } }, status)
      expect(await run()).toMatchObject({ ok: false, error: { ...given, status, requestId: "later-1" } })
      expect(calls()).toEqual([path])
    }
    // It is none of the client's own, also under the same code.
    for (const code of Object.keys(clientErrorTable)) {
      answers[path] = () => failure(401, code)
      expect(await run()).toMatchObject({ error: { code: `service_${code}`, message: "m", hint: "h" } })
    }
    expect(await client.session()).toMatchObject(kept)
    if (name === "readyz") return
    // One that calls itself retryable is retried under the same key.
    requests.length = 0
    delete answers[path]
    once(path, () => failure(451, "legal_hold", {}, { retryable: true }))
    expect(await run()).toMatchObject(ok)
    expect(calls().slice(0, 2)).toEqual([path, path])
    expect(keys()[0]).toBe(keys()[1])
  })

  it.each([
    ["overloaded", 503, true],
    ["a_later_one", 402, false],
    ["a_later_one", 429, true]
  ])("needs no more than its code and message: %s %i (retryable: %s)", async (code, status, retryable) => {
    const { error } = await readyzOf(json({ error: { code, message: "m" } }, {}, status))
    expect(error).toMatchObject({ code, status, retryable, message: "m", hint: expect.stringMatching(/./) })
    for (const mutant of mutantsOf({ code, message: "m" }))
      expect(await readyzOf(json({ error: mutant }, {}, status))).toMatchObject(
        unexpected("outside_contract", { status })
      )
  })

  it("ends a session without hint and retryable, too, when it has the service's request id", async () => {
    const { answers, client, pass } = await loggedIn()
    const error = { code: "unauthenticated", message: "m" }
    answers.refresh = () => json({ error }, { "x-request-id": "own-1" }, 401)
    pass(life)
    expect(await client.status()).toEqual({ state: "logged_out", reason: "revoked" })
  })

  it("has no control character in its texts, and carries the beginning of its answer, but not in JSON", async () => {
    const evil = "a\u001b[31m\u0007b\u202e\u009bc"
    const error = { code: "forbidden", message: evil, hint: evil, retryable: false, more: "x".repeat(9_000) }
    const tokens = { access_token: "oat_secret", refresh_token: "ort_secret" }
    const onEvent = vi.fn()
    const headers = { "x-any": "1", ratelimit: `"\u009bc";r=1;t=1`, "x-music-min-cli": "9\u009bc" }
    const found = (await readyzOf(json({ ...tokens, error }, headers, 403), { onEvent })).error
    expect(JSON.stringify(onEvent.mock.calls)).toContain('"minVersion":"9 c"')
    expect(JSON.stringify([found, onEvent.mock.calls])).not.toMatch(/\p{Cc}/u)
    expect([found?.message, found?.hint]).toEqual(Array(2).fill("a [31m b c"))
    const fields = [{ path: evil, problem: evil }]
    const others = [
      json({ error: { code: "invalid_input", message: evil, details: { fields } } }, {}, 400),
      new Response(null, { status: 307, headers: { location: "https://music.example/\u009b/readyz" } })
    ]
    for (const other of others) {
      const { error } = await readyzOf(other)
      expect(`${error?.message} ${error?.hint} ${error?.details?.fields?.[0]?.path}`).not.toMatch(/\p{Cc}/u)
    }
    expect(found?.response).toMatchObject({ status: 403, headers: { "x-any": "1" } })
    expect(found?.response?.body).toHaveLength(2_048 - "oat_secret".length - "ort_secret".length + 2)
    expect(JSON.stringify([found, found?.response?.body])).not.toMatch(/secret|x-any/)
  })

  it.each([
    ["me", "oat_1"],
    ["refresh", "ort_1"],
    ["login", "oac_2"]
  ])("carries no token of the request that an intermediary shows in its page: %s", async (kind, token) => {
    const { provoke, requests, run } = await about(kind)
    provoke(() => {
      const { body = "", headers } = requests.at(-1) ?? {}
      const shown = `${JSON.stringify([...(headers ?? [])])} ${body}`
      const forms = [shown, encodeURIComponent(body), body.replaceAll('"', "\\u0022")]
      return new Response(`<pre>${forms}</pre>`, { status: 502, headers: { "x-request": shown } })
    })
    const { error } = await run()
    expect(JSON.stringify(requests.map(({ body, headers }) => [body, [...headers]]))).toContain(token)
    expect(error?.response?.body).toContain("x-music-source")
    expect(error?.response?.headers["x-request"]).toContain("x-music-source")
    expect(JSON.stringify(error?.response)).not.toContain(token)
  })

  it("carries no token that an intermediary quotes in an envelope, also in its events; the name of its kind stays", async () => {
    const { client, events, provoke } = await about("me")
    const details = { seen: ["Bearer oat_1"], body: '{"refresh_token":"a\\"b"}' }
    const error = {
      code: "InvalidToken",
      message: "The header Bearer oat_1 is no `ask_`, and no oat_.",
      details
    }
    provoke(() => json({ error }, {}, 401))
    const found = (await client.me()).error
    expect(found).toMatchObject({
      code: "InvalidToken",
      message: "The header Bearer … is no `ask_`, and no oat_.",
      details: { seen: ["Bearer …"] }
    })
    expect(JSON.stringify([found, events])).not.toContain("oat_1")
  })

  it("keeps new details, and leaves out known ones of another kind", async () => {
    const read = async (details: unknown) =>
      (await readyzOf(failure(403, "forbidden", {}, { details }))).error?.details
    const known = { fields: [{ path: "a", problem: "p" }], reason: "r" }
    const more = { retry_window: { from: 1 }, note: null }
    const wrong = { fields: [1], checks: { database: 1 }, reason: 7, dependency: null, upstream_code: [] }
    expect(await read({ ...known, ...more })).toEqual({ ...known, ...more })
    expect(await read({ ...wrong, ...more })).toEqual(more)
    for (const none of [null, "text", [1]]) expect(await read(none)).toBeUndefined()
  })
})

it("A 401 that is not the service's own requests no new token, and says nothing about the session", async () => {
  const { calls, client, provoke } = await about("me")
  provoke(() => new Response("<html>Sign in to the network</html>", { status: 401 }))
  const error = { code: "unexpected_answer" }
  expect(await client.status()).toMatchObject({ state: "unknown", error })
  expect(calls()).toEqual(["me"])
})

describe("A body", () => {
  const bytes = (text: string) => new TextEncoder().encode(text)
  type Controller = ReadableStreamDefaultController<Uint8Array>
  const bodyOf = (begin: string, pull: (controller: Controller) => void, cancel = () => {}) =>
    new ReadableStream({ start: (controller) => controller.enqueue(bytes(begin)), pull, cancel })

  it("that never ends is given up at 4 MiB", async () => {
    const { answers, calls, run } = await about("me")
    const state = { cancelled: false, bytes: 0 }
    const chunk = bytes("1,".repeat(32 * 1024))
    const pull = (controller: Controller) => {
      state.bytes += chunk.byteLength
      controller.enqueue(chunk)
    }
    const cancel = () => {
      state.cancelled = true
    }
    answers.me = () => new Response(bodyOf("[", pull, cancel))
    expect(await run()).toMatchObject(unexpected("too_large", { status: 200, retryable: false }))
    expect([calls(), state.cancelled]).toEqual([["me"], true])
    expect(state.bytes).toBeLessThan(8 * 1024 * 1024)
  })

  it("that breaks off is requested again, with every status, and says so at last", async () => {
    const broken = (status: number) => () => {
      const end = (controller: Controller) => controller.error(new TypeError("terminated"))
      return new Response(bodyOf('{"authenticated":', end), { status })
    }
    for (const status of [200, 401, 503]) {
      const { calls, once, provoke, run } = await about("me")
      once("me", broken(status))
      expect([status, await run()]).toMatchObject([status, { ok: true }])
      expect(calls()).toEqual(["me", "me"])
      provoke(broken(status))
      const last = await run()
      expect(last).toMatchObject(unexpected("incomplete", { status, retryable: true }))
      expect(last.error?.cause).toBeInstanceOf(TypeError)
    }
  })
})

const now = Date.parse("2026-11-22T15:00:00Z")
const own = { date: "Sun, 22 Nov 2026 14:00:00 GMT" }
it.each<[string, number | undefined, object?, number?]>([
  ["0", 0],
  [" 120 ", 120],
  ["9".repeat(400), Number.MAX_SAFE_INTEGER],
  ["Fri, 31 Dec 2027 15:00:00 GMT", 34_905_600],
  ["Sun, 22 Nov 2026 14:59:00 GMT", 0],
  ["Sunday, 22-Nov-26 14:00:30 GMT", 30, own],
  // Rounded up: a retry is never too early.
  ["Sun, 22 Nov 2026 15:00:01 GMT", 1, {}, now + 1],
  ...["-5", "1.5", "2026-11-22T15:01:00Z", "Sun, 99 Nov 2026 15:01:00 GMT"].map(
    (text): [string, undefined] => [text, undefined]
  )
])("The header Retry-After: %s is %s seconds (%o)", async (value, seconds, headers = {}, at = now) => {
  const response = failure(503, "overloaded", { "retry-after": value, ...headers })
  const { error } = await readyzOf(response, { clock: { now: () => at, monotonic: () => 0 } })
  expect(error?.retryAfterSeconds).toBe(seconds)
})

const address = { policy: "address", remaining: 59, resetSeconds: 1 }
it.each<readonly [string, ReadonlyArray<object>]>([
  ['"address";r=59;t=1, "b";r=0;t=42', [address, { policy: "b", remaining: 0, resetSeconds: 42 }]],
  ['"address"; pk=:cGs=:; t=1; r=59;note="a,b"', [address]],
  ...["limit=60, reset=1", '"a";r=59', '"a";t=1', '"a";r=-1;t=1'].map((text) => [text, []] as const)
])("The header RateLimit: %s is read or left out", async (ratelimit, expected) => {
  const headers = { "x-request-id": "the-id-1", ratelimit }
  const metadata = { requestId: "the-id-1", rateLimits: expected }
  const success = json(examples["system.readyz"].response, headers)
  expect(await readyzOf(success)).toMatchObject({ ok: true, metadata })
  const { error } = await readyzOf(failure(429, "rate_limited", headers))
  expect(error?.rateLimits ?? []).toEqual(expected)
})
