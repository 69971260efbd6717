/** The real server on a real socket, with stubs of the use cases that record every call. */
import { Agent, request as httpRequest, type IncomingHttpHeaders, type OutgoingHttpHeaders } from "node:http"
import { connect } from "node:net"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HashMap from "effect/HashMap"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import * as Struct from "effect/Struct"
import type * as Tracer from "effect/Tracer"
import { type Bounds, httpServerWith, Listening } from "../../src/http/Server.ts"
import type { Failure } from "../../src/schema/Failure.ts"
import { NotReady } from "../../src/schema/Failure.ts"
import { requestedScopes } from "../../src/schema/Identity.ts"
import { version } from "../../src/schema/Release.ts"
import type { Caller } from "../../src/services/RequestCredentials.ts"
import type { WebhookEvent } from "../../src/services/Iam.ts"
import { Descriptors } from "../../src/services/Descriptors.ts"
import { Readiness } from "../../src/services/Readiness.ts"
import { Drain } from "../../src/services/Drain.ts"
import { Notifications } from "../../src/services/Notifications.ts"
import { BackendTelemetry } from "../../src/services/BackendTelemetry.ts"
import { type Plane, Production, Testing } from "../../src/services/Plane.ts"
import { Planes } from "../../src/services/Planes.ts"
import { Reports } from "../../src/services/Reports.ts"
import { RequestContext, type RequestInfo } from "../../src/services/RequestContext.ts"
import { Sessions } from "../../src/services/Sessions.ts"
import { Settings } from "../../src/services/Settings.ts"
import { Telemetry } from "../../src/services/Telemetry.ts"
import { Webhooks } from "../../src/services/Webhooks.ts"
import { type SettingsOverrides, testSettings } from "../support/Settings.ts"

export const accessToken = `oat_${"a".repeat(40)}`
export const refreshToken = `ort_${"r".repeat(40)}`
export const testingSecret = `ask_${"t".repeat(43)}`
export const idempotencyKey = "0123456789abcdef"
export const environmentId = "0199a0cc-0000-7000-8000-000000000001"

const actor = { type: "silicon", public_id: "si:deejay" } as const

export const session = {
  access_token: accessToken,
  refresh_token: refreshToken,
  token_type: "Bearer",
  expires_in: 1800,
  scope: requestedScopes.join(" "),
  actor,
  org_id: "acme",
  org_ids: ["acme"],
  testing_environment_id: null
} as const

const callerOf = (token: string, organisation: string): Caller => {
  const membership = {
    organisation,
    organisationUuid: "0199a0aa-0000-7000-8000-000000000001",
    membershipId: `si:deejay[${organisation}]`,
    scopes: requestedScopes,
    actor: Option.some(actor)
  }
  return {
    credential: { token: Redacted.make(token), organisation },
    actor,
    membership,
    introspection: {
      publicId: Option.some(actor.public_id),
      sessionId: "0199a0dd-0000-7000-8000-000000000001",
      expiresAt: 1_800,
      answeredAt: 0,
      memberships: [membership]
    }
  }
}

export type UseCase =
  | "resolve"
  | "authenticate"
  | "login"
  | "refresh"
  | "logout"
  | "me"
  | "subscribe"
  | "send"
  | "submit"
  | "accept"
  | "receive"
  | "readiness"

/** Effects that run inside a use case before its ordinary answer. */
type During = Partial<Record<UseCase, Effect.Effect<unknown, Failure>>>

/** A use case that was reached. */
export interface Reached {
  readonly useCase: UseCase
  readonly input: unknown
  readonly info: RequestInfo
}

export interface LogLine {
  readonly level: string
  readonly message: string
  readonly fields: Readonly<Record<string, unknown>>
  readonly cause: string
}

export interface Options extends Bounds {
  readonly settings?: SettingsOverrides
  readonly tracer?: Tracer.Tracer
  /** Makes `me` return a value that its schema does not allow. */
  readonly breaking?: boolean
  readonly during?: During
}

export interface Backend {
  readonly port: number
  readonly reached: Array<Reached>
  readonly lines: Array<LogLine>
  readonly events: Array<{ readonly kind: string; readonly fields: Readonly<Record<string, unknown>> }>
  /** A test may change it while the server runs. */
  readonly during: During
  readonly drain: Context.Tag.Service<typeof Drain>
}

