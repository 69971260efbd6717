/**
 * The connections to other systems: one pool for all, with a short connect timeout, through the proxies of the settings. An error
 * that comes before a request began is told apart from one that comes later, when the request may have arrived.
 */
import { isIP } from "node:net"
import type * as HttpClient from "@effect/platform/HttpClient"
import type * as HttpClientError from "@effect/platform/HttpClientError"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Undici from "@effect/platform-node/Undici"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { errorCode } from "../../services/ErrorCode.ts"
import { Settings, type SettingsValues } from "../../services/Settings.ts"

/** Milliseconds for a connection, TLS included. Shorter than a whole call, so that it differs from a slow response. */
const connectTimeout = 3_000

export type OutboundProxySettings = SettingsValues["outboundProxy"]

/** What connections to other systems go through; without a layer for it, nothing. */
export class OutboundProxy extends Context.Reference<OutboundProxy>()("music/upstream/OutboundProxy", {
  defaultValue: (): OutboundProxySettings => ({ http: Option.none(), https: Option.none(), except: [] })
}) {}

/** Both proxies in one line for operators, without their credentials; none when no proxy is set. */
export const describeProxy = ({ except, http, https }: OutboundProxySettings) => {
  const nameOf = Option.match({
    onNone: () => "none",
    onSome: (address: Redacted.Redacted) => new URL(Redacted.value(address)).origin
  })
  return Option.isNone(http) && Option.isNone(https)
    ? Option.none()
    : Option.some({
        https: nameOf(Option.orElse(https, () => http)),
        http: nameOf(http),
        except: ["this machine", ...except].join(", ")
      })
}

/** The proxy of the settings; the log names it once. */
export const OutboundProxyFromSettings: Layer.Layer<never, never, Settings> = Layer.unwrapEffect(
  Effect.gen(function* () {
    const { outboundProxy } = yield* Settings
    yield* Effect.transposeMapOption(describeProxy(outboundProxy), (facts) =>
      Effect.logInfo("Calls to other systems go through a proxy", facts)
    )
    return Layer.succeed(OutboundProxy, outboundProxy)
  })
)

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

/** Entries as undici reads them. This machine is reached without a proxy. */
const noProxy = (except: ReadonlyArray<string>): string =>
  except.includes("*")
    ? "*"
    : ["localhost", "127.0.0.1", "::1", ...except]
        .map((entry) => (isIP(entry) === 6 ? `[${entry}]` : entry))
        .join()

const makeAgent = ({ except, http, https }: OutboundProxySettings): Undici.Dispatcher => {
  // Empty texts, because undici reads the environment in the place of what is absent.
  const address = Option.match({ onNone: () => "", onSome: Redacted.value<string> })
  const timeout = { timeout: connectTimeout }
  return new Undici.EnvHttpProxyAgent({
    httpProxy: address(http),
    httpsProxy: address(https),
    noProxy: noProxy(except),
    clientFactory: makeProxyClient,
    connect: timeout,
    proxyTls: timeout,
    requestTls: timeout
  })
}

/** One pool of kept-alive connections for every upstream; closed with its scope. */
const Pool: Layer.Layer<NodeHttpClient.Dispatcher> = Layer.scoped(
  NodeHttpClient.Dispatcher,
  Effect.acquireRelease(Effect.map(OutboundProxy, makeAgent), (agent) =>
    Effect.promise(() => agent.destroy())
  ).pipe(
    Effect.map((agent) => agent.compose(mapErrors((error, begun) => (begun ? error : notConnected(error)))))
  )
)

/** The client of everything that this process calls. It follows no redirect and repeats nothing. */
export const Connections: Layer.Layer<HttpClient.HttpClient> = Layer.provide(
  NodeHttpClient.layerUndiciWithoutDispatcher,
  Pool
)
