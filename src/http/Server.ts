import { createServer, type RequestListener, type Server, type ServerOptions } from "node:http"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpMiddleware from "@effect/platform/HttpMiddleware"
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServer from "@effect/platform/HttpServer"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as DefaultServices from "effect/DefaultServices"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Runtime from "effect/Runtime"
import * as Tracer from "effect/Tracer"
import type { Descriptors } from "../services/Descriptors.ts"
import type { Drain } from "../services/Drain.ts"
import type { Notifications } from "../services/Notifications.ts"
import type { BackendTelemetry } from "../services/BackendTelemetry.ts"
import type { Planes } from "../services/Planes.ts"
import type { Reports } from "../services/Reports.ts"
import type { Sessions } from "../services/Sessions.ts"
import { Settings } from "../services/Settings.ts"
import type { Telemetry } from "../services/Telemetry.ts"
import type { Webhooks } from "../services/Webhooks.ts"
import { Api } from "./Api.ts"
import { AuthLive } from "./handlers/Auth.ts"
import { DescriptorsLive } from "./handlers/Descriptors.ts"
import { DocumentLive } from "./handlers/Document.ts"
import { RequestGuard } from "./handlers/RequestGuard.ts"
import { ReportsLive } from "./handlers/Reports.ts"
import { SystemLive } from "./handlers/System.ts"
import { TelemetryLive } from "./handlers/Telemetry.ts"
import { TingsLive } from "./handlers/Tings.ts"
import { WebhooksLive } from "./handlers/Webhooks.ts"
import { unparsed } from "./middleware/AccessLog.ts"
import { Admission } from "./middleware/Admission.ts"
import { closingOf } from "./transport/GracefulShutdown.ts"
import { connectionsOf } from "./transport/Connections.ts"
import { RateLimits, type Policies } from "./middleware/RateLimits.ts"
import { pipeline } from "./middleware/Pipeline.ts"
import { type IncomingBodyLimits, IncomingBodies } from "./body/IncomingBodies.ts"
import { pathOf } from "./middleware/Routes.ts"
import { HeaderChecksLive } from "./middleware/HeaderChecks.ts"
import { answerSyntaxErrors } from "./transport/ClientErrors.ts"
import { DetachedWork } from "../services/DetachedWork.ts"

/** Where the server listens; with port 0 in the settings the system chose one. */
export class Listening extends Context.Tag("music/http/Listening")<
  Listening,
  { readonly host: string; readonly port: number; readonly url: string }
>() {}

/** The address could not be taken. */
export class ListenFailed extends Data.TaggedError("ListenFailed")<{ readonly reason: string }> {}

/** Exact paths, so that no spelling passes a proxy's path rules and still arrives. */
const routing = { caseSensitive: true, ignoreDuplicateSlashes: false, ignoreTrailingSlash: false }

/** Milliseconds and bytes. A host is demanded by the pipeline, whose answer is the envelope. */
const transport: ServerOptions = {
  maxHeaderSize: 16_384,
  headersTimeout: 15_000,
  requestTimeout: 60_000,
  keepAliveTimeout: 65_000,
  connectionsCheckingInterval: 5_000,
  requireHostHeader: false
}

const GroupsLive = Layer.mergeAll(
  SystemLive,
  DescriptorsLive,
  AuthLive,
  TingsLive,
  ReportsLive,
  TelemetryLive,
  WebhooksLive
).pipe(Layer.provide([RequestGuard.Default, HeaderChecksLive]))

const ApiLive = HttpApiBuilder.api(Api).pipe(
  Layer.provide([GroupsLive, DocumentLive, HttpApiBuilder.middleware(pipeline)])
)

/**
 * Spans cost a third of the throughput: without a tracer that exports them there are none. The library's own span of a
 * request would hold every header; the pipeline makes another.
 */
const traced = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(Effect.tracer, (tracer) =>
    tracer === Context.get(DefaultServices.liveServices, Tracer.Tracer)
      ? Effect.withTracerEnabled(effect, false)
      : effect
  ).pipe(Effect.locally(HttpMiddleware.currentTracerDisabledWhen, () => true))

/** No call reads a query, so nothing of it is kept: not for a span, not for a log. */
const withoutQuery =
  (listener: RequestListener): RequestListener =>
  (message, response) => {
    message.url = pathOf(message.url ?? "")
    return listener(message, response)
  }

const listen = (server: Server, host: string, port: number) =>
  Effect.async<{ readonly port: number }, ListenFailed>((resume) => {
    const onError = ({ message }: Error) =>
      resume(Effect.fail(new ListenFailed({ reason: `cannot listen on ${host}:${port}: ${message}` })))
    server.once("error", onError)
    server.listen({ host, port }, () => {
      server.off("error", onError)
      const address = server.address()
      resume(Effect.succeed({ port: typeof address === "object" && address !== null ? address.port : port }))
    })
  })

const urlOf = (host: string, port: number): string =>
  `http://${host.includes(":") ? `[${host}]` : host}:${port}`

const server = Effect.gen(function* () {
  const { bind, shutdownGraceSeconds } = yield* Settings
  const app = yield* HttpRouter.withRouterConfig(HttpApiBuilder.httpApp, routing)
  const runFork = Runtime.runFork(yield* Effect.runtime<never>())
  const node = createServer(transport)
  const connections = connectionsOf(node)
  const handler = connections.noting(withoutQuery(yield* traced(NodeHttpServer.makeHandler(app))))
  const close = yield* closingOf(node, connections, Duration.seconds(shutdownGraceSeconds))
  // A header beyond Node's own count would vanish, and a vanished plane selector would mean production.
  node.maxHeadersCount = 0
  // No listener for "upgrade": Node then takes such a request for what it asks besides, and keeps its connection.
  node.on("request", handler)
  // Expectations may be ignored (RFC 9110, 10.1.1); Node would answer 417 without a body.
  node.on("checkExpectation", handler)
  answerSyntaxErrors(node, connections, (facts) => {
    runFork(unparsed(facts))
  })
  const { port } = yield* Effect.acquireRelease(listen(node, bind.host, bind.port), () => close)
  const url = urlOf(bind.host, port)
  yield* Effect.logInfo("Listening", { url })
  return { host: bind.host, port, url }
})

/** Bounds that tests lower. */
export interface Bounds {
  /** Requests in flight. */
  readonly inFlight?: number
  readonly policies?: Policies
  /** Bodies that arrive at once. */
  readonly bodies?: IncomingBodyLimits
}

/** The server with other bounds than the default ones. */
export const httpServerWith = (
  bounds: Bounds
): Layer.Layer<
  Listening,
  ListenFailed,
  | Settings
  | Drain
  | Planes
  | Sessions
  | Notifications
  | Reports
  | Telemetry
  | Webhooks
  | Descriptors
  | BackendTelemetry
> =>
  Layer.scoped(Listening, server).pipe(
    Layer.provide(ApiLive),
    Layer.provide([HttpApiBuilder.Router.Live, HttpApiBuilder.Middleware.layer, HttpServer.layerContext]),
    Layer.provide([
      Admission.layer(bounds.inFlight),
      RateLimits.layer(bounds.policies),
      IncomingBodies.layer(bounds.bodies)
    ]),
    Layer.provide(DetachedWork.Default)
  )

/**
 * Listens on `Settings.bind` until its scope closes. Then: readiness fails, requests in flight are finished, late ones
 * on open connections are refused with `shutting_down`, and after the grace period every connection is cut.
 */
export const HttpServerLive = httpServerWith({})