/** What the stub makes of every delivery, which it keeps as the event's data. */
const verified: WebhookEvent = {
  plane: { _tag: "Production" },
  eventId: "0199a0c4-5e2b-7a10-8c3d-1f2e3d4c5b6a",
  eventType: "session.logout.v1",
  occurredAt: "2026-11-21T10:00:01Z",
  organisationUuid: Option.none(),
  aggregate: { type: "authentication_session", id: "0199a0dd-0000-7000-8000-000000000001", version: 1 },
  data: {}
}

const standIns = (
  { breaking = false }: Options,
  { during, events, reached }: Pick<Backend, "during" | "events" | "reached">
) => {
  const note = <A>(useCase: UseCase, input: unknown, answer: A): Effect.Effect<A, Failure> =>
    Effect.gen(function* () {
      reached.push({ useCase, input, info: yield* RequestContext })
      yield* during[useCase] ?? Effect.void
      return answer
    })
  const planeOf = (selector: Option.Option<Redacted.Redacted>): Plane =>
    Option.match(selector, {
      onNone: () => Production(),
      onSome: (secret) => Testing({ environmentId, secret, webhookKeyDigest: undefined })
    })
  const authenticate: Sessions["authenticate"] = (plane, credential) =>
    note(
      "authenticate",
      { plane, credential },
      callerOf(Redacted.value(credential.token), credential.organisation)
    )
  return Layer.mergeAll(
    Layer.succeed(
      Planes,
      Planes.make({
        resolve: (selector) =>
          Option.isNone(selector)
            ? Effect.succeed(Production())
            : note("resolve", selector, planeOf(selector))
      })
    ),
    Layer.succeed(
      Sessions,
      Sessions.make({
        authenticate,
        authenticateOnce: (plane, credential) => authenticate(plane, credential),
        login: (plane, input) =>
          note("login", { plane, ...input }, { ...session, ting: { subscribed: true } }),
        refresh: (plane, input) => note("refresh", { plane, ...input }, session),
        logout: (plane, input) => note("logout", { plane, ...input }, undefined),
        me: (plane, caller) =>
          note(
            "me",
            { plane, caller },
            {
              authenticated: true,
              actor,
              org_id: breaking ? "Not An Organisation" : caller.membership.organisation,
              membership_id: caller.membership.membershipId,
              session_id: caller.introspection.sessionId,
              scopes: [...caller.membership.scopes],
              ting_ready: true,
              testing_environment_id: null
            }
          )
      })
    ),
    Layer.succeed(
      Notifications,
      Notifications.make({
        subscribe: (plane, caller) =>
          note(
            "subscribe",
            { plane, caller },
            {
              id: "sub_1",
              app_id: "music",
              for: caller.actor.public_id,
              active: true
            }
          ),
        send: (plane, caller, request) =>
          note(
            "send",
            { plane, caller, request },
            {
              id: "msg_1",
              created_at: "2026-09-24T08:15:30.412907Z",
              key: request.key,
              silent: false,
              replayed: false
            }
          )
      })
    ),
    Layer.succeed(
      Reports,
      Reports.make({
        submit: (plane, input) =>
          note(
            "submit",
            { plane, ...input },
            {
              id: "rep_1",
              status: "stored",
              issue_url: null,
              reporter: null,
              created_at: "2026-09-24T08:15:30.412Z",
              replayed: false
            }
          )
      })
    ),
    Layer.succeed(
      Telemetry,
      Telemetry.make({ accept: (plane, input) => note("accept", { plane, ...input }, undefined) })
    ),
    Layer.succeed(
      Webhooks,
      Webhooks.make({
        verify: (delivery) => Effect.succeed({ ...verified, data: delivery }),
        receive: (event) => note("receive", event, { received: true })
      })
    ),
    Layer.effect(
      Readiness,
      Effect.map(Drain, ({ isDraining }) =>
        Readiness.make({
          check: Effect.suspend(() =>
            isDraining()
              ? Effect.fail(new NotReady({ details: { checks: { serving: "failed" } } }))
              : Effect.orDie(note("readiness", undefined, { status: "ready", checks: { database: "ok" } }))
          )
        })
      )
    ),
    Layer.succeed(
      Descriptors,
      Descriptors.make({
        version: Effect.succeed({ version, api_versions: ["v1"], min_cli: "0.1.0" }),
        iam: (plane) =>
          Effect.succeed({
            app_id: "music",
            org_id: "music",
            api_version: "v1",
            iam_url: "https://iam.example",
            ting_url: "https://ting.example",
            testing_environment_id: plane._tag === "Testing" ? plane.environmentId : null,
            ting_types: ["music.trigger.fired"],
            scopes: requestedScopes,
            version
          })
      })
    ),
    Layer.succeed(
      BackendTelemetry,
      BackendTelemetry.make({
        recordNow: (event, { recording }) => {
          if (recording) events.push(event)
        },
        record: (event) =>
          Effect.map(RequestContext, ({ recording }) => {
            if (recording) events.push(event)
          }),
        recordOutcome: () => (effect) => effect,
        flush: Effect.void
      })
    )
  )
}

