/** The methods and the options: no value of a program without a type checker throws, rejects, is a defect or is sent. */
import { describe, expect, expectTypeOf, it } from "vitest"
import {
  type CallOptions,
  createMusicClient,
  isMusicClientError,
  type Me,
  type MusicClient,
  type MusicClientError,
  type PromiseClientOptions
} from "../../client/index.ts"
import { createTelemetry } from "../../client/telemetry.ts"
import {
  defaults,
  loggedIn,
  methods,
  refusal,
  type TestClient,
  testingKey,
  withTelemetry
} from "./support/ClientWorld.ts"
import { failure, makeService, openLock } from "./support/Service.ts"

type Given = PromiseClientOptions & { readonly throwOnError: false }

const cyclic: Record<string, unknown> = {}
cyclic.self = cyclic
const throwing = () => {
  throw new Error("own fault")
}

/** Values of every kind. */
const values: ReadonlyArray<unknown> = [
  ...[undefined, null, "text", "", Number.NaN, [1], {}, Object.create(null), () => 1, Symbol("x"), 1n],
  ...[cyclic, { toString: throwing, toJSON: throwing }]
]

const expectSound = (result: unknown): void => {
  expect(result).toBeTypeOf("object")
  expect(JSON.stringify(result)).not.toContain("client_defect")
}

it("Any value of a parameter is a result, never a defect", async () => {
  const { client } = await loggedIn({ telemetry: true, deadlineMilliseconds: 100 })
  // As a program without a type checker calls them.
  for (const value of values as ReadonlyArray<never>) {
    for (const call of [client.session, client.me, client.status, client.login, client.ting, client.report])
      expectSound(await call(value))
    for (const member of ["type", "key", "data", "toJSON"])
      expectSound(await client.ting({ type: "t", key: "k", data: {}, [member]: value }))
    expectSound(await client.report({ message: value }, value))
    for (const words of [[value], ["POST", value], ["POST", "/x", value], ["POST", "/x", { body: value }]])
      expectSound(await client.request(...(words as [never, never, never])))
    expectSound(client.telemetry.record("musicclidaemon", { id: value, toJSON: value }))
    expectSound(client.telemetry.record(value, {}))
  }
  expectSound(client.telemetry.record("musicclidaemon", Object.defineProperty({}, "id", { get: throwing })))
})

it("What a call is given is what it was at the call", async () => {
  const { client, once, requests } = await loggedIn()
  const given = { type: "t", key: "first", data: { count: 1 }, message: "first" }
  const options = { org: "first", body: given }
  const calls = [
    client.ting(given, options),
    client.report(given, options),
    client.request("POST", "/x", options)
  ]
  once("tings", () => failure(401, "unauthenticated"))
  Object.assign(given, { key: "second", message: "second" }).data.count = 2
  options.org = "second"
  await Promise.all(calls)
  expect(requests).toHaveLength(5)
  const sent = requests.map(({ body, headers }) => [headers.get("x-org-id"), body])
  expect(JSON.stringify(sent)).not.toMatch(/second|2/)
})

const durations = [0, Number.NaN, 2 ** 31, "5000"]

/** Each way to make a call with options. */
const ways: Readonly<Record<string, (client: TestClient, call: CallOptions) => Promise<unknown>>> = {
  ...Object.fromEntries(Object.entries(methods).map(([name, { run }]) => [name, run])),
  forget: (client, call) => client.logout({ ...call, forget: true }),
  status: (client, call) => client.status(call),
  anonymous: (client, call) => client.report({ message: "m" }, { ...call, anonymous: true }),
  flush: (client, call) => client.telemetry.flush(call)
}

describe("A wrong option of one call sends and changes nothing:", () => {
  it.each(Object.entries(ways))("%s", async (_, call) => {
    const { client, requests } = await loggedIn({ telemetry: true })
    client.telemetry.record("musicclidaemon", {})
    const wrong = [
      ...durations.map((value) => ["deadlineMilliseconds", value] as const),
      ...["signal", { aborted: false }].map((value) => ["signal", value] as const)
    ]
    for (const [name, value] of wrong) {
      const { error } = refusal(name)
      expect([name, value, await call(client, { [name]: value })]).toMatchObject([name, value, { error }])
    }
    expect(requests).toEqual([])
    expect(await client.session()).toMatchObject({ value: { org_id: "acme" } })
    await call(client, { deadlineMilliseconds: null, signal: null } as never)
    expect(requests).not.toEqual([])
  })

  it.each<readonly [string, string, object]>([
    ["me", "org", { org: "acme\nevil" }],
    ["report", "idempotencyKey", { idempotencyKey: "key\r\nx: y" }],
    ["login", "idempotencyKey", { idempotencyKey: "" }]
  ])("%s with an %s that is empty or cannot be sent", async (name, path, call) => {
    const { client, requests } = await loggedIn()
    expect(await ways[name]?.(client, call)).toMatchObject(refusal(path))
    expect(requests).toEqual([])
  })
})

