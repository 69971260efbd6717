/** The HTTP client for other systems: connects quickly or not at all, never follows a redirect, and tells a connection that was never made from one that was lost. */

import type * as HttpClient from "@effect/platform/HttpClient"
import type * as HttpClientError from "@effect/platform/HttpClientError"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Undici from "@effect/platform-node/Undici"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** Milliseconds for a connection, TLS included; below the time of a whole call, so that it is told apart from a slow answer. */
const connectTimeout = 3_000

const neverMade = new WeakSet<Error>()

/** Codes that show the same with any other client. */
const neverMadeCodes = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT"
])

const connect = (): Undici.buildConnector.connector => {
  const connector = Undici.buildConnector({ timeout: connectTimeout })
  return (options, callback) =>
    connector(options, (...outcome) => {
      if (outcome[0] !== null) neverMade.add(outcome[0])
      callback(...outcome)
    })
}

const Dispatcher = Layer.scoped(
  NodeHttpClient.Dispatcher,
  Effect.acquireRelease(
    Effect.sync(() => new Undici.Agent({ connect: connect() })),
    (agent) => Effect.promise(() => agent.destroy())
  )
)

/** One pool of kept-alive connections for every upstream; closed with its scope. */
export const UpstreamClient: Layer.Layer<HttpClient.HttpClient> = Layer.provide(
  NodeHttpClient.layerUndiciWithoutDispatcher,
  Dispatcher
)

/** The system's own word for what went wrong, such as `ECONNRESET`. */
export const transportCode = (error: HttpClientError.HttpClientError): string => {
  const { cause } = error
  return typeof cause === "object" && cause !== null && "code" in cause && typeof cause.code === "string"
    ? cause.code
    : "no code"
}

/** True when not one byte of the request can have arrived: no name, no route, no listener, no trusted certificate. */
export const neverSent = (error: HttpClientError.HttpClientError): boolean =>
  error._tag === "RequestError" &&
  (error.reason !== "Transport" ||
    (error.cause instanceof Error && neverMade.has(error.cause)) ||
    neverMadeCodes.has(transportCode(error)))