const recorder = (lines: Array<LogLine>) =>
  Logger.replace(
    Logger.defaultLogger,
    Logger.make(({ logLevel, message, annotations, cause }) => {
      const parts = Array.isArray(message) ? message : [message]
      lines.push({
        level: logLevel.label,
        message: parts.filter((part) => typeof part === "string").join(" "),
        fields: {
          ...Object.fromEntries(HashMap.toEntries(annotations)),
          ...Object.assign({}, ...parts.filter((part) => typeof part === "object"))
        },
        cause: String(cause)
      })
    })
  )

/** Starts the server for as long as the scope lives. */
export const backend = (options: Options = {}) =>
  Effect.gen(function* () {
    const reached: Array<Reached> = []
    const lines: Array<LogLine> = []
    const events: Backend["events"] = []
    const during: During = { ...options.during }
    const context = yield* Layer.build(
      httpServerWith(options).pipe(
        Layer.provide(standIns(options, { during, events, reached })),
        Layer.provideMerge(Drain.Default),
        Layer.provide(Layer.succeed(Settings, testSettings(options.settings))),
        Layer.provide(Layer.merge(recorder(lines), Logger.minimumLogLevel(LogLevel.All))),
        Layer.provide(
          options.tracer === undefined ? Layer.setTracerEnabled(false) : Layer.setTracer(options.tracer)
        )
      )
    )
    const { port } = Context.get(context, Listening)
    const made: Backend = { port, reached, lines, events, during, drain: Context.get(context, Drain) }
    return made
  })

const shared = new Map<string, Promise<Backend>>()

/**
 * The server with these settings and the real clock, started once per process, because a start takes longer than most
 * tests. Its records and `during` begin empty.
 */
export const sharedBackendWith = (settings: SettingsOverrides) =>
  Effect.map(
    Effect.promise(() => {
      const name = JSON.stringify(settings)
      const server =
        shared.get(name) ??
        Effect.runPromise(Scope.extend(backend({ settings }), Effect.runSync(Scope.make())))
      shared.set(name, server)
      return server
    }),
    (server) => {
      for (const list of [server.reached, server.lines, server.events]) list.length = 0
      for (const useCase of Struct.keys(server.during)) delete server.during[useCase]
      return server
    }
  )

export const sharedBackend = sharedBackendWith({})

export interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

/** The body of every error. */
export interface ErrorBody {
  readonly error: {
    readonly code: string
    readonly message: string
    readonly hint: string
    readonly retryable: boolean
    readonly details?: {
      readonly fields?: ReadonlyArray<{ readonly path: string; readonly problem: string }>
    }
  }
}

export const json = (answer: Answer): unknown => JSON.parse(answer.text)
// Tests assert the parts that they read.
export const errorOf = (answer: Answer): ErrorBody["error"] => (JSON.parse(answer.text) as ErrorBody).error

export interface Sent {
  readonly method?: string
  readonly path: string
  /** A list `[name, value, …]` keeps repetitions. */
  readonly headers?: OutgoingHttpHeaders | ReadonlyArray<string>
  readonly body?: string | Uint8Array
  /** Chunks instead of a declared length. */
  readonly chunks?: ReadonlyArray<string | Uint8Array>
}

