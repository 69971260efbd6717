/**
 * The connections to other systems: one pool with a short connect timeout. It distinguishes a connection that was never
 * made from one that was lost.
 */
import type * as HttpClient from "@effect/platform/HttpClient"
import type * as HttpClientError from "@effect/platform/HttpClientError"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Undici from "@effect/platform-node/Undici"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { errorCode } from "../../services/ErrorCode.ts"
import { OutboundProxy, type OutboundProxySettings, openTunnel, proxyFor } from "./OutboundProxy.ts"

/** Milliseconds for a connection, TLS included. Shorter than a whole call, so that it differs from a slow response. */
const connectTimeout = 3_000

const connectErrors = new WeakSet<Error>()

/** Error codes with the same meaning that do not come from this module's connector. */
const connectErrorCodes = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT"
])

const makeConnector = (proxies: OutboundProxySettings): Undici.buildConnector.connector => {
  const connector = Undici.buildConnector({ timeout: connectTimeout })
  return (options, callback) => {
    const settle: Undici.buildConnector.Callback = (...outcome) => {
      if (outcome[0] !== null) connectErrors.add(outcome[0])
      callback(...outcome)
    }
    const { hostname, protocol } = options
    const port = options.port === "" ? (protocol === "https:" ? "443" : "80") : options.port
    Option.match(proxyFor(proxies, { hostname, port, protocol }), {
      onNone: () => connector(options, settle),
      onSome: (proxy) =>
        openTunnel(
          proxy,
          { hostname, port },
          connectTimeout,
          Either.match({
            onLeft: (error) => settle(error, null),
            onRight: (socket) =>
              protocol === "https:"
                ? connector({ ...options, httpSocket: socket }, settle)
                : settle(null, socket.setNoDelay(true))
          })
        )
    })
  }
}

/** One pool of kept-alive connections for every upstream; closed with its scope. */
export const ConnectionPool: Layer.Layer<NodeHttpClient.Dispatcher> = Layer.scoped(
  NodeHttpClient.Dispatcher,
  Effect.acquireRelease(
    Effect.map(OutboundProxy, (proxies) => new Undici.Agent({ connect: makeConnector(proxies) })),
    (agent) => Effect.promise(() => agent.destroy())
  )
)

/** The library's client over such a pool, for what needs its interface: exporters of OTLP, the check of this server. */
export const PooledHttpClient: Layer.Layer<HttpClient.HttpClient> = Layer.provide(
  NodeHttpClient.layerUndiciWithoutDispatcher,
  ConnectionPool
)

/** True when the connection was never made: no name, no route, no listener, no trusted certificate. */
export const isConnectError = (error: unknown): boolean =>
  (error instanceof Error && connectErrors.has(error)) || connectErrorCodes.has(errorCode(error))

/** True when no byte of the request can have arrived. */
export const neverSent = (error: HttpClientError.HttpClientError): boolean =>
  error._tag === "RequestError" && (error.reason !== "Transport" || isConnectError(error.cause))
