/**
 * A service as a `fetch`, whose answers a test provokes, and clients of it with clocks that only the test moves. Everything goes through the
 * public faces of the client.
 */
import { afterEach, beforeEach, expect, vi } from "vitest"
import {
  type CallOptions,
  type ClientEvent,
  createMusicClient,
  type MusicClient,
  memorySessionStore,
  type PromiseClientOptions,
  type Result,
  type SessionLock,
  type SessionStore,
  type StoredSession
} from "../../../client/index.ts"
import { createTelemetry, type TelemetryOptions } from "../../../client/telemetry.ts"
import { examples } from "../../../src/http/openapi/Examples.ts"
import { scratch } from "../../world/Fleet.ts"

/** Milliseconds after which the access tokens of the service have expired. */
export const life = 1_800_000

export type Answer = () => Response | Promise<Response>
export type Headers = Readonly<Record<string, string>>

export const json = (value: unknown, headers: Headers = {}, status = 200) =>
  new Response(JSON.stringify(value), { status, headers: { "content-type": "application/json", ...headers } })

/** A failure of the service, as it is sent; `more` are further members. */
export const failure = (status: number, code: string, headers: Headers = {}, more: object = {}) =>
  json({ error: { code, message: "m", hint: "h", retryable: false, ...more } }, headers, status)

/** The tokens and the actor of a session; numbered, so that a test sees which one is used. */
export const pairOf = (generation: number, change: object = {}) => ({
  ...examples["auth.refresh"].response,
  access_token: `oat_${generation}`,
  refresh_token: `ort_${generation}`,
  expires_in: life / 1_000,
  actor: { type: "silicon", public_id: "si:deejay" },
  org_id: "acme",
  org_ids: ["acme"],
  testing_environment_id: null,
  ...change
})

export const ok = { ok: true }

/** The result of a call that failed with this code, and with this reason of its details. */
export const failed = (code: string, reason?: string, more: object = {}) => ({
  ok: false,
  error: { code, ...(reason !== undefined && { details: { reason } }), ...more }
})

/** The answer to a login. */
export const loginOf = (generation: number, change: object = {}) => ({
  ...pairOf(generation),
  ting: { subscribed: true },
  ...change
})

/** The answers to calls that change nothing, by the last part of their path. */
export const responses: Readonly<Record<string, unknown>> = {
  me: examples["auth.me"].response,
  subscription: examples["tings.subscribe"].response,
  tings: examples["tings.send"].response,
  reports: examples["reports.submit"].response,
  iam: examples["descriptors.iam"].response,
  version: examples["descriptors.version"].response,
  healthz: examples["system.healthz"].response,
  readyz: examples["system.readyz"].response
}

interface RecordedRequest {
  /** Last part of the path. */
  readonly call: string
  readonly url: string
  readonly method: string
  readonly headers: globalThis.Headers
  readonly body: string
  readonly init: RequestInit | undefined
}

/** A service that succeeds, except where `answers` holds another answer for a call. Its tokens are numbered from `first`. */
export const makeService = (first = 1) => {
  const answers: Record<string, Answer> = {}
  const requests: Array<RecordedRequest> = []
  let generation = first - 1
  const fetch: typeof globalThis.fetch = async (input, init) => {
    const path = new URL(String(input)).pathname
    const call = path.slice(path.lastIndexOf("/") + 1)
    const [method, headers] = [init?.method ?? "GET", new Headers(init?.headers)]
    requests.push({ call, url: String(input), method, headers, body: String(init?.body ?? ""), init })
    const given = answers[call]
    if (given !== undefined) return given()
    if (call === "login" || call === "refresh") generation += 1
    if (call === "login") return json(loginOf(generation))
    if (call === "refresh") return json(pairOf(generation))
    if (call === "logout" || call === "telemetry") return new Response(null, { status: 204 })
    return json(responses[call] ?? {})
  }
  return {
    answers,
    requests,
    fetch,
    calls: () => requests.map(({ call }) => call),
    keys: () => requests.map(({ headers }) => headers.get("idempotency-key")),
    /** Answers the next request of a call with this. */
    once: (call: string, answer: Answer) => {
      answers[call] = () => {
        delete answers[call]
        return answer()
      }
    }
  }
}

export const defaults = { baseUrl: "https://music.example", source: "daemon", telemetry: false } as const
export const testingKey = `ask_${"t".repeat(43)}`

/** A client with its telemetry. */
export const withTelemetry = (client: MusicClient, options?: TelemetryOptions) => {
  const telemetry = createTelemetry(client, options)
  const close = async () => {
    const stats = await telemetry.close()
    await client.close()
    return stats
  }
  return { ...client, telemetry, close }
}

