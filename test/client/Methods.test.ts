/** One table over the methods and the options: no value of a program without a type checker throws, rejects, is a defect or is sent. */
import { describe, expect, expectTypeOf, it, vi } from "vitest"
import {
  createMusicClient,
  isMusicClientError,
  type Me,
  type MusicClient,
  type MusicClientError,
  memorySessionStore,
  type PromiseClientOptions,
  type RequestOptions,
  type Result,
  type SessionInfo,
  type SessionStore,
  type Status,
  type TelemetryStats,
  type ThrowingMusicClient
} from "../../client/index.ts"
import {
  defaults,
  failure,
  loggedIn,
  makeClient,
  makeService,
  methods,
  openLock,
  refusal,
  storeWith
} from "./support/ClientWorld.ts"

const cyclic: Record<string, unknown> = {}
cyclic.self = cyclic
const throwing = () => {
  throw new Error("own fault")
}

/** Values of every kind. */
const values: ReadonlyArray<unknown> = [
  ...[
    undefined,
    null,
    "text",
    "",
    7,
    Number.NaN,
    true,
    [1],
    {},
    Object.create(null),
    () => 1,
    Symbol("x"),
    1n
  ],
  ...[new Map(), cyclic, { toString: throwing, toJSON: throwing }]
]

/** Good values of the parameters in front of the options. */
const parameters: Readonly<Record<string, ReadonlyArray<unknown>>> = {
  login: ["oac_2"],
  logout: [],
  session: [],
  status: [],
  me: [],
  subscribe: [],
  ting: [{ type: "t", key: "k", data: {} }],
  report: [{ message: "m" }],
  iam: [],
  version: [],
  healthz: [],
  readyz: [],
  request: ["POST", "/x"],
  record: ["musicclidaemon", {}],
  flush: [],
  close: []
}
const optionNames = [
  ...["deadlineMilliseconds", "org", "idempotencyKey", "signal", "query", "headers", "body", "session"],
  ...["anonymous", "forget"]
]
const memberNames = ["key", "data", "metadata", "message", "attachments", "id", "toJSON"]

const expectSound = (result: unknown): void => {
  expect(result).toBeTypeOf("object")
  expect(JSON.stringify(result)).not.toContain("client_defect")
}

describe("Any value of a parameter is a result, never a defect:", () => {
  it.each(Object.entries(parameters))("%s", async (name, good) => {
    const runs = [
      ...values.map((value) => [value, [...good, value]] as const),
      ...values.flatMap((value) =>
        optionNames.map((option) => [value, [...good, { [option]: value }]] as const)
      ),
      ...values.flatMap((value) => good.map((_, index) => [value, good.with(index, value)] as const)),
      ...values.flatMap((value) =>
        good.flatMap((given, index) =>
          typeof given === "object"
            ? memberNames.map((member) => [value, good.with(index, { ...given, [member]: value })] as const)
            : []
        )
      )
    ]
    for (const value of values) {
      const { client } = await loggedIn({ telemetry: true, deadlineMilliseconds: 100 })
      // As a program without a type checker calls it.
      const all: Readonly<Record<string, unknown>> = { ...client, ...client.telemetry }
      const call = all[name] as (...given: ReadonlyArray<unknown>) => unknown
      for (const [of, given] of runs) if (Object.is(of, value)) expectSound(await call(...given))
      expectSound(await call())
    }
  })
})

const durations = [0, -1, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 31, "5000", {}, true]
const signals = [{}, 5, "signal", { aborted: false }, () => undefined]

/** Each way to make a call with options. */
const ways: Readonly<Record<string, (client: MusicClient, call: RequestOptions) => Promise<unknown>>> = {
  ...Object.fromEntries(Object.entries(methods).map(([name, { run }]) => [name, run])),
  forget: (client, call) => client.logout({ ...call, forget: true }),
  status: (client, call) => client.status(call),
  anonymous: (client, call) => client.report({ message: "m" }, { ...call, anonymous: true }),
  unsigned: (client, call) => client.request("GET", "/x", { ...call, session: "none" }),
  flush: (client, call) => client.telemetry.flush(call)
}

