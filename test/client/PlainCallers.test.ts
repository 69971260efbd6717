/** Programs without a type checker: no value of a parameter throws, rejects or is a defect. */
import { describe, expect, it } from "vitest"
import { createMusicClient, type MusicClient, type PromiseClientOptions } from "../../client/index.ts"
import { defaults, recordingService, startClient } from "./support/RecordingService.ts"

const cyclic: Record<string, unknown> = {}
cyclic.self = cyclic
const throwing = {
  toString: () => {
    throw new Error("own fault")
  },
  toJSON: () => {
    throw new Error("own fault")
  }
}

const values: Readonly<Record<string, unknown>> = {
  undefined: undefined,
  null: null,
  "a text": "text",
  "an empty text": "",
  "a number": 7,
  NaN: Number.NaN,
  true: true,
  "a list": [1],
  "an object": {},
  "an object without a prototype": Object.create(null),
  "a function": () => 1,
  "a symbol": Symbol("x"),
  "a BigInt": 1n,
  "a map": new Map(),
  "a cycle": cyclic,
  "an object that throws": throwing
}

type AnyMethod = (...given: ReadonlyArray<unknown>) => unknown

interface Method {
  readonly of: (client: MusicClient) => unknown
  /** Good values of the parameters in front of the options. */
  readonly given?: ReadonlyArray<unknown>
}

const methods: Readonly<Record<string, Method>> = {
  login: { of: ({ login }) => login, given: ["oac_2"] },
  logout: { of: ({ logout }) => logout },
  session: { of: ({ session }) => session },
  status: { of: ({ status }) => status },
  me: { of: ({ me }) => me },
  subscribe: { of: ({ subscribe }) => subscribe },
  ting: { of: ({ ting }) => ting, given: [{ type: "t", key: "k", data: {} }] },
  report: { of: ({ report }) => report, given: [{ message: "m" }] },
  iam: { of: ({ iam }) => iam },
  version: { of: ({ version }) => version },
  healthz: { of: ({ healthz }) => healthz },
  readyz: { of: ({ readyz }) => readyz },
  request: { of: ({ request }) => request, given: ["POST", "/x"] },
  record: { of: ({ telemetry }) => telemetry.record, given: ["musicclidaemon", {}] },
  flush: { of: ({ telemetry }) => telemetry.flush },
  close: { of: ({ close }) => close }
}

const optionNames = [
  "deadlineMilliseconds",
  "org",
  "idempotencyKey",
  "signal",
  "query",
  "headers",
  "body",
  "session",
  "anonymous",
  "forget"
]
const memberNames = ["key", "data", "metadata", "message", "attachments", "id", "toJSON"]

const expectSound = (result: unknown): void => {
  expect(result).toBeTypeOf("object")
  expect(JSON.stringify(result)).not.toContain("client_defect")
}

describe.each(Object.keys(methods))("%s", (name) => {
  const run = async (...given: ReadonlyArray<unknown>) => {
    const { client } = startClient({ telemetry: true, deadlineMilliseconds: 100 })
    await client.login("oac_1")
    // Any parameters, as a program without a type checker gives them.
    const method = methods[name]?.of(client) as AnyMethod
    expectSound(await method(...given))
  }
  const good = methods[name]?.given ?? []

  it.each(Object.keys(values))("takes %s", async (kind) => {
    const value = values[kind]
    for (const [index, given] of good.entries()) {
      await run(...good.with(index, value))
      if (typeof given !== "object") continue
      for (const member of memberNames) await run(...good.with(index, { ...given, [member]: value }))
    }
    await run(...good, value)
    for (const member of optionNames) await run(...good, { [member]: value })
  })

  it("takes nothing", () => run())
})

/** Options as a program without a type checker gives them. */
const makeClient = (options: unknown): MusicClient =>
  createMusicClient(options as PromiseClientOptions & { readonly throwOnError: false })

describe("Options of any kind", () => {
  const options = ["baseUrl", "source", "version", "telemetry", "testingKey", "sessionStore", "lock", "org"]
  const more = ["deadlineMilliseconds", "attemptMilliseconds", "telemetryQueueLimit", "onEvent", "fetch"]
  const rest = ["clock", "random", "throwOnError", "telemetryIntervalMilliseconds"]
  it.each([...options, ...more, ...rest])("never throw: %s", async (option) => {
    for (const value of Object.values(values)) {
      const { fetch } = recordingService()
      const given = { ...defaults, deadlineMilliseconds: 100, fetch, [option]: value }
      const client = makeClient(given)
      const results = await Promise.all(
        [
          client.login("oac_1"),
          client.me(),
          client.session(),
          client.version(),
          client.request("GET", "/x"),
          client.telemetry.flush(),
          client.logout({ forget: true })
        ].map((call) => call.catch((error: unknown) => error))
      )
      results.forEach(expectSound)
      expectSound(client.telemetry.record("musicclidaemon", {}))
      expectSound(client.telemetry.stats())
      expectSound(await client.status())
      expectSound(await client.close())
    }
  })

  it.each(Object.keys(values))("never throw: %s", async (kind) => {
    const client = makeClient(values[kind])
    expect(await client.me()).toMatchObject({ ok: false, error: { code: "invalid_input" } })
    expect(await client.request("GET", "/x")).toMatchObject({ ok: false, error: { code: "invalid_input" } })
    expectSound(await client.close())
  })

  it("works with a base URL that a URL parser would trim", async () => {
    const { fetch, requests } = recordingService()
    const client = createMusicClient({ ...defaults, fetch, baseUrl: " https://MUSIC.example/music/ " })
    expect((await client.request("GET", "/x")).ok).toBe(true)
    expect(requests[0]?.url).toBe("https://music.example/music/x")
  })
})