export type TestClient = ReturnType<typeof withTelemetry>

/** A client, its events, and its two clocks. */
export const makeClient = (
  given: Partial<PromiseClientOptions> & { readonly telemetryOptions?: TelemetryOptions } = {},
  service = makeService()
) => {
  const events: Array<ClientEvent> = []
  const sessionStore = given.sessionStore ?? memorySessionStore()
  let wall = 1_800_000_000_000
  let steady = 5_000
  const options: PromiseClientOptions = {
    ...defaults,
    random: () => 0,
    fetch: service.fetch,
    clock: { now: () => wall, monotonic: () => steady },
    onEvent: (event) => events.push(event),
    ...given,
    sessionStore
  }
  const client = withTelemetry(createMusicClient({ ...options, throwOnError: false }), given.telemetryOptions)
  const pass = (milliseconds: number) => {
    wall += milliseconds
    steady += milliseconds
  }
  return {
    ...service,
    service,
    client,
    events,
    sessionStore,
    types: () => events.map(({ type }) => type),
    logouts: () => events.filter(({ type }) => type === "logged_out"),
    /** Another client with the same options and store, as after a restart of the program. */
    again: () => createMusicClient(options),
    /** The session that a new program finds. */
    stored: async () => (await createMusicClient(options).session()).value,
    pass,
    /** Lets time pass on both clocks, and on the fake timers of the test. */
    later: async (milliseconds: number) => {
      pass(milliseconds)
      await vi.advanceTimersByTimeAsync(milliseconds)
    },
    /** Sets the wall clock alone. */
    step: (milliseconds: number) => {
      wall += milliseconds
    }
  }
}

/** The same after a login, with nothing recorded. */
export const loggedIn = async (given: Partial<PromiseClientOptions> = {}, service = makeService()) => {
  const made = makeClient(given, service)
  // However short the deadline that a test gives to the client.
  expect(await made.client.login("oac_1", { deadlineMilliseconds: 60_000 })).toMatchObject({ ok: true })
  made.requests.length = 0
  made.events.length = 0
  return made
}

/** A call of the client: the last part of its path, and how it is made. */
export interface Method {
  readonly path: string
  readonly run: (client: Omit<MusicClient, "close">, options?: CallOptions) => Promise<Result<unknown>>
}

const named = <Name extends string>(all: Readonly<Record<Name, Method>>) => all

/** Every call that is a request. A refresh belongs to another call. */
export const methods = named({
  me: { path: "me", run: (client, options) => client.me(options) },
  subscribe: { path: "subscription", run: (client, options) => client.subscribe(options) },
  ting: { path: "tings", run: (client, options) => client.ting({ type: "t", key: "k", data: {} }, options) },
  report: { path: "reports", run: (client, options) => client.report({ message: "m" }, options) },
  iam: { path: "iam", run: (client, options) => client.iam(options) },
  version: { path: "version", run: (client, options) => client.version(options) },
  healthz: { path: "healthz", run: (client, options) => client.healthz(options) },
  readyz: { path: "readyz", run: (client, options) => client.readyz(options) },
  request: { path: "x", run: (client, options) => client.request("POST", "/x", options) },
  login: { path: "login", run: (client, options) => client.login("oac_2", options) },
  logout: { path: "logout", run: (client, options) => client.logout(options) }
})

/** A promise that the test resolves. */
export const gate = <A>() => {
  let open: (value: A) => void = () => undefined
  const opened = new Promise<A>((resolve) => {
    open = resolve
  })
  return { open, opened }
}

export const never = () => new Promise<never>(() => undefined)

/** A lock that is granted at once, as after it was broken. */
export const openLock: SessionLock = { acquire: async () => async () => undefined }

/** A store whose parts a test replaces. */
export const storeWith = (
  change: (inner: SessionStore) => Partial<SessionStore>,
  inner: SessionStore = memorySessionStore()
): SessionStore => ({ ...inner, ...change(inner) })

/** A system's error. */
export const systemError = (code: string) => Object.assign(new Error("m"), { code })

/** A session as a store keeps it. */
export const storedSession = (slot: string): StoredSession => ({
  ...pairOf(1),
  version: 1,
  slot,
  scope: "",
  obtained_at: 0,
  login_key: "key",
  ting: { subscribed: true }
})

/** The refusal of an option or parameter. */
export const refusal = (path: string) =>
  failed("invalid_input", undefined, { requestId: null, details: { fields: [{ path }] } })

/** A new folder for each test of a file. */
export const eachFolder = () => {
  let made: ReturnType<typeof scratch>
  beforeEach(() => {
    made = scratch()
  })
  afterEach(() => made.remove())
  return {
    get folder() {
      return made.path
    }
  }
}