it("A client with throwOnError resolves to values, and rejects with errors that another copy of the module recognises", async () => {
  const { answers, fetch } = makeService()
  const client = createMusicClient({ ...defaults, telemetry: true, fetch, throwOnError: true })
  expect(await client.login("oac_1")).toMatchObject({ org_id: "acme", healed: false })
  expect(await client.me()).toMatchObject({ authenticated: true })
  expect(await createTelemetry(client).flush()).toMatchObject({ value: { queued: 0, delivered: 0 } })
  expectTypeOf(client.me).returns.toEqualTypeOf<Promise<Me>>()
  expectTypeOf<Awaited<ReturnType<MusicClient["me"]>>["value"]>().toEqualTypeOf<Me | undefined>()
  const narrow = (error: MusicClientError) => (error.code === "rate_limited" ? error.status : 429)
  expectTypeOf(narrow).returns.toEqualTypeOf<429>()
  const headers = { "retry-after": "60", "x-request-id": "the-id-1" }
  const copy = "../../client/failures/Failures.ts?copy"
  const other: { readonly isMusicClientError: typeof isMusicClientError } = await import(copy)
  expect(other.isMusicClientError).not.toBe(isMusicClientError)
  for (const { path, run } of Object.values(methods)) {
    answers[path] = () => failure(503, "shutting_down", headers, { retryable: true })
    const error: unknown = await run(client as never).catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(Error)
    const facts = { name: "MusicClientError", code: "shutting_down", status: 503, retryable: true }
    expect(error).toMatchObject({ ...facts, message: "m", requestId: "the-id-1", retryAfterSeconds: 60 })
    expect(JSON.parse(JSON.stringify(error))).toMatchObject({ code: "shutting_down", message: "m" })
    for (const recognises of [isMusicClientError, other.isMusicClientError])
      expect([error, new Error("m"), null].map(recognises)).toEqual([true, false, false])
  }
  // These never reject.
  expect(createTelemetry(client).record("musicclidaemon", 5 as never)).toMatchObject({ ok: false })
  expect(await client.status()).toMatchObject({ state: "unknown" })
})

const callsOf = (client: TestClient) => [
  client.session(),
  client.logout({ forget: true }),
  ...Object.values(methods).map(({ run }) => run(client))
]

it.each<readonly [string, ReadonlyArray<unknown>]>([
  ["testingKey", [undefined, "", "ask_short", 7]],
  [
    "baseUrl",
    [
      ...[undefined, null, new URL("https://music.example"), "nowhere", "ftp://music.example"],
      ...["https://name:word@music.example", "https://music.example/?a=b", "https://music.example#"]
    ]
  ],
  ["deadlineMilliseconds", durations],
  ["attemptMilliseconds", durations],
  ["telemetry", ["yes"]],
  ["source", ["tv"]],
  ["version", ["one", "1.2", "", "v1.2.3", 7, `1.0.0-${"a".repeat(70)}`]],
  ["org", ["", 7]],
  ["sessionStore", [{}]],
  ["lock", ["none"]],
  ["onEvent", ["log"]],
  ["onRequest", ["log"]],
  ["throwOnError", ["yes"]],
  ["fetch", [7]],
  ["random", [() => "x"]],
  ["clock", [{}]]
])(
  "A wrong option of a client makes every call fail, and touches neither the service nor a stored session: %s",
  async (name, wrong) => {
    const code = name === "testingKey" ? "testing_secret_invalid" : "invalid_input"
    const refused = name === "testingKey" ? { ok: false, error: { code, requestId: null } } : refusal(name)
    for (const value of wrong) {
      const touched: Array<string> = []
      const touch = (part: string) => async () => void touched.push(part)
      const lock = { acquire: () => touch("lock")().then(() => openLock.acquire("", AbortSignal.abort())) }
      const sessionStore = { load: touch("load"), save: touch("save"), clear: touch("clear"), lock }
      const given: unknown = { ...defaults, sessionStore, fetch: touch("fetch"), [name]: value }
      const client = withTelemetry(createMusicClient(given as Given))
      for (const call of callsOf(client)) expect([value, await call]).toMatchObject([value, refused])
      expect(await client.status()).toMatchObject({ state: "unknown", error: { code } })
      expect(await client.close()).toEqual({ queued: 0, delivered: 0, dropped: 0 })
      expect(touched).toEqual([])
    }
  }
)

describe("The options of a client", () => {
  it("may be null where they are optional, and are those that were checked", async () => {
    const names = ["clock", "random", "sessionStore", "lock", "org", "onEvent", "throwOnError"]
    const baseUrl = "https://music.example/behind/a/path/"
    const nothing = Object.fromEntries(names.map((name) => [name, null]))
    const { fetch, requests } = makeService()
    const options = { ...defaults, ...nothing, baseUrl, fetch, testingKey, deadlineMilliseconds: 2 ** 31 - 1 }
    const client = createMusicClient(options)
    Object.assign(options, { testingKey: null, baseUrl: "https://evil.example" })
    await client.version()
    expect(requests[0]?.url).toBe(`${baseUrl}api/v1/version`)
    expect(requests[0]?.headers.get("x-testing-environment-key")).toBe(testingKey)
  })

  it("are those of a class, too: its testing key is no member of its own", async () => {
    const { fetch, requests } = makeService()
    class Given {
      readonly baseUrl = "https://music.example"
      readonly source = "cli"
      readonly telemetry = false
      readonly fetch = fetch
      get testingKey() {
        return testingKey
      }
    }
    await createMusicClient(new Given()).version()
    expect(requests[0]?.headers.get("x-testing-environment-key")).toBe(testingKey)
  })

  it("never throw, whatever they are", async () => {
    for (const value of values) {
      const client = withTelemetry(createMusicClient(value as Given))
      for (const call of callsOf(client)) expectSound(await call.catch((error: unknown) => error))
      expectSound(client.telemetry.record("musicclidaemon", {}))
      expectSound(await client.status())
      expectSound(await client.close())
    }
  })
})