/** Reuses connections: opening one takes longer than most requests. */
const agent = new Agent({ keepAlive: true })

const toAnswer = (sent: Sent, port: number): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const request = httpRequest(
      {
        host: "127.0.0.1",
        port,
        method: sent.method ?? (sent.body === undefined && sent.chunks === undefined ? "GET" : "POST"),
        path: sent.path,
        agent,
        headers: (Array.isArray(sent.headers)
          ? ["Host", `127.0.0.1:${port}`, ...sent.headers]
          : sent.headers) as OutgoingHttpHeaders
      },
      (response) => {
        const parts: Array<Buffer> = []
        response.on("data", (part: Buffer) => parts.push(part))
        response.on("error", reject)
        response.on("end", () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            text: Buffer.concat(parts).toString("utf8")
          })
        )
      }
    )
    request.on("error", reject)
    if (sent.chunks === undefined) {
      if (sent.body !== undefined) request.setHeader("content-length", Buffer.byteLength(sent.body))
      request.end(sent.body)
      return
    }
    for (const chunk of sent.chunks) request.write(chunk)
    request.end()
  })

export const call = (backend: Pick<Backend, "port">, sent: Sent): Effect.Effect<Answer> =>
  Effect.promise(() => toAnswer(sent, backend.port))

/** Writes bytes on a socket of its own and reads until the server closes it. */
export const raw = (backend: Pick<Backend, "port">, text: string | Uint8Array): Effect.Effect<string> =>
  Effect.promise(
    () =>
      new Promise<string>((resolve) => {
        const socket = connect(backend.port, "127.0.0.1", () => socket.write(text))
        const parts: Array<Buffer> = []
        socket.on("data", (part) => parts.push(part))
        socket.on("error", () => {})
        socket.on("close", () => resolve(Buffer.concat(parts).toString("utf8")))
      })
  )

/** An answer read by `raw`. */
export const parseRaw = (text: string): Answer => {
  const [head = "", ...rest] = text.split("\r\n\r\n")
  const [status = "", ...lines] = head.split("\r\n")
  return {
    status: Number(status.split(" ")[1]),
    headers: Object.fromEntries(
      lines.map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 2)])
    ),
    text: rest.join("\r\n\r\n")
  }
}

export const jsonHeaders = { "content-type": "application/json" }
export const keyed = { ...jsonHeaders, "idempotency-key": idempotencyKey }
export const bearer = { authorization: `Bearer ${accessToken}`, "x-org-id": "acme" }

/** A well-formed request of every call. */
export const good = {
  healthz: { method: "GET", path: "/healthz" },
  readyz: { method: "GET", path: "/readyz" },
  iam: { method: "GET", path: "/api/v1/iam" },
  version: { method: "GET", path: "/api/v1/version" },
  login: { method: "POST", path: "/api/v1/auth/login", headers: keyed, body: `{"slt":"oac_1"}` },
  refresh: {
    method: "POST",
    path: "/api/v1/auth/refresh",
    headers: keyed,
    body: JSON.stringify({ refresh_token: refreshToken })
  },
  logout: {
    method: "POST",
    path: "/api/v1/auth/logout",
    headers: keyed,
    body: JSON.stringify({ token: refreshToken })
  },
  me: { method: "GET", path: "/api/v1/auth/me", headers: bearer },
  subscribe: {
    method: "POST",
    path: "/api/v1/ting/subscription",
    headers: { ...jsonHeaders, ...bearer },
    body: "{}"
  },
  send: {
    method: "POST",
    path: "/api/v1/tings",
    headers: { ...jsonHeaders, ...bearer },
    body: JSON.stringify({ type: "music.trigger.fired", key: "si:deejay/1", data: {} })
  },
  submit: {
    method: "POST",
    path: "/api/v1/reports",
    headers: keyed,
    body: JSON.stringify({ message: "Playback stops after a seek." })
  },
  accept: {
    method: "POST",
    path: "/api/v1/telemetry",
    headers: jsonHeaders,
    body: JSON.stringify({ table: "musicclidaemon", events: [{ type: "x" }] })
  },
  receive: { method: "POST", path: "/webhook/", headers: jsonHeaders, body: "{}" }
} as const satisfies Record<string, Sent>

export type CallName = keyof typeof good