describe("A wrong option of one call sends and changes nothing:", () => {
  it.each(Object.entries(ways))("%s", async (_, call) => {
    const { client, requests } = await loggedIn({ telemetry: true })
    client.telemetry.record("musicclidaemon", {})
    const wrong = [
      ...durations.map((value) => ["deadlineMilliseconds", value] as const),
      ...signals.map((value) => ["signal", value] as const)
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

  it.each<[string, (client: MusicClient) => Promise<unknown>]>([
    ["org", (client) => client.me({ org: "" })],
    ["org", (client) => client.me({ org: "acme\nevil" })],
    ["org", (client) => client.me({ org: "❤" })],
    ["idempotencyKey", (client) => client.report({ message: "m" }, { idempotencyKey: "" })],
    ["idempotencyKey", (client) => client.report({ message: "m" }, { idempotencyKey: "key\r\nx: y" })],
    ["idempotencyKey", (client) => client.login("oac_2", { idempotencyKey: "" })],
    ["idempotencyKey", (client) => client.request("POST", "/x", { idempotencyKey: "" })],
    ["slt", (client) => client.login(undefined as unknown as string)]
  ])("an %s that is empty or cannot be sent", async (path, call) => {
    const { client, requests } = await loggedIn()
    expect(await call(client)).toMatchObject(refusal(path))
    expect(requests).toEqual([])
  })
})

describe("A client with throwOnError", () => {
  const start = (given: Partial<PromiseClientOptions> = {}) => {
    const service = makeService()
    const options = { ...defaults, telemetry: true, fetch: service.fetch, ...given }
    return { ...service, client: createMusicClient({ ...options, throwOnError: true }) }
  }
  const caught = (call: Promise<unknown>) =>
    call.then(
      () => undefined,
      (reason: unknown) => reason
    )

  it("resolves to values", async () => {
    const { client } = start()
    expect(await client.login("oac_1")).toMatchObject({ org_id: "acme", healed: false })
    expect(await client.session()).toMatchObject({ org_id: "acme" })
    expect(await client.me()).toMatchObject({ authenticated: true })
    expect(await client.request("GET", "/x")).toMatchObject({ status: 200 })
    expect(await client.logout()).toEqual({ revoked: true, healed: false })
    expect(await client.session()).toBeNull()
    const nothing = { queued: 0, delivered: 0, dropped: 0 }
    expect([await client.telemetry.flush(), await client.close()]).toEqual([nothing, nothing])
  })

  it.each(Object.entries({ ...methods, flush: { path: "telemetry", run: ways.flush } }))(
    "rejects %s with the members of the error",
    async (_, { path, run }) => {
      const { answers, client } = start()
      await client.login("oac_1")
      client.telemetry.record("musicclidaemon", {})
      const headers = { "retry-after": "60", "x-request-id": "the-id-1" }
      answers[path] = () => failure(503, "shutting_down", headers, { retryable: true })
      const error = await caught(run?.(client as never, {}) as Promise<unknown>)
      expect(error).toBeInstanceOf(Error)
      expect(isMusicClientError(error)).toBe(true)
      const facts = {
        name: "MusicClientError",
        code: "shutting_down",
        status: 503,
        retryable: true,
        message: "m"
      }
      expect(error).toMatchObject({
        ...facts,
        hint: expect.any(String),
        requestId: "the-id-1",
        retryAfterSeconds: 60
      })
      expect((error as Error).stack).toContain("MusicClientError: m")
    }
  )

  it("rejects with a problem of the options; status, record and close never do", async () => {
    const { client } = start({ baseUrl: "no" })
    expect(await caught(client.session())).toMatchObject({ code: "invalid_input" })
    expect((await client.status()).state).toBe("unknown")
    const away = start()
    away.answers.telemetry = () => failure(503, "shutting_down")
    expect(away.client.telemetry.record("musicclidaemon", 5 as never)).toMatchObject({ ok: false })
    away.client.telemetry.record("musicclidaemon", {})
    expect(await away.client.close()).toMatchObject({ dropped: 1 })
  })

  it("rejects with an error that another copy of the module recognises", async () => {
    const { answers, client } = start()
    answers.version = () => failure(403, "forbidden")
    vi.resetModules()
    const other = await import("../../client/index.ts")
    expect(other.isMusicClientError).not.toBe(isMusicClientError)
    expect(other.isMusicClientError(await caught(client.version()))).toBe(true)
    for (const value of [undefined, null, "MusicClientError", new Error("m"), { name: "MusicClientError" }])
      expect(isMusicClientError(value)).toBe(false)
  })

  it("has types that follow the option", () => {
    const { client } = start()
    const plain = createMusicClient(defaults)
    expectTypeOf(client.me).returns.toEqualTypeOf<Promise<Me>>()
    expectTypeOf(client.session).returns.toEqualTypeOf<Promise<SessionInfo | null>>()
    expectTypeOf(client.status).returns.toEqualTypeOf<Promise<Status>>()
    expectTypeOf(client.telemetry.flush).returns.toEqualTypeOf<Promise<TelemetryStats>>()
    expectTypeOf(plain.me).returns.toEqualTypeOf<Promise<Result<Me>>>()
    const chosen = createMusicClient({ ...defaults, throwOnError: true as boolean })
    expectTypeOf(chosen).toEqualTypeOf<MusicClient | ThrowingMusicClient>()
    // @ts-expect-error no such source
    expectTypeOf(createMusicClient({ ...defaults, source: "browser" })).toEqualTypeOf<MusicClient>()
    const narrow = (error: MusicClientError) => (error.code === "rate_limited" ? error.status : 429)
    expectTypeOf(narrow).returns.toEqualTypeOf<429>()
  })
})

/** A store with a session of production, and which of its parts were used since. */
const withProduction = async () => {
  const touched: Array<string> = []
  const inner = memorySessionStore()
  const noting =
    <Given extends ReadonlyArray<unknown>, A>(name: string, part: (...given: Given) => A) =>
    (...given: Given) => {
      touched.push(name)
      return part(...given)
    }
  const sessionStore: SessionStore = {
    load: noting("load", inner.load),
    save: noting("save", inner.save),
    clear: noting("clear", inner.clear),
    lock: { acquire: noting("lock", openLock.acquire) }
  }
  const production = await loggedIn({ sessionStore })
  touched.length = 0
  return { production: production.client, service: production.service, sessionStore, touched }
}

/** The calls of a client, each in a form that no option of one call can spoil. */
const callsOf = (client: MusicClient) => [
  client.login("oac_1"),
  client.logout(),
  client.logout({ forget: true }),
  client.session(),
  client.me(),
  client.version(),
  client.report({ message: "long enough a message" }),
  client.request("GET", "/x")
]

describe("Wrong options of a client make every call fail, and touch neither the service nor a stored session:", () => {
  const testingKeys = [undefined, "", "ask_short", "oat_1", 7].map((value) => ["testingKey", value] as const)
  const addresses = [undefined, null, 7, new URL("https://music.example"), "nowhere", "ftp://music.example"]
  const times = ["deadlineMilliseconds", "attemptMilliseconds", "telemetryIntervalMilliseconds"]
  it.each<readonly [string, unknown]>([
    ...testingKeys,
    ...addresses.map((value) => ["baseUrl", value] as const),
    ...times.flatMap((name) => durations.map((value) => [name, value] as const)),
    ["source", "tv"],
    ["telemetry", "yes"],
    ["telemetryQueueLimit", 0],
    ["telemetryQueueLimit", 1.5],
    ...["one", "1.2", "", "v1.2.3", "1.2.3 ", 7, `1.0.0-${"a".repeat(70)}`].map(
      (value) => ["version", value] as const
    ),
    ["org", ""],
    ["org", 7],
    ["sessionStore", {}],
    ["lock", "none"],
    ["onEvent", "log"],
    ["throwOnError", "yes"],
    ["fetch", 7],
    ["random", () => "x"],
    ["clock", {}]
  ])("%s as %o", async (name, value) => {
    const { production, service, sessionStore, touched } = await withProduction()
    const { client, requests } = makeClient({ sessionStore, [name]: value }, service)
    const plain =
      name === "throwOnError"
        ? createMusicClient({ ...defaults, sessionStore, fetch: service.fetch, throwOnError: value as false })
        : client
    const code = name === "testingKey" ? "testing_secret_invalid" : "invalid_input"
    const refused = { ok: false, error: { code, requestId: null } }
    for (const call of callsOf(plain))
      expect(await call).toMatchObject(name === "testingKey" ? refused : refusal(name))
    expect(await plain.status()).toMatchObject({ state: "unknown", error: refused.error })
    expect(await plain.close()).toEqual({ queued: 0, delivered: 0, dropped: 0 })
    expect([requests, touched]).toEqual([[], []])
    expect(await production.session()).toMatchObject({ ok: true, value: { org_id: "acme" } })
  })

  it.each([
    ["https://music.example/api/v1", "https://music.example"],
    ["https://music.example/api", "https://music.example"],
    ["https://music.example/api/v1/", "https://music.example"],
    ["https://music.example/api/v1/auth/login", "https://music.example"],
    ["https://music.example/music/api/v1", "https://music.example/music"],
    ["https://music.example/docs", "https://music.example"],
    ["https://music.example/healthz", "https://music.example"],
    ["https://name:word@music.example", "https://music.example"],
    ["https://music.example/?a=b", "https://music.example"],
    ["https://music.example/#", "https://music.example"]
  ])("baseUrl as %s, with the right one in the hint", async (baseUrl, right) => {
    const { client, requests } = makeClient({ baseUrl })
    const answer = await client.version()
    expect(answer).toMatchObject(refusal("baseUrl"))
    expect(answer.error?.hint).toBe(`Use ${right} as baseUrl.`)
    expect(requests).toEqual([])
  })
})

describe("The options of a client", () => {
  it.each(["/", "//", "/behind/a/path", "/apis"])("may have a baseUrl that ends with %s", async (path) => {
    const { calls, client } = makeClient({ baseUrl: `https://api.example${path}` })
    await client.login("oac_1")
    expect(calls()).toEqual(["login"])
  })

  it("may be missing, or null where they are optional, and of the greatest length", async () => {
    for (const nothing of [undefined, null])
      expect(await createMusicClient(nothing as never).version()).toMatchObject(refusal("baseUrl"))
    const names = ["clock", "random", "sessionStore", "lock", "org", "testingKey", "onEvent", "throwOnError"]
    const { client } = makeClient(Object.fromEntries(names.map((name) => [name, null])))
    expect(await client.login("oac_1")).toMatchObject({ ok: true })
    const longest = 2 ** 31 - 1
    const patient = makeClient({ deadlineMilliseconds: longest, attemptMilliseconds: longest })
    expect(await patient.client.login("oac_1")).toMatchObject({ ok: true })
  })

  it("are those that were checked, whatever the program does with its object later", async () => {
    const { fetch, requests } = makeService()
    const options = { ...defaults, fetch, testingKey: `ask_${"t".repeat(43)}` }
    const client = createMusicClient(options)
    Object.assign(options, { testingKey: null, baseUrl: "https://evil.example" })
    await client.version()
    expect(requests[0]?.url).toBe("https://music.example/api/v1/version")
    expect(requests[0]?.headers.get("x-testing-environment-key")).not.toBeNull()
  })

  const names = [
    ...["baseUrl", "source", "version", "telemetry", "testingKey", "sessionStore", "lock", "org", "clock"],
    ...[
      "deadlineMilliseconds",
      "attemptMilliseconds",
      "telemetryQueueLimit",
      "telemetryIntervalMilliseconds"
    ],
    ...["onEvent", "fetch", "random", "throwOnError"]
  ]
  it.each(names)("never throw, whatever %s is", async (option) => {
    for (const value of values) {
      const given: unknown = {
        ...defaults,
        deadlineMilliseconds: 100,
        fetch: makeService().fetch,
        [option]: value
      }
      const client = createMusicClient(given as PromiseClientOptions & { readonly throwOnError: false })
      for (const call of callsOf(client)) expectSound(await call.catch((error: unknown) => error))
      expectSound(client.telemetry.record("musicclidaemon", {}))
      expectSound(await client.status())
      expectSound(await client.close())
    }
  })

  it("may be no object", async () => {
    for (const value of values) {
      const client = createMusicClient(value as PromiseClientOptions & { readonly throwOnError: false })
      expect(await client.me()).toMatchObject({ ok: false, error: { code: "invalid_input" } })
      expectSound(await client.close())
    }
  })
})

describe("A store", () => {
  it("may answer without promises", async () => {
    const sessions = new Map<string, unknown>()
    const sessionStore = {
      load: (slot: string) => sessions.get(slot),
      save: (slot: string, session: unknown) => void sessions.set(slot, session),
      clear: (slot: string) => void sessions.delete(slot)
    } as unknown as SessionStore
    const { client } = makeClient({ sessionStore })
    for (const call of [() => client.login("oac_1"), client.me, client.logout])
      expect(await call()).toMatchObject({ ok: true })
    expect(sessions.size).toBe(0)
  })

  it("that fails causes an error with its cause, never a logout", async () => {
    const mistake = new TypeError("the mock is broken")
    const broken = () => Promise.reject(mistake)
    const { client } = makeClient({
      sessionStore: storeWith(() => ({ load: broken, save: broken, clear: broken }))
    })
    expect(await client.status()).toMatchObject({ state: "unknown", error: { code: "store_failed" } })
    const { error } = await client.session()
    expect(error).toMatchObject({ code: "store_failed" })
    expect(error?.cause).toBe(mistake)
    expect(await client.report({ message: "long enough a message" })).toMatchObject({ ok: false })
  })
})
