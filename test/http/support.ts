/** The real backend over upstreams in memory, in memory itself or on a socket. A test sees which use cases are reached, and may replace what one does. */
import { HttpClient } from "@effect/platform/HttpClient"
import {
  Context,
  Effect,
  FiberRef,
  HashMap,
  HashSet,
  Layer,
  Logger,
  LogLevel,
  Redacted,
  Struct,
  TestClock
} from "effect"
import { expect } from "vitest"
import { Listening, makeBackend, parts } from "../../src/Backend.ts"
import { Bounds } from "../../src/http/middleware/Bounds.ts"
import { application, HttpServerLive, makeListener } from "../../src/http/Server.ts"
import { bodyLimits } from "../../src/schema/BodyLimits.ts"
import { type Failure, type FailureCode, failureTable } from "../../src/schema/Failure.ts"
import { securityHeaders } from "../../src/schema/Envelope.ts"
import { clientTables } from "../../src/schema/Telemetry.ts"
import { Drain } from "../../src/services/Drain.ts"
import { Notifications } from "../../src/services/usecases/Notifications.ts"
import { Production } from "../../src/services/Plane.ts"
import { Readiness } from "../../src/services/usecases/Readiness.ts"
import { Reports } from "../../src/services/usecases/Reports.ts"
import { RequestContext, type RequestInfo } from "../../src/services/RequestContext.ts"
import { Sessions } from "../../src/services/usecases/Sessions.ts"
import { Settings } from "../../src/services/Settings.ts"
import { Store } from "../../src/services/Store.ts"
import { Telemetry } from "../../src/services/usecases/Telemetry.ts"
import { Webhooks } from "../../src/services/usecases/Webhooks.ts"
import { production } from "../../sandbox/upstreams/Iam.ts"
import { type Around, aroundCalls } from "../world/Around.ts"
import { makeHold } from "../world/FaultSwitches.ts"
import { answer } from "../world/Faults.ts"
import { inMemory as withoutSockets, type SendFrom } from "../world/InMemory.ts"
import * as SimulatedTables from "../world/SimulatedTables.ts"
import { type SettingsOverrides, testSettings } from "../world/Settings.ts"
import * as TestStore from "../world/TestStore.ts"
import { start } from "../world/UseCaseLayers.ts"
import { until } from "../world/Waiting.ts"
import { withoutDelivery } from "../world/World.ts"
import { type Answer, json as jsonHeaders, post, requests as calls } from "../world/Driver.ts"
import { answerOf, openPeer, openRaw } from "../world/RawHttp.ts"
import { origins, testUpstreams } from "../world/Upstreams.ts"

/** Run in a use case before it. One that returns a value replaces the use case. */
type During = Record<string, Effect.Effect<unknown, Failure>>

/** A use case that was reached: its name, its parameters. */
export interface Reached {
  readonly useCase: string
  readonly input: ReadonlyArray<unknown>
  readonly info: RequestInfo
}

interface LogLine {
  readonly level: string
  readonly message: string
  readonly fields: Readonly<Record<string, unknown>>
  readonly cause: string
}

export interface Options {
  readonly bounds?: Partial<Context.Tag.Service<Bounds>>
  readonly settings?: SettingsOverrides
  readonly during?: During
  /** Of another server, as after a restart. */
  readonly stores?: Context.Context<Store | TestStore.StoreSwitches>
}

export interface Sent {
  readonly method?: string
  readonly path: string
  /** A list of values repeats a header. */
  readonly headers?: Readonly<Record<string, string | ReadonlyArray<string>>>
  readonly body?: string
  /** On a socket only: chunks instead of a declared length. */
  readonly chunks?: ReadonlyArray<string>
  /** In memory only: the address of the client. */
  readonly from?: string
}

const spyOn = <I, S extends object>(tag: Context.Tag<I, S>, watch: Around<unknown, unknown>) =>
  Layer.effect(
    tag,
    Effect.map(tag, (real) => aroundCalls(real, watch))
  )

const recorder = (lines: Array<LogLine>) =>
  Logger.make<unknown, void>(({ logLevel, message, annotations, cause }) => {
    const said = Array.isArray(message) ? message : [message]
    lines.push({
      level: logLevel.label,
      message: said.filter((part) => typeof part === "string").join(" "),
      fields: {
        ...Object.fromEntries(HashMap.toEntries(annotations)),
        ...Object.assign({}, ...said.filter((part) => typeof part === "object"))
      },
      cause: String(cause)
    })
  })

