/** The wiring of the HTTP server: the contract with its handlers, what is around every request, Node. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpMiddleware from "@effect/platform/HttpMiddleware"
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { Api } from "./Api.ts"
import { AuthLive } from "./api/Auth.ts"
import { ReportsLive } from "./api/Reports.ts"
import { DescriptorsLive, SystemLive } from "./api/System.ts"
import { TelemetryLive } from "./api/Telemetry.ts"
import { TingsLive } from "./api/Tings.ts"
import { WebhooksLive } from "./api/Webhooks.ts"
import { DocumentsLive } from "./Documents.ts"
import { AnswersLive } from "./middleware/Answers.ts"
import { Calls } from "./middleware/Calls.ts"
import { RequestPlaces } from "./middleware/RequestPlaces.ts"
import { SentHeadersLive } from "./middleware/SentHeaders.ts"
import { Listening, serveNode } from "./transport/NodeServer.ts"

export { ListenFailed, Listening } from "./transport/NodeServer.ts"

const CallsLive = Layer.mergeAll(
  ...[SystemLive, DescriptorsLive, AuthLive, TingsLive, ReportsLive, TelemetryLive, WebhooksLive]
).pipe(Layer.provide([SentHeadersLive, Calls.Default]))

/** The parts of the application: endpoints, documents, and what is around them. */
export const application = Layer.mergeAll(HttpApiBuilder.api(Api), DocumentsLive, AnswersLive).pipe(
  Layer.provide(CallsLive),
  Layer.provideMerge(
    Layer.mergeAll(
      RequestPlaces.Default,
      HttpApiBuilder.Router.Live,
      HttpApiBuilder.Middleware.layer,
      NodeHttpServer.layerContext
    )
  )
)

/** The application as one effect for each request. */
export const httpApp = HttpApiBuilder.httpApp.pipe(
  // Paths are exact, also in case and slashes.
  Effect.locally(HttpRouter.currentRouterConfig, {
    caseSensitive: true,
    ignoreTrailingSlash: false,
    ignoreDuplicateSlashes: false
  })
)

/**
 * Serves without the library's span, which would have the query and all headers of a request, and without its log line about a failed
 * fiber, which would have text of a caller. `Answers` makes ours.
 */
export const quietly = <A, E, R>(serving: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  serving.pipe(
    HttpMiddleware.withTracerDisabledWhenEffect(() => true),
    Effect.withUnhandledErrorLogLevel(Option.none())
  )

/** The application as a listener of Node, for tests without sockets. */
export const makeListener = quietly(Effect.flatMap(httpApp, (app) => NodeHttpServer.makeHandler(app)))

/**
 * Listens on `Settings.bind` until its scope closes. Then readiness fails, requests in flight are finished, new ones on
 * open connections are refused with `shutting_down`, and at the end of the grace period every connection is cut.
 */
export const HttpServerLive = Layer.scoped(Listening, quietly(Effect.flatMap(httpApp, serveNode))).pipe(
  Layer.provide(application)
)
