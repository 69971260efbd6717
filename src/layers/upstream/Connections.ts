/**
 * The connections to other systems: one pool for all, with a short connect timeout. An error that comes before a request
 * began differs from one that comes later, when the request may have arrived.
 */
import * as HttpClient from "@effect/platform/HttpClient"
import type * as HttpClientError from "@effect/platform/HttpClientError"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Undici from "@effect/platform-node/Undici"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { isLoopback } from "../../services/Addresses.ts"
import { errorCode } from "../../services/ErrorCode.ts"

/** Milliseconds for a connection, TLS included. Shorter than a whole call, so that it differs from a slow response. */
const connectTimeout = 3_000

/** No connection was made, so no byte of the request was sent. The code begins with `PROXY_` when the proxy gave none. */
export class NotConnected extends Error {
  constructor(readonly code: string) {
    super(`No connection: ${code}`)
  }
}

/** True when no byte of the request can have arrived. */
export const neverSent = (error: HttpClientError.HttpClientError): boolean =>
  error._tag === "RequestError" && (error.reason !== "Transport" || error.cause instanceof NotConnected)

/** Changes the errors of requests; `begun` says that the request was handed to a connection. */
const mapErrors =
  (change: (error: Error, begun: boolean) => Error): Undici.Dispatcher.DispatcherComposeInterceptor =>
  (dispatch) =>
  (options, handler) => {
    let begun = false
    return dispatch(options, {
      onRequestStart: (...given) => {
        begun = true
        handler.onRequestStart?.(...given)
      },
      onRequestUpgrade: (...given) => handler.onRequestUpgrade?.(...given),
      onResponseStart: (...given) => handler.onResponseStart?.(...given),
      onResponseData: (...given) => handler.onResponseData?.(...given),
      onResponseEnd: (...given) => handler.onResponseEnd?.(...given),
      onResponseError: (controller, error) => handler.onResponseError?.(controller, change(error, begun))
    })
  }

/** A proxy's refusal of a tunnel has its status in the text only. */
const notConnected = (error: Error): NotConnected => {
  const [, status] = /^Proxy response \((\d+)\)/.exec(error.message) ?? []
  return new NotConnected(status === undefined ? errorCode(error) : `PROXY_${status}`)
}

/** The connection to a proxy itself, and the wait for its tunnel. */
const makeProxyClient = (origin: URL, options: object): Undici.Dispatcher =>
  new Undici.Pool(origin, { ...options, headersTimeout: connectTimeout }).compose(
    mapErrors((error) => new NotConnected(`PROXY_${errorCode(error)}`))
  )

const acquireAgent = <A extends Undici.Dispatcher>(make: () => A) =>
  Effect.acquireRelease(Effect.sync(make), (agent) => Effect.promise(() => agent.destroy()))

/**
 * The client of everything that this process calls, over one pool of kept-alive connections that closes with its scope. It goes
 * through the proxies of the standard variables, which undici reads; this machine is reached without one. It follows no redirect and
 * repeats nothing.
 */
export const Connections: Layer.Layer<HttpClient.HttpClient> = Layer.scoped(
  HttpClient.HttpClient,
  Effect.gen(function* () {
    const connect = { timeout: connectTimeout }
    const direct = yield* acquireAgent(() => new Undici.Agent({ connect }))
    const proxied = yield* acquireAgent(
      () =>
        new Undici.EnvHttpProxyAgent({
          clientFactory: makeProxyClient,
          connect,
          proxyTls: connect,
          requestTls: connect
        })
    )
    const dispatcher = proxied.compose(
      (dispatch) => (options, handler) =>
        isLoopback(new URL(options.origin ?? "").hostname)
          ? direct.dispatch(options, handler)
          : dispatch(options, handler),
      mapErrors((error, begun) => (begun ? error : notConnected(error)))
    )
    return NodeHttpClient.makeUndici(dispatcher)
  })
)
