/** The admin server: `/metrics` and `/healthz` for operators, on an address of its own. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { Duplex } from "node:stream"
import * as HttpMiddleware from "@effect/platform/HttpMiddleware"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import { failureHeaders, failureStatus, toEnvelope } from "../../schema/Envelope.ts"
import { Failure } from "../../schema/Failure.ts"
import { version } from "../../schema/Release.ts"
import { securityHeaders } from "../../schema/SecurityHeaders.ts"
import { isLoopback } from "../../services/Loopback.ts"
import { resolveRequestId } from "../../services/RequestId.ts"
import { failureOfParser, refuseConnection } from "../../services/UnparsedRequest.ts"
import { contentType } from "./PrometheusText.ts"

/** The address is in use, or does not belong to this machine. */
export class AdminListenFailed extends Data.TaggedError("AdminListenFailed")<{ readonly reason: string }> {}

type Page = Effect.Effect<HttpServerResponse.HttpServerResponse>

const errorResponse = (failure: Failure): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.text(JSON.stringify(toEnvelope(failure)), {
    status: failureStatus(failure),
    contentType: "application/json",
    headers: failureHeaders(failure)
  })

/** Every answer has a request id and the API's security headers, and every error the API's envelope. */
const answerFrom = (pages: ReadonlyMap<string, Page>) =>
  Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ headers, method, url }) => {
    const requestId = resolveRequestId(headers["x-request-id"])
    const page = pages.get(url.split("?")[0] ?? "")
    const answer =
      page === undefined
        ? Effect.succeed(errorResponse(new Failure("not_found")))
        : method === "GET" || method === "HEAD"
          ? page
          : Effect.succeed(errorResponse(new Failure("method_not_allowed", { allow: "GET, HEAD" })))
    return answer.pipe(
      Effect.catchAllDefect((defect) =>
        Effect.as(
          Effect.logError("Request failed", Cause.die(defect)),
          errorResponse(new Failure("internal"))
        )
      ),
      Effect.map(HttpServerResponse.setHeaders({ ...securityHeaders, "x-request-id": requestId })),
      Effect.annotateLogs("request_id", requestId)
    )
  })

/** Refuses malformed HTTP. Behind a request that has no answer yet it only ends the connection, so that no refusal passes for that answer. */
const refuseMalformed = (node: Server): void => {
  const latest = new WeakMap<Duplex, ServerResponse>()
  const remember = (message: IncomingMessage, response: ServerResponse) =>
    latest.set(message.socket, response)
  node.on("request", remember)
  node.on("checkExpectation", remember)
  node.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    // The parser fails again at every further packet.
    if (socket.writableEnded) return
    const isAnswering = latest.get(socket)?.writableFinished === false
    if (error.code === "ECONNRESET" || !socket.writable || isAnswering) socket.destroy()
    else refuseConnection(socket, failureOfParser(error))
  })
}

/** Serves until its scope closes; returns its base address. Port 0 selects a free port. */
export const adminServer = (
  { host, port }: { readonly host: string; readonly port: number },
  scrape: Effect.Effect<string>
) =>
  Effect.gen(function* () {
    const pages = new Map<string, Page>([
      ["/metrics", Effect.map(scrape, (text) => HttpServerResponse.text(text, { contentType }))],
      [
        "/healthz",
        Effect.succeed(HttpServerResponse.unsafeJson({ status: "ok", service: "music-backend", version }))
      ]
    ])
    // Not the library's `serve`: it also listens for upgrades. Node leaves an upgraded connection without a listener for
    // errors, so that a peer that resets it would end the process.
    const handler = yield* NodeHttpServer.makeHandler(answerFrom(pages)).pipe(
      Effect.locally(HttpMiddleware.currentTracerDisabledWhen, () => true)
    )
    // Neither a missing Host nor an unknown expectation is refused: Node's answers to them have no envelope.
    const node = createServer({ requireHostHeader: false }, handler)
    node.on("checkExpectation", handler)
    refuseMalformed(node)
    const server = yield* NodeHttpServer.make(() => node, { host, port }).pipe(
      Effect.mapError(
        ({ cause }) =>
          new AdminListenFailed({
            reason: `cannot listen on ${host}:${port}: ${cause instanceof Error ? cause.message : String(cause)}`
          })
      )
    )
    // An idle connection must not delay the end of the process.
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        node.close()
        node.closeAllConnections()
      })
    )
    const bound = server.address._tag === "TcpAddress" ? server.address.port : port
    const url = `http://${host.includes(":") ? `[${host}]` : host}:${bound}`
    yield* Effect.logInfo("Metrics served", { url: `${url}/metrics` })
    if (!isLoopback(host))
      yield* Effect.logWarning(
        "Metrics are not authenticated, and MUSIC_ADMIN_BIND is not a loopback address"
      )
    return url
  })