class Inside extends Context.Tag("test/http/Inside")<Inside, Effect.Effect.Success<typeof insides>>() {}
const insides = Effect.all({ drain: Drain, sessions: Sessions })

/** A refusal of IAM in place of its own answer. */
export const refusal = (status: number, code: string, headers: Readonly<Record<string, string>> = {}) =>
  answer("before", status, { error: { code, message: code } }, headers)

const prepared: RequestInfo = {
  requestId: "prepared",
  source: "unknown",
  recording: false,
  clientNetwork: "192.0.2.99",
  deadlineAt: Number.POSITIVE_INFINITY
}

const makeWith = <S, E, R>(options: Options, server: Layer.Layer<S, E, R>) =>
  Effect.gen(function* () {
    // At first: set later, the background workers would run through every second since 1970.
    const clock = yield* Effect.clock
    if ("adjust" in clock && clock.unsafeCurrentTimeMillis() < start) yield* TestClock.setTime(start)
    const reached: Array<Reached> = []
    const lines: Array<LogLine> = []
    const during: During = { ...options.during }
    const upstreams = yield* testUpstreams
    const watch: Around<unknown, unknown> = (made, useCase, input) =>
      Effect.flatMap(RequestContext, (info) => {
        reached.push({ useCase, input, info })
        return Effect.flatMap(during[useCase] ?? Effect.void, (instead) =>
          instead === undefined ? made : Effect.succeed(instead)
        )
      })
    const spies = Layer.mergeAll(
      spyOn(Sessions, watch),
      spyOn(Notifications, watch),
      spyOn(Reports, watch),
      spyOn(Telemetry, watch),
      spyOn(Webhooks, watch),
      spyOn(Readiness, watch)
    )
    const inside = Layer.effect(Inside, insides)
    const stores = options.stores ?? (yield* Layer.build(TestStore.layer))
    const store = Context.get(stores, Store)
    const settings = testSettings({
      ...options.settings,
      // No limit of calls to IAM: the tests of its budget are elsewhere.
      iam: { url: origins.iam, callsPerMinute: 1_000_000, ...options.settings?.iam },
      ting: { url: origins.ting, ...options.settings?.ting }
    })
    const context = yield* Layer.build(
      makeBackend({
        transport: Layer.succeed(HttpClient, upstreams.client),
        store: Layer.succeed(Store, store),
        tables: SimulatedTables.layer(clientTables),
        tracker: parts.tracker,
        tracing: parts.tracing,
        delivery: withoutDelivery,
        server: Layer.merge(
          server.pipe(
            Layer.provide(spies),
            Layer.provide(
              Layer.effect(
                Bounds,
                Effect.map(Bounds, (bounds) => ({ ...bounds, ...options.bounds }))
              )
            ),
            Layer.provide(Logger.minimumLogLevel(LogLevel.All)),
            // Instead of standard output.
            Layer.locally(FiberRef.currentLoggers, HashSet.make(recorder(lines)))
          ),
          inside
        )
      }).pipe(Layer.provide(Layer.succeed(Settings, settings)))
    )
    const { drain, sessions } = Context.get(context, Inside)

    let keys = 0
    /** A session of a person, made past the HTTP server. */
    const login = (actor = "si:deejay") =>
      Effect.suspend(() => {
        keys += 1
        const slt = upstreams.iam.controls.mintSlt(production, { appId: "music", actor })
        const key = `prepared-key-${String(keys).padStart(8, "0")}`
        return sessions.login(Production(), { token: Redacted.make(slt), key: Redacted.make(key) })
      }).pipe(
        Effect.provideService(RequestContext, prepared),
        Logger.withMinimumLogLevel(LogLevel.None),
        Effect.orDie
      )
    const switches = Context.get(stores, TestStore.StoreSwitches)
    return { context, reached, lines, during, upstreams, drain, login, stores, store: switches }
  })

export interface Backend extends Omit<Effect.Effect.Success<ReturnType<typeof makeWith>>, "context"> {
  /** 0 in memory. */
  readonly port: number
  readonly send: (sent: Sent) => Effect.Effect<Answer>
}

/** Sends on a connection of its own. */
const sendTo = (port: number, sent: Sent): Effect.Effect<Answer> =>
  Effect.acquireUseRelease(
    Effect.promise(() => openRaw(port)),
    (connection) =>
      Effect.promise(async () => {
        const pieces = [Buffer.from(textOf(sent))]
        const { answers, fault } = await connection.exchange({ pieces, methods: [methodOf(sent)] })
        return answerOf(answers[0], fault)
      }),
    (connection) => Effect.sync(() => connection.close())
  )

