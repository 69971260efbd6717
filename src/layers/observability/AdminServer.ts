/** The small server for operators: `/metrics` and `/healthz`, on an address of its own. */
import { createServer } from "node:http"
import * as HttpMiddleware from "@effect/platform/HttpMiddleware"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import { version } from "../../schema/Release.ts"
import { isLoopback } from "../../services/Loopback.ts"

/** The address could not be taken. */
export class AdminListenFailed extends Data.TaggedError("AdminListenFailed")<{ readonly reason: string }> {}

/** Prometheus' text format. */
const textFormat = "text/plain; version=0.0.4; charset=utf-8"

const health = HttpServerResponse.unsafeJson({ status: "ok", service: "music-backend", version })

const pageOf = <E extends { readonly reason: string }>(path: string, scrape: Effect.Effect<string, E>) => {
  switch (path) {
    case "/metrics":
      return scrape.pipe(
        Effect.map((text) => HttpServerResponse.text(text, { contentType: textFormat })),
        Effect.catchAll(({ reason }) =>
          Effect.as(
            Effect.logError("Metrics not collected", { reason }),
            HttpServerResponse.text("metrics could not be collected\n", { status: 503 })
          )
        )
      )
    case "/healthz":
      return Effect.succeed(health)
    default:
      return undefined
  }
}

/** Answers GET and HEAD until its scope closes; fails when the address cannot be taken. Port 0 takes a free one. */
export const adminServer = <E extends { readonly reason: string }>(
  { host, port }: { readonly host: string; readonly port: number },
  scrape: Effect.Effect<string, E>
) =>
  Effect.gen(function* () {
    const answer = Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ method, url }) => {
      const page = pageOf(url.split("?")[0] ?? "", scrape)
      if (page === undefined) return Effect.succeed(HttpServerResponse.empty({ status: 404 }))
      return method === "GET" || method === "HEAD"
        ? page
        : Effect.succeed(HttpServerResponse.empty({ status: 405, headers: { allow: "GET, HEAD" } }))
    })
    // Not the library's `serve`: it also listens for upgrades, for which Node leaves a connection without a listener for
    // its errors, so that a peer that resets it would end the process.
    const node = createServer(
      yield* NodeHttpServer.makeHandler(answer).pipe(
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
