/** The wiring of the HTTP server: groups of handlers, middleware, router, transport. */
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpMiddleware from "@effect/platform/HttpMiddleware"
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServer from "@effect/platform/HttpServer"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as Context from "effect/Context"
import * as DefaultServices from "effect/DefaultServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Tracer from "effect/Tracer"
import type { BackendTelemetry } from "../services/BackendTelemetry.ts"
import type { Descriptors } from "../services/Descriptors.ts"
import type { Readiness } from "../services/Readiness.ts"
import type { Drain } from "../services/Drain.ts"
import type { Notifications } from "../services/Notifications.ts"
import type { Planes } from "../services/Planes.ts"
import type { Reports } from "../services/Reports.ts"
import type { Sessions } from "../services/Sessions.ts"
import type { Settings } from "../services/Settings.ts"
import type { Telemetry } from "../services/Telemetry.ts"
import type { Webhooks } from "../services/Webhooks.ts"
import { Api } from "./Api.ts"
import { type ArrivingBodyLimits, ArrivingBodies } from "./body/ArrivingBodies.ts"
import { AuthLive } from "./handlers/Auth.ts"
import { DescriptorsLive } from "./handlers/Descriptors.ts"
import { DocumentLive } from "./handlers/Document.ts"
import { ReportsLive } from "./handlers/Reports.ts"
import { RequestGuard } from "./middleware/RequestGuard.ts"
import { SystemLive } from "./handlers/System.ts"
import { TelemetryLive } from "./handlers/Telemetry.ts"
import { TingsLive } from "./handlers/Tings.ts"
import { WebhooksLive } from "./handlers/Webhooks.ts"
import { Admission } from "./middleware/Admission.ts"
import { DetachedWork } from "../services/DetachedWork.ts"
import { HeaderChecksLive } from "./middleware/HeaderChecks.ts"
import { pipeline } from "./middleware/Pipeline.ts"
import { type Policies, RateLimits } from "./middleware/RateLimits.ts"
import { type ListenFailed, Listening, serveNode } from "./transport/NodeServer.ts"

export { ListenFailed, Listening } from "./transport/NodeServer.ts"

/** Exact paths: no other spelling may pass a proxy's path rules and still reach a call. */
const routing = { caseSensitive: true, ignoreDuplicateSlashes: false, ignoreTrailingSlash: false }

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
 * Turns tracing off when no tracer exports the spans, because spans cost a third of the throughput. The library's own
 * request span stays off in any case: it would contain every header, and `RequestTrace` makes another.
 */
const configureTracing = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(Effect.tracer, (tracer) =>
    tracer === Context.get(DefaultServices.liveServices, Tracer.Tracer)
      ? Effect.withTracerEnabled(effect, false)
      : effect
  ).pipe(Effect.locally(HttpMiddleware.currentTracerDisabledWhen, () => true))

const server = Effect.gen(function* () {
  const app = yield* HttpRouter.withRouterConfig(HttpApiBuilder.httpApp, routing)
  return yield* serveNode(yield* configureTracing(NodeHttpServer.makeHandler(app)))
})

/** Bounds that tests lower. */
export interface Bounds {
  /** Requests in flight. */
  readonly inFlight?: number
  readonly policies?: Policies
  /** Bodies that arrive at once. */
  readonly bodies?: ArrivingBodyLimits
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
  | Readiness
  | BackendTelemetry
> =>
  Layer.scoped(Listening, server).pipe(
    Layer.provide(ApiLive),
    Layer.provide([HttpApiBuilder.Router.Live, HttpApiBuilder.Middleware.layer, HttpServer.layerContext]),
    Layer.provide([
      Admission.layer(bounds.inFlight),
      RateLimits.layer(bounds.policies),
      ArrivingBodies.layer(bounds.bodies)
    ]),
    Layer.provide(DetachedWork.Default)
  )

/**
 * Listens on `Settings.bind` until its scope closes. Then readiness fails, requests in flight are finished, new ones on
 * open connections are refused with `shutting_down`, and at the end of the grace period every connection is cut.
 */
export const HttpServerLive = httpServerWith({})