const methodOf = ({ body, chunks, method }: Sent): string =>
  method ?? (body === undefined && chunks === undefined ? "GET" : "POST")

/** The backend on a socket, for as long as the scope lives. */
export const backend = (options: Options = {}) =>
  Effect.map(makeWith(options, HttpServerLive), ({ context, ...made }): Backend => {
    const { port } = Context.get(context, Listening)
    return { ...made, port, send: (sent) => sendTo(port, sent) }
  })

class InMemoryServer extends Context.Tag("test/InMemoryServer")<InMemoryServer, SendFrom>() {}

const inMemoryServer = Layer.provide(
  Layer.scoped(InMemoryServer, Effect.map(makeListener, withoutSockets)),
  application
)

/** The backend without a socket. */
export const inMemory = (options: Options = {}) =>
  Effect.map(makeWith(options, inMemoryServer), ({ context, ...made }): Backend => {
    const sendFrom = Context.get(context, InMemoryServer)
    const send = ({ body, from = "127.0.0.1", headers, ...sent }: Sent) =>
      Effect.promise(() =>
        sendFrom(from, {
          ...sent,
          // A list of values repeats a header, as on a socket.
          headers: { ...headers } as Record<string, string>,
          ...(body === undefined ? {} : { body: Buffer.from(body) })
        })
      )
    return { ...made, port: 0, send }
  })

export class Shared extends Context.Tag("test/http/Shared")<Shared, Backend>() {}

/** One server for the tests of a group. */
export const sharedInMemory = (options: Options = {}) => Layer.scoped(Shared, inMemory(options))
export const sharedOnSocket = (options: Options = {}) => Layer.scoped(Shared, backend(options))

/** The server of the group, its records and `during` empty. */
export const shared = Effect.tap(Shared, (server) =>
  Effect.sync(() => {
    for (const list of [server.reached, server.lines, server.upstreams.calls]) list.length = 0
    for (const useCase of Struct.keys(server.during)) delete server.during[useCase]
    server.upstreams.heal()
  })
)

/** The body of every error. */
interface ErrorBody {
  readonly code: string
  readonly message: string
  readonly hint: string
  readonly retryable: boolean
  readonly details?: {
    readonly fields?: ReadonlyArray<{ readonly path: string; readonly problem: string }>
  }
}

export const json = (answer: Answer): unknown => JSON.parse(answer.text)
// Tests assert the parts that they read.
export const errorOf = (answer: Answer): ErrorBody =>
  (JSON.parse(answer.text) as { readonly error: ErrorBody }).error
/** The status of a success, the code of a failure. */
export const outcomeOf = (answer: Answer): number | string =>
  answer.status < 400 ? answer.status : errorOf(answer).code

/** The form of every error. */
export const expectEnvelope = (answer: Answer, status: number, code: string): void => {
  expect([answer.status, errorOf(answer).code]).toEqual([status, code])
  expect(answer.headers["content-type"]).toBe("application/json")
  expect(answer.headers["cache-control"]).toBe("no-store")
  expect(answer.headers).toMatchObject(securityHeaders)
  expect(answer.headers["x-request-id"]).toMatch(/^[A-Za-z0-9._-]{8,128}$/)
  expect(Object.keys(JSON.parse(answer.text))).toEqual(["error"])
  expect(errorOf(answer)).toMatchObject({
    message: expect.stringMatching(/\S/),
    hint: expect.stringMatching(/\S/),
    // An unknown code has no row.
    retryable: failureTable[code as FailureCode].retryable
  })
}

/** The use cases that were reached. A plane is resolved before them. */
export const used = ({ reached }: Pick<Backend, "reached">): ReadonlyArray<string> =>
  reached.map(({ useCase }) => useCase).filter((name) => name !== "resolvePlane")

export const requestLines = ({ lines }: Pick<Backend, "lines">): ReadonlyArray<LogLine> =>
  lines.filter(({ message }) => message === "Request")

/** The bytes of a request. */
export const textOf = ({ headers = {}, ...sent }: Sent): string => {
  const { body = "", chunks } = sent
  const framing =
    chunks !== undefined
      ? { "transfer-encoding": "chunked" }
      : body === ""
        ? {}
        : { "content-length": `${Buffer.byteLength(body)}` }
  const lines = Object.entries({ host: "a", ...framing, ...headers }).flatMap(([name, values]) =>
    [values].flat().map((value) => `${name}: ${value}`)
  )
  const filled = chunks?.filter((chunk) => chunk !== "") ?? []
  const written = filled.map((chunk) => `${Buffer.byteLength(chunk).toString(16)}\r\n${chunk}\r\n`)
  const content = chunks === undefined ? body : `${written.join("")}0\r\n\r\n`
  return [`${methodOf(sent)} ${sent.path} HTTP/1.1`, ...lines, "", content].join("\r\n")
}

