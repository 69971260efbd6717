/** The small server for operators: `/metrics` and `/healthz`, on an address of its own. */
import { createServer } from "node:http"
import * as HttpMiddleware from "@effect/platform/HttpMiddleware"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import {
  DependencyUnavailable,
  type Failure,
  failureHeaders,
  failureStatus,
  Internal,
  MethodNotAllowed,
  NotFound,
  toEnvelope
} from "../../schema/Failure.ts"
import { version } from "../../schema/Release.ts"
import { isLoopback } from "../../services/Loopback.ts"
import { resolveRequestId } from "../../services/RequestId.ts"

/** The address could not be taken. */
export class AdminListenFailed extends Data.TaggedError("AdminListenFailed")<{ readonly reason: string }> {}

/** Prometheus' text format. */
const textFormat = "text/plain; version=0.0.4; charset=utf-8"

const health = HttpServerResponse.unsafeJson({ status: "ok", service: "music-backend", version })

const responseOf = (failure: Failure): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.text(JSON.stringify(toEnvelope(failure)), {
    status: failureStatus(failure),
    contentType: "application/json",
    headers: failureHeaders(failure)
  })

const uncollected = () =>
  new DependencyUnavailable({
    message: "The metrics could not be collected.",
    hint: "Scrape again; the cause is in the service's log under the X-Request-Id."
  })

type Page = Effect.Effect<HttpServerResponse.HttpServerResponse, Failure>

const pagesOf = <E extends { readonly reason: string }>(
  scrape: Effect.Effect<string, E>
): ReadonlyMap<string, Page> =>
  new Map<string, Page>([
    [
      "/metrics",
      scrape.pipe(
        Effect.map((text) => HttpServerResponse.text(text, { contentType: textFormat })),
        Effect.catchAll(({ reason }) =>
          Effect.zipRight(Effect.logError("Metrics not collected", { reason }), Effect.fail(uncollected()))
        )
      )
    ],
    ["/healthz", Effect.succeed(health)]
  ])

const defectFailure = (defect: unknown): Effect.Effect<never, Internal> =>
  Effect.zipRight(Effect.logError("Request failed", Cause.die(defect)), Effect.fail(new Internal()))

/** Every answer has a request id, and every error the API's envelope. */
const answerFrom = (pages: ReadonlyMap<string, Page>) =>
  Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ headers, method, url }) => {
    const requestId = resolveRequestId(headers["x-request-id"])
    const page = pages.get(url.split("?")[0] ?? "")
    const readable = method === "GET" || method === "HEAD"
    const refusal = page === undefined ? new NotFound() : new MethodNotAllowed({ allow: "GET, HEAD" })
    return (page !== undefined && readable ? page : Effect.fail(refusal)).pipe(
      Effect.catchAllDefect(defectFailure),
      Effect.catchAll((failure) => Effect.succeed(responseOf(failure))),
      Effect.map(HttpServerResponse.setHeader("x-request-id", requestId)),
      Effect.annotateLogs("request_id", requestId)
    )
  })

/** Answers GET and HEAD until its scope closes; fails when the address cannot be taken. Port 0 takes a free one. */
export const adminServer = <E extends { readonly reason: string }>(
  { host, port }: { readonly host: string; readonly port: number },
  scrape: Effect.Effect<string, E>
) =>
  Effect.gen(function* () {
    // Not the library's `serve`: it also listens for upgrades, for which Node leaves a connection without a listener for
    // its errors, so that a peer that resets it would end the process.
    const node = createServer(
      yield* NodeHttpServer.makeHandler(answerFrom(pagesOf(scrape))).pipe(
        Effect.locally(HttpMiddleware.currentTracerDisabledWhen, () => true),
        Effect.withTracerEnabled(false)
      )
    )
    const server = yield* NodeHttpServer.make(() => node, { host, port }).pipe(
      Effect.mapError(
        ({ cause }) =>
          new AdminListenFailed({
            reason: `cannot listen on ${host}:${port}: ${cause instanceof Error ? cause.message : String(cause)}`
          })
      )
    )
    // A connection on which nothing is asked must not hold the end of the process up.
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        node.close()
        node.closeAllConnections()
      })
    )
    const bound = server.address._tag === "TcpAddress" ? server.address.port : port
    const url = `http://${host.includes(":") ? `[${host}]` : host}:${bound}`
    yield* Effect.logInfo("Metrics served", { url: `${url}/metrics` })
    if (!isLoopback(host)) {
      yield* Effect.logWarning("Metrics are not authenticated, and MUSIC_ADMIN_BIND is no loopback address")
    }
    return url
  })
