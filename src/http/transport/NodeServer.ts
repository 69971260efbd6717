/** Node's HTTP server: its limits, its listeners and its address. */
import { createServer, type RequestListener, type Server, type ServerOptions } from "node:http"
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Runtime from "effect/Runtime"
import { Settings } from "../../services/Settings.ts"
import { makeUnparsedLog } from "../middleware/AccessLog.ts"
import { RequestQueue } from "./RequestQueue.ts"
import { answerClientErrors } from "./ClientErrors.ts"
import { connectionNetworkResolver } from "./ClientAddress.ts"
import { type ConnectionLimits, defaultConnectionLimits, trackConnections } from "./Connections.ts"
import { makeShutdown } from "./GracefulShutdown.ts"

/** The address of the server; port 0 in the settings means a port that the system chooses. */
export class Listening extends Context.Tag("music/http/Listening")<
  Listening,
  { readonly host: string; readonly port: number; readonly url: string }
>() {}

/** The address could not be taken. */
export class ListenFailed extends Data.TaggedError("ListenFailed")<{ readonly reason: string }> {}

/** Milliseconds and bytes. `Pipeline` checks the Host header itself, to answer with the envelope. */
export const options: ServerOptions = {
  maxHeaderSize: 16_384,
  headersTimeout: 15_000,
  requestTimeout: 60_000,
  keepAliveTimeout: 65_000,
  connectionsCheckingInterval: 5_000,
  requireHostHeader: false
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

const formatUrl = (host: string, port: number): string =>
  `http://${host.includes(":") ? `[${host}]` : host}:${port}`

/** Listens on `Settings.bind` until the scope closes, then shuts down gracefully. */
export const serveNode = (listener: RequestListener, limits: ConnectionLimits = defaultConnectionLimits) =>
  Effect.gen(function* () {
    const settings = yield* Settings
    const { bind, rateLimit, shutdownGraceSeconds, trustedProxies } = settings
    const logUnparsed = makeUnparsedLog(settings)
    const queue = yield* RequestQueue
    const runFork = Runtime.runFork(yield* Effect.runtime<never>())
    const server = createServer(options)
    const connections = trackConnections(server, {
      limits: rateLimit ? limits : { ...limits, address: limits.all },
      networkOf: connectionNetworkResolver(trustedProxies)
    })
    const refusingBadFraming = answerClientErrors(server, connections, (facts, clientNetwork) => {
      runFork(logUnparsed(facts, clientNetwork))
    })
    const tracked = connections.track(listener)
    const shutdown = yield* makeShutdown(server, connections, Duration.seconds(shutdownGraceSeconds))
    // Node would drop headers beyond a count of its own, and a dropped plane selector would mean production.
    server.maxHeadersCount = 0
    // Without a listener for "upgrade" Node treats such a request as an ordinary one and keeps its connection.
    server.on("request", refusingBadFraming(tracked))
    server.on("connection", queue.connectionAccepted)
    // Of a request that waits for the answers to others, Node would put the interim response behind the head of the final
    // one, into its body. It may be left out: the client waits for it for a moment only (RFC 9110, 10.1.1).
    server.on(
      "checkContinue",
      refusingBadFraming((message, response) => {
        if (response.socket !== null) response.writeContinue()
        tracked(message, response)
      })
    )
    // Other expectations may be ignored; Node would answer 417 without a body.
    server.on("checkExpectation", refusingBadFraming(tracked))
    const { port } = yield* Effect.acquireRelease(listen(server, bind.host, bind.port), () => shutdown)
    const url = formatUrl(bind.host, port)
    yield* Effect.logInfo("Listening", { url })
    return { host: bind.host, port, url }
  })