/** A use case that waits until the test releases it. */
export const makeGate = Effect.gen(function* () {
  const { held, paused } = yield* makeHold
  const state = { finished: false, interrupted: false }
  const note = (end: keyof typeof state) => () =>
    Effect.sync(() => {
      state[end] = true
    })
  const body = paused.pipe(Effect.tap(note("finished")), Effect.onInterrupt(note("interrupted")))
  return { ...held, body, state }
})

/** Writes bytes on a socket of its own and reads until the server closes it. */
export const raw = ({ port }: { readonly port: number }, text: string | Uint8Array): Effect.Effect<string> =>
  Effect.scoped(
    Effect.flatMap(openPeer(port, text, false), (peer) =>
      Effect.map(
        until(() => peer.socket.closed),
        () => peer.text()
      )
    )
  )

let keys = 0
/** The header with a key that was never used. */
export const freshKey = () => {
  keys += 1
  return { "idempotency-key": `fresh-key-${String(keys).padStart(20, "0")}` }
}

export const message = "Playback stops after a seek."

const newKey = () => freshKey()["idempotency-key"]
/** Requests with the given credentials. */
export const requests = {
  login: (slt: string, key = newKey()) => calls.login(slt, key),
  refresh: (token: string, key = newKey()) => calls.refresh(token, key),
  logout: (token: string, key = newKey()) => calls.logout(token, key),
  me: (token: string) => calls.me(token),
  send: (token: string, key = "si:deejay/1") => calls.ting(token, key),
  report: (headers: Readonly<Record<string, string>> = {}) =>
    post("/api/v1/reports", { message }, { ...freshKey(), ...headers })
}

/** A delivery as IAM signs it now. */
export const deliveryOf = ({ iam: { controls } }: Backend["upstreams"]) => {
  const event = controls.events.membershipUpdated(production, "si:lyra", "acme")
  const { body, headers } = controls.buildWebhook(production, event)
  const signed = Object.entries({ ...headers, ...jsonHeaders }).map(([name, value]) => [
    name.toLowerCase(),
    value
  ])
  const lower: Readonly<Record<string, string>> = Object.fromEntries(signed)
  return { method: "POST", path: "/webhook", headers: lower, body: body.toString() }
}

/** A request of every call that succeeds, also when it is repeated. */
export const goodRequests = ({ login, upstreams }: Pick<Backend, "login" | "upstreams">) =>
  Effect.gen(function* () {
    const key = newKey()
    const [polling, refreshing, leaving] = [yield* login(), yield* login(), yield* login()]
    const { controls } = upstreams.iam
    const slt = controls.mintSlt(production, { appId: "music", actor: "si:deejay" })
    return {
      healthz: { path: "/healthz" },
      readyz: { path: "/readyz" },
      iam: { path: "/api/v1/iam" },
      version: { path: "/api/v1/version" },
      login: requests.login(slt, key),
      refresh: requests.refresh(refreshing.refresh_token, key),
      logout: requests.logout(leaving.refresh_token, key),
      me: requests.me(polling.access_token),
      subscribe: calls.subscribe(polling.access_token),
      send: requests.send(polling.access_token),
      submit: requests.report({ "idempotency-key": key }),
      accept: calls.telemetry([{ type: "x" }]),
      receive: deliveryOf(upstreams)
    } satisfies Record<string, Sent>
  })

const { report: submit, small, telemetry: accept, ting: send, webhook: receive } = bodyLimits
/** Calls with a body, and its bound in bytes. */
export const bounds = {
  ...{ login: small, refresh: small, logout: small, subscribe: small },
  ...{ send, submit, accept, receive }
} as const

export type CallName = keyof Effect.Effect.Success<ReturnType<typeof goodRequests>>

type Change = (sent: Sent) => Sent

/** Changes headers; undefined removes one. */
export const withHeaders =
  (changes: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>): Change =>
  ({ headers = {}, ...sent }) => ({
    ...sent,
    headers: Object.fromEntries(
      Object.entries({ ...headers, ...changes }).flatMap(([name, value]) =>
        value === undefined ? [] : [[name, value]]
      )
    )
  })
