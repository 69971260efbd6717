/** Clients of a service with clocks that only the test moves. Everything goes through the public faces of the client. */
import { afterEach, beforeEach, expect, vi } from "vitest"
import {
  type CallOptions,
  type ClientEvent,
  createMusicClient,
  type MusicClient,
  memorySessionStore,
  type PromiseClientOptions,
  type Result,
  type SessionStore,
  type StoredSession
} from "../../../client/index.ts"
import { createTelemetry, type TelemetryOptions } from "../../../client/telemetry.ts"
import { scratch } from "../../world/Fleet.ts"
import { makeService, pairOf } from "./Service.ts"

export const ok = { ok: true }

/** The result of a call that failed with this code, and with this reason of its details. */
export const failed = (code: string, reason?: string, more: object = {}) => ({
  ok: false,
  error: { code, ...(reason !== undefined && { details: { reason } }), ...more }
})

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
export const loggedIn = async (given: Partial<PromiseClientOptions> = {}) => {
  const made = makeClient(given)
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
