/** Node's HTTP server: its limits, its listeners and its address. The library serves the application on it. */
import { createServer, type Server, type ServerOptions } from "node:http"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import type * as HttpApp from "@effect/platform/HttpApp"
import type * as HttpRouter from "@effect/platform/HttpRouter"
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Runtime from "effect/Runtime"
import { formatAddress } from "../../services/Addresses.ts"
import { Settings } from "../../services/Settings.ts"
import { logUnparsed } from "../middleware/AccessLog.ts"
import { Bounds } from "../middleware/Bounds.ts"
import { answerClientErrors } from "./UnparsedRequest.ts"
import { trackConnections } from "./Connections.ts"
import { makeShutdown } from "./GracefulShutdown.ts"

/** The address of the server; port 0 in the settings means a port that the system chooses. */
export class Listening extends Context.Tag("music/http/Listening")<
  Listening,
  { readonly host: string; readonly port: number; readonly url: string }
>() {}

/** The address could not be taken. */
export class ListenFailed extends Data.TaggedError("ListenFailed")<{ readonly reason: string }> {}

/** Below the descriptors that systems give a service (`LimitNOFILE`). */
const mostConnections = 10_000

/** Milliseconds. */
const headTimeout = 15_000

/** Milliseconds and bytes. `Answers` checks the Host header itself, to answer with the envelope. */
const options: ServerOptions = {
  maxHeaderSize: 16_384,
  headersTimeout: headTimeout,
  keepAliveTimeout: 65_000,
  connectionsCheckingInterval: 5_000,
  requireHostHeader: false
}

const makeServer = (unreadMillis: number, deadlineMillis: number): Server => {
  // Bounds the rest of a refused body too.
  const server = createServer({ ...options, requestTimeout: headTimeout + deadlineMillis })
  // Node would drop headers beyond a count of its own, and a dropped plane selector would mean production.
  server.maxHeadersCount = 0
  server.maxConnections = mostConnections
  // A handler may be silent until its deadline.
  server.timeout = unreadMillis + deadlineMillis
  // Expectations other than `100-continue` may be ignored; Node would answer 417 without a body.
  server.on("checkExpectation", (message, response) => server.emit("request", message, response))
  return server
}

/** Serves the application on `Settings.bind` until the scope closes, then shuts down gracefully. */
export const serveNode = (app: HttpApp.Default<never, HttpRouter.HttpRouter.DefaultServices>) =>
  Effect.gen(function* () {
    const settings = yield* Settings
    const { bind, requestDeadlineSeconds, shutdownGraceSeconds } = settings
    const { unreadMillis } = yield* Bounds
    const runFork = Runtime.runFork(yield* Effect.runtime<never>())
    const node = makeServer(unreadMillis, requestDeadlineSeconds * 1_000)
    const tracked = trackConnections(node)
    answerClientErrors(node, tracked, (failure, requestId, clientNetwork) => {
      runFork(logUnparsed(settings, failure, requestId, clientNetwork))
    })
    const shutdown = yield* makeShutdown(node, tracked, Duration.seconds(shutdownGraceSeconds))
    const server = yield* NodeHttpServer.make(() => node, bind).pipe(
      Effect.mapError(({ cause }) => {
        const problem = cause instanceof Error ? cause.message : String(cause)
        const fix = "Stop the program that has this address, or set MUSIC_BIND to another address"
        return new ListenFailed({
          reason: `cannot listen on ${bind.host}:${bind.port}: ${problem}. ${fix}.`
        })
      })
    )
    yield* server.serve(app)
    // Without a listener for "upgrade" Node treats such a request as an ordinary one, and `Answers` ends its connection.
    node.removeAllListeners("upgrade")
    // Its own end would wait for every connection, so ours comes first.
    yield* Effect.addFinalizer(() => shutdown)
    const { host } = bind
    const port = server.address._tag === "TcpAddress" ? server.address.port : bind.port
    const url = `http://${formatAddress(host, port)}`
    yield* Effect.logInfo("Listening", { url })
    return { host, port, url }
  })
